//! Client for requests to a running slicer, over its control socket.
//!
//! A SOCK_SEQPACKET UNIX socket; a message is one JSON value with descriptors (`netloom_sys::envelope`). Each side
//! accepts only peers of its own user, and the slicer root. Requests of one connection are answered in order.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use netloom_sys::envelope::{self, Received};
use netloom_sys::process::wait_readable;
use netloom_sys::{Failure, private_socket, scm};
use rustix::net::{SocketFlags, SocketType};

pub mod requests;

pub use requests::{Answer, Request, Shown};

use crate::application::Policy;
use crate::error::CONTROL;
use crate::{Error, Result};

/// Default time to wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Creates a slicer's control socket with mode 0600, in place of one of an earlier process.
///
/// # Errors
/// The system refuses.
pub fn listen(path: &Path) -> Result<OwnedFd> {
    let failed = |operation| Failure::of(format!("{path:?}"), operation);
    let _ = rustix::fs::unlink(path);
    let socket = private_socket::bind(path, SocketType::SEQPACKET, SocketFlags::NONBLOCK)
        .map_err(failed("bind"))?;
    rustix::net::listen(&socket, 16).map_err(failed("listen"))?;
    Ok(socket)
}

/// A connection to a slicer's process.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    patience: Duration,
}

impl Connection {
    /// Connects to the socket at `path`. `Ok(None)` if nobody listens.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses, [`Error::Stranger`] if another user listens.
    pub fn open(path: &Path) -> Result<Option<Connection>> {
        let Some(socket) = envelope::connect(CONTROL, path)? else { return Ok(None) };
        let peer = scm::peer_uid(&socket).map_err(Failure::of(CONTROL, "ask who listens"))?;
        let own = rustix::process::geteuid().as_raw();
        if own != 0 && peer != own {
            return Err(Error::Stranger(peer));
        }
        Ok(Some(Connection { socket, patience: PATIENCE }))
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

    /// Sends a request and waits for the answer; [`Answer::Failed`] becomes [`Error::Refused`]. After
    /// [`Error::Failed`] the connection is of no more use: an answer may still come.
    ///
    /// # Errors
    /// [`Error::Ended`] if the process ended instead; [`Error::Failed`] for other failures.
    pub fn ask(&self, request: &Request, with: &[BorrowedFd<'_>]) -> Result<Answer> {
        match envelope::send(CONTROL, &self.socket, request, with) {
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {
                return Err(Error::Ended);
            }
            sent => sent?,
        }
        if !wait_readable(&self.socket, self.patience) {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(Failure::new(CONTROL, "wait for an answer", late).into());
        }
        match envelope::receive(CONTROL, &self.socket)? {
            Received::Value(Answer::Failed(reason), _) => Err(Error::Refused(reason)),
            Received::Value(answer, _) => Ok(answer),
            Received::Malformed(reason) => Err(Error::Message(reason)),
            Received::Ended => Err(Error::Ended),
        }
    }

    fn order(&self, request: &Request, with: &[BorrowedFd<'_>]) -> Result<()> {
        match self.ask(request, with)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// State of the slicer.
    ///
    /// # Errors
    /// As [`Connection::ask`]; the same holds for the methods below.
    pub fn show(&self) -> Result<Shown> {
        match self.ask(&Request::Show, &[])? {
            Answer::Shown(shown) => Ok(*shown),
            other => Err(unexpected(&other)),
        }
    }

    /// Replaces the slices.
    ///
    /// # Errors
    /// As [`Connection::ask`]; [`Error::Refused`] if they overlap.
    pub fn set_policy(&self, policy: &Policy) -> Result<()> {
        self.order(&Request::SetPolicy { policy: policy.clone() }, &[])
    }

    /// Gives a network namespace a name.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn set_namespace(&self, name: &str, namespace: impl AsFd) -> Result<()> {
        self.order(&Request::SetNamespace { name: name.to_owned() }, &[namespace.as_fd()])
    }

    /// Forgets a network namespace.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn drop_namespace(&self, name: &str) -> Result<()> {
        self.order(&Request::DropNamespace { name: name.to_owned() }, &[])
    }

    /// Ends the slicer's process.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub fn stop(&self) -> Result<()> {
        self.order(&Request::Stop, &[])
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn unexpected(answer: &Answer) -> Error {
    let text: String = format!("{answer:?}").chars().take(60).collect();
    Error::Message(format!("an answer to something else: {text}"))
}
