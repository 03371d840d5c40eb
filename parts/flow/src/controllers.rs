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

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A controller's main one.
    Main,
    /// One beside the main one, by that one's number, and its own number for the controller.
    Auxiliary(u64, u8),
    /// That of somebody who is no controller.
    Service,
}

/// A connection to a controller, which is there or will be.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) controller: Controller,
    pub(crate) whose: Whose,
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
        let mains = self.known.values().filter(|known| known.whose == Whose::Main);
        mains.map(|known| known.shown(|main| self.beside(main))).collect()
    }

    /// How many connections are there beside a main one.
    fn beside(&self, main: u64) -> u64 {
        let there = |known: &&Known| matches!(known.state, State::Connected(_));
        let beside = self.known.values().filter(|known| known.is_beside(main)).filter(there);
        u64::try_from(beside.count()).unwrap_or(u64::MAX)
    }
}

impl Known {
    pub(crate) fn new(controller: Controller, now: Time) -> Known {
        Known {
            controller,
            whose: Whose::Main,
            state: State::Idle(now),
            pause: FIRST,
            attempts: 0,
            reason: None,
        }
    }

    /// One of this number beside the main connection `main`.
    pub(crate) fn beside(main: u64, number: u8, controller: Controller, now: Time) -> Known {
        Known { whose: Whose::Auxiliary(main, number), ..Known::new(controller, now) }
    }

    /// Whether it is beside this main connection.
    pub(crate) fn is_beside(&self, main: u64) -> bool {
        matches!(self.whose, Whose::Auxiliary(of, _) if of == main)
    }

    fn shown(&self, beside: impl Fn(u64) -> u64) -> (ControllerShown, Option<u64>) {
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
            auxiliary: connection.map_or(0, beside),
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
