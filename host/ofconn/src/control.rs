//! A process's control socket: requests to it and its answers, the client's side and the server's.
//!
//! A SOCK_SEQPACKET UNIX socket of mode 0600; a message is one JSON value with descriptors (`netloom_sys::envelope`). Each
//! side accepts only peers of its own user, and the server root. Requests of one connection are answered in order. What
//! requests and answers are is the caller's. The server's side does not block.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use netloom_sys::envelope::{self, Received};
use netloom_sys::process::wait_readable;
use netloom_sys::{Failure, private_socket, scm};
use rustix::net::{SocketFlags, SocketType};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Default time to wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Most clients; further ones are closed at once.
const MOST: usize = 32;

/// Longest name of a namespace.
const MOST_NAME: usize = 255;

/// Most namespaces.
const MOST_NAMESPACES: usize = 256;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The system refused.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The answer cannot be read.
    #[error("message: {0}")]
    Message(String),
    /// The peer process belongs to another user.
    #[error("control socket: the other end is user {0}")]
    Stranger(u32),
    /// The process ended before it answered.
    #[error("the process has ended")]
    Ended,
}

/// Creates a control socket, in place of one of an earlier process.
///
/// # Errors
/// The system refuses.
pub fn listen(path: &Path) -> Result<OwnedFd, Failure> {
    let failed = |operation| Failure::of(format!("{path:?}"), operation);
    let _ = rustix::fs::unlink(path);
    let socket = private_socket::bind(path, SocketType::SEQPACKET, SocketFlags::NONBLOCK)
        .map_err(failed("bind"))?;
    rustix::net::listen(&socket, 16).map_err(failed("listen"))?;
    Ok(socket)
}

/// A connection to a process.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    patience: Duration,
    /// The socket in failures.
    object: &'static str,
}

impl Connection {
    /// Connects to the socket at `path`. `Ok(None)` if nobody listens. `object` is the socket in failures.
    ///
    /// # Errors
    /// [`Fault::Failed`] if the system refuses, [`Fault::Stranger`] if another user listens.
    pub fn open(object: &'static str, path: &Path) -> Result<Option<Connection>, Fault> {
        let Some(socket) = envelope::connect(object, path)? else { return Ok(None) };
        let peer = scm::peer_uid(&socket)
            .map_err(Failure::of(object, "read the listener's credentials"))?;
        let own = rustix::process::geteuid().as_raw();
        if own != 0 && peer != own {
            return Err(Fault::Stranger(peer));
        }
        Ok(Some(Connection { socket, patience: PATIENCE, object }))
    }

    /// Limits the wait for each answer from now on.
    #[must_use]
    pub fn within(mut self, patience: Duration) -> Connection {
        self.patience = patience;
        self
    }

    /// The process's id in this PID namespace; `None` if it is not visible.
    pub fn process(&self) -> Option<rustix::process::Pid> {
        scm::peer_pid(&self.socket)
    }

    /// Sends a request and waits for the answer. After [`Fault::Failed`] the connection is of no more use: an answer may
    /// still come.
    ///
    /// # Errors
    /// [`Fault::Ended`] if the process ended instead; [`Fault::Failed`] for other failures.
    pub fn ask<A: DeserializeOwned>(
        &self,
        request: &impl Serialize,
        with: &[BorrowedFd<'_>],
    ) -> Result<A, Fault> {
        match envelope::send(self.object, &self.socket, request, with) {
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {
                return Err(Fault::Ended);
            }
            sent => sent?,
        }
        if !wait_readable(&self.socket, self.patience) {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(Failure::new(self.object, "wait for an answer", late).into());
        }
        match envelope::receive(self.object, &self.socket)? {
            Received::Value(answer, _) => Ok(answer),
            Received::Malformed(reason) => Err(Fault::Message(reason)),
            Received::Ended => Err(Fault::Ended),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An answer that no request wants, in words.
pub fn unexpected(answer: &impl std::fmt::Debug) -> String {
    let text: String = format!("{answer:?}").chars().take(60).collect();
    format!("an answer to something else: {text}")
}

/// What a client said.
#[derive(Debug)]
pub enum Said<R> {
    /// A request, with descriptors.
    Request(R, Vec<OwnedFd>),
    /// Something that is not a request.
    Malformed(String),
    /// Nothing yet.
    Nothing,
    /// It is gone: its connection, to be watched no more.
    Gone(Option<OwnedFd>),
}

/// The server's side: where clients connect, and those that are.
#[derive(Debug)]
pub struct Desk {
    socket: OwnedFd,
    clients: BTreeMap<u64, OwnedFd>,
    object: &'static str,
}

impl Desk {
    /// Takes clients of a listening socket. `object` is the socket in failures.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(object: &'static str, socket: OwnedFd) -> Result<Desk, Failure> {
        // A client that leaves before it is accepted must not block the server.
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|e| Failure::new(object, "make it non-blocking", e))?;
        Ok(Desk { socket, clients: BTreeMap::new(), object })
    }

    /// Accepts a client that may ask, if one is there and there are not too many.
    pub fn welcome(&self) -> Option<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // One that has left again does not matter.
        let socket = rustix::net::accept_with(&self.socket, flags).ok()?;
        let own = rustix::process::geteuid().as_raw();
        let known = scm::peer_uid(&socket).is_ok_and(|uid| uid == own || uid == 0);
        (known && self.clients.len() < MOST).then_some(socket)
    }

    /// Keeps a client under a number.
    pub fn admit(&mut self, id: u64, socket: OwnedFd) {
        self.clients.insert(id, socket);
    }

    /// Hears a client.
    pub fn hear<R: DeserializeOwned>(&mut self, id: u64) -> Said<R> {
        let again = Some(rustix::io::Errno::AGAIN.raw_os_error());
        let Some(socket) = self.clients.get(&id) else { return Said::Gone(None) };
        match envelope::receive(self.object, socket) {
            Ok(Received::Value(request, with)) => Said::Request(request, with),
            Ok(Received::Malformed(reason)) => Said::Malformed(reason),
            Err(e) if e.raw_os_error() == again => Said::Nothing,
            Ok(Received::Ended) | Err(_) => Said::Gone(self.clients.remove(&id)),
        }
    }

    /// Answers a client. One that does not read its answers is dropped: its connection, to be watched no more.
    pub fn answer(&mut self, id: u64, answer: &impl Serialize) -> Option<OwnedFd> {
        let socket = self.clients.get(&id)?;
        let sent = envelope::send(self.object, socket, answer, &[]);
        if sent.is_err() { self.clients.remove(&id) } else { None }
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether a namespace may be kept by this name, beside those that are.
///
/// # Errors
/// In words.
pub fn check_namespace<T>(name: &str, known: &BTreeMap<String, T>) -> Result<(), String> {
    if name.is_empty() || name.len() > MOST_NAME {
        return Err(format!("namespace: names have 1 to {MOST_NAME} bytes"));
    }
    if known.len() >= MOST_NAMESPACES && !known.contains_key(name) {
        return Err(format!("namespace {name:?}: {MOST_NAMESPACES} are known"));
    }
    Ok(())
}
