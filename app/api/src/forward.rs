//! A lab's API over TCP: forwards each request to the lab's own socket and returns its answer.
//!
//! It decides and keeps nothing: authorization happens before, and the lab answers.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
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

/// Forwards a request to the lab at this socket.
pub(crate) async fn forward(
    State(path): State<Arc<PathBuf>>,
    whole: Whole,
    request: Request,
) -> Response {
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

async fn ask(
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
