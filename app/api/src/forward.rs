//! A lab's API over TCP: forwards each request to the lab's own socket and returns its answer.
//!
//! It keeps nothing: authorization happens before, and the lab answers. Where a port is for looking alone, what a call may do
//! is its own word ([`Operation`]), and what is not known to change nothing is refused.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use netloom_lab::call::{Answers, Call, Each, Operation, Rights};
use netloom_lab::{Service, calls};
use tokio::net::UnixStream;

use crate::bodies::Whole;
use crate::connections::Held;
use crate::reply::Rejection;
use crate::socket::peer_is_trusted;

/// Headers that are for this server, or about the connection to it; the socket identifies callers by their user.
const OWN: [header::HeaderName; 6] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A router that forwards everything, or only what changes nothing.
pub(crate) fn router(read_only: bool) -> Router<Arc<PathBuf>> {
    if !read_only {
        return Router::new().fallback(forward);
    }
    let mut reads = Reads(Router::new());
    calls::each(&mut reads);
    let others = ["/v1/openapi.json", "/metrics"];
    let router = others.into_iter().fold(reads.0, |router, path| router.route(path, get(forward)));
    router.fallback(refuse).method_not_allowed_fallback(refuse)
}

/// Routes of calls that change nothing.
struct Reads(Router<Arc<PathBuf>>);

impl Each for Reads {
    fn call<C: Call>(&mut self)
    where
        dyn Service: Answers<C>,
    {
        let Operation { method, path, rights, .. } = C::OPERATION;
        let filter = Method::from_bytes(method.as_bytes())
            .ok()
            .and_then(|method| MethodFilter::try_from(method).ok());
        if let Some(filter) = filter.filter(|_| rights == Rights::Reads) {
            self.0 = std::mem::take(&mut self.0).route(path, on(filter, forward));
        }
    }
}

/// Answers what is not among them.
pub(crate) async fn refuse() -> Rejection {
    let words = "server: it was started with --read-only and answers only what changes nothing";
    Rejection::new(StatusCode::FORBIDDEN, words)
}

/// Forwards a request to the lab at this socket.
async fn forward(State(path): State<Arc<PathBuf>>, whole: Whole, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    for name in OWN {
        parts.headers.remove(name);
    }
    let held = parts.extensions.get::<Held>().cloned().unwrap_or_default();
    let request = Request::from_parts(parts, Body::from(whole.shared()));
    match held.wait(ask(&path, request)).await {
        Some(Ok(answer)) => answer.map(Body::new).into_response(),
        Some(Err(rejection)) => rejection.into_response(),
        None => {
            let words = "server: too many calls wait; ask again later";
            Rejection::new(StatusCode::SERVICE_UNAVAILABLE, words).into_response()
        }
    }
}

/// Whether the lab has what this path names; the answer to be passed on if not.
pub(crate) async fn exists(socket: &PathBuf, path: &str) -> Result<(), Response> {
    answer(socket, path).await.map(drop)
}

/// What the lab answers; that to be passed on if it refuses.
pub(crate) async fn answer(
    socket: &PathBuf,
    path: &str,
) -> Result<axum::http::Response<hyper::body::Incoming>, Response> {
    let request = Request::get(path).header(header::HOST, "lab").body(Body::empty());
    let request = request
        .map_err(|e| Rejection::new(StatusCode::BAD_REQUEST, e.to_string()).into_response())?;
    match ask(socket, request).await {
        Ok(answer) if answer.status().is_success() => Ok(answer),
        Ok(answer) => Err(answer.map(Body::new).into_response()),
        Err(rejection) => Err(rejection.into_response()),
    }
}

/// Asks the lab at this socket.
pub(crate) async fn ask(
    path: &PathBuf,
    request: Request,
) -> Result<axum::http::Response<hyper::body::Incoming>, Rejection> {
    let stream = UnixStream::connect(path).await.map_err(|_| not_there())?;
    // Another user could have put a socket of its own there, and would get the caller's requests.
    if !peer_is_trusted(&stream, path) {
        return Err(not_there());
    }
    let (mut asking, connection) =
        handshake::<_, Body>(TokioIo::new(stream)).await.map_err(|_| not_there())?;
    // It must go on after the head of the answer, which is returned while the body still comes.
    let connection = tokio::spawn(connection);
    asking.send_request(request).await.map_err(|_| {
        connection.abort();
        Rejection::new(StatusCode::BAD_GATEWAY, "lab: ended before it answered")
    })
}

fn not_there() -> Rejection {
    Rejection::new(StatusCode::SERVICE_UNAVAILABLE, "lab: it is not running")
}
