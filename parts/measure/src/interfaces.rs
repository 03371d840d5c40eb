//! Locates interfaces: in the caller's network namespace, or where an application says.
//!
//! An index is valid in one namespace only, so it is passed to work that runs there and never stored.

use netloom_netlink::Socket;

use crate::{Error, Result};

/// Kinds of links whose frames never carry IP.
const WITHOUT_IP: [&str; 5] = ["can", "vcan", "vxcan", "nlmon", "vsockmon"];

/// Finds interfaces by their names in a measurement.
pub trait Interfaces: Send + Sync + 'static {
    /// All interfaces that can be measured now.
    ///
    /// # Errors
    /// Errors of the kernel.
    fn names(&self) -> Result<Vec<String>>;

    /// Runs `work` with an interface's index, on a thread in its network namespace. Called by the thread that
    /// prepares and starts a session, and by threads started there, concurrently.
    ///
    /// # Errors
    /// [`Error::NoInterface`] if the interface does not exist now; errors of `work`.
    fn visit(&self, netif: &str, work: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()>;
}

/// The interfaces of the calling thread's network namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Interfaces for Host {
    fn names(&self) -> Result<Vec<String>> {
        let links = Socket::open_to_ask()?.links()?;
        let carries = |kind: &Option<String>| {
            kind.as_ref().is_none_or(|kind| !WITHOUT_IP.contains(&kind.as_str()))
        };
        Ok(links.into_iter().filter(|link| carries(&link.kind)).map(|link| link.name).collect())
    }

    fn visit(&self, netif: &str, work: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()> {
        match Socket::open_to_ask()?.link(netif)? {
            Some(link) => work(link.index),
            None => Err(Error::NoInterface { netif: netif.to_owned() }),
        }
    }
}
