//! Locates a measurement's interfaces: by name, in namespaces whose entries are open.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use netloom_measure::{Error, Host, Interfaces, Result};
use netloom_model::lookup::target::Space;
use netloom_sys::namespace;

use crate::Spaces;

/// Interfaces by their names in the lab.
pub(super) struct Places(BTreeMap<String, (Option<Arc<OwnedFd>>, String)>);

impl Places {
    /// Maps names to interfaces; the entries to their places must be open.
    pub(super) fn of<'a>(
        spaces: &Spaces,
        named: impl IntoIterator<Item = (String, &'a Space, &'a str)>,
    ) -> Places {
        let space = |(name, space, interface): (String, &Space, &str)| {
            (name, (spaces.init(space), interface.to_owned()))
        };
        Places(named.into_iter().map(space).collect())
    }
}

impl Interfaces for Places {
    fn names(&self) -> Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    fn visit(&self, netif: &str, work: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()> {
        let missing = || Error::NoInterface { netif: netif.to_owned() };
        let (init, interface) = self.0.get(netif).ok_or_else(missing)?;
        let visited = match init {
            None => Host.visit(interface, work),
            Some(init) => {
                namespace::run_in(init.as_fd(), "netloom-point", || Host.visit(interface, work))
            }
        };
        // Report the requested name.
        visited.map_err(|error| match error {
            Error::NoInterface { .. } => missing(),
            other => other,
        })
    }
}
