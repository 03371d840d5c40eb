//! Controllers that the switch was told, and how it stands with each.
//!
//! How each is tried, and tried again, is `netloom_ofconn::peers`'.

use netloom_ofconn::dial::{Peer, State};
use netloom_ofconn::peers::Peers;
use netloom_ofconn::tls::Configs;

use crate::application::{Target, Tls};
use crate::control::requests::{ControllerShown, ControllerState};

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A controller's main one.
    Main,
    /// One beside the main one, by that one's number, and its own number for the controller.
    Auxiliary(u64, u8),
    /// That of a client that is not a controller.
    Service,
}

/// A connection to a controller, which is there or will be.
pub(crate) type Known = Peer<Whose>;

/// All controllers.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    pub(crate) peers: Peers<Whose>,
    pub(crate) tls: Option<Tls>,
    /// What its files hold.
    pub(crate) configs: Option<Configs>,
}

impl Controllers {
    /// Whether a connection is that of a controller.
    pub(crate) fn has(&self, channel: u64) -> bool {
        self.peers.of(channel).is_some()
    }

    /// Whether the switch is to connect to any.
    pub(crate) fn has_active(&self) -> bool {
        let active = |known: &Known| {
            !matches!(known.controller.target, Target::Listen(_) | Target::ListenTls(_))
        };
        self.peers.all().any(active)
    }

    /// For status; `None` in place of connections that the caller fills in.
    pub(crate) fn shown(&self) -> Vec<(ControllerShown, Option<u64>)> {
        let mains = self.peers.all().filter(|known| known.whose == Whose::Main);
        mains.map(|known| shown(known, |main| self.beside(main))).collect()
    }

    /// How many connections are there beside a main one.
    fn beside(&self, main: u64) -> u64 {
        let there = |known: &&Known| known.connection().is_some();
        let beside = self.peers.all().filter(|known| known.whose.is_beside(main)).filter(there);
        u64::try_from(beside.count()).unwrap_or(u64::MAX)
    }
}

impl Whose {
    /// Whether it is beside this main connection.
    pub(crate) fn is_beside(self, main: u64) -> bool {
        matches!(self, Whose::Auxiliary(of, _) if of == main)
    }
}

/// For status: a controller with the number of its connection.
fn shown(known: &Known, beside: impl Fn(u64) -> u64) -> (ControllerShown, Option<u64>) {
    let (state, connection) = match &known.state {
        State::Idle(_) => (ControllerState::Backoff, None),
        State::Waiting => (ControllerState::Waiting, None),
        State::Dialling(..) => (ControllerState::Connecting, None),
        State::Connected(id) => (ControllerState::Connected, Some(*id)),
        State::Listening(_) => (ControllerState::Listening, None),
    };
    let shown = ControllerShown {
        target: known.controller.target.to_string(),
        namespace: known.controller.namespace.clone(),
        state,
        connection: None,
        auxiliary: connection.map_or(0, beside),
        attempts: known.attempts,
        reason: known.reason.clone(),
    };
    (shown, connection)
}
