//! Guards bound a node beyond its cgroups: socket limits, flood protection, and charging of receive work.
//!
//! * **Sockets**: one pair of BPF programs per lab, at the lab's cgroup of version 2; loaded
//!   with the first node that has a socket limit.
//! * **Protection**: a node's budget applies at every point where frames reach it: at the egress of the
//!   switch's port, else at the ingress of its own interface. One set of programs per namespace.
//! * **Charging**: the node's ends of its links receive in kernel threads, which are moved
//!   into the node's cgroups.
//!
//! Programs live as long as the object they are attached to; an adopting lab process finds them there.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use netloom_ebpf::Direction;
use netloom_ebpf::protect::{Budget, Protection, Shield};
use netloom_ebpf::sockets::{GroupId, SocketCounts, SocketLimits};
use netloom_model::lab::Protect;
use netloom_model::plan::NodeId;
use netloom_model::plan::Slot;
use netloom_model::plan::form::{LinkForm, Seat};
use netloom_model::plan::{Interface, PlannedEnd, PlannedLink, PlannedNode};
use netloom_netlink::charge;

use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::stage::absent::is_absent;
use crate::stage::attach::{self, AttachPoint};
use crate::store::state::State;
use crate::view::{ProtectView, SenderView};
use crate::{Error, Result};

/// The guards of a lab.
#[derive(Default)]
pub(crate) struct Guards {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sockets: Option<SocketLimits>,
    /// By namespace.
    shields: BTreeMap<NodeId, Shield>,
    /// Kernel threads charged to a node, by the node's id.
    threads: BTreeMap<NodeId, Vec<i32>>,
}

impl Guards {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets up the guards of a node with new links.
    pub(crate) fn fit_node(&self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let mut inner = self.inner();
        if !node.protect.is_empty() {
            inner.protect(context, slot)?;
        }
        // Kernel threads cannot be moved into an ordinary user's cgroups.
        if node.charge_receive && !context.state.user {
            inner.charge(context, slot)?;
        }
        Ok(())
    }

    /// Sets or removes a node's socket limit. Its cgroup must exist.
    pub(crate) fn limit_sockets(&self, state: &State, node: &PlannedNode) -> Result<()> {
        let object = format!("node {:?}", node.name);
        let Some(dir) = state.groups.sockets_dir(node.id.get()) else { return Ok(()) };
        let mut inner = self.inner();
        if inner.sockets.is_none() && node.limits.sockets.is_none() {
            return Ok(());
        }
        let Some(limits) = inner.socket_limits(state, &object)? else { return Ok(()) };
        let set = limits.set(&dir, node.limits.sockets);
        set.map(drop).map_err(Error::of(&object, "limit its sockets"))
    }

    /// The counts of a node's socket limit; `None` if it has none.
    pub(crate) fn sockets(&self, state: &State, node: &PlannedNode) -> Option<SocketCounts> {
        node.limits.sockets?;
        let dir = state.groups.sockets_dir(node.id.get())?;
        let mut inner = self.inner();
        let limits = inner.socket_limits(state, &node.name).ok().flatten()?;
        limits.read(&dir).ok()
    }

    /// Changes protection and charging of a living node.
    pub(crate) fn change(
        &self,
        context: &Context<'_>,
        slot: Slot,
        old: &PlannedNode,
        new: &PlannedNode,
    ) -> Result<()> {
        let mut inner = self.inner();
        match (old.protect.is_empty(), new.protect.is_empty()) {
            (true, true) => {}
            (_, true) => inner.unprotect(context, slot)?,
            (true, false) => inner.protect_with(context, slot, &new.protect)?,
            (false, false) => inner.change_budget(context, slot, &new.protect)?,
        }
        match (old.charge_receive, new.charge_receive) {
            // Kernel threads cannot be moved into an ordinary user's cgroups.
            _ if context.state.user => Ok(()),
            (false, true) => inner.charge(context, slot),
            (true, false) => inner.uncharge(context, slot),
            _ => Ok(()),
        }
    }

    /// Removes a node's protection while one of its interfaces moves away or comes home;
    /// [`Guards::fit_node`] sets it up again.
    pub(crate) fn lift(&self, context: &Context<'_>, slot: Slot) -> Result<()> {
        if context.state.plan.nodes[slot].protect.is_empty() {
            return Ok(());
        }
        self.inner().unprotect(context, slot)
    }

    /// Counts of traffic to a protected node.
    pub(crate) fn protection(&self, state: &State, slot: Slot) -> Option<ProtectView> {
        let node = &state.plan.nodes[slot];
        if node.protect.is_empty() {
            return None;
        }
        let inner = self.inner();
        let mut view = ProtectView {
            packets: node.protect.packets,
            bytes: node.protect.bytes,
            ..ProtectView::default()
        };
        let mut spaces: Vec<NodeId> = points_of(state, slot).iter().map(|s| s.space).collect();
        spaces.sort_unstable();
        spaces.dedup();
        for space in spaces {
            let read = inner.shields.get(&space).and_then(|s| s.read(number(node)).ok());
            if let Some(totals) = read {
                add(&mut view, state, slot, space, &totals);
            }
        }
        Some(view)
    }

    /// CPU time of a node's kernel threads in nanoseconds; `None` if receiving is not charged.
    pub(crate) fn receive_time(&self, node: &PlannedNode) -> Option<u64> {
        let inner = self.inner();
        let threads = inner.threads.get(&node.id)?;
        Some(threads.iter().filter_map(|tid| netloom_sys::process::cpu_time(*tid)).sum())
    }
}

impl Keeper for Guards {
    /// Socket limits for the nodes; protection and charging for these and for nodes at the links' ends.
    fn fit(&self, context: &Context<'_>, fresh: Fresh<'_>) -> Result<()> {
        let plan = &context.state.plan;
        let core = plan.core_slot();
        if fresh.slots.contains(&core) {
            self.forget(context.state, Gone { nodes: &[NodeId::CORE], links: &[] });
        }
        let mut touched: Vec<Slot> = fresh.slots.iter().copied().filter(|s| *s < core).collect();
        for slot in &touched {
            self.limit_sockets(context.state, &plan.nodes[*slot])?;
        }
        let ends = fresh.links.iter().flat_map(|l| &plan.links[*l].ends);
        touched.extend(ends.filter_map(|e| match e {
            PlannedEnd::Node { node, .. } => Some(*node),
            _ => None,
        }));
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().try_for_each(|slot| self.fit_node(context, slot))
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        let mut inner = self.inner();
        let plan = &context.state.plan;
        for (slot, node) in plan.slots().zip(&plan.nodes) {
            if !node.protect.is_empty() {
                for point in points_of(context.state, slot) {
                    inner.reopen(context, point)?;
                }
            }
            if node.charge_receive {
                inner.find_threads(context, slot)?;
            }
        }
        Ok(())
    }

    /// Moves the nodes' kernel threads out of their cgroups, which otherwise could not be removed.
    fn forget(&self, state: &State, gone: Gone<'_>) {
        let mut inner = self.inner();
        for node in gone.nodes {
            for tid in inner.threads.remove(node).unwrap_or_default() {
                // A thread that has ended has left its cgroup.
                let _ = state.groups.release_thread(tid);
            }
            inner.shields.remove(node);
            if let (Some(limits), Some(dir)) =
                (&inner.sockets, state.groups.sockets_dir(node.get()))
            {
                // The target cgroup may have been removed.
                let _ = GroupId::of(&dir).and_then(|id| limits.forget(id));
            }
        }
        if gone.nodes.contains(&NodeId::CORE) {
            inner.shields.remove(&NodeId::CORE);
        }
    }
}

impl Inner {
    fn socket_limits(&mut self, state: &State, object: &str) -> Result<Option<&SocketLimits>> {
        let Some(lab) = state.groups.lab_sockets_dir() else { return Ok(None) };
        if self.sockets.is_none() {
            let found =
                SocketLimits::reopen(&lab).map_err(Error::of(object, "find its programs"))?;
            self.sockets = Some(match found {
                Some(found) => found,
                None => {
                    SocketLimits::create(&lab).map_err(Error::of(object, "load its programs"))?
                }
            });
        }
        Ok(self.sockets.as_ref())
    }

    fn protect(&mut self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let protect = context.state.plan.nodes[slot].protect;
        self.protect_with(context, slot, &protect)
    }

    fn protect_with(&mut self, context: &Context<'_>, slot: Slot, with: &Protect) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let object = format!("node {:?}", node.name);
        for point in points_of(context.state, slot) {
            let known = self.shields.remove(&point.space);
            let shield = attach::run_in_living(context.inits, point.space, &object, || {
                let shield = match known {
                    Some(shield) => shield,
                    None => {
                        new_shield(point.space).map_err(Error::of(&object, "load its programs"))?
                    }
                };
                shield
                    .protect(point.index, point.direction, number(node), &budget(with))
                    .map_err(Error::of(&object, "protect"))?;
                Ok(shield)
            })?;
            if let Some(shield) = shield {
                self.shields.insert(point.space, shield);
            }
        }
        Ok(())
    }

    fn change_budget(&mut self, context: &Context<'_>, slot: Slot, to: &Protect) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let object = format!("node {:?}", node.name);
        for point in points_of(context.state, slot) {
            if let Some(shield) = self.shields.get(&point.space) {
                shield
                    .change(number(node), &budget(to))
                    .map_err(Error::of(&object, "change its protection"))?;
            }
        }
        Ok(())
    }

    fn unprotect(&mut self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let object = format!("node {:?}", node.name);
        for point in points_of(context.state, slot) {
            let Some(shield) = self.shields.get(&point.space) else { continue };
            attach::run_in_living(context.inits, point.space, &object, || {
                shield
                    .unprotect(point.index)
                    .map(drop)
                    .map_err(Error::of(&object, "take its protection away"))
            })?;
        }
        Ok(())
    }

    fn reopen(&mut self, context: &Context<'_>, point: AttachPoint) -> Result<()> {
        if self.shields.contains_key(&point.space) {
            return Ok(());
        }
        let found = attach::run_in_living(context.inits, point.space, "protection", || {
            Shield::reopen(point.index, point.direction)
                .map_err(Error::of("protection", "find its programs"))
        })?;
        if let Some(shield) = found.flatten() {
            self.shields.insert(point.space, shield);
        }
        Ok(())
    }

    /// Makes the node's ends of its links receive in threads of the node's cgroups.
    fn charge(&mut self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let object = format!("node {:?}", node.name);
        let names = names_here(context.state, node);
        let threads = attach::run_in_living(context.inits, node.id, &object, || {
            let mut threads = Vec::new();
            for name in names {
                match charge::enable(name) {
                    Ok(made) => threads.extend(made),
                    // Such a kernel receives on the sender's CPU time; accounts say so.
                    Err(netloom_netlink::Error::Unsupported { .. }) => return Ok(None),
                    Err(e) => return Err(Error::of(&object, "charge its receiving")(e)),
                }
            }
            Ok(Some(threads))
        })?;
        let Some(threads) = threads.flatten() else { return Ok(()) };
        for tid in &threads {
            context
                .state
                .groups
                .move_thread(*tid, node.id.get())
                .map_err(Error::of(&object, "charge its receiving"))?;
        }
        self.threads.insert(node.id, threads);
        Ok(())
    }

    fn uncharge(&mut self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let object = format!("node {:?}", node.name);
        let names = names_here(context.state, node);
        self.threads.remove(&node.id);
        attach::run_in_living(context.inits, node.id, &object, || {
            for name in names {
                charge::disable(name).map_err(Error::of(&object, "stop charging"))?;
            }
            Ok(())
        })
        .map(drop)
    }

    fn find_threads(&mut self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let object = format!("node {:?}", node.name);
        let names = names_here(context.state, node);
        let threads = attach::run_in_living(context.inits, node.id, &object, || {
            let found = names.iter().filter_map(|n| charge::threads(*n).ok()).flatten();
            Ok(found.filter(|thread| netloom_sys::process::is_kernel_thread(*thread)).collect())
        })?;
        self.threads.insert(node.id, threads.unwrap_or_default());
        Ok(())
    }
}

/// Sizes by namespace: the core has many interfaces, a node few.
fn new_shield(space: NodeId) -> netloom_ebpf::Result<Shield> {
    if space == NodeId::CORE { Shield::create() } else { Shield::create_small() }
}

/// The number that identifies a node in programs.
fn number(node: &PlannedNode) -> u32 {
    u32::try_from(node.id.get()).unwrap_or(u32::MAX)
}

fn budget(of: &Protect) -> Budget {
    Budget { frames: of.packets, bytes: of.bytes }
}

/// Names of a node's own interfaces that are present.
fn names_here<'a>(state: &State, node: &'a PlannedNode) -> Vec<&'a str> {
    // A tap's frames are received on the CPU time of its plug; it has no queue for threads.
    let queues = |i: &&Interface| {
        !state.plan.link_at(i.link).is_some_and(|link| state.form(link) == LinkForm::Tap)
    };
    let here = node.interfaces.iter().filter(|i| !is_absent(state, node, i)).filter(queues);
    here.map(|i| i.name.as_str()).collect()
}

/// The points where frames reach a node: one per interface.
fn points_of(state: &State, slot: Slot) -> Vec<AttachPoint> {
    let node = &state.plan.nodes[slot];
    // Frames at an interface that is elsewhere are not for this node.
    let here = node.interfaces.iter().enumerate().filter(|(_, i)| !is_absent(state, node, i));
    let point = |(interface, planned): (usize, &Interface)| {
        let link = &state.plan.links[planned.link];
        let here = PlannedEnd::Node { node: slot, interface };
        let side = link.ends.iter().position(|e| *e == here).unwrap_or(0);
        match state.seat(link, 1 - side) {
            Seat::Port => AttachPoint {
                space: NodeId::CORE,
                index: link.port_index(1 - side),
                direction: Direction::Egress,
            },
            Seat::Node { .. } | Seat::Plug | Seat::Host => {
                attach::at_interface(state, slot, interface, Direction::Ingress)
            }
        }
    };
    here.map(point).collect()
}

fn add(view: &mut ProtectView, state: &State, slot: Slot, space: NodeId, totals: &Protection) {
    view.passed_packets += totals.passed.frames;
    view.passed_bytes += totals.passed.bytes;
    view.dropped_packets += totals.dropped.frames;
    view.dropped_bytes += totals.dropped.bytes;
    for sender in &totals.senders {
        view.senders.push(SenderView {
            sender: sender_words(state, slot, space, sender.ifindex),
            passed_packets: sender.passed.frames,
            dropped_packets: sender.dropped.frames,
            dropped_bytes: sender.dropped.bytes,
        });
    }
}

/// The sender at an interface: the other end of its link.
fn sender_words(state: &State, slot: Slot, space: NodeId, interface: u32) -> String {
    let plan = &state.plan;
    if space == NodeId::CORE {
        let behind = |(link, side): (&PlannedLink, usize)| plan.end_text(&link.ends[1 - side]);
        return plan.port_of(interface).map_or_else(|| "(the switch)".to_owned(), behind);
    }
    let node = &plan.nodes[slot];
    let direct = node.interfaces.iter().enumerate().find_map(|(at, planned)| {
        let link = &plan.links[planned.link];
        let here = PlannedEnd::Node { node: slot, interface: at };
        let side = link.ends.iter().position(|e| *e == here)?;
        let other = &link.ends[1 - side];
        (planned.index == interface && !matches!(other, PlannedEnd::Port { .. }))
            .then(|| plan.end_text(other))
    });
    direct.or_else(|| only_neighbour(state, slot)).unwrap_or_else(|| "(neighbours)".to_owned())
}

/// At a node's own interfaces the program does not know the sender; with a single link there is only one.
fn only_neighbour(state: &State, slot: Slot) -> Option<String> {
    let plan = &state.plan;
    let mut others = plan.nodes[slot].interfaces.iter().enumerate().filter_map(|(at, planned)| {
        let link = &plan.links[planned.link];
        let here = PlannedEnd::Node { node: slot, interface: at };
        let side = link.ends.iter().position(|e| *e == here)?;
        let other = &link.ends[1 - side];
        (!matches!(other, PlannedEnd::Port { .. })).then(|| plan.end_text(other))
    });
    others.next().filter(|_| others.next().is_none())
}
