//! Moves interfaces from node to node, and back home.
//!
//! The home of an interface is its node in the plan, or the host. Its new place is in the lab's state before it is
//! moved, so that it can return when that node ends, by command, by a kill, or when another process takes the lab
//! down: see [`homing`](crate::run::homing). Its name and index stay reserved at home: interfaces that are moved
//! there meanwhile get others.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_model::Plan;
use netloom_model::lookup::slot;
use netloom_model::plan::Slot;
use netloom_model::plan::form::HIDDEN;
use netloom_model::plan::{LinkSlot, NodeId};
use netloom_netlink::{Carried, LinkInfo};
use netloom_sys::namespace;

use crate::build::carrying::{find, move_one, pack, planned_link, settle, unpack};
use crate::run::running::{Running, Work};
use crate::stage::absent::{is_away, without_absent};
use crate::stage::spaces::inside;
use crate::store::moved::{Home, Moved};
use crate::store::state::State;
use crate::view::{Changed, MoveInterface};
use crate::{Error, Result, Subject};

/// The place of an interface, current or future.
enum Holder {
    Host,
    /// A node, by slot.
    Node(Slot),
}

impl Running {
    /// See [`Move`](crate::calls::Move).
    pub(crate) fn move_to(&self, request: &MoveInterface) -> Result<Changed> {
        // Held throughout: a node must not end while an interface is on its way.
        let mut work = self.work();
        let state = self.state();
        let object = Subject::of("interface", &request.interface);
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        let Some((from, old_name)) = request.interface.split_once(':') else {
            return Err(invalid("write NODE:IFACE or host:IFACE".into()));
        };
        let (from, to) = (place(&state.plan, from)?, place(&state.plan, &request.to)?);
        let host = matches!(from, Holder::Host) || matches!(to, Holder::Host);
        if host && state.user {
            return Err(crate::stage::host::unsupported().into());
        }
        // Opened before anything changes: a dead node is refused early.
        let spaces = [self.space(&work, &from)?, self.space(&work, &to)?];
        let [here, there] = [spaces[0].as_fd(), spaces[1].as_fd()];
        let found = find(here, &object, old_name)?
            .ok_or_else(|| invalid("there is no such interface".into()))?;
        check_movable(&from, &found).map_err(&invalid)?;
        if same(&from, &to) {
            return Err(invalid("it is there already".into()));
        }
        let home = homecoming(&state, &from, &to, &found);
        let room = Room::look(&state, &to, home.as_ref(), there, &object)?;
        let name = match (&request.name, &home) {
            (Some(name), _) => room.free_or_refused(&object, name)?,
            (None, Some(moved)) => room.next_free(&moved.old_name),
            (None, None) => room.next_free(old_name),
        };
        let own = home.as_ref().and_then(|m| match m.home {
            Home::Node { node, index } => Some((node, index)),
            Home::Host => None,
        });
        let wanted = own.map_or_else(|| room.index(&state, &to, found.index), |(_, own)| Some(own));
        // At home under its own name it gets its planned configuration, unless it brings its own.
        let planned = own.filter(|_| home.is_some_and(|m| m.old_name == name));
        // Read before the move, which drops addresses and routes.
        let luggage = if request.carry { pack(here, &object, &found)? } else { Carried::default() };
        let link = self.link_of(&state, &from, &found);
        // Wires and guards hang on the interface's index, which the move may change.
        if let Some(link) = link {
            self.take_wire_out(&work, link)?;
        }
        let owner = owner(&state, &from, &found);
        if let Some(owner) = owner {
            self.lift_guards(&work, owner)?;
        }
        // Noted before it is moved: a process killed between finds it by its address.
        let moved = self.note_move(&mut work, &from, &to, &found, &name)?;
        let index = match move_one(here, there, &object, &found, &name, wanted) {
            Ok(index) => index,
            Err(e) => {
                let is_here =
                    find(here, &object, old_name)?.is_some_and(|l| l.index == found.index);
                if is_here {
                    self.stay(&mut work, &state, link, owner)?;
                }
                return Err(e);
            }
        };
        if let Some(mut moved) = moved {
            let holder = moved.node;
            moved.index = index;
            self.change(&mut work, |state| {
                state.moved.retain(|m| (m.node, &m.name) != (moved.node, &moved.name));
                state.moved.push(moved);
                Ok(())
            })?;
            // Its namespace must outlive its init, so that the interface can return.
            self.hold(&work.inits, holder)?;
        }
        unpack(there, &object, index, &luggage, found.up)?;
        if let Some((node, index)) = planned.filter(|_| !request.carry) {
            let space = spaces[1].try_clone().map_err(Error::at("network namespace", "copy"))?;
            settle(&without_absent(&self.state()), node, index, space)?;
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

    /// Puts back what was changed for an interface that the kernel did not let go: where interfaces are, by the state `before`,
    /// the wires of its link and the guards of its owner.
    fn stay(
        &self,
        work: &mut Work,
        before: &State,
        link: Option<LinkSlot>,
        owner: Option<NodeId>,
    ) -> Result<()> {
        self.change(work, |state| {
            state.moved.clone_from(&before.moved);
            Ok(())
        })?;
        if let Some(link) = link {
            self.put_wire_in(work, link)?;
            self.cut_again(&work.inits, &[link])?;
        }
        owner.map_or(Ok(()), |owner| self.raise_guards(work, owner))
    }

    /// Records where the interface will be; `None` if it comes home.
    fn note_move(
        &self,
        work: &mut Work,
        from: &Holder,
        to: &Holder,
        found: &LinkInfo,
        name: &str,
    ) -> Result<Option<Moved>> {
        self.change(work, |state| {
            let id = |slot: &Slot| state.plan.nodes[*slot].id;
            let known = match from {
                Holder::Node(slot) => {
                    state.moved.iter().position(|m| m.node == id(slot) && m.name == found.name)
                }
                Holder::Host => None,
            };
            // One that moves on keeps the home that it had first.
            let (home, old_name) = match (known.map(|at| state.moved.remove(at)), from) {
                (Some(moved), _) => (moved.home, moved.old_name),
                (None, Holder::Host) => (Home::Host, found.name.clone()),
                (None, Holder::Node(slot)) => {
                    (Home::Node { node: id(slot), index: found.index }, found.name.clone())
                }
            };
            let at_home = match (home, to) {
                (Home::Host, Holder::Host) => true,
                (Home::Node { node, .. }, Holder::Node(slot)) => node == id(slot),
                _ => false,
            };
            let Holder::Node(slot) = to else { return Ok(None) };
            if at_home {
                return Ok(None);
            }
            let moved = Moved {
                home,
                old_name,
                node: id(slot),
                name: name.to_owned(),
                // Replaced by the one there, once it has arrived.
                index: found.index,
                // Found by it when the kernel has renamed the interface.
                mac: found.mac.unwrap_or_default(),
                was_up: found.up,
            };
            state.moved.push(moved.clone());
            Ok(Some(moved))
        })
    }

    /// The link that an interface of a node is an end of, by place in the plan.
    fn link_of(&self, state: &State, from: &Holder, found: &LinkInfo) -> Option<LinkSlot> {
        let (node, index) = origin(state, from, found)?;
        planned_link(state, node, index)
    }

    fn space(&self, work: &Work, place: &Holder) -> Result<OwnedFd> {
        match place {
            Holder::Host => namespace::current_network()
                .map_err(Error::of("host", "open its network namespace")),
            Holder::Node(slot) => {
                let state = self.state();
                let node = &state.plan.nodes[*slot];
                let init = work.inits.get(&node.id).filter(|i| i.lives());
                init.ok_or_else(|| Error::DeadNode(node.name.clone()))?.network(&node.name)
            }
        }
    }
}

/// The home of an interface of a node: the node's id, and its index there; `None` for the host.
fn origin(state: &State, from: &Holder, found: &LinkInfo) -> Option<(NodeId, u32)> {
    let Holder::Node(slot) = from else { return None };
    let id = state.plan.nodes[*slot].id;
    let guest = state.moved.iter().find(|m| m.node == id && m.name == found.name);
    match guest.map(|m| m.home) {
        Some(Home::Host) => None,
        Some(Home::Node { node, index }) => Some((node, index)),
        None => Some((id, found.index)),
    }
}

/// The node that is its home.
fn owner(state: &State, from: &Holder, found: &LinkInfo) -> Option<NodeId> {
    origin(state, from, found).map(|(node, _)| node)
}

fn place(plan: &Plan, name: &str) -> Result<Holder> {
    if name == "host" { Ok(Holder::Host) } else { Ok(Holder::Node(slot(plan, name)?)) }
}

fn same(one: &Holder, other: &Holder) -> bool {
    match (one, other) {
        (Holder::Host, Holder::Host) => true,
        (Holder::Node(one), Holder::Node(other)) => one == other,
        _ => false,
    }
}

/// The record of an interface that is moved home.
fn homecoming(state: &State, from: &Holder, to: &Holder, found: &LinkInfo) -> Option<Moved> {
    let Holder::Node(slot) = from else { return None };
    let holder = state.plan.nodes[*slot].id;
    let moved = state.moved.iter().find(|m| m.node == holder && m.name == found.name)?;
    let home = match (moved.home, to) {
        (Home::Host, Holder::Host) => true,
        (Home::Node { node, .. }, Holder::Node(slot)) => node == state.plan.nodes[*slot].id,
        _ => false,
    };
    home.then(|| moved.clone())
}

/// Names and indexes that are taken at the destination of an interface.
struct Room {
    /// Names of existing interfaces.
    names: Vec<String>,
    indexes: Vec<u32>,
    /// Names and indexes reserved for interfaces whose home this is.
    kept: Vec<(String, u32)>,
}

impl Room {
    /// Reads the place `to`; `coming` is the record of an interface that comes home there.
    fn look(
        state: &State,
        to: &Holder,
        coming: Option<&Moved>,
        space: BorrowedFd<'_>,
        object: &str,
    ) -> Result<Room> {
        let there = inside(space, object, |socket| {
            socket.links().map_err(Error::of(object, "list interfaces"))
        })?;
        let kept = match to {
            Holder::Host => vec![],
            Holder::Node(slot) => kept_for_absent(state, *slot, coming),
        };
        let indexes = there.iter().map(|l| l.index).collect();
        Ok(Room { names: there.into_iter().map(|l| l.name).collect(), indexes, kept })
    }

    fn is_kept(&self, name: &str) -> bool {
        self.kept.iter().any(|(kept, _)| kept == name)
    }

    fn free_or_refused(&self, object: &Subject, name: &str) -> Result<String> {
        let invalid = |reason| Error::Invalid { object: object.clone(), reason };
        if let Some(problem) = netloom_model::interface_name_problem(name) {
            return Err(invalid(problem));
        }
        if self.names.iter().any(|taken| taken == name) {
            return Err(invalid(format!("there is a {name:?} already where it is to go")));
        }
        if self.is_kept(name) {
            let reason = format!("{name:?} there is reserved for the node's moved interface");
            return Err(invalid(reason));
        }
        Ok(name.to_owned())
    }

    /// The name itself if it is free, else the next free one of its kind: `eth0` -> `eth1`.
    fn next_free(&self, name: &str) -> String {
        let free = |name: &String| !self.names.contains(name) && !self.is_kept(name);
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
        // Room for digits: names have at most 15 bytes. A program in a node may have chosen any.
        let end = (0..=kind.len().min(10)).rfind(|at| kind.is_char_boundary(*at));
        let kind = &kind[..end.unwrap_or_default()];
        let numbered = (0..).map(|n: u32| format!("{kind}{n}"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        candidates.find(free).unwrap_or_else(|| name.to_owned())
    }

    /// The index of a guest: its own, if it is neither taken nor reserved. `None`: the kernel chooses.
    fn index(&self, state: &State, to: &Holder, own: u32) -> Option<u32> {
        let Holder::Node(slot) = to else { return None };
        let free = |index: &u32| {
            !self.indexes.contains(index) && !self.kept.iter().any(|(_, kept)| kept == index)
        };
        let planned = state.plan.nodes[*slot].interfaces.iter().map(|i| i.index).max();
        let first = planned.unwrap_or(1) + 1;
        std::iter::once(own).chain(first..).find(free)
    }
}

/// Names and indexes of a node's interfaces that are elsewhere, except one that comes home.
fn kept_for_absent(state: &State, slot: Slot, coming: Option<&Moved>) -> Vec<(String, u32)> {
    let node = &state.plan.nodes[slot];
    let comes = |index: u32| coming.is_some_and(|m| m.home == Home::Node { node: node.id, index });
    let absent = node.interfaces.iter().enumerate().filter(|(at, _)| is_away(state, slot, *at));
    let others = absent.filter(|(_, interface)| !comes(interface.index));
    others.map(|(_, interface)| (interface.name.clone(), interface.index)).collect()
}

/// Whether an interface must stay: `lo`, hidden ones of wires, ports of bridges.
fn check_movable(from: &Holder, found: &LinkInfo) -> std::result::Result<(), String> {
    // On the host such names are not ours to judge.
    let hidden = matches!(from, Holder::Node(_)) && found.name.starts_with(HIDDEN);
    if found.name == "lo" || hidden {
        return Err("it belongs to its network and cannot be moved".into());
    }
    if found.master.is_some() {
        return Err("it is a port of a bridge; release it first".into());
    }
    let door = |m: &str| m.starts_with(crate::store::host_change::MARK);
    if matches!(from, Holder::Host) && door(&found.name) {
        return Err("it is a door of a lab".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(names: &[&str]) -> Room {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Room { names, indexes: vec![], kept: vec![("eth1".into(), 2)] }
    }

    #[test]
    fn a_name_of_any_characters_gets_a_free_one_of_its_kind() {
        assert_eq!(room(&[]).next_free("eth0"), "eth0");
        assert_eq!(room(&["eth0"]).next_free("eth0"), "eth2");
        // The tenth byte is within a character.
        for (name, free) in [("ééééé", "ééééé0"), ("xéééééé9", "xéééé0"), ("€€€€", "€€€0")]
        {
            assert_eq!(room(&[name]).next_free(name), free);
        }
    }
}
