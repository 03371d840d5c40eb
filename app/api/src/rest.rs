//! The thread that speaks HTTP: a runtime of one thread, its connections, their bounds.
//!
//! Nothing that comes in can end it: heads, bodies and quick calls have limits in size and time,
//! connections in number, and a handler that panics answers 500. Calls to the service run on
//! threads of their own.

use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use netloom_lab::Service;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::reply::Failure;
use crate::routes::{self, Lab};
use crate::socket::peer_is_trusted;
use crate::{Error, Result};

/// Largest body of a request in bytes.
const MAX_BODY: usize = 64 * 1024;

/// Most connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 256;

/// Most calls to the service at a time; more wait.
const MAX_CALLS: usize = 128;

/// Pause after a failed accept, e.g. for want of descriptors, which would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Until the head of a request, or its body, is whole; also how long a connection may idle.
    pub(crate) request: Duration,
    /// A call to the service that should be quick.
    pub(crate) call: Duration,
    /// Requests under way when the server ends.
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

/// All that the thread needs; made before it starts, so that it cannot fail.
pub(crate) struct Rest {
    runtime: Runtime,
    listener: UnixListener,
    path: PathBuf,
    service: Arc<dyn Service>,
    stopping: watch::Receiver<bool>,
    limits: Limits,
}

impl Rest {
    /// Takes over a non-blocking listening socket.
    pub(crate) fn new(
        socket: OwnedFd,
        path: PathBuf,
        service: Arc<dyn Service>,
        stopping: watch::Receiver<bool>,
        limits: Limits,
    ) -> Result<Rest> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .thread_name("netloom-call")
            .max_blocking_threads(MAX_CALLS)
            .build()
            .map_err(|source| Error::Process {
                object: "api",
                operation: "make runtime",
                source,
            })?;
        let entered = runtime.enter();
        let listener = UnixListener::from_std(socket.into())
            .map_err(Error::socket::<std::io::Error>(&path, "watch"))?;
        drop(entered);
        Ok(Rest { runtime, listener, path, service, stopping, limits })
    }

    /// Serves until told to stop; then lets requests under way end, within the grace.
    pub(crate) fn run(self) {
        let Rest { runtime, listener, path, service, stopping, limits } = self;
        let lab = Lab { service, stopping: stopping.clone(), patience: limits.call };
        let end = runtime.block_on(async move {
            let router = router(lab, limits);
            let mut connections = JoinSet::new();
            accept(listener, &path, router, stopping, limits, &mut connections).await;
            let end = Instant::now() + limits.grace;
            let all = async { while connections.join_next().await.is_some() {} };
            if timeout_at(end, all).await.is_err() {
                tracing::warn!("{path:?}: requests still under way were cut off");
                connections.shutdown().await;
            }
            end
        });
        // Calls to the service that nobody waits for any more get the rest of the grace.
        runtime.shutdown_timeout(end.saturating_duration_since(Instant::now()));
    }
}

async fn accept(
    listener: UnixListener,
    path: &std::path::Path,
    router: Router,
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
                Ok((stream, _)) if peer_is_trusted(&stream, path) => {
                    connections.spawn(connection(stream, router.clone(), stopped, limits));
                }
                Ok(_) => {}
                Err(e) => {
                    tracing::warn!("{path:?}: accept: {e}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn connection(
    stream: UnixStream,
    router: Router,
    mut stopping: watch::Receiver<bool>,
    limits: Limits,
) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(MAX_BODY)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
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

fn router(lab: Lab, limits: Limits) -> Router {
    let (router, _) = routes::router().split_for_parts();
    let router = router
        .fallback(routes::no_route)
        .method_not_allowed_fallback(routes::no_method)
        .with_state(lab);
    with_bounds(router, limits)
}

fn with_bounds(router: Router, limits: Limits) -> Router {
    router.layer(from_fn_with_state(limits, bounded))
}

/// Takes a request's body in whole before anything is done, and turns a panic into an answer.
async fn bounded(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let body = match timeout(limits.request, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Body::from(bytes),
        Ok(Err(_)) => return too_large().into_response(),
        Err(_) => {
            return Failure::new(StatusCode::REQUEST_TIMEOUT, "body: not whole in time")
                .into_response();
        }
    };
    let mut answer = pin!(next.run(Request::from_parts(parts, body)));
    poll_fn(move |cx| {
        catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx)))
            .unwrap_or_else(|_| Poll::Ready(Failure::panicked().into_response()))
    })
    .await
}

fn too_large() -> Failure {
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "body: larger than 65536 bytes, or not readable")
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

    /// Serves one connection that sends `bytes` and stays open; gives all that was answered.
    fn answer_to(bytes: &'static [u8], limits: Limits) -> String {
        let routes = Router::new().route("/fault", get(fault)).route("/slow", get(slow));
        let router = with_bounds(routes, limits);
        let (ours, mut callers) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        callers.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (stop, stopping) = watch::channel(false);
        let server = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let stream = UnixStream::from_std(ours).unwrap();
                connection(stream, router, stopping, limits).await;
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
