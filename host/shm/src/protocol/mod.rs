//! The protocol between a switch and its ports: messages over a SOCK_SEQPACKET socket.
//!
//! Each message has a fixed layout, little-endian, with a number of descriptors that its kind
//! fixes. Decoding is total and borrows from the received bytes: nothing is allocated by a size that
//! the peer states, unknown kinds, set reserved bytes and wrong lengths are errors, and there is one
//! encoding of each message. docs/abi/switch-join.md has the bytes and the order of messages.

mod channel;
mod codec;
mod manage;
#[cfg(test)]
mod tests;

pub use crate::reason::Reason;
pub use channel::{Channel, Incoming, Listener, Peer, Posted};
pub use codec::EdgeIter;
pub(crate) use codec::check_name;
pub use manage::{Answer, Collector, request, split};

/// Version of the protocol and of the memories' layout.
pub const VERSION: u16 = 1;
/// Most bytes of a message.
pub const MOST_MESSAGE: usize = 16 << 10;
/// Most descriptors of a message.
pub const MOST_DESCRIPTORS: usize = 5;
/// Most bytes of a port's name.
pub const MOST_NAME: usize = 64;
/// Most bytes of the text of a refusal.
pub const MOST_TEXT: usize = 200;
/// Most bytes of one part of a management request or answer.
pub const MOST_PART: usize = MOST_MESSAGE - 12;
/// The largest number of a port.
pub const MOST_PORTS: u8 = 255;
/// Most edges that a port may name when it comes back: to and from each other port.
pub const MOST_EDGES: usize = 2 * (MOST_PORTS as usize);

/// Set in a slot's origin: the frame is a copy for a mirror port.
pub const MIRRORED: u16 = 0x8000;

/// What a port keeps of a switch to be taken for the same port after the switch's restart.
pub type Token = [u8; 16];

/// What a port can take; what it cannot, it finishes itself when it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Frames of more than one segment, with how they are to be cut.
    pub super_frames: bool,
    /// Frames whose checksum is not yet there.
    pub checksums: bool,
}

/// Which way frames go on an edge, seen by the port that speaks or is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this port.
    Out,
    /// To this port.
    In,
}

impl Direction {
    /// As the other end sees it.
    #[must_use]
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Out => Direction::In,
            Direction::In => Direction::Out,
        }
    }
}

/// An edge in use, named by a port that comes back to a restarted switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeName {
    /// The port at its other end.
    pub number: u8,
    /// Which way its frames go.
    pub direction: Direction,
    /// The generation of the port at its other end.
    pub generation: u32,
}

/// The edges of a [`Join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges<'a> {
    /// Of one's own.
    Given(&'a [EdgeName]),
    /// As received: checked, whole entries.
    Read(&'a [u8]),
}

/// Asks to become a port. Descriptors: the port's inbox, its uplink's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join<'a> {
    /// [`VERSION`] of the port; decoded whatever it is, so that the switch can say it.
    pub version: u16,
    /// The number wanted, 0 for any.
    pub number: u8,
    /// What the port can take.
    pub capabilities: Capabilities,
    /// What an earlier [`Joined`] gave, or zeros.
    pub token: Token,
    /// The port's name: 1 to [`MOST_NAME`] bytes without control characters.
    pub name: &'a str,
    /// The edges in use, at most [`MOST_EDGES`]; none without a token.
    pub edges: Edges<'a>,
}

/// Makes a port of who asked. Descriptors: the switch's page, the switch's inbox, the downlink's
/// ring, the uplink's eventfd, the downlink's eventfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// [`VERSION`] of the switch.
    pub version: u16,
    /// The port's number, 1..=255.
    pub number: u8,
    /// Tells this port from earlier ones of the number; the same as before when it was adopted.
    pub generation: u32,
    /// To be shown when the port comes back.
    pub token: Token,
}

/// Refuses. No descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'a> {
    /// Why.
    pub reason: Reason,
    /// 0 when a [`Join`] is refused, else the port to which an edge was asked for.
    pub number: u8,
    /// Why, in words, at most [`MOST_TEXT`] bytes.
    pub text: &'a str,
}

/// A message, with as many descriptors as [`Message::descriptors`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// Port to switch, first. Two descriptors.
    Join(Join<'a>),
    /// Switch to port. Five descriptors.
    Joined(Joined),
    /// Switch to port.
    Refused(Refused<'a>),
    /// Port to switch: wants to send to port `to`, by a ring. One descriptor: the ring.
    Open {
        /// The receiver's number.
        to: u8,
    },
    /// Switch to port: the edge may be used. Two descriptors: the receiver's inbox, the eventfd.
    Opened {
        /// The receiver's number.
        to: u8,
        /// The receiver's generation.
        generation: u32,
    },
    /// Switch to port: port `from` will send. Two descriptors: the ring, the eventfd.
    Edge {
        /// The sender's number.
        from: u8,
        /// The sender's generation.
        generation: u32,
    },
    /// Switch to port: a port with which it had edges is no more.
    PortGone {
        /// Its number.
        number: u8,
        /// Its generation: edges with a later port of the number stay.
        generation: u32,
    },
    /// Either way: one edge was closed at its other end, or (port to switch) at this end.
    Close {
        /// The port at its other end.
        number: u8,
        /// Which way its frames went, as the port that reads or writes this message sees it.
        direction: Direction,
    },
    /// Port to switch: leaves; it will not come back with its token.
    Bye,
    /// Manager to switch: a part of a request. The first on its socket, instead of [`Join`].
    Request {
        /// Chosen by the asker; the answer has it.
        id: u32,
        /// Whether it is the request's last part.
        last: bool,
        /// At most [`MOST_PART`] bytes of JSON.
        body: &'a [u8],
    },
    /// Switch to manager: a part of an answer.
    Answer {
        /// As in the request.
        id: u32,
        /// Whether it is the answer's last part.
        last: bool,
        /// Whether what was asked for was not done.
        failed: bool,
        /// At most [`MOST_PART`] bytes of JSON.
        body: &'a [u8],
    },
}

impl Message<'_> {
    /// How many descriptors come with it.
    pub fn descriptors(&self) -> usize {
        match self {
            Message::Join(_) | Message::Opened { .. } | Message::Edge { .. } => 2,
            Message::Joined(_) => 5,
            Message::Open { .. } => 1,
            Message::Refused(_)
            | Message::PortGone { .. }
            | Message::Close { .. }
            | Message::Bye
            | Message::Request { .. }
            | Message::Answer { .. } => 0,
        }
    }
}
