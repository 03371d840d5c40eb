//! The HTTP thread: a single-threaded runtime, its connections and their limits.
//!
//! It listens on the socket of a lab, or on a port. No input can end it: headers, bodies and quick calls are
//! limited in size and time, connections in number, and a handler that panics answers 500. Calls to the
//! service run on threads of their own.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use netloom_lab::Service;
use netloom_measure::Probe;
use netloom_sys::Failure;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::forward::forward;
use crate::handler::Lab;
use crate::pnpm::{self, Pnpm};
use crate::reply::Rejection;
use crate::routes;
use crate::socket::peer_is_trusted;
use crate::{Result, Token};

/// Largest request body in bytes.
const MAX_BODY: usize = 64 * 1024;

/// Largest configuration of a measurement: some 65,536 filters.
const MAX_CONFIGURATION: usize = 8 * 1024 * 1024;

/// Largest plan: one of a million routes.
const MAX_PLAN: usize = 256 * 1024 * 1024;

/// Challenge to callers without the token (RFC 6750, section 3).
const CHALLENGE: &str = "Bearer realm=\"netloom\"";

/// Maximum number of connections; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 256;

/// Maximum number of concurrent calls to the service; further ones wait.
const MAX_CALLS: usize = 128;

/// Pause after a failed accept, e.g. for lack of descriptors, since the next one would fail too.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Until the headers or the body of a request are complete; also for idle connections.
    pub(crate) request: Duration,
    /// For a quick call to the service.
    pub(crate) call: Duration,
    /// For requests in progress when the server ends.
    pub(crate) grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request: Duration::from_secs(10),
            call: Duration::from_secs(30),
            grace: Duration::from_secs(2),
        }
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
    Unix(UnixStream),
    Tcp(TcpStream),
    /// From another user.
    Refused,
}

impl Listener {
    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Unix(listener, path) => {
                let (stream, _) = listener.accept().await?;
                let trusted = peer_is_trusted(&stream, path);
                Ok(if trusted { Accepted::Unix(stream) } else { Accepted::Refused })
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole; without this option they are late, not wrong.
                let _ = stream.set_nodelay(true);
                Ok(Accepted::Tcp(stream))
            }
        }
    }
}

/// The router, made when the first request comes: its documented routes take milliseconds and megabytes, and
/// many labs are never asked.
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
        limits: Limits,
    ) -> Result<Rest> {
        let runtime = runtime()?;
        let entered = runtime.enter();
        let listener =
            UnixListener::from_std(socket.into()).map_err(|e| Failure::path(&path, "watch", e))?;
        drop(entered);
        let lab = Lab { service, stopping: stopping.clone(), patience: limits.call };
        let routes = later(move || with_bounds(routes::router().split_for_parts().0, lab, limits));
        Ok(Rest { runtime, listener: Listener::Unix(listener, path), routes, stopping, limits })
    }

    /// Serves measurements on a port to callers with a token.
    pub(crate) fn probe(
        listener: std::net::TcpListener,
        probe: Arc<Probe>,
        token: Token,
        stopping: watch::Receiver<bool>,
        limits: Limits,
    ) -> Result<Rest> {
        let pnpm = Pnpm::new(Arc::new(move || Ok(Arc::clone(&probe))), stopping.clone());
        Rest::on_port(listener, with_bounds(pnpm::alone(), pnpm, limits), token, stopping, limits)
    }

    /// Serves a lab on a port to callers with a token, through the lab's own socket.
    pub(crate) fn lab(
        listener: std::net::TcpListener,
        socket: PathBuf,
        token: Token,
        stopping: watch::Receiver<bool>,
        limits: Limits,
    ) -> Result<Rest> {
        let router = Router::new().fallback(forward).with_state(Arc::new(socket));
        let router = router.layer(from_fn_with_state(limits, bounded));
        Rest::on_port(listener, router, token, stopping, limits)
    }

    fn on_port(
        listener: std::net::TcpListener,
        router: Router,
        token: Token,
        stopping: watch::Receiver<bool>,
        limits: Limits,
    ) -> Result<Rest> {
        let watched = |e| Failure::new("port", "watch", e);
        listener.set_nonblocking(true).map_err(watched)?;
        let runtime = runtime()?;
        let entered = runtime.enter();
        let listener = TcpListener::from_std(listener).map_err(watched)?;
        drop(entered);
        // Added last, so it runs first: without the token nothing of a request is read.
        let router = router.layer(from_fn_with_state(Arc::new(token), authorized));
        let routes = later(|| router);
        Ok(Rest { runtime, listener: Listener::Tcp(listener), routes, stopping, limits })
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
        .max_blocking_threads(MAX_CALLS)
        .build();
    built.map_err(|e| Failure::new("api", "make runtime", e).into())
}

async fn accept(
    listener: &Listener,
    routes: Routes,
    mut stopping: watch::Receiver<bool>,
    limits: Limits,
    connections: &mut JoinSet<()>,
) {
    loop {
        let stopped = stopping.clone();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|s| *s) => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok(Accepted::Unix(stream)) => {
                    connections.spawn(connection(stream, Arc::clone(&routes), stopped, limits));
                }
                Ok(Accepted::Tcp(stream)) => {
                    connections.spawn(connection(stream, Arc::clone(&routes), stopped, limits));
                }
                Ok(Accepted::Refused) => {}
                Err(e) => {
                    tracing::warn!("{listener:?}: accept: {e}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Routes,
    mut stopping: watch::Receiver<bool>,
    limits: Limits,
) {
    let answer =
        service_fn(move |request| TowerToHyperService::new(Router::clone(&routes)).call(request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(MAX_BODY)
        .serve_connection(TokioIo::new(stream), answer);
    let mut served = pin!(served);
    let stopped = async { stopping.wait_for(|s| *s).await.is_ok() };
    let result = tokio::select! {
        result = served.as_mut() => result,
        _ = stopped => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(e) = result {
        tracing::debug!("connection: {e}");
    }
}

/// A router that answers everything, within its limits.
fn with_bounds<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    state: S,
    limits: Limits,
) -> Router {
    let router = router
        .fallback(routes::no_route)
        .method_not_allowed_fallback(routes::no_method)
        .with_state(state);
    // The limit on bodies is applied below.
    router.layer(DefaultBodyLimit::disable()).layer(from_fn_with_state(limits, bounded))
}

/// Passes callers with the token; closes the connection of others.
async fn authorized(State(token): State<Arc<Token>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    if given.is_some_and(|value| token.is_in(value.as_bytes())) {
        return next.run(request).await;
    }
    let words = if given.is_some() {
        "authorization: not the token of this server"
    } else {
        "authorization: missing; send `Authorization: Bearer TOKEN`"
    };
    let headers = [(header::WWW_AUTHENTICATE, CHALLENGE), (header::CONNECTION, "close")];
    (headers, Rejection::new(StatusCode::UNAUTHORIZED, words)).into_response()
}

/// Reads a request's body completely before anything else, and turns a panic into an answer.
async fn bounded(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let most = match parts.uri.path() {
        "/v1/lab/apply" => MAX_PLAN,
        path if path.starts_with("/pnpm") => MAX_CONFIGURATION,
        _ => MAX_BODY,
    };
    let body = match timeout(limits.request, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Body::from(bytes),
        Ok(Err(_)) => return too_large(most).into_response(),
        Err(_) => {
            return Rejection::new(StatusCode::REQUEST_TIMEOUT, "body: not whole in time")
                .into_response();
        }
    };
    let mut answer = pin!(next.run(Request::from_parts(parts, body)));
    poll_fn(move |cx| {
        catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx)))
            .unwrap_or_else(|_| Poll::Ready(Rejection::panicked().into_response()))
    })
    .await
}

fn too_large(most: usize) -> Rejection {
    let words = format!("body: larger than {most} bytes, or not readable");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream as StdStream;

    const SHORT: Limits = Limits {
        request: Duration::from_millis(30),
        call: Duration::from_secs(30),
        grace: Duration::from_secs(2),
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
        let router = with_bounds(routes, (), limits);
        let (ours, mut callers) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        callers.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (stop, stopping) = watch::channel(false);
        let server = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let stream = UnixStream::from_std(ours).unwrap();
                connection(stream, later(|| router), stopping, limits).await;
            });
        });
        callers.write_all(bytes).unwrap();
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
        assert!(answer.contains("{\"error\":"), "{answer}");
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
