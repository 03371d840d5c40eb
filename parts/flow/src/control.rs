//! Client for requests to a running switch, over its control socket.
//!
//! What carries them is `netloom_control`.

use std::ops::Deref;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use netloom_control::{Client, Protocol, unexpected};

pub mod requests;

pub use requests::{Answer, PortKey, PortSpec, Request};

use crate::application::{Controller, Fail, Tls};
use crate::error::CONTROL;
use crate::{Error, Result};
use requests::{Shown, Tables, TraceWhat, Traced};

pub use netloom_control::{Fault, PATIENCE, listen};

/// What a switch's process is asked, and answers.
#[derive(Debug)]
pub enum Flow {}

impl Protocol for Flow {
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

/// A connection to a switch's process.
#[derive(Debug)]
pub struct Connection(Client<Flow>);

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

    /// State of the switch.
    ///
    /// # Errors
    /// As [`Client::ask`]; the same holds for the methods below.
    pub fn show(&self) -> Result<Shown> {
        match self.0.ask(&Request::Show, &[])? {
            Answer::Shown(shown) => Ok(*shown),
            other => Err(unexpected(&other).into()),
        }
    }

    /// Adds a port.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn add_port(&self, port: PortSpec) -> Result<()> {
        self.0.order(&Request::AddPort(port), &[])
    }

    /// Removes a port.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn remove_port(&self, port: impl Into<PortKey>) -> Result<()> {
        self.0.order(&Request::RemovePort { port: port.into() }, &[])
    }

    /// Gives a network namespace a name.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn set_namespace(&self, name: &str, namespace: impl AsFd) -> Result<()> {
        let request = Request::SetNamespace { name: name.to_owned() };
        self.0.order(&request, &[namespace.as_fd()])
    }

    /// Forgets a network namespace.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn drop_namespace(&self, name: &str) -> Result<()> {
        self.0.order(&Request::DropNamespace { name: name.to_owned() }, &[])
    }

    /// Replaces the controllers.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn set_controllers(&self, controllers: Vec<Controller>, tls: Option<Tls>) -> Result<()> {
        self.0.order(&Request::SetControllers { controllers, tls }, &[])
    }

    /// Sets what happens while no controller is connected.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn set_fail(&self, fail: Fail) -> Result<()> {
        self.0.order(&Request::SetFail { fail }, &[])
    }

    /// What would happen to a frame.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn trace(&self, what: TraceWhat) -> Result<Traced> {
        match self.0.ask(&Request::Trace(what), &[])? {
            Answer::Traced(traced) => Ok(*traced),
            other => Err(unexpected(&other).into()),
        }
    }

    /// Flow entries, groups and meters; of one table, if given.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn tables(&self, table: Option<u8>) -> Result<Tables> {
        match self.0.ask(&Request::Tables { table }, &[])? {
            Answer::Tables(tables) => Ok(*tables),
            other => Err(unexpected(&other).into()),
        }
    }

    /// Ends the switch's process.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn stop(&self) -> Result<()> {
        self.0.order(&Request::Stop, &[])
    }
}

impl Deref for Connection {
    type Target = Client<Flow>;

    fn deref(&self) -> &Client<Flow> {
        &self.0
    }
}
