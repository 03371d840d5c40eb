//! The HTTP thread: a single-threaded runtime, its connections and their limits.
//!
//! It listens on the socket of a lab, or on a port. No input can end it: heads, bodies and quick calls are
//! limited in size and time, connections in number, and a handler that panics answers 500. Calls to the
//! service run on threads of their own.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use netloom_lab::Service;
use netloom_measure::Probe;
use netloom_sys::{Failure, scm};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout_at};
use utoipa_axum::router::OpenApiRouter;

use crate::bodies::{Bodies, LAB_FILE, bounded};
use crate::calls::MOST_THREADS;
use crate::capture;
use crate::connections::{Connections, Doing, Peer, Place};
use crate::documented::Schemas;
use crate::flows::{self, Flows};
use crate::forward;
use crate::gate::{Gate, admitted};
use crate::handler::Lab;
use crate::lab_file::{self, Files};
use crate::measure;
use crate::offer::Offer;
use crate::parameters::{Known, checked};
use crate::patient::Patient;
use crate::pnpm::{self, Pnpm};
use crate::socket::{BACKLOG, peer_is_trusted};
use crate::streams::Streams;
use crate::terminal::{self, Terminals};
use crate::{Result, page, routes};

/// The revision of the API: clients of another one are told so where they are not understood. 1 had no header.
pub(crate) const REVISION: u32 = 3;

/// The header that says it, in each answer.
pub(crate) const REVISION_HEADER: &str = "netloom-api";

/// Maximum size of a request's head.
const MAX_HEAD: usize = 64 * 1024;

/// Maximum number of connections, and of those to the view from inside a node.
const MAX_CONNECTIONS: usize = 384;
const MAX_INSIDE: usize = 64;

/// The longest plan that is forwarded; the lab may take less.
const FORWARDED_PLAN: usize = 256 << 20;

/// Pause after a failed accept, e.g. for lack of descriptors, since the next one would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);

/// Time limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Until the headers or the body of a request are complete; also for idle connections.
    pub(crate) request: Duration,
    /// For a quick call to the service.
    pub(crate) call: Duration,
    /// For requests in progress when the server ends.
    pub(crate) grace: Duration,
    /// Maximum number of connections.
    pub(crate) connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request: Duration::from_secs(10),
            call: Duration::from_secs(30),
            grace: Duration::from_secs(2),
            connections: MAX_CONNECTIONS,
        }
    }
}

impl Limits {
    /// Those of a server for a lab, or for a view of it from inside a node, from where nothing can be applied.
    fn of(service: &dyn Service) -> Limits {
        let connections = if service.plan_limit() > 0 { MAX_CONNECTIONS } else { MAX_INSIDE };
        Limits { connections, ..Limits::default() }
    }
}

/// Source of connections.
#[derive(Debug)]
enum Listener {
    /// Processes of the owner.
    Unix(UnixListener, PathBuf),
    /// Anybody who can reach the port.
    Tcp(TcpListener),
}

/// A connection that was accepted.
enum Accepted {
    Unix(UnixStream, Peer),
    Tcp(TcpStream, Peer),
    /// From another user.
    Refused,
}

impl Listener {
    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Unix(listener, path) => {
                let (stream, _) = listener.accept().await?;
                if !peer_is_trusted(&stream, path) {
                    return Ok(Accepted::Refused);
                }
                let pid = scm::peer_pid(&stream).map(|pid| pid.as_raw_nonzero().get());
                Ok(Accepted::Unix(stream, Peer::Process(pid)))
            }
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // Answers are written whole; without this option they are late, not wrong.
                let _ = stream.set_nodelay(true);
                Ok(Accepted::Tcp(stream, Peer::at(from.ip())))
            }
        }
    }
}

/// The router, made when the first request comes: its documented routes take time and memory, and many labs are never asked.
type Routes = Arc<LazyLock<Router, Box<dyn FnOnce() -> Router + Send>>>;

fn later(routes: impl FnOnce() -> Router + Send + 'static) -> Routes {
    Arc::new(LazyLock::new(Box::new(routes)))
}

/// Everything that the thread needs, made before it starts, so that the thread cannot fail.
pub(crate) struct Rest {
    runtime: Runtime,
    listener: Listener,
    routes: Routes,
    stopping: watch::Receiver<bool>,
    limits: Limits,
}

impl Rest {
    /// Serves a lab on a non-blocking listening socket, which it takes over.
    pub(crate) fn new(
        socket: OwnedFd,
        path: PathBuf,
        service: Arc<dyn Service>,
        stopping: watch::Receiver<bool>,
    ) -> Result<Rest> {
        let limits = Limits::of(&*service);
        let runtime = runtime()?;
        let entered = runtime.enter();
        let listener =
            UnixListener::from_std(socket.into()).map_err(|e| Failure::path(&path, "watch", e))?;
        drop(entered);
        let applies = Arc::clone(&service);
        let bodies = Bodies::new(limits.request, Box::new(move || applies.plan_limit()));
        let lab = Lab::new(service, stopping.clone(), limits.call);
        let routes = later(move || whole(routes::router(Schemas::LeftOut), lab, bodies));
        Ok(Rest { runtime, listener: Listener::Unix(listener, path), routes, stopping, limits })
    }

    /// Serves measurements on a port to callers that the gate admits.
    pub(crate) fn probe(
        listener: std::net::TcpListener,
        probe: Arc<Probe>,
        gate: Gate,
        stopping: watch::Receiver<bool>,
    ) -> Result<Rest> {
        let find = Arc::new(move || Ok(Arc::clone(&probe)));
        let pnpm = Pnpm::new(find, stopping.clone(), Arc::default());
        let bodies = Bodies::new(Limits::default().request, Box::new(|| 0));
        Rest::on_port(listener, whole(pnpm::alone(), pnpm, bodies), gate, stopping)
    }

    /// Serves a lab on a port to callers that the gate admits, through the lab's own socket.
    pub(crate) fn lab(
        listener: std::net::TcpListener,
        socket: PathBuf,
        gate: Gate,
        offer: Offer,
        stopping: watch::Receiver<bool>,
    ) -> Result<Rest> {
        let socket = Arc::new(socket);
        let router = forward::router(offer.read_only);
        let router = if gate.has_page() { page::added(router) } else { router };
        let mut router = router.with_state(Arc::clone(&socket));
        if let Some(words) = offer.file {
            let flows = Flows::new(Arc::clone(&socket), Files::new(words.clone()));
            router = router.route(flows::PATH, get(flows::show).with_state(Arc::new(flows)));
            let route = get(lab_file::show);
            let route = match offer.read_only {
                true => route.fallback(forward::refuse),
                false => route.post(lab_file::apply),
            };
            router = router.route(LAB_FILE, route.with_state(Arc::new(Files::new(words))));
        }
        if let Some(words) = offer.capture {
            let captures = Streams::new("capture", Arc::clone(&socket), words);
            let route = get(capture::begin).with_state(Arc::new(captures));
            router = router.route(capture::PATH, route);
        }
        if let Some(words) = offer.measure.filter(|_| !offer.read_only) {
            let measurements = Streams::new("measure", Arc::clone(&socket), words);
            let route = get(measure::begin).with_state(Arc::new(measurements));
            router = router.route(measure::PATH, route);
        }
        if let Some(words) = offer.shell.filter(|_| gate.has_page() && !offer.read_only) {
            let terminals = Terminals::new(socket, words, stopping.clone());
            let route = get(terminal::open).with_state(Arc::new(terminals));
            router = router.route(terminal::PATH, route);
        }
        let bodies = Bodies::new(Limits::default().request, Box::new(|| FORWARDED_PLAN));
        Rest::on_port(listener, within(bodies, router), gate, stopping)
    }

    fn on_port(
        listener: std::net::TcpListener,
        router: Router,
        gate: Gate,
        stopping: watch::Receiver<bool>,
    ) -> Result<Rest> {
        let watched = |e| Failure::new("port", "watch", e);
        listener.set_nonblocking(true).map_err(watched)?;
        // As many as the system allows: one that finds no room would come again after a second.
        rustix::net::listen(&listener, BACKLOG).map_err(|e| watched(e.into()))?;
        let runtime = runtime()?;
        let entered = runtime.enter();
        let listener = TcpListener::from_std(listener).map_err(watched)?;
        drop(entered);
        // Added last, so it runs first: of a request that is not admitted nothing is read.
        let has_page = gate.has_page();
        let router = router.layer(from_fn_with_state(Arc::new(gate), admitted));
        // Refusals have the page's headers, too.
        let router = if has_page { router.layer(from_fn(page::guarded)) } else { router };
        let (routes, limits) = (later(|| router), Limits::default());
        Ok(Rest { runtime, listener: Listener::Tcp(listener), routes, stopping, limits })
    }

    /// The same, where no connection is closed for being silent: what is answered did not wait for that.
    #[cfg(test)]
    pub(crate) fn patient(self) -> Rest {
        let request = Duration::from_secs(3600);
        Rest { limits: Limits { request, ..self.limits }, ..self }
    }

    /// Serves until stopped, then lets requests in progress finish within the grace period.
    pub(crate) fn run(self) {
        let Rest { runtime, listener, routes, stopping, limits } = self;
        let end = runtime.block_on(async move {
            let mut connections = JoinSet::new();
            accept(&listener, routes, stopping, limits, &mut connections).await;
            let end = Instant::now() + limits.grace;
            let all = async { while connections.join_next().await.is_some() {} };
            if timeout_at(end, all).await.is_err() {
                tracing::warn!("{listener:?}: requests still under way were cut off");
                connections.shutdown().await;
            }
            end
        });
        // Abandoned calls to the service get the rest of the grace period.
        runtime.shutdown_timeout(end.saturating_duration_since(Instant::now()));
    }
}

fn runtime() -> Result<Runtime> {
    let built = Builder::new_current_thread()
        .enable_all()
        .thread_name("netloom-call")
        .max_blocking_threads(MOST_THREADS)
        .build();
    built.map_err(|e| Failure::new("api", "make runtime", e).into())
}

async fn accept(
    listener: &Listener,
    routes: Routes,
    mut stopping: watch::Receiver<bool>,
    limits: Limits,
    serving: &mut JoinSet<()>,
) {
    let connections = Connections::new(limits.connections);
    loop {
        let (stopped, routes) = (stopping.clone(), Arc::clone(&routes));
        // Without room the socket's queue holds callers; accepting them would use up descriptors.
        let room = connections.has_room();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|s| *s) => return,
            // Ended connections are taken off the set, which would grow without end.
            Some(_) = serving.join_next() => {}
            () = connections.change(), if !room => {}
            accepted = listener.accept(), if room => match accepted {
                Ok(Accepted::Unix(stream, peer)) => {
                    let place = connections.enter(peer);
                    serving.spawn(connection(stream, (place, true), routes, stopped, limits));
                    // What it sent is read before the next one is let in.
                    yield_now().await;
                }
                Ok(Accepted::Tcp(stream, peer)) => {
                    let place = connections.enter(peer);
                    serving.spawn(connection(stream, (place, false), routes, stopped, limits));
                    yield_now().await;
                }
                Ok(Accepted::Refused) => {}
                Err(e) => {
                    tracing::warn!("{listener:?}: accept: {e}");
                    // The usual cause is that the process has no descriptor left.
                    connections.make_room();
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Serves a connection; `trusted`: whether its caller may ask whatever it says, since a gate lets it in otherwise.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (place, trusted): (Place, bool),
    routes: Routes,
    mut stopping: watch::Receiver<bool>,
    limits: Limits,
) {
    let held = place.held();
    let answer = service_fn(move |mut request: axum::http::Request<_>| {
        let held = held.clone();
        if trusted {
            held.admit();
        }
        held.does(Doing::Working);
        request.extensions_mut().insert(held.clone());
        let answered = TowerToHyperService::new(Router::clone(&routes)).call(request);
        async move {
            let answer = answered.await;
            let leaves = held.does(Doing::Idle);
            answer.map(|mut answer| {
                // A forwarded answer has that of its lab.
                answer.headers_mut().entry(REVISION_HEADER).or_insert(HeaderValue::from(REVISION));
                // A connection that becomes a terminal has no further requests.
                if leaves && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(header::CONNECTION, close);
                }
                answer
            })
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream, limits.call)), answer)
        .with_upgrades();
    let mut served = pin!(served);
    let stopped = async { stopping.wait_for(|s| *s).await.is_ok() };
    let result = tokio::select! {
        result = served.as_mut() => result,
        () = place.given_up() => return,
        _ = stopped => {
            // The request that is under way still gets its answer.
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(e) = result {
        tracing::debug!("connection: {e}");
    }
}

/// A router that answers everything, within its limits: only what is documented, and only with the documented parameters.
fn whole<S: Clone + Send + Sync + 'static>(
    routes: OpenApiRouter<S>,
    state: S,
    bodies: Bodies,
) -> Router {
    let (router, document) = routes.split_for_parts();
    let known = Arc::new(Known::of(&document));
    let router = router
        .route_layer(from_fn_with_state(known, checked))
        .fallback(routes::no_route)
        .method_not_allowed_fallback(routes::no_method)
        .with_state(state);
    within(bodies, router)
}

/// A router to which bodies come whole.
fn within(bodies: Bodies, router: Router) -> Router {
    router.layer(from_fn_with_state(Arc::new(bodies), bounded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::Response;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream as StdStream;

    const SHORT: Limits = Limits {
        request: Duration::from_millis(30),
        call: Duration::from_secs(30),
        grace: Duration::from_secs(2),
        connections: 1,
    };

    async fn fault() -> &'static str {
        panic!("as the test wants")
    }

    async fn slow() -> Response {
        std::future::pending().await
    }

    /// Serves one connection that sends `bytes` and stays open; returns all answers.
    fn answer_to(bytes: &'static [u8], limits: Limits) -> String {
        let routes = Router::new().route("/fault", get(fault)).route("/slow", get(slow));
        let router = within(Bodies::new(limits.request, Box::new(|| 0)), routes);
        let (ours, mut callers) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        callers.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // All is there when the server begins to count its time.
        callers.write_all(bytes).unwrap();
        let (stop, stopping) = watch::channel(false);
        let server = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let stream = UnixStream::from_std(ours).unwrap();
                let place = Connections::new(1).enter(Peer::Process(None));
                connection(stream, (place, true), later(|| router), stopping, limits).await;
            });
        });
        let mut answer = String::new();
        callers.read_to_string(&mut answer).unwrap();
        server.join().unwrap();
        drop(stop);
        answer
    }

    #[test]
    fn a_handler_that_panics_answers_500() {
        let answer = answer_to(b"GET /fault HTTP/1.1\r\nhost: x\r\n\r\n", SHORT);
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        assert!(answer.contains("\"code\":\"internal_server_error\""), "{answer}");
    }

    #[test]
    fn an_answer_that_is_not_taken_ends_the_connection() {
        let long = async || "x".repeat(8 << 20);
        let router = Router::new().route("/long", get(long));
        let (ours, mut callers) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (_stop, stopping) = watch::channel(false);
        callers.write_all(b"GET /long HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let limits = Limits { call: Duration::from_millis(30), ..SHORT };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = UnixStream::from_std(ours).unwrap();
            let place = Connections::new(1).enter(Peer::Process(None));
            let served = connection(stream, (place, true), later(|| router), stopping, limits);
            tokio::time::timeout(Duration::from_secs(20), served).await.unwrap();
        });
    }

    #[test]
    fn heads_and_bodies_that_do_not_come_end_the_connection() {
        assert_eq!(answer_to(b"", SHORT), "");
        let half = answer_to(b"GET /slow HT", SHORT);
        assert!(half.is_empty() || half.starts_with("HTTP/1.1 408 "), "{half}");
        let body = answer_to(b"GET /slow HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc", SHORT);
        assert!(body.starts_with("HTTP/1.1 408 "), "{body}");
    }
}
