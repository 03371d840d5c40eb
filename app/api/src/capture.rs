//! Captures for the page: the frames of a link as a pcapng file that comes while they do.
//!
//! A child of this process captures, as `netloom capture` does, into a pipe, whose content is the answer's body. It ends with
//! its connection, which gives way like an idle one, or by itself after the time that it was started with. While the caller
//! does not read, the pipe is full and the child keeps as much as it was told to; what it then loses, the file says.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame};
use netloom_sys::Failure;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::forward;
use crate::own_child::OwnChild;
use crate::parameters::Query;
use crate::reply::Rejection;

/// The route.
pub(crate) const PATH: &str = "/v1/links/{link}/capture";

/// Captures at a time: each has rings of its own.
const MOST: usize = 16;

/// The longest filter, and how much of a complaint is told, in bytes.
const MOST_FILTER: usize = 4096;
const MOST_WORDS: u64 = 4096;

/// Bytes that are sent at once.
const CHUNK: usize = 64 << 10;

/// What a port's captures need.
#[derive(Debug)]
pub(crate) struct Captures {
    /// Of the lab's API.
    socket: Arc<PathBuf>,
    /// Arguments of this program, before the filter and `link:NAME`.
    words: Vec<OsString>,
    room: Arc<Semaphore>,
}

impl Captures {
    pub(crate) fn new(socket: Arc<PathBuf>, words: Vec<OsString>) -> Captures {
        Captures { socket, words, room: Arc::new(Semaphore::new(MOST)) }
    }
}

/// Begins one.
pub(crate) async fn begin(
    State(captures): State<Arc<Captures>>,
    Path(link): Path<String>,
    uri: Uri,
) -> Result<Response, Response> {
    let refused = |status, words: String| Rejection::new(status, words).into_response();
    let query = Query::of(uri.query().unwrap_or_default()).map_err(IntoResponse::into_response)?;
    query.only(&["filter", "own"]).map_err(IntoResponse::into_response)?;
    let filter = query.text("filter").unwrap_or_default();
    let own = match query.text("own") {
        None | Some("false") => None,
        Some("true") => Some("--own".into()),
        Some(_) => {
            return Err(Rejection::parameter("own", "write true or false").into_response());
        }
    };
    if filter.len() > MOST_FILTER {
        let words = format!("filter: longer than {MOST_FILTER} bytes");
        return Err(refused(StatusCode::BAD_REQUEST, words));
    }
    let path = uri.path().strip_suffix("/capture").unwrap_or_default();
    forward::exists(&captures.socket, path).await?;
    let turn = Arc::clone(&captures.room).try_acquire_owned().map_err(|_| {
        refused(StatusCode::SERVICE_UNAVAILABLE, format!("capture: {MOST} run; stop one"))
    })?;
    let words = captures.words.iter().cloned();
    let words = words.chain([filter.into()]).chain(own).chain([format!("link:{link}").into()]);
    let broken = |e: netloom_sys::Error| {
        refused(StatusCode::INTERNAL_SERVER_ERROR, netloom_sys::describe(&e))
    };
    let (file, child) = start(words).map_err(broken)?;
    let mut first = vec![0; CHUNK];
    // The head of the file comes at once, or the reason why there is none.
    match read(&file, &mut first).await {
        Ok(length @ 1..) => first.truncate(length),
        _ => return Err(refused(StatusCode::BAD_REQUEST, complaint(child))),
    }
    let body = Capture { first: Some(first.into()), file, _child: child, _turn: turn };
    let headers =
        [(header::CONTENT_TYPE, "application/x-pcapng"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(body)).into_response())
}

/// What comes first; 0 bytes at the end.
async fn read(file: &Receiver, bytes: &mut [u8]) -> std::io::Result<usize> {
    loop {
        file.readable().await?;
        match file.try_read(bytes) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

/// Starts a child with these arguments; what it writes.
fn start(words: impl Iterator<Item = OsString>) -> netloom_sys::Result<(Receiver, OwnChild)> {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = OwnChild::start(&mut command)?;
    let fail = Failure::of("capture", "read");
    let output = child.0.stdout.take().ok_or_else(|| Failure::new("capture", "read", "no pipe"))?;
    Ok((Receiver::from_owned_fd(output.into()).map_err(fail)?, child))
}

/// Why a child has ended, in its words.
fn complaint(mut child: OwnChild) -> String {
    let mut words = String::new();
    if let Some(errors) = child.0.stderr.take() {
        // It has closed its output, and so ends.
        let _ = errors.take(MOST_WORDS).read_to_string(&mut words);
    }
    match words.trim().trim_start_matches("netloom: ") {
        "" => "capture: ended without a word".to_owned(),
        words => words.to_owned(),
    }
}

/// A capture that runs, as the body of an answer.
struct Capture {
    first: Option<Bytes>,
    file: Receiver,
    _child: OwnChild,
    _turn: OwnedSemaphorePermit,
}

impl HttpBody for Capture {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let mut bytes = vec![0; CHUNK];
        let mut room = ReadBuf::new(&mut bytes);
        match Pin::new(&mut self.file).poll_read(cx, &mut room) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(e)) => Poll::Ready(Some(Err(e))),
            Poll::Ready(Ok(())) => {
                let length = room.filled().len();
                bytes.truncate(length);
                Poll::Ready((length > 0).then(|| Ok(Frame::data(bytes.into()))))
            }
        }
    }
}
