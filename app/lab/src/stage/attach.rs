//! Where in the kernel the frames of a link can be caught, and by whose budget they are paid for.
//!
//! On the side of a switch both directions pass the port, in the core namespace, where no node can reach them: what comes
//! from the other side at its ingress, what goes there at its egress. A link between two nodes that can have a wire has an
//! inner end for each in the core namespace, too; there each direction is caught as it comes from its sender.
//!
//! Where both ends of a pair are nodes' own (links that a version before made, doors), frames are caught where
//! they arrive: a packet socket can go round a sender's own egress (`PACKET_QDISC_BYPASS`), but not round the receiver's
//! ingress. Packet sockets there have seen them by then. An interface that was moved to another node is met there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::OwnedFd;

use netloom_ebpf::Direction;
use netloom_model::plan::NodeId;
use netloom_model::plan::PlannedLink;
use netloom_model::plan::Slot;
use netloom_model::plan::form::{LinkForm, Seat};
use netloom_sys::namespace;

use crate::stage::inits::Inits;
use crate::stage::spaces::on_a_thread;
use crate::store::moved::Home;
use crate::store::state::State;
use crate::{Error, Result};

/// Where frames are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttachPoint {
    /// The namespace: a node's id, or [`NodeId::CORE`].
    pub(crate) space: NodeId,
    /// The interface's index there.
    pub(crate) index: u32,
    /// On their way into that namespace, or out of it.
    pub(crate) direction: Direction,
}

/// The point that one direction of a link passes: from end `from` to the other. `None` when nothing of
/// it is in the lab, or it is a tap, whose frames come from and go to a process.
pub(crate) fn of_direction(state: &State, link: &PlannedLink, from: usize) -> Option<AttachPoint> {
    let to = 1 - from;
    let core = |side, direction| {
        Some(AttachPoint { space: NodeId::CORE, index: link.port_index(side), direction })
    };
    if state.form(link) == LinkForm::Joined {
        return Some(behind_node(link, from));
    }
    if state.form(link) == LinkForm::Beside {
        let outer = |side: usize, direction| {
            state.plan.separate_at(&link.ends[side])?;
            Some(AttachPoint { space: NodeId::CORE, index: link.outer_index(side), direction })
        };
        return outer(to, Direction::Ingress).or_else(|| outer(from, Direction::Egress));
    }
    match [from, to].map(|side| state.seat(link, side)) {
        [Seat::Plug | Seat::Guest { .. }, _] | [_, Seat::Plug | Seat::Guest { .. }] => None,
        [_, Seat::Port] => core(to, Direction::Ingress),
        [Seat::Port, _] => core(from, Direction::Egress),
        [_, Seat::Node { node, interface }] => {
            Some(at_interface(state, node, interface, Direction::Ingress))
        }
        [Seat::Node { node, interface }, Seat::Host] => {
            Some(at_interface(state, node, interface, Direction::Egress))
        }
        [Seat::Host, Seat::Host] => None,
    }
}

/// Where frames of the node at an end of a link of form [`LinkForm::Joined`] enter the core namespace.
pub(crate) fn behind_node(link: &PlannedLink, side: usize) -> AttachPoint {
    let index = link.inner_index(side);
    AttachPoint { space: NodeId::CORE, index, direction: Direction::Ingress }
}

/// A node's interface, wherever it is now.
pub(crate) fn at_interface(
    state: &State,
    slot: Slot,
    interface: usize,
    direction: Direction,
) -> AttachPoint {
    let node = &state.plan.nodes[slot];
    let index = node.interfaces[interface].index;
    let away = state.moved.iter().find(|m| m.home == Home::Node { node: node.id, index });
    let (space, index) = away.map_or((node.id, index), |m| (m.node, m.index));
    AttachPoint { space, index, direction }
}

/// Opens the namespace of a point; `None` when its init is gone.
pub(crate) fn open(inits: &Inits, space: NodeId) -> Result<Option<OwnedFd>> {
    let Some(init) = inits.get(&space).filter(|i| i.lives()) else { return Ok(None) };
    let found = namespace::network_of(init.pid);
    Ok(found.ok().filter(|_| init.lives()))
}

/// Runs `f` on a thread of its own in the namespace of a point.
///
/// # Errors
/// [`Error::Invalid`] when the node has ended, and what `f` returns.
pub(crate) fn run_in<T: Send>(
    inits: &Inits,
    space: NodeId,
    object: &str,
    f: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let ended =
        || Error::Invalid { object: object.into(), reason: "the node of one end has ended".into() };
    run_in_living(inits, space, object, f)?.ok_or_else(ended)
}

/// The same; `None` when the node has ended.
///
/// # Errors
/// What `f` returns.
pub(crate) fn run_in_living<T: Send>(
    inits: &Inits,
    space: NodeId,
    object: &str,
    f: impl FnOnce() -> Result<T> + Send,
) -> Result<Option<T>> {
    let Some(ns) = open(inits, space)? else { return Ok(None) };
    on_a_thread(|| {
        namespace::enter_network(ns).map_err(Error::of(object, "enter a namespace"))?;
        f()
    })
    .map(Some)
}

/// The programs that are kept of a namespace; made if there are none. Work in the namespace borrows them: they stay kept
/// when it fails, since what they were attached to before goes on, and only they can be taken off again.
///
/// # Errors
/// What `make` returns.
pub(crate) fn kept<K>(
    all: &mut BTreeMap<NodeId, K>,
    space: NodeId,
    make: impl FnOnce() -> Result<K>,
) -> Result<&K> {
    Ok(match all.entry(space) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) => free.insert(make()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::inits::Init;

    /// With rights the work fails, without them the way into the namespace; an init that has ended fails before.
    #[test]
    fn programs_stay_kept_when_work_fails() {
        let id = NodeId::CORE;
        let pid = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        let fail = || Error::Invalid { object: "link".into(), reason: "it fails".into() };
        for inits in [Inits::from([(id, Init { id, pid, pidfd })]), Inits::new()] {
            for known in [Some(7), None] {
                let mut all: BTreeMap<NodeId, i32> =
                    known.map(|known| (id, known)).into_iter().collect();
                let kept_of = &mut all;
                let mut made = false;
                let done: Result<()> = run_in(&inits, id, "link", || {
                    made = *kept(kept_of, id, || Ok(8))? == 8;
                    Err(fail())
                });
                assert!(done.is_err());
                assert_eq!(all.get(&id).copied(), known.or(made.then_some(8)));
            }
        }
    }
}
