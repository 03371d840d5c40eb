//! One request and its answer: on a connection of its own, within a time, and while the lab process answers at all.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use netloom_lab::call::{Parameter, Write};
use netloom_sys::{Failure, process, scm};
use rustix::net::SocketType;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::{Client, LOOK, QUICK, SILENT, STOPPED};
use crate::parameters::encoded;
use crate::rest::{REVISION, REVISION_HEADER};
use crate::{Error, Result, socket};

/// The variable parts of a request.
pub(super) struct Call {
    method: Method,
    uri: String,
    patience: Duration,
    body: Bytes,
}

impl Call {
    pub(super) fn new(method: Method, uri: impl Into<String>, patience: Duration) -> Call {
        Call { method, uri: uri.into(), patience, body: Bytes::new() }
    }

    /// The request for a call.
    pub(super) fn of<C: netloom_lab::call::Call>(call: &C, patience: Duration) -> Call {
        let operation = C::OPERATION;
        let mut asking =
            Asking { path: operation.path.to_owned(), query: String::new(), body: Bytes::new() };
        call.write(&mut asking);
        let method = Method::from_bytes(operation.method.as_bytes()).unwrap_or_default();
        Call { method, uri: asking.path + &asking.query, patience, body: asking.body }
    }

    pub(super) fn words(&self) -> String {
        format!("{} {}", self.method, self.uri)
    }
}

/// A request as far as its call's values are written.
struct Asking {
    path: String,
    query: String,
    body: Bytes,
}

impl Write for Asking {
    fn path<T: Parameter>(&mut self, name: &str, value: &T) {
        let value = encoded(&value.write().unwrap_or_default());
        self.path = self.path.replace(&format!("{{{name}}}"), &value);
    }

    fn query<T: Parameter>(&mut self, name: &str, value: &T) {
        if let Some(value) = value.write() {
            self.query.push(if self.query.is_empty() { '?' } else { '&' });
            self.query += &format!("{name}={}", encoded(&value));
        }
    }

    fn body<T: Serialize>(&mut self, _: &str, value: &T) {
        // As in files: processes of all revisions read that. Serialising plain data to memory cannot fail; the server refuses
        // an empty body.
        self.body = serde_json::to_vec(value).unwrap_or_default().into();
    }
}

/// An answer: its status, the revision of the API that the lab process has, and its whole body.
type Answer = (StatusCode, Option<u32>, Bytes);

/// What to add where an answer is not understood, or a request was not, because the lab process has another revision.
fn other_version(revision: Option<u32>) -> String {
    let than = match revision {
        Some(REVISION) => return String::new(),
        Some(other) if other > REVISION => "a later",
        _ => "an earlier",
    };
    format!(
        "; the lab process is of {than} version of netloom than this command: use that version, or take the lab down and \
         bring it up again"
    )
}

/// What a client takes from a problem. Processes of revision 1 have only `error`.
#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    error: String,
    #[serde(default)]
    code: String,
}

/// Whether a refusal is of something that the lab process does not know.
fn misses(error: &str) -> bool {
    [
        "no such route",
        "does not have this method",
        "is not known here",
        "unknown field",
        "missing field",
    ]
    .iter()
    .any(|words| error.contains(words))
}

impl Client {
    pub(super) fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T> {
        let (status, revision, body) = self.request(call)?;
        if status.is_success() {
            let found = serde_json::from_slice(&body);
            return found.map_err(|e| self.answer(call, e.to_string() + &other_version(revision)));
        }
        let Ok(problem) = serde_json::from_slice::<Told>(&body) else {
            let what = format!("HTTP status {status}");
            return Err(self.answer(call, what + &other_version(revision)));
        };
        let mut error = problem.detail.unwrap_or(problem.error);
        let unknown = ["no_such_route", "invalid_parameter", "invalid_body", ""];
        // Both are asked for: a name that the user mistyped has nothing to do with versions.
        if unknown.contains(&problem.code.as_str()) && misses(&error) {
            error += &other_version(revision);
        }
        Err(Error::Refused { status: status.as_u16(), error })
    }

    pub(super) fn request(&self, call: &Call) -> Result<Answer> {
        let socket = Self::open(&self.folder, &self.socket)?;
        self.runtime()?.block_on(async {
            let exchange = async {
                tokio::select! {
                    answer = self.exchange(socket, call) => answer,
                    silent = self.watch() => Err(silent),
                }
            };
            if !self.bounded {
                return exchange.await;
            }
            timeout(call.patience, exchange).await.unwrap_or_else(|_| {
                Err(Error::Late {
                    path: self.socket.clone(),
                    request: call.words(),
                    seconds: call.patience.as_secs(),
                })
            })
        })
    }

    /// Returns once the lab process has answered nothing for too long.
    pub(super) async fn watch(&self) -> Error {
        let Some(tell) = self.tell else { return std::future::pending().await };
        // Any answer will do: the path does not exist.
        let probe = Call::new(Method::GET, "/v1/answers", QUICK);
        loop {
            sleep(LOOK).await;
            // A lab process that has ended shows by the end of the call's own connection.
            let Ok(socket) = Self::open(&self.folder, &self.socket) else { continue };
            let pid = scm::peer_pid(&socket);
            let asked = Instant::now();
            let mut answer = pin!(self.exchange(socket, &probe));
            let mut told = false;
            while timeout(LOOK, answer.as_mut()).await.is_err() {
                let pid = pid.map(|pid| pid.as_raw_nonzero().get());
                if !std::mem::replace(&mut told, true) {
                    tell(pid);
                }
                // A stopped process answers nothing until somebody continues it, so there is less
                // to wait for.
                let patience = if pid.is_some_and(process::is_stopped) { STOPPED } else { SILENT };
                if asked.elapsed() >= patience {
                    return Error::Silent { pid, seconds: asked.elapsed().as_secs() };
                }
            }
        }
    }

    /// One request on its own connection.
    async fn exchange(&self, socket: OwnedFd, call: &Call) -> Result<Answer> {
        let stream = StdStream::from(socket);
        let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
        let stream = stream.map_err(|e| Failure::path(&self.socket, "watch", e))?;
        let request = Request::builder()
            .method(&call.method)
            .uri(&call.uri)
            .header(header::HOST, "netloom")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(call.body.clone()))
            .map_err(|e| self.answer(call, e.to_string()))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(call, &e))?;
        let answer = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let revision = head.headers.get(REVISION_HEADER).and_then(|told| told.to_str().ok());
            let revision = revision.and_then(|told| told.parse().ok());
            Ok((head.status, revision, body.collect().await?.to_bytes()))
        };
        // The connection advances only while polled; the answer's error reports its end.
        let moved = async {
            let _ = connection.await;
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            answer = answer => answer.map_err(|e| self.broken(call, &e)),
            never = moved => match never {},
        }
    }

    pub(super) fn open(folder: &Path, path: &Path) -> Result<OwnedFd> {
        socket::connect(path, SocketType::STREAM)?
            .ok_or_else(|| Error::NotRunning(folder.to_owned()))
    }

    fn broken(&self, call: &Call, error: &hyper::Error) -> Error {
        // Invalid HTTP comes from something other than netloom; any other error is a connection that ended.
        if error.is_parse() { self.answer(call, error.to_string()) } else { self.closed(call) }
    }

    fn closed(&self, call: &Call) -> Error {
        Error::Closed { path: self.socket.clone(), request: call.words() }
    }

    fn answer(&self, call: &Call, what: String) -> Error {
        Error::Answer { path: self.socket.clone(), request: call.words(), what }
    }
}
