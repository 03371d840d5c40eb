//! Several sessions by number: what the API asks for.

use std::sync::Arc;

use netloom_marking::session::Configuration;
use serde::Serialize;

use crate::{Interfaces, Result, Session, State};

/// A session's number.
pub type SessionId = u64;

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Its number.
    pub id: SessionId,
    /// What it is doing.
    pub state: State,
}

/// Which measures are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of this interface only.
    pub netif: Option<String>,
    /// Of this filter only.
    pub flow: Option<u32>,
}

/// Sessions at the interfaces of one host or lab.
pub struct Probe {}

impl Probe {
    /// A probe that is known by `name` in its records.
    pub fn new(_name: String, _interfaces: Arc<dyn Interfaces>) -> Probe {
        Probe {}
    }

    /// Prepares a session at both directions of the interfaces that it names, or of all.
    ///
    /// # Errors
    /// An interface that is not there; too many sessions.
    pub fn create(&self, _configuration: Configuration) -> Result<SessionId> {
        Ok(0)
    }

    /// Ends a session and forgets what it measured.
    ///
    /// # Errors
    /// No such session.
    pub fn delete(&self, _id: SessionId) -> Result<()> {
        Ok(())
    }

    /// A session.
    ///
    /// # Errors
    /// No such session.
    pub fn session(&self, id: SessionId) -> Result<Arc<Session>> {
        Err(crate::Error::NoSession { id })
    }

    /// All sessions, by number.
    pub fn list(&self) -> Vec<Summary> {
        Vec::new()
    }
}
