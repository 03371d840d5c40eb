//! Where interfaces are: in the caller's network namespace, or where an application says.

use crate::{Error, Result};

/// Finds interfaces by the names that a measurement knows them by.
pub trait Interfaces: Send + Sync + 'static {
    /// All that can be measured now.
    ///
    /// # Errors
    /// What the kernel refuses.
    fn names(&self) -> Result<Vec<String>>;

    /// Runs `work` with an interface's index, on a thread in its network namespace.
    ///
    /// # Errors
    /// [`Error::NoInterface`] if it is not there now; what `work` gives.
    fn visit(&self, netif: &str, work: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()>;
}

/// The interfaces of the network namespace of the calling threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Interfaces for Host {
    fn names(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn visit(&self, netif: &str, _work: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()> {
        Err(Error::NoInterface { netif: netif.to_owned() })
    }
}
