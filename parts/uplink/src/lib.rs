//! The uplink of an ordinary user's lab, without rights on the host's network.
//!
//! A program of the distribution (`pasta` or `slirp4netns`) makes a tap in a network namespace of the lab and opens a socket
//! of the user's own for each flow that leaves by it. The process of this crate runs the program ([`serve`](mod@serve)),
//! starts it again when it ends or hangs, and ends with its lab; [`tool`] knows the programs.
//!
//! Not here: the namespace, its addresses and its NAT, which are its lab's; published ports.
//!
//! Invariants: neither program lets packets reach the host's loopback addresses, nor listens on the host.

mod error;
mod hung;
mod serve;
mod tap;
pub mod tool;

pub use error::{Error, Result};
pub use serve::serve;
pub use tap::give_room;
pub use tool::Tool;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The name of the process.
pub const NAME: &str = "netloom-uplink";

/// The tap's name in its namespace.
pub const INTERFACE: &str = "uplink";

/// The tap's network, 24 bits: addresses for protocols (RFC 6890 section 2.2.2), which no machine has as its own.
pub const NETWORK: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 0);

/// The tap's own address.
pub const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 100);

/// Where the tap's packets go.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);

/// The same in IPv6, with 64 bits of network: the tap's own, of the private addresses of RFC 4193.
pub const OWN6: Ipv6Addr = Ipv6Addr::new(0xfd6e, 0x6574, 0x6c6f, 0x6f6d, 0, 0, 0, 0x64);

/// Where the tap's packets of IPv6 go.
pub const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfd6e, 0x6574, 0x6c6f, 0x6f6d, 0, 0, 0, 2);

/// Questions to this address are asked of the host's name server.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 3);

/// What the process is told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The lab's name, for messages.
    pub lab: String,
    /// The program that it runs.
    pub tool: Tool,
    /// The file at which the namespace is mounted for the program.
    pub place: PathBuf,
    /// The file for what the program prints.
    pub log: PathBuf,
    /// The folder with which the process ends.
    pub home: PathBuf,
}
