//! Moves interfaces between namespaces with their configuration: to another node, and home.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_model::Plan;
use netloom_model::plan::form::Forms;
use netloom_model::plan::{LinkSlot, NodeId};
use netloom_netlink::{Batch, Carried, Change, LinkInfo, MoveLink, Socket};
use netloom_sys::namespace;

use crate::build::configure;
use crate::build::configure::Scope;
use crate::stage::absent::without_absent;
use crate::stage::inits::Inits;
use crate::stage::spaces::{Spaces, inside, on_a_thread, run};
use crate::store::moved::{Home, Moved};
use crate::store::state::State;
use crate::{Error, Result};

/// The link that an interface is an end of in the plan.
pub(crate) fn planned_link(state: &State, node: NodeId, index: u32) -> Option<LinkSlot> {
    let home = state.plan.nodes.iter().find(|n| n.id == node)?;
    home.interfaces.iter().find(|i| i.index == index).map(|i| i.link)
}

/// The interface of this name in a namespace.
pub(crate) fn find(space: BorrowedFd<'_>, object: &str, name: &str) -> Result<Option<LinkInfo>> {
    inside(space, object, |socket| socket.link(name).map_err(Error::of(object, "look up")))
}

/// Moves an interface; returns its index in the new namespace.
pub(crate) fn move_one(
    here: BorrowedFd<'_>,
    there: BorrowedFd<'_>,
    object: &str,
    found: &LinkInfo,
    name: &str,
    index: Option<u32>,
) -> Result<u32> {
    inside(here, object, |socket| {
        let mut batch = Batch::new();
        let name = (name != found.name).then_some(name);
        batch.push(object, &MoveLink { link: found.index.into(), netns: there, name, index });
        run(socket, &mut batch, object, "move")
    })?;
    // Without a wish for an index the kernel gives another one if this is taken there.
    let arrived = find(there, object, name)?;
    arrived.map(|l| l.index).ok_or_else(|| Error::Invalid {
        object: object.into(),
        reason: "it vanished on the way".into(),
    })
}

/// The configuration that a move would take from an interface.
pub(crate) fn pack(space: BorrowedFd<'_>, object: &str, found: &LinkInfo) -> Result<Carried> {
    inside(space, object, |socket| {
        socket.carried(found.index).map_err(Error::of(object, "read what it carries"))
    })
}

/// Raises an interface if it was up, and restores its configuration.
pub(crate) fn unpack(
    space: BorrowedFd<'_>,
    object: &str,
    index: u32,
    luggage: &Carried,
    up: bool,
) -> Result<()> {
    on_a_thread(|| {
        namespace::enter_network(space).map_err(Error::of(object, "enter its new place"))?;
        let mut socket = Socket::open().map_err(Error::of(object, "open a netlink socket"))?;
        let mut batch = Batch::new();
        if up {
            batch.push(object, &Change::of(index).up());
        }
        // A route needs its interface up.
        luggage.push(&mut batch, object, index);
        if batch.is_empty() { Ok(()) } else { run(&mut socket, &mut batch, object, "settle") }
    })
}

/// A moved interface where it is now; one that was renamed there is found by its hardware address.
pub(crate) fn found_moved(here: &OwnedFd, object: &str, m: &Moved) -> Result<Option<LinkInfo>> {
    if let Some(found) = find(here.as_fd(), object, &m.name)? {
        return Ok(Some(found));
    }
    inside(here.as_fd(), object, |socket| {
        let links = socket.links().map_err(Error::of(object, "look for it"))?;
        // An address of zeros would fit any interface without one.
        Ok(links.into_iter().find(|l| m.mac != [0; 6] && l.mac == Some(m.mac)))
    })
}

/// Returns these interfaces home, if they and their homes exist; continues past failures and returns
/// them. `kept` are namespaces of nodes whose init may have ended.
pub(crate) fn return_all(
    state: &State,
    inits: &Inits,
    kept: &[(NodeId, OwnedFd)],
    moved: &[Moved],
) -> Vec<(Moved, Error)> {
    let open = |node: NodeId| -> Option<OwnedFd> {
        // First those that were kept: the init that led to them may have ended.
        let held = kept.iter().find(|(id, _)| *id == node).and_then(|(_, fd)| fd.try_clone().ok());
        held.or_else(|| inits.get(&node).and_then(|i| namespace::network_of(i.pid).ok()))
    };
    let mut failures = Vec::new();
    let mut home = Vec::new();
    for m in moved {
        match return_one(&open, m) {
            Ok(true) => home.push(m),
            Ok(false) => {}
            Err(e) => failures.push((m.clone(), e)),
        }
    }
    // What returned to the host has its configuration already.
    home.retain(|m| matches!(m.home, Home::Node { .. }));
    if home.is_empty() {
        return failures;
    }
    // Routes are set only by interfaces that are at home by now.
    let mut now = state.clone();
    now.moved.retain(|m| !home.contains(&m));
    let plan = without_absent(&now);
    for m in home {
        let Home::Node { node, index } = m.home else { continue };
        let Some(space) = open(node) else { continue };
        failures.extend(settle(&plan, node, index, space).err().map(|e| (m.clone(), e)));
    }
    failures
}

/// Returns one interface home; `true` if it is there now. If its home no longer exists, the interface is removed.
fn return_one(open: &dyn Fn(NodeId) -> Option<OwnedFd>, m: &Moved) -> Result<bool> {
    let object = format!("interface {:?}", m.old_name);
    let here = open(m.node);
    let Home::Node { node, index } = m.home else {
        return_to_host(&object, here.as_ref(), m)?;
        return Ok(true);
    };
    let Some(there) = open(node) else { return Ok(false) };
    let found = here.as_ref().map(|here| found_moved(here, &object, m)).transpose()?.flatten();
    let (Some(here), Some(found)) = (here, found) else {
        let reason = "it is there no longer".to_owned();
        return Err(Error::Invalid { object: object.into(), reason });
    };
    move_one(here.as_fd(), there.as_fd(), &object, &found, &m.old_name, Some(index))?;
    Ok(true)
}

/// Configures an interface that came home as planned. Its routes must use existing interfaces only.
pub(crate) fn settle(plan: &Plan, node: NodeId, index: u32, space: OwnedFd) -> Result<()> {
    let Some(slot) = plan.slot_of(node) else { return Ok(()) };
    let Some(interface) = plan.nodes[slot].interfaces.iter().find(|i| i.index == index) else {
        return Ok(());
    };
    let core = space.try_clone().map_err(Error::at("network namespace", "copy"))?;
    // No form is needed: the interface is there already.
    let forms = Forms::default();
    let spaces = Spaces::of(BTreeMap::from([(slot, space)]), core, &forms);
    configure::configure(plan, &spaces, &[(slot, Scope::Links)], &[interface.link])
}

fn return_to_host(object: &str, here: Option<&OwnedFd>, m: &Moved) -> Result<()> {
    let host =
        namespace::current_network().map_err(Error::of("host", "open its network namespace"))?;
    let found = match here {
        Some(here) => found_moved(here, object, m)?,
        None => None,
    };
    if let (Some(here), Some(found)) = (here, found) {
        let index = move_one(here.as_fd(), host.as_fd(), object, &found, &m.old_name, None)?;
        return unpack(host.as_fd(), object, index, &Carried::default(), m.was_up);
    }
    // Its node was killed: the kernel has moved it to the host, maybe under another name.
    inside(host.as_fd(), object, |socket| {
        let links = socket.links().map_err(Error::of(object, "look for it on the host"))?;
        // By its address: the kernel renames what clashes with a name of the host's.
        let stranded = links.iter().find(|l| l.mac == Some(m.mac) && l.name != m.old_name);
        let free = !links.iter().any(|l| l.name == m.old_name);
        let Some(stranded) = stranded.filter(|_| free && m.mac != [0; 6]) else { return Ok(()) };
        let mut batch = Batch::new();
        // An interface that is up cannot be renamed on older kernels.
        batch.push(object, &Change::of(stranded.index).down());
        batch.push(object, &Change::rename(stranded.index, &m.old_name));
        if m.was_up {
            batch.push(object, &Change::of(stranded.index).up());
        }
        run(socket, &mut batch, object, "give it back its name")
    })
}
