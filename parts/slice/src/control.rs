//! Client for requests to a running slicer, over its control socket.
//!
//! What carries them is `netloom_ofconn::control`.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use netloom_ofconn::control;

pub mod requests;

pub use requests::{Answer, Request, Shown, SliceShown};

use crate::application::Policy;
use crate::error::CONTROL;
use crate::{Error, Result};

pub use control::{PATIENCE, listen};

/// A connection to a slicer's process.
#[derive(Debug)]
pub struct Connection(control::Connection);

impl Connection {
    /// Connects to the socket at `path`. `Ok(None)` if nobody listens.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses, [`Error::Stranger`] if another user listens.
    pub fn open(path: &Path) -> Result<Option<Connection>> {
        Ok(control::Connection::open(CONTROL, path)?.map(Connection))
    }

    /// Limits the wait for each answer from now on.
    #[must_use]
    pub fn within(self, patience: Duration) -> Connection {
        Connection(self.0.within(patience))
    }

    /// The process's id in this PID namespace; `None` if it is not visible.
    pub fn process(&self) -> Option<rustix::process::Pid> {
        self.0.process()
    }

    /// Sends a request and waits for the answer; [`Answer::Failed`] becomes [`Error::Refused`]. After
    /// [`Error::Failed`] the connection is of no more use: an answer may still come.
    ///
    /// # Errors
    /// [`Error::Ended`] if the process ended instead; [`Error::Failed`] for other failures.
    pub fn ask(&self, request: &Request, with: &[BorrowedFd<'_>]) -> Result<Answer> {
        match self.0.ask(request, with)? {
            Answer::Failed(reason) => Err(Error::Refused(reason)),
            answer => Ok(answer),
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
        self.0.as_fd()
    }
}

fn unexpected(answer: &Answer) -> Error {
    Error::Message(control::unexpected(answer))
}
