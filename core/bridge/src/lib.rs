//! Switching decisions of an Ethernet switch: pure, with bytes and `now` as arguments.
//!
//! How a frame is classified ([`classify`]), who receives it ([`decide`], [`MacTable`]), in which form
//! ([`egress`], [`retag`]), which mirrors get a copy ([`Mirrors`]), and why it is dropped ([`Drop`]). Bytes
//! may be anything: every function is total. Nothing here moves a frame or knows a ring.
//!
//! 802.1Q and tags within tags (QinQ). A tag is one of any of the four types in use ([`Tpid`]), on every port: if switches
//! took the same bytes for a tag here and for payload there, frames could come into VLANs that their sender is not in.
//! See IEEE 802.1Q-2022, clauses 6.9 (tags), 8.6 (forwarding), 8.7 (learning), 8.8 (ageing), 15 (802.1ad).

mod address;
mod classify;
mod direct;
mod drops;
mod error;
mod filter;
mod mirror;
mod retag;
mod rules;
mod table;
mod tpid;
mod vlan;

pub use address::{Destination, Mac, decide};
pub use classify::{Class, LONGEST_FRAME, Retag, SHORTEST_FRAME, Tag, classify, egress};
pub use direct::{Direct, direct};
pub use drops::Drop;
pub use error::{Error, Result};
pub use filter::{FILTER_BYTES, MirrorFilter, Prefix};
pub use mirror::{Direction, MOST_MIRRORS, MirrorSession, Mirrors};
pub use retag::{Edit, retag};
pub use rules::{MOST_LOCKED, MacLock, PortRules, SwitchRules, VlanMode};
pub use table::{Entry, Learned, MacTable};
pub use tpid::Tpid;
pub use vlan::{Vid, VidSet};

/// A port's number: 1 to [`MOST_PORTS`]; 0 is the switch itself.
pub type PortNumber = u16;

/// The highest port number, and so the maximum number of ports.
pub const MOST_PORTS: PortNumber = 255;
