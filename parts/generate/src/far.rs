//! The peer of a veth pair, which needs an XDP program to accept frames generated in the kernel.
//!
//! A peer in the same namespace is found; for one elsewhere, the caller names the namespace. The attached
//! program is removed with the generator.

use std::os::fd::{AsFd, OwnedFd};

use netloom_ebpf::generate::Pass;
use netloom_sys::{Failure, namespace};

use crate::Result;

/// Location of the peer.
#[derive(Debug)]
pub struct FarEnd {
    /// Its network namespace.
    pub netns: OwnedFd,
    /// Its index there.
    pub index: u32,
}

/// Result of reaching the peer.
#[derive(Debug)]
pub(crate) enum Reached {
    /// It has a program, this crate's or another.
    Ready(Option<Pass>),
    /// There is no peer, as with a card.
    None,
    /// It is in a namespace that the caller did not name.
    Elsewhere,
}

/// Ensures that the peer of an interface accepts frames generated in the kernel.
pub(crate) fn reach(index: u32, far: Option<&FarEnd>) -> Result<Reached> {
    if let Some(far) = far {
        return there(far).map(Reached::Ready);
    }
    let mut socket = netloom_netlink::Socket::open_to_ask()?;
    let Some(link) = socket.link(index)? else {
        let gone = std::io::Error::from(rustix::io::Errno::NODEV);
        return Err(Failure::new(format!("interface {index}"), "look at", gone).into());
    };
    match (link.peer, link.peer_netns) {
        (None, _) => Ok(Reached::None),
        // The kernel names a peer's namespace (IFLA_LINK_NETNSID) only if it is another one.
        (Some(_), Some(_)) => Ok(Reached::Elsewhere),
        (Some(peer), None) => Ok(Reached::Ready(Pass::attach(peer)?)),
    }
}

/// Attaches on a short-lived thread that enters the namespace.
fn there(far: &FarEnd) -> Result<Option<Pass>> {
    let work = || {
        namespace::enter_network(far.netns.as_fd())
            .map_err(Failure::of("namespace of the other end", "enter"))?;
        Ok(Pass::attach(far.index)?)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netloom-far".to_owned());
        let started = thread.spawn_scoped(scope, work);
        let started = started.map_err(|e| Failure::new("thread", "start", e))?;
        started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
