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

use crate::reply::Rejection;
use crate::socket::peer_is_trusted;

/// Forwards a request to the lab at this socket.
pub(crate) async fn forward(State(path): State<Arc<PathBuf>>, mut request: Request) -> Response {
    // The header is for this server; the socket identifies callers by their user.
    request.headers_mut().remove(header::AUTHORIZATION);
    request.headers_mut().remove(header::CONNECTION);
    let Ok(stream) = UnixStream::connect(&*path).await else { return not_there() };
    if !peer_is_trusted(&stream, &path) {
        return not_there();
    }
    let Ok((mut asking, connection)) = handshake::<_, Body>(TokioIo::new(stream)).await else {
        return not_there();
    };
    let connection = tokio::spawn(connection);
    let answer = asking.send_request(request).await;
    match answer {
        Ok(answer) => answer.map(Body::new).into_response(),
        Err(e) => {
            connection.abort();
            let words = format!("lab: ended before it answered: {e}");
            Rejection::new(StatusCode::BAD_GATEWAY, words).into_response()
        }
    }
}

fn not_there() -> Response {
    Rejection::new(StatusCode::SERVICE_UNAVAILABLE, "lab: it is not running").into_response()
}
