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
use netloom_sys::{Failure, process, scm};
use rustix::net::SocketType;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::{Client, LOOK, QUICK, SILENT, STOPPED};
use crate::reply::Problem;
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

    pub(super) fn with(mut self, value: &impl Serialize) -> Call {
        // Serialising plain data to memory cannot fail; the server refuses an empty body.
        self.body = serde_json::to_vec(value).unwrap_or_default().into();
        self
    }

    pub(super) fn words(&self) -> String {
        format!("{} {}", self.method, self.uri)
    }
}

/// An answer: its status and its whole body.
type Answer = (StatusCode, Bytes);

impl Client {
    pub(super) fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T> {
        let (status, body) = self.request(call)?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|e| self.answer(call, e.to_string()));
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(Error::Refused { status: status.as_u16(), error: problem.error }),
            Err(_) => Err(self.answer(call, format!("HTTP status {status}"))),
        }
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
            Ok((head.status, body.collect().await?.to_bytes()))
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
