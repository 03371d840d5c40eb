//! Where interfaces are: in the caller's network namespace, or where an application says.
//!
//! Indexes mean something in one namespace only, so that they are given to work that runs there and
//! are never kept.

use netloom_netlink::Socket;

use crate::{Error, Result};

/// Kinds of links whose frames never carry IP.
const WITHOUT_IP: [&str; 5] = ["can", "vcan", "vxcan", "nlmon", "vsockmon"];

/// Finds interfaces by the names that a measurement knows them by.
pub trait Interfaces: Send + Sync + 'static {
    /// All that can be measured now.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn names(&self) -> Result<Vec<String>>;

    /// Runs `work` with an interface's index, on a thread in its network namespace. It is called on
    /// the thread that prepares and starts a session, and on others that are started there, several at a
    /// time.
    ///
    /// # Errors
    /// [`Error::NoInterface`] if it is not there now; what `work` gives.
    fn visit(&self, netif: &str, work: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()>;
}

/// The interfaces of the network namespace of the calling thread.
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
