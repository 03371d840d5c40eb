//! Published ports: what connects to a port of the host reaches a program in a node.
//!
//! One process a node ([`serve`](mod@serve)) listens on the host, enters the node's network, and connects there for each
//! connection that it takes ([`door`]), which [`carry`] carries, and each peer that sends a datagram ([`datagram`]). So no
//! address, route or packet filter of the host is touched, an ordinary user can have it, and the node needs no way out.
//! Programs that listen on the node's loopback alone are reached, too ([`inward`]).
//!
//! Not here: which ports there are, and names in the lab file.
//!
//! Invariants: after its start the process has no capability; connections of one node never reach another; the number of
//! threads does not depend on that of connections, and a full table keeps nobody out ([`seats`]).

mod carry;
mod datagram;
mod door;
mod error;
mod inward;
mod seats;
mod serve;

pub use error::{Error, Result};
pub use serve::{listen, serve};

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The name of the process.
pub const NAME: &str = "netloom-publish";

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A port of the host, and where it leads in the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Where the process listens.
    pub listen: SocketAddr,
    /// What it carries.
    pub protocol: Protocol,
    /// The port of the program in the node.
    pub to: u16,
}

/// What the process is told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The node's name, for messages.
    pub node: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// The node's addresses, for programs that listen neither on all addresses nor on its loopback.
    pub addresses: Vec<IpAddr>,
    /// The folder with which the process ends.
    pub home: PathBuf,
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        write!(f, "{}/{protocol}", self.listen)
    }
}
