//! Interfaces moved from node to node, and back to where they belong.
//!
//! An interface belongs to the node the plan gave it to, or to the host. Where it is instead is in the
//! lab's state before it is moved, so that it finds home when its node ends, by command, by a kill, or
//! when the lab is taken down by another process. A card that was in a killed node is put into the
//! host by the kernel, maybe under another name: it is found there by its hardware address.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_model::Plan;
use netloom_netlink::{Batch, Carried, Change, LinkInfo, MoveLink, Socket};
use netloom_sys::namespace;

use crate::making::Inits;
use crate::network::{self, Scope, Spaces, inside, on_a_thread, run};
use crate::running::{Running, Work, slot};
use crate::state::{Home, Moved, State};
use crate::view::{Changed, MoveInterface};
use crate::{Error, Result};

/// Where an interface is or goes.
enum Place {
    Host,
    /// A node, by slot.
    Node(usize),
}

impl Running {
    /// See [`Service::move_interface`](crate::Service::move_interface).
    pub(crate) fn move_to(&self, request: &MoveInterface) -> Result<Changed> {
        let mut work = self.work();
        let state = self.state();
        let object = format!("interface {:?}", request.interface);
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        let Some((from, old_name)) = request.interface.split_once(':') else {
            return Err(invalid("write NODE:IFACE or host:IFACE".into()));
        };
        let (from, to) = (place(&state.plan, from)?, place(&state.plan, &request.to)?);
        let host = matches!(from, Place::Host) || matches!(to, Place::Host);
        if host && state.user {
            return Err(crate::door::unsupported().into());
        }
        let spaces = [self.space(&work, &from)?, self.space(&work, &to)?];
        let [here, there] = [spaces[0].as_fd(), spaces[1].as_fd()];
        let found = find(here, &object, old_name)?
            .ok_or_else(|| invalid("there is no such interface".into()))?;
        check_movable(&from, &found).map_err(&invalid)?;
        if same(&from, &to) {
            return Err(invalid("it is there already".into()));
        }
        let home = homecoming(&state, &from, &to, &found);
        let name = match (&request.name, &home) {
            (Some(name), _) => free_or_refused(there, &object, name)?,
            (None, Some(moved)) => next_free(there, &object, &moved.old_name)?,
            (None, None) => next_free(there, &object, old_name)?,
        };
        // Home under its own name it gets what the plan says, unless it brings its own along.
        let planned = home.filter(|m| m.old_name == name).and_then(|m| match m.home {
            Home::Node { node, index } => Some((node, index)),
            Home::Host => None,
        });
        let luggage = if request.carry { pack(here, &object, &found)? } else { Carried::default() };
        let link = self.link_of(&state, &from, &found);
        if let Some(link) = link {
            self.take_wire_out(&work, link)?;
        }
        let owner = owner(&state, &from, &found);
        if let Some(owner) = owner {
            self.lift_guards(&work, owner)?;
        }
        let moved = self.note_move(&mut work, &from, &to, &found, &name)?;
        let old_index = planned.map(|(_, index)| index);
        let index = move_one(here, there, &object, &found, &name, old_index)?;
        if let Some(mut moved) = moved {
            let holder = moved.node;
            moved.index = index;
            self.change(&mut work, |state| {
                state.moved.retain(|m| (m.node, &m.name) != (moved.node, &moved.name));
                state.moved.push(moved);
                Ok(())
            })?;
            self.hold(&work.inits, holder)?;
        }
        unpack(there, &object, index, &luggage, found.up)?;
        if let Some((node, index)) = planned.filter(|_| !request.carry) {
            let space = spaces[1].try_clone().map_err(Error::state("network namespace", "copy"))?;
            settle(&state.plan, node, index, space)?;
        }
        if let Some(link) = link {
            self.put_wire_in(&work, link)?;
            self.cut_again(&work.inits, &[link])?;
        }
        if let Some(owner) = owner {
            self.raise_guards(&work, owner)?;
        }
        self.let_go(&self.state());
        self.settle_names();
        let left = luggage.left.iter();
        let notes = left.map(|to| format!("the route to {to} leads over others too: not carried"));
        Ok(Changed { name, notes: notes.collect() })
    }

    /// Writes down where the interface will be. `None` when it comes home.
    fn note_move(
        &self,
        work: &mut Work,
        from: &Place,
        to: &Place,
        found: &LinkInfo,
        name: &str,
    ) -> Result<Option<Moved>> {
        self.change(work, |state| {
            let id = |slot: &usize| state.plan.nodes[*slot].id;
            let known = match from {
                Place::Node(slot) => {
                    state.moved.iter().position(|m| m.node == id(slot) && m.name == found.name)
                }
                Place::Host => None,
            };
            let (home, old_name) = match (known.map(|at| state.moved.remove(at)), from) {
                (Some(moved), _) => (moved.home, moved.old_name),
                (None, Place::Host) => (Home::Host, found.name.clone()),
                (None, Place::Node(slot)) => {
                    (Home::Node { node: id(slot), index: found.index }, found.name.clone())
                }
            };
            let at_home = match (home, to) {
                (Home::Host, Place::Host) => true,
                (Home::Node { node, .. }, Place::Node(slot)) => node == id(slot),
                _ => false,
            };
            let Place::Node(slot) = to else { return Ok(None) };
            if at_home {
                return Ok(None);
            }
            let moved = Moved {
                home,
                old_name,
                node: id(slot),
                name: name.to_owned(),
                index: found.index,
                mac: found.mac.unwrap_or_default(),
                was_up: found.up,
            };
            state.moved.push(moved.clone());
            Ok(Some(moved))
        })
    }

    /// The link that an interface of a node is an end of, by place in the plan.
    fn link_of(&self, state: &State, from: &Place, found: &LinkInfo) -> Option<usize> {
        let (node, index) = origin(state, from, found)?;
        planned_link(state, node, index)
    }

    fn space(&self, work: &Work, place: &Place) -> Result<OwnedFd> {
        match place {
            Place::Host => namespace::current_network()
                .map_err(Error::system("host", "open its network namespace")),
            Place::Node(slot) => {
                let state = self.state();
                let node = &state.plan.nodes[*slot];
                let init = work.inits.get(&node.id).filter(|i| i.lives());
                init.ok_or_else(|| Error::DeadNode(node.name.clone()))?.network(&node.name)
            }
        }
    }

    /// Brings home every interface, as far as that goes: the lab is about to be taken down.
    pub(crate) fn return_everything(&self, work: &mut Work) {
        let state = self.state();
        let hosts: Vec<Moved> =
            state.moved.iter().filter(|m| m.home == Home::Host).cloned().collect();
        for failure in return_all(&state, &work.inits, &self.kept_spaces(), &hosts) {
            netloom_sys::journal::line(format_args!("netloom: {}", crate::describe(&failure)));
        }
    }

    /// Brings home every interface that is in one of these nodes, or belongs to one of them.
    pub(crate) fn bring_home(&self, work: &mut Work, nodes: &[usize]) -> Result<()> {
        let state = self.state();
        let touched = |m: &&Moved| {
            let home = matches!(m.home, Home::Node { node, .. } if nodes.contains(&node));
            home || nodes.contains(&m.node)
        };
        let moved: Vec<Moved> = state.moved.iter().filter(touched).cloned().collect();
        if moved.is_empty() {
            return Ok(());
        }
        // An interface whose home stays gets back what stood there.
        let homes = moved.iter().filter_map(|m| match m.home {
            Home::Node { node, index } if !nodes.contains(&node) => Some((node, index)),
            _ => None,
        });
        let homes: Vec<(usize, u32)> = homes.collect();
        let links: Vec<usize> =
            homes.iter().filter_map(|(node, index)| planned_link(&state, *node, *index)).collect();
        for link in &links {
            // Where its holder was killed there is nobody to take it from.
            let _ = self.take_wire_out(work, *link);
        }
        for (node, _) in &homes {
            self.lift_guards(work, *node)?;
        }
        let mut failures = return_all(&state, &work.inits, &self.kept_spaces(), &moved);
        self.change(work, |state| {
            state.moved.retain(|m| !moved.contains(m));
            Ok(())
        })?;
        for link in &links {
            failures.extend(self.put_wire_in(work, *link).err());
            failures.extend(self.cut_again(&work.inits, &[*link]).err());
        }
        for (node, _) in &homes {
            failures.extend(self.raise_guards(work, *node).err());
        }
        self.let_go(&self.state());
        match failures.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(first),
        }
    }
}

/// Where an interface of a node belongs: the node's id, and its index there; `None`: to the host.
fn origin(state: &State, from: &Place, found: &LinkInfo) -> Option<(usize, u32)> {
    let Place::Node(slot) = from else { return None };
    let id = state.plan.nodes[*slot].id;
    let guest = state.moved.iter().find(|m| m.node == id && m.name == found.name);
    match guest.map(|m| m.home) {
        Some(Home::Host) => None,
        Some(Home::Node { node, index }) => Some((node, index)),
        None => Some((id, found.index)),
    }
}

/// The node it belongs to.
fn owner(state: &State, from: &Place, found: &LinkInfo) -> Option<usize> {
    origin(state, from, found).map(|(node, _)| node)
}

/// The link that an interface is an end of by the plan: its place there.
fn planned_link(state: &State, node: usize, index: u32) -> Option<usize> {
    let home = state.plan.nodes.iter().find(|n| n.id == node)?;
    home.interfaces.iter().find(|i| i.index == index).map(|i| i.link)
}

/// Brings these interfaces home as far as they and their homes are there; goes on past failures.
/// `kept` are namespaces of nodes whose init may have ended.
pub(crate) fn return_all(
    state: &State,
    inits: &Inits,
    kept: &[(usize, OwnedFd)],
    moved: &[Moved],
) -> Vec<Error> {
    let open = |node: usize| -> Option<OwnedFd> {
        let held = kept.iter().find(|(id, _)| *id == node).and_then(|(_, fd)| fd.try_clone().ok());
        held.or_else(|| inits.get(&node).and_then(|i| namespace::network_of(i.pid).ok()))
    };
    let one = |m: &Moved| -> Result<()> {
        let object = format!("interface {:?}", m.old_name);
        let here = open(m.node);
        match m.home {
            Home::Host => return_to_host(&object, here.as_ref(), m),
            Home::Node { node, index } => {
                // A home that is gone takes the interface with it, wherever it is.
                let (Some(here), Some(there)) = (here, open(node)) else { return Ok(()) };
                let Some(found) = find(here.as_fd(), &object, &m.name)? else { return Ok(()) };
                move_one(here.as_fd(), there.as_fd(), &object, &found, &m.old_name, Some(index))?;
                settle(&state.plan, node, index, there)
            }
        }
    };
    moved.iter().filter_map(|m| one(m).err()).collect()
}

/// Gives an interface that came home what the plan gave it.
fn settle(plan: &Plan, node: usize, index: u32, space: OwnedFd) -> Result<()> {
    let Some(slot) = plan.slot_of(node) else { return Ok(()) };
    let Some(interface) = plan.nodes[slot].interfaces.iter().find(|i| i.index == index) else {
        return Ok(());
    };
    let core = space.try_clone().map_err(Error::state("network namespace", "copy"))?;
    let mut nodes: Vec<Option<OwnedFd>> = plan.nodes.iter().map(|_| None).collect();
    nodes[slot] = Some(space);
    let spaces = Spaces { nodes, core, wired: BTreeSet::new(), tapped: BTreeSet::new() };
    network::configure(plan, &spaces, &[(slot, Scope::Links)], &[interface.link])
}

fn return_to_host(object: &str, here: Option<&OwnedFd>, m: &Moved) -> Result<()> {
    let host = namespace::current_network()
        .map_err(Error::system("host", "open its network namespace"))?;
    let found = match here {
        Some(here) => find(here.as_fd(), object, &m.name)?,
        None => None,
    };
    if let (Some(here), Some(found)) = (here, found) {
        let index = move_one(here.as_fd(), host.as_fd(), object, &found, &m.old_name, None)?;
        return unpack(host.as_fd(), object, index, &Carried::default(), m.was_up);
    }
    // Its node was killed: the kernel has put it into the host, maybe under another name.
    inside(host.as_fd(), object, |socket| {
        let links = socket.links().map_err(Error::network(object, "look for it on the host"))?;
        let stranded = links.iter().find(|l| l.mac == Some(m.mac) && l.name != m.old_name);
        let free = !links.iter().any(|l| l.name == m.old_name);
        let Some(stranded) = stranded.filter(|_| free && m.mac != [0; 6]) else { return Ok(()) };
        let mut batch = Batch::new();
        batch.push(object, &Change::of(stranded.index).down());
        batch.push(object, &Change::rename(stranded.index, &m.old_name));
        if m.was_up {
            batch.push(object, &Change::of(stranded.index).up());
        }
        run(socket, &mut batch, object, "give it back its name")
    })
}

fn place(plan: &Plan, name: &str) -> Result<Place> {
    if name == "host" { Ok(Place::Host) } else { slot(plan, name).map(Place::Node) }
}

fn same(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Host, Place::Host) => true,
        (Place::Node(one), Place::Node(other)) => one == other,
        _ => false,
    }
}

/// What is known of an interface that is moved to where it belongs.
fn homecoming(state: &State, from: &Place, to: &Place, found: &LinkInfo) -> Option<Moved> {
    let Place::Node(slot) = from else { return None };
    let holder = state.plan.nodes[*slot].id;
    let moved = state.moved.iter().find(|m| m.node == holder && m.name == found.name)?;
    let home = match (moved.home, to) {
        (Home::Host, Place::Host) => true,
        (Home::Node { node, .. }, Place::Node(slot)) => node == state.plan.nodes[*slot].id,
        _ => false,
    };
    home.then(|| moved.clone())
}

/// The interface of this name in a namespace.
fn find(space: BorrowedFd<'_>, object: &str, name: &str) -> Result<Option<LinkInfo>> {
    inside(space, object, |socket| socket.link(name).map_err(Error::network(object, "look up")))
}

fn taken(space: BorrowedFd<'_>, object: &str) -> Result<Vec<String>> {
    inside(space, object, |socket| {
        let links = socket.links().map_err(Error::network(object, "list interfaces"))?;
        Ok(links.into_iter().map(|l| l.name).collect())
    })
}

fn free_or_refused(space: BorrowedFd<'_>, object: &str, name: &str) -> Result<String> {
    let invalid = |reason| Error::Invalid { object: object.to_owned(), reason };
    if let Some(problem) = netloom_model::interface_name_problem(name) {
        return Err(invalid(problem));
    }
    if taken(space, object)?.iter().any(|t| t == name) {
        return Err(invalid(format!("there is a {name:?} already where it is to go")));
    }
    Ok(name.to_owned())
}

/// The name itself where it is free, else the next free one of its kind: `eth0` -> `eth1`.
fn next_free(space: BorrowedFd<'_>, object: &str, name: &str) -> Result<String> {
    let taken = taken(space, object)?;
    if !taken.iter().any(|t| t == name) {
        return Ok(name.to_owned());
    }
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let free = (0..)
        .map(|n: u32| format!("{}{n}", &kind[..kind.len().min(10)]))
        .find(|candidate| !taken.contains(candidate));
    Ok(free.unwrap_or_else(|| name.to_owned()))
}

/// Moves it, and gives its index there.
fn move_one(
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
    let arrived = find(there, object, name)?;
    arrived.map(|l| l.index).ok_or_else(|| Error::Invalid {
        object: object.to_owned(),
        reason: "it vanished on the way".into(),
    })
}

/// What a move would take from it.
fn pack(space: BorrowedFd<'_>, object: &str, found: &LinkInfo) -> Result<Carried> {
    inside(space, object, |socket| {
        socket.carried(found.index).map_err(Error::network(object, "read what it carries"))
    })
}

/// Raises it if it was up, and gives it what it carried.
fn unpack(
    space: BorrowedFd<'_>,
    object: &str,
    index: u32,
    luggage: &Carried,
    up: bool,
) -> Result<()> {
    on_a_thread(|| {
        namespace::enter_network(space).map_err(Error::system(object, "enter its new place"))?;
        let mut socket = Socket::open().map_err(Error::network(object, "open a netlink socket"))?;
        let mut batch = Batch::new();
        if up {
            batch.push(object, &Change::of(index).up());
        }
        // A route needs its interface up.
        luggage.push(&mut batch, object, index);
        if batch.is_empty() { Ok(()) } else { run(&mut socket, &mut batch, object, "settle") }
    })
}

/// Which interfaces must stay: `lo`, hidden ones of wires, ports of bridges.
fn check_movable(from: &Place, found: &LinkInfo) -> std::result::Result<(), String> {
    let hidden = matches!(from, Place::Node(_)) && found.name.starts_with(crate::wires::TAP);
    if found.name == "lo" || hidden {
        return Err("it belongs to its network and cannot be moved".into());
    }
    if found.master.is_some() {
        return Err("it is a port of a bridge; release it first".into());
    }
    let door = |m: &str| m.starts_with(crate::door::MARK);
    if matches!(from, Place::Host) && door(&found.name) {
        return Err("it is a door of a lab".into());
    }
    Ok(())
}
