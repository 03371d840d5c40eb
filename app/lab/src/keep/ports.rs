//! Published ports: a process for each node that has some, which listens on the host and connects in the node.
//!
//! Ports are tried before the process starts, so that `up` reports which one is taken.

use std::ffi::OsStr;
use std::path::PathBuf;

use netloom_model::Plan;
use netloom_model::plan::PlannedNode;
use netloom_model::published::Transport;
use netloom_publish::{Port, Protocol, Spec};

use crate::build::keeper::Context;
use crate::keep::per_node::{Kind, PerNode};
use crate::stage::attach;
use crate::stage::inits::Init;
use crate::stage::role::{self, Process, Role};
use crate::store::state::Folder;
use crate::{Error, Result};

/// The processes of a lab.
pub(crate) type Ports = PerNode<Publishing>;

/// That of a node.
pub(crate) struct Publishing;

/// What the process is told.
fn spec(folder: &Folder, node: &PlannedNode) -> Spec {
    let ports = node.ports.iter().flat_map(|port| {
        let protocol = match port.protocol {
            Transport::Tcp => Protocol::Tcp,
            Transport::Udp => Protocol::Udp,
        };
        port.places().into_iter().map(move |listen| Port { listen, protocol, to: port.to })
    });
    Spec {
        node: node.name.clone(),
        ports: ports.filter(|port| port.listen.is_ipv4() || has_ipv6()).collect(),
        addresses: node.all_addresses().map(ipnet::IpNet::addr).collect(),
        home: folder.path(),
    }
}

/// Whether the host has IPv6: its loopback of both families is asked for by default.
fn has_ipv6() -> bool {
    std::path::Path::new("/proc/sys/net/ipv6").exists()
}

/// Tries the ports that a node shall have, and that no node of the lab has now.
///
/// # Errors
/// One cannot be had.
pub(crate) fn check_new(folder: &Folder, running: &Plan, node: &PlannedNode) -> Result<()> {
    let of = |node: &PlannedNode| spec(folder, node).ports;
    let known: Vec<Port> =
        running.nodes.iter().filter(|node| !node.ports.is_empty()).flat_map(of).collect();
    let mut wanted = spec(folder, node);
    wanted.ports.retain(|port| !known.iter().any(|known| keeps_out(known, port)));
    let object = format!("node {:?}", node.name);
    netloom_publish::listen(&wanted).map(drop).map_err(Error::of(&object, "publish its ports"))
}

/// Whether a listener of the lab would refuse another port to it, so that trying that port would find only itself.
fn keeps_out(known: &Port, port: &Port) -> bool {
    let (ours, theirs) = (known.listen, port.listen);
    // A listener at `::` has IPv6 alone: the families are apart.
    let every = (ours.ip().is_unspecified() || theirs.ip().is_unspecified())
        && ours.is_ipv4() == theirs.is_ipv4();
    known.protocol == port.protocol
        && ours.port() == theirs.port()
        && (every || ours.ip() == theirs.ip())
}

impl Kind for Publishing {
    const WHO: &str = "published ports";
    const ROLE: Role = Role::Publish;

    fn has(node: &PlannedNode) -> bool {
        !node.ports.is_empty()
    }

    fn lock(folder: &Folder, node: &PlannedNode) -> PathBuf {
        folder.ports_lock(node.id)
    }

    fn locks(folder: &Folder) -> Vec<PathBuf> {
        folder.ports_locks()
    }

    fn start(context: &Context<'_>, node: &PlannedNode, _: &Init) -> Result<Option<Process>> {
        let object = format!("node {:?}", node.name);
        let Some(space) = attach::open(context.inits, node.id)? else { return Ok(None) };
        let spec = spec(context.folder, node);
        netloom_publish::listen(&spec).map_err(Error::of(&object, "publish its ports"))?;
        let text = serde_json::to_string(&spec)
            .map_err(|e| Error::of(&object, "describe its ports")(std::io::Error::from(e)))?;
        let lock = context.folder.ports_lock(node.id);
        let words = [lock.as_os_str(), OsStr::new(&text)];
        let found = || Process::holding(Role::Publish, &lock);
        role::start(Role::Publish, &words, Some(space), "publish ports", found).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// What is not tried, the kernel would refuse.
    #[test]
    fn a_port_that_the_lab_does_not_keep_out_is_tried() {
        let addresses = ["127.0.0.1", "127.0.0.2", "0.0.0.0", "[::1]", "[::]"];
        let addresses = addresses.iter().filter(|ip| has_ipv6() || !ip.starts_with('['));
        let at = |ip: &str, port: u16, protocol: Protocol| {
            let listen = format!("{ip}:{port}").parse::<SocketAddr>().unwrap();
            Port { listen, protocol, to: 80 }
        };
        let kept_out: Vec<usize> = addresses
            .clone()
            .map(|ours| {
                let listener = TcpListener::bind(format!("{ours}:0")).unwrap();
                let number = listener.local_addr().unwrap().port();
                let known = at(ours, number, Protocol::Tcp);
                let kept_out = addresses.clone().filter(|theirs| {
                    assert!(!keeps_out(&known, &at(theirs, number, Protocol::Udp)));
                    assert!(!keeps_out(&known, &at(theirs, number ^ 1, Protocol::Tcp)));
                    keeps_out(&known, &at(theirs, number, Protocol::Tcp))
                });
                kept_out
                    .inspect(|theirs| {
                        let taken = TcpListener::bind(format!("{theirs}:{number}"));
                        assert!(taken.is_err(), "{ours} and {theirs}");
                    })
                    .count()
            })
            .collect();
        // Of 127.0.0.1 and 127.0.0.2: itself and all addresses.
        assert_eq!(kept_out[..3], [2, 2, 3]);
        assert!(!has_ipv6() || kept_out[3..] == [2, 2]);
    }
}
