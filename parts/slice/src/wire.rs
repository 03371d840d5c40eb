//! A connection of either side, and whose it is.

use netloom_ofconn::Channel;
use netloom_slicing::SliceId;

use crate::greeting::WithSwitch;

/// Whose connection it is, and how far the conversation is.
#[derive(Debug)]
pub(crate) enum Side {
    /// A switch that has not said who it is.
    Greeting(Box<WithSwitch>),
    /// A switch with which it is being gone on.
    Beginning,
    /// A switch.
    Switch,
    /// A client of a virtual switch.
    Slice {
        /// The connection of the switch.
        switch: u64,
        slice: SliceId,
        /// The slice's place in the policy.
        place: usize,
        /// Whether it is a controller: it is told what nobody asked for.
        controls: bool,
        greeted: bool,
    },
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) channel: Channel,
    pub(crate) side: Side,
    /// Why it is being closed.
    pub(crate) why: Option<String>,
}

/// Who shares what connections may take: each slice, each switch, and all that have not said who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The slice with this place in the policy.
    Slice(usize),
    /// A switch, by its connection.
    Switch(u64),
    Stranger,
}

/// Whose a connection is.
pub(crate) fn owner_of(id: u64, wire: &Wire) -> Owner {
    match wire.side {
        Side::Slice { place, .. } => Owner::Slice(place),
        Side::Switch | Side::Beginning => Owner::Switch(id),
        Side::Greeting(_) => Owner::Stranger,
    }
}

impl Wire {
    /// Whether the peer made it, and may do so again.
    pub(crate) fn may_make_room(&self) -> bool {
        matches!(self.side, Side::Greeting(_) | Side::Slice { controls: false, .. })
    }
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A switch's.
    Switch,
    /// A controller's: the switch's connection, the slice's number there and its place in the policy.
    Controller(u64, SliceId, usize),
}

impl Whose {
    /// Who it is, in failures.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Whose::Switch => "switch",
            Whose::Controller(..) => "controller",
        }
    }
}
