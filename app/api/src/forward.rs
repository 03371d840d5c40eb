//! A lab's API over TCP: each request goes on to the lab's own socket, and its answer comes back.
//!
//! Nothing is decided here and nothing is kept: who may ask is decided before, what is answered by the lab.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::reply::Failure;
use crate::socket::peer_is_trusted;

/// Asks the lab that has this socket.
pub(crate) async fn forward(State(path): State<Arc<PathBuf>>, mut request: Request) -> Response {
    // It is for us; the socket knows its callers by their user.
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
            Failure::new(StatusCode::BAD_GATEWAY, words).into_response()
        }
    }
}

fn not_there() -> Response {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "lab: it is not running").into_response()
}
