//! Switching decisions of an Ethernet switch: pure, with bytes and `now` as arguments.
//!
//! How a frame is classified ([`classify`]), who receives it ([`decide`], [`MacTable`]), in which form
//! ([`egress`], [`retag`]), which mirrors get a copy ([`Mirrors`]), and why it is dropped ([`Drop`]). Bytes
//! may be anything: every function is total. Nothing here moves a frame or knows a ring.
//!
//! 802.1Q with only the tag type 0x8100. A frame whose outermost type is 0x88a8 (or 0x9100) is an
//! untagged frame with a payload, as on Linux bridges and Open vSwitch in their default modes.
//! See IEEE 802.1Q-2022, clauses 6.9 (tags), 8.6 (forwarding), 8.7 (learning), 8.8 (ageing).

mod address;
mod classify;
mod drops;
mod error;
mod filter;
mod mirror;
mod retag;
mod rules;
mod table;
mod vlan;

pub use address::{Destination, Mac, decide};
pub use classify::{Class, LONGEST_FRAME, Retag, SHORTEST_FRAME, Tag, classify, egress};
pub use drops::Drop;
pub use error::{Error, Result};
pub use filter::{FILTER_BYTES, MirrorFilter, Prefix};
pub use mirror::{Direction, MOST_MIRRORS, MirrorSession, Mirrors};
pub use retag::{Edit, retag};
pub use rules::{MOST_LOCKED, MacLock, PortRules, SwitchRules, VlanMode};
pub use table::{Entry, Learned, MacTable};
pub use vlan::{Vid, VidSet};

/// A port's number: 1 to [`MOST_PORTS`]; 0 is the switch itself.
pub type PortNumber = u16;

/// The highest port number, and so the maximum number of ports.
pub const MOST_PORTS: PortNumber = 255;
