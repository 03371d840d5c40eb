//! Client for requests to a running slicer, over its control socket.
//!
//! What carries them is `netloom_control`.

use std::ops::Deref;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use netloom_control::{Client, Protocol, unexpected};

pub mod requests;

pub use requests::{Answer, Request, Shown, SliceShown};

use crate::application::Policy;
use crate::error::CONTROL;
use crate::{Error, Result};

pub use netloom_control::{Fault, PATIENCE, listen};

/// What a slicer's process is asked, and answers.
#[derive(Debug)]
pub enum Slices {}

impl Protocol for Slices {
    const OBJECT: &'static str = CONTROL;
    const IS_REPLACED: bool = true;
    type Request = Request;
    type Answer = Answer;
    type Error = Error;

    fn refuse(reason: String) -> Option<Answer> {
        Some(Answer::Failed(reason))
    }

    fn judge(answer: Answer) -> Result<Answer, String> {
        match answer {
            Answer::Failed(reason) => Err(reason),
            answer => Ok(answer),
        }
    }

    fn is_done(answer: &Answer) -> bool {
        matches!(answer, Answer::Done)
    }
}

/// A connection to a slicer's process.
#[derive(Debug)]
pub struct Connection(Client<Slices>);

impl Connection {
    /// [`Client::open`].
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn open(path: &Path) -> Result<Option<Connection>> {
        Ok(Client::open(path)?.map(Connection))
    }

    /// [`Client::within`].
    #[must_use]
    pub fn within(self, patience: Duration) -> Connection {
        Connection(self.0.within(patience))
    }

    /// State of the slicer.
    ///
    /// # Errors
    /// As [`Client::ask`]; the same holds for the methods below.
    pub fn show(&self) -> Result<Shown> {
        match self.0.ask(&Request::Show, &[])? {
            Answer::Shown(shown) => Ok(*shown),
            other => Err(unexpected(&other).into()),
        }
    }

    /// Replaces the slices.
    ///
    /// # Errors
    /// As [`Client::ask`]; [`Error::Refused`] if they overlap.
    pub fn set_policy(&self, policy: &Policy) -> Result<()> {
        self.0.order(&Request::SetPolicy { policy: policy.clone() }, &[])
    }

    /// Gives a network namespace a name.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn set_namespace(&self, name: &str, namespace: impl AsFd) -> Result<()> {
        self.0.order(&Request::SetNamespace { name: name.to_owned() }, &[namespace.as_fd()])
    }

    /// Forgets a network namespace.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn drop_namespace(&self, name: &str) -> Result<()> {
        self.0.order(&Request::DropNamespace { name: name.to_owned() }, &[])
    }

    /// Ends the slicer's process.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn stop(&self) -> Result<()> {
        self.0.order(&Request::Stop, &[])
    }
}

impl Deref for Connection {
    type Target = Client<Slices>;

    fn deref(&self) -> &Client<Slices> {
        &self.0
    }
}
