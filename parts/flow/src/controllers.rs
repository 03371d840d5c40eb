//! Controllers that the switch was told, and how it stands with each.
//!
//! Attempts are a second apart at first, and eight at most; one that was answered begins anew. A controller
//! in a namespace that is not known yet waits for it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use netloom_pipeline::Time;

use crate::application::{Controller, Target, Tls};
use crate::control::requests::{ControllerShown, ControllerState};
use crate::reach::Namespaces;
use crate::system::SECOND;
use crate::tls::Configs;

/// Pauses between attempts: the first and the longest.
pub(crate) const FIRST: Time = SECOND;
const LONGEST: Time = 8 * SECOND;

/// How it stands with a controller.
#[derive(Debug)]
pub(crate) enum State {
    /// Nothing is under way; the next attempt is at this time.
    Idle(Time),
    /// Its namespace is not known.
    Waiting,
    /// A connection is being made, until this time.
    Dialling(OwnedFd, Time),
    /// Its connection.
    Connected(u64),
    /// Its listener.
    Listening(u64),
}

/// A controller.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) controller: Controller,
    pub(crate) state: State,
    pub(crate) pause: Time,
    pub(crate) attempts: u64,
    pub(crate) reason: Option<String>,
}

/// All controllers.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    pub(crate) known: BTreeMap<u64, Known>,
    pub(crate) namespaces: Namespaces,
    pub(crate) tls: Option<Tls>,
    /// What its files hold.
    pub(crate) configs: Option<Configs>,
}

impl Controllers {
    /// When [`Server::dial`] is to be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let due = |known: &Known| match known.state {
            State::Idle(at) | State::Dialling(_, at) => Some(at),
            _ => None,
        };
        self.known.values().filter_map(due).min()
    }

    /// Whether a connection is that of a controller.
    pub(crate) fn has(&self, channel: u64) -> bool {
        self.known
            .values()
            .any(|known| matches!(known.state, State::Connected(id) if id == channel))
    }

    /// Whether the switch is to connect to any.
    pub(crate) fn has_active(&self) -> bool {
        let active = |known: &Known| {
            !matches!(known.controller.target, Target::Listen(_) | Target::ListenTls(_))
        };
        self.known.values().any(active)
    }

    /// For status; `None` in place of connections that the caller fills in.
    pub(crate) fn shown(&self) -> Vec<(ControllerShown, Option<u64>)> {
        self.known.values().map(Known::shown).collect()
    }
}

impl Known {
    pub(crate) fn new(controller: Controller, now: Time) -> Known {
        Known { controller, state: State::Idle(now), pause: FIRST, attempts: 0, reason: None }
    }

    fn shown(&self) -> (ControllerShown, Option<u64>) {
        let (state, connection) = match &self.state {
            State::Idle(_) => (ControllerState::Backoff, None),
            State::Waiting => (ControllerState::Waiting, None),
            State::Dialling(..) => (ControllerState::Connecting, None),
            State::Connected(id) => (ControllerState::Connected, Some(*id)),
            State::Listening(_) => (ControllerState::Listening, None),
        };
        let shown = ControllerShown {
            target: self.controller.target.to_string(),
            namespace: self.controller.namespace.clone(),
            state,
            connection: None,
            attempts: self.attempts,
            reason: self.reason.clone(),
        };
        (shown, connection)
    }

    /// The last attempt, or the connection, has ended.
    pub(crate) fn failed(&mut self, reason: String, now: Time) {
        self.reason = Some(reason);
        self.state = State::Idle(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST);
    }
}
