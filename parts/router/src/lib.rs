//! Follows what a router's kernel forwards by, and has an OpenFlow switch do the same beside the router.
//!
//! The process of this crate is in the router's network namespace. It hears of routes and neighbours by netlink
//! ([`fib`] keeps them), and is a client of the switch that has the router's links ([`rules`] says in OpenFlow what the
//! kernel would do, `netloom_ofconn::client` tells it). Packets that only pass never reach the router; all others do, and with them
//! every packet of which OpenFlow cannot say what the kernel does: without a known neighbour, back out where it came
//! from, with options, or to be answered by ICMP.
//!
//! Entries stay in the switch when this process, the router, or its daemons end. The next process confirms them;
//! what nobody confirms within the router's grace goes ([`mirror`]). For a daemon of OSPF that was killed this process
//! announces the restart to neighbours (`announce`).
//!
//! Not here: the switch itself, and routing protocols.

mod announce;
pub mod daemons;
mod error;
pub mod fib;
pub mod grace;
mod mirror;
pub mod rules;
mod serve;

pub use announce::Ospf;
pub use error::{Error, Result};
pub use serve::{Followed, STATE, serve};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The name of the process.
pub const NAME: &str = "netloom-router";

/// What the process is told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The router's name, for messages.
    pub name: String,
    /// The socket at which the switch speaks OpenFlow.
    pub openflow: PathBuf,
    /// The router's interfaces.
    pub interfaces: Vec<Interface>,
    /// Seconds that entries stay which nobody confirms.
    pub grace: u32,
    /// The router's root directory, through which its daemons' sockets are found; none if it has none.
    pub root: Option<PathBuf>,
    /// The announcement for a daemon of OSPF that is killed and comes back; none: nothing.
    pub ospf: Option<Ospf>,
    /// The folder with which the process ends.
    pub home: PathBuf,
}

/// An interface of the router, and its ports of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its index in the router.
    pub index: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its MTU.
    pub mtu: u32,
    /// The port where its link is.
    pub outside: u32,
    /// The port where the router is.
    pub inside: u32,
}
