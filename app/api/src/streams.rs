//! Verbs of this program whose output comes to the page while they run.
//!
//! A child of this process writes into a pipe, whose content is the answer's body. It ends with its connection, which gives
//! way like an idle one, or by itself. While the caller does not read, the pipe is full; what the child then does is its own.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame};
use netloom_sys::Failure;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::own_child::OwnChild;
use crate::reply::Rejection;

/// Children of a kind at a time: each holds memory of the kernel.
const MOST: usize = 16;

/// How much of a complaint is told, in bytes.
const MOST_WORDS: u64 = 4096;

/// Bytes that are sent at once.
const CHUNK: usize = 64 << 10;

/// What the runs of a verb need.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Of the lab's API.
    pub(crate) socket: Arc<PathBuf>,
    /// What it does, in a word.
    name: &'static str,
    /// Arguments of this program, before those of a request.
    words: Vec<OsString>,
    room: Arc<Semaphore>,
}

impl Streams {
    pub(crate) fn new(name: &'static str, socket: Arc<PathBuf>, words: Vec<OsString>) -> Streams {
        Streams { socket, name, words, room: Arc::new(Semaphore::new(MOST)) }
    }

    /// Starts one with these arguments; an answer of this type.
    pub(crate) async fn start(
        &self,
        more: impl IntoIterator<Item = OsString>,
        kind: &'static str,
    ) -> Result<Response, Response> {
        let name = self.name;
        let refused = |status, words: String| Rejection::new(status, words).into_response();
        let turn = Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            refused(StatusCode::SERVICE_UNAVAILABLE, format!("{name}: {MOST} run; stop one"))
        })?;
        let broken = |e: netloom_sys::Error| {
            refused(StatusCode::INTERNAL_SERVER_ERROR, netloom_sys::describe(&e))
        };
        let (file, child) = start(self.words.iter().cloned().chain(more)).map_err(broken)?;
        let mut first = vec![0; CHUNK];
        // It begins with something, or there is a reason why not.
        match read(&file, &mut first).await {
            Ok(length @ 1..) => first.truncate(length),
            _ => return Err(refused(StatusCode::BAD_REQUEST, complaint(name, child))),
        }
        let body = Running { first: Some(first.into()), file, _child: child, _turn: turn };
        let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
        Ok((headers, Body::new(body)).into_response())
    }
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
    let fail = Failure::of("output", "read");
    let output = child.0.stdout.take().ok_or_else(|| Failure::new("output", "read", "no pipe"))?;
    Ok((Receiver::from_owned_fd(output.into()).map_err(fail)?, child))
}

/// Why a child has ended, in its words.
fn complaint(name: &str, mut child: OwnChild) -> String {
    let mut words = String::new();
    if let Some(errors) = child.0.stderr.take() {
        // It has closed its output, and so ends.
        let _ = errors.take(MOST_WORDS).read_to_string(&mut words);
    }
    match words.trim().trim_start_matches("netloom: ") {
        "" => format!("{name}: ended without a word"),
        words => words.to_owned(),
    }
}

/// A child that runs, as the body of an answer.
struct Running {
    first: Option<Bytes>,
    file: Receiver,
    _child: OwnChild,
    _turn: OwnedSemaphorePermit,
}

impl HttpBody for Running {
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
