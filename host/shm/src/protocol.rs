//! The protocol between a switch and its ports: messages over a SOCK_SEQPACKET socket.
//!
//! Each message kind has a fixed little-endian layout and a fixed number of descriptors. Decoding
//! is total and borrows from the received bytes: no size stated by the peer causes an allocation;
//! unknown kinds, set reserved bytes and wrong lengths are errors; and each message has exactly one
//! encoding. docs/abi/switch-join.md has the bytes and the order of messages.

mod channel;
mod codec;
mod manage;
#[cfg(test)]
mod tests;

pub use crate::reason::Reason;
pub use channel::{Channel, Incoming, Listener, Peer, Posted};
pub use codec::EdgeIter;
pub(crate) use codec::check_name;
pub use manage::{Answer, Collector, LATE, request, split};

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
/// Most edges that a returning port may name: to and from each other port.
pub const MOST_EDGES: usize = 2 * (MOST_PORTS as usize);

/// Set in a slot's origin: the frame is a copy for a mirror port.
pub const MIRRORED: u16 = 0x8000;

/// A port's token, which proves its identity after the switch's restart.
pub type Token = [u8; 16];

/// What a port accepts; the rest it finishes itself on receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Super-frames, with their segmentation data.
    pub super_frames: bool,
    /// Frames with an unfinished checksum.
    pub checksums: bool,
}

/// Direction of an edge's frames, as seen by the port that sends or receives the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this port.
    Out,
    /// To this port.
    In,
}

impl Direction {
    /// The direction as the other end sees it.
    #[must_use]
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Out => Direction::In,
            Direction::In => Direction::Out,
        }
    }
}

/// An edge in use, named by a port that returns to a restarted switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeName {
    /// The port at its other end.
    pub number: u8,
    /// Direction of its frames.
    pub direction: Direction,
    /// The generation of the port at its other end.
    pub generation: u32,
}

/// The edges of a [`Join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges<'a> {
    /// Its sender's own list.
    Given(&'a [EdgeName]),
    /// As received: checked, whole entries.
    Read(&'a [u8]),
}

/// Asks to become a port. Descriptors: the port's inbox, its uplink's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join<'a> {
    /// [`VERSION`] of the port; decoded whatever its value, so that the switch can report it.
    pub version: u16,
    /// The number wanted, 0 for any.
    pub number: u8,
    /// What the port accepts.
    pub capabilities: Capabilities,
    /// The token of an earlier [`Joined`], or zeros.
    pub token: Token,
    /// The port's name: 1 to [`MOST_NAME`] bytes without control characters.
    pub name: &'a str,
    /// The edges in use, at most [`MOST_EDGES`]; none without a token.
    pub edges: Edges<'a>,
}

/// Admits a port. Descriptors: the switch's page, the switch's inbox, the downlink's ring, the
/// uplink's eventfd, the downlink's eventfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// [`VERSION`] of the switch.
    pub version: u16,
    /// The port's number, 1..=255.
    pub number: u8,
    /// Distinguishes this port from earlier ones with the number; unchanged for a returning port.
    pub generation: u32,
    /// To present when the port returns.
    pub token: Token,
}

/// Refuses. No descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'a> {
    /// The reason.
    pub reason: Reason,
    /// 0 if a [`Join`] is refused, else the port to which an edge was requested.
    pub number: u8,
    /// The reason in words, at most [`MOST_TEXT`] bytes.
    pub text: &'a str,
}

/// A message, with the number of descriptors that [`Message::descriptors`] states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// Port to switch, first message. Two descriptors.
    Join(Join<'a>),
    /// Switch to port. Five descriptors.
    Joined(Joined),
    /// Switch to port.
    Refused(Refused<'a>),
    /// Port to switch: requests an edge to port `to`. One descriptor: the ring.
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
    /// Switch to port: a port with which it had edges is gone.
    PortGone {
        /// Its number.
        number: u8,
        /// Its generation: edges with a later port of that number stay.
        generation: u32,
    },
    /// Either way: one edge was closed at its other end, or (port to switch) at this end.
    Close {
        /// The port at its other end.
        number: u8,
        /// Direction of its frames, as seen by the port that receives or sends this message.
        direction: Direction,
    },
    /// Switch to port: where a station is to which the port has sent frames through the switch.
    Station {
        /// The number of its port.
        number: u8,
        /// Its VLAN; 0 if VLANs are not separated.
        vid: u16,
        /// Its address.
        mac: [u8; 6],
    },
    /// Port to switch: leaves; it will not return with its token.
    Bye,
    /// Port to switch: a station that the port knew is at another port now. Only from ports among which the switch has the
    /// kernel forward ([`crate::JoinOptions::tells_moves`]).
    Moved,
    /// Manager to switch: a part of a request. The first on its socket, instead of [`Join`].
    Request {
        /// Chosen by the manager; the answer repeats it.
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
        /// Whether the request failed.
        failed: bool,
        /// At most [`MOST_PART`] bytes of JSON.
        body: &'a [u8],
    },
}

impl Message<'_> {
    /// Number of descriptors that come with it.
    pub fn descriptors(&self) -> usize {
        match self {
            Message::Join(_) | Message::Opened { .. } | Message::Edge { .. } => 2,
            Message::Joined(_) => 5,
            Message::Open { .. } => 1,
            Message::Refused(_)
            | Message::PortGone { .. }
            | Message::Close { .. }
            | Message::Station { .. }
            | Message::Bye
            | Message::Moved
            | Message::Request { .. }
            | Message::Answer { .. } => 0,
        }
    }
}
