//! The network namespaces of a session: resolves targets, opens entries.
//!
//! The caller's own process does the work: a short-lived thread enters a namespace and opens what is needed
//! there; descriptors work everywhere. Namespaces are held by their inits' pidfds, which do not keep them
//! alive: a node can go down at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use netloom_model::Plan;
use netloom_model::lookup::target::{self, Space, Target};
use netloom_netlink::{LinkInfo, Socket};
use netloom_sys::{Failure, namespace, process};

use crate::{Error, Lab, Result};

/// The namespaces of a session.
pub struct Spaces {
    lab: Option<(Box<dyn Lab>, Plan)>,
    inits: BTreeMap<Space, Arc<OwnedFd>>,
    /// One of the places is the host.
    on_host: bool,
    /// The lab's user namespace, if this process has not entered it yet.
    outside: Option<Arc<OwnedFd>>,
}

/// Whether one of these targets is in a lab; the others are interfaces of the host.
pub fn needs_lab(targets: &[String]) -> bool {
    targets.iter().any(|text| target::host(text).is_none())
}

impl Spaces {
    /// Resolves targets in a lab, and opens the entries to their places; with `all`, every link of the lab.
    ///
    /// # Errors
    /// [`Error::NoLab`] if a target [needs one](needs_lab); [`Error::Lookup`]; a place that cannot be entered.
    pub fn find(
        lab: Option<Box<dyn Lab>>,
        targets: &[String],
        all: bool,
    ) -> Result<(Spaces, Target)> {
        let mut spaces = Spaces::of(lab)?;
        let mut found = resolve(spaces.plan(), targets)?;
        if let Some(plan) = spaces.plan().filter(|_| all) {
            found = target::all(plan);
        }
        let mut seen = BTreeSet::new();
        // Targets may overlap, such as a node and one of its links.
        found.points.retain(|p| seen.insert((p.space.clone(), p.interface.clone())));
        spaces.on_host = found.points.iter().any(|p| p.space == Space::Host);
        for point in &found.points {
            spaces.open(&point.space)?;
        }
        Ok((spaces, found))
    }

    /// A lab without any open entry.
    ///
    /// # Errors
    /// The lab does not tell its plan.
    pub fn of_lab(lab: Box<dyn Lab>) -> Result<Spaces> {
        Spaces::of(Some(lab))
    }

    fn of(lab: Option<Box<dyn Lab>>) -> Result<Spaces> {
        let planned = |lab: Box<dyn Lab>| {
            let plan = lab.plan().map_err(Error::Lab)?;
            Ok::<_, Error>((lab, plan))
        };
        let lab = lab.map(planned).transpose()?;
        Ok(Spaces { lab, inits: BTreeMap::new(), on_host: false, outside: None })
    }

    /// The lab's plan.
    pub fn plan(&self) -> Option<&Plan> {
        self.lab.as_ref().map(|(_, plan)| plan)
    }

    /// The lab.
    ///
    /// # Errors
    /// [`Error::NoLab`].
    pub(crate) fn lab(&self) -> Result<(&dyn Lab, &Plan)> {
        self.lab.as_ref().map(|(lab, plan)| (&**lab, plan)).ok_or(Error::NoLab)
    }

    /// Opens the entry to a place.
    ///
    /// # Errors
    /// The lab refuses, or the caller may not enter.
    pub fn open(&mut self, space: &Space) -> Result<()> {
        let Some((lab, _)) = &self.lab else { return Ok(()) };
        let entry = match space {
            Space::Host => return Ok(()),
            _ if self.inits.contains_key(space) => return Ok(()),
            Space::Node(node) => lab.entry(node),
            Space::Core => lab.core(),
        };
        let entry = entry.map_err(Error::Lab)?;
        entry.check_entry()?;
        let init = Arc::new(entry.init);
        if entry.user {
            self.outside = Some(Arc::clone(&init));
        }
        self.inits.insert(space.clone(), init);
        Ok(())
    }

    /// Enters the lab's user namespace, if it has one: once, before any other thread starts, and after
    /// everything that needs the caller's rights is open.
    ///
    /// # Errors
    /// [`Error::UserNamespace`].
    pub fn enter(&mut self) -> Result<()> {
        match self.outside.take() {
            Some(init) => namespace::enter_user(&*init).map_err(Error::UserNamespace),
            None => Ok(()),
        }
    }

    /// Whether all places were in nodes, and all those nodes have ended.
    pub fn are_gone(&self) -> bool {
        let only_nodes = !self.inits.is_empty() && !self.on_host;
        only_nodes && self.inits.values().all(|init| process::has_ended(init.as_fd()))
    }

    /// Whether a node whose door is open has ended.
    pub(crate) fn any_gone(&self) -> bool {
        self.inits.values().any(|init| process::has_ended(init.as_fd()))
    }

    /// The init whose end ends a place; `None` for the host.
    pub fn init(&self, space: &Space) -> Option<Arc<OwnedFd>> {
        self.inits.get(space).cloned()
    }
}

fn resolve(plan: Option<&Plan>, targets: &[String]) -> Result<Target> {
    let mut found = Target::default();
    for text in targets {
        let target = match (plan, target::host(text)) {
            (Some(plan), _) => target::resolve(plan, text)?,
            (None, Some(point)) => Target { points: vec![point], ..Target::default() },
            (None, None) => return Err(Error::NoLab),
        };
        found.add(target);
    }
    Ok(found)
}

/// Runs `f` in the network namespace of an init, or in the caller's.
pub(crate) fn run_in<T: Send>(
    init: Option<&OwnedFd>,
    f: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    match init {
        None => f(),
        Some(init) => namespace::run_in(init.as_fd(), "netloom-open", f),
    }
}

/// An interface in the calling thread's network namespace, called `shown` in errors.
///
/// # Errors
/// [`Error::NoInterface`], [`Error::Failed`].
pub fn interface(name: &str, shown: &str) -> Result<LinkInfo> {
    let found = Socket::open_to_ask().and_then(|mut socket| socket.link(name));
    let shown = || shown.to_owned();
    found
        .map_err(|e| Failure::new(format!("interface {:?}", shown()), "find", e))?
        .ok_or_else(|| Error::NoInterface { interface: shown() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = interface("nl-none-such", "nl-none-such").unwrap_err().to_string();
        assert_eq!(error, "interface \"nl-none-such\": there is none of this name here");
    }

    #[test]
    fn only_interfaces_of_the_host_need_no_lab() {
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert!(!needs_lab(&all(&["host:eth0", "host:lo"])));
        assert!(needs_lab(&all(&["host:eth0", "h1"])));
        let error = Spaces::find(None, &all(&["h1:eth0"]), false).err().unwrap();
        assert!(matches!(error, Error::NoLab));
        let (spaces, found) = Spaces::find(None, &all(&["host:lo", "host:lo"]), false).unwrap();
        assert_eq!(found.points.len(), 1);
        assert!(spaces.plan().is_none() && !spaces.are_gone());
    }
}
