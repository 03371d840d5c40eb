//! Guards bound a node beyond its cgroups: socket limits, flood protection, and charging of receive work.
//!
//! * **Sockets**: one pair of BPF programs per lab, at the lab's cgroup of version 2; loaded
//!   with the first node that has a socket limit.
//! * **Protection**: a node's budget applies at every point where frames reach it: at the egress of the
//!   switch's port, else at the ingress of its own interface. One set of programs per namespace. The other ports
//!   of a bridge are gates: they drop early what the budget would not let pass.
//! * **Doors** to the host are guarded by default. That and `protect: auto` are load feedback
//!   ([`following`]): the lab process reads what nodes waste and sets budgets.
//! * **Charging**: the node's ends of its links receive in kernel threads, which are moved
//!   into the node's cgroups.
//!
//! Programs live as long as the object they are attached to; an adopting lab process finds them there.

mod doors;
mod follow;
mod following;
mod points;
mod report;
mod waste;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use netloom_ebpf::protect::{Budget, Shield};
use netloom_ebpf::sockets::{GroupId, SocketCounts, SocketLimits};
use netloom_model::lab::Protect;
use netloom_model::plan::NodeId;
use netloom_model::plan::Slot;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{Interface, LinkSlot, PlannedEnd, PlannedNode};
use netloom_netlink::charge;

use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::stage::absent::is_absent;
use crate::stage::attach::{self, AttachPoint};
use crate::store::state::State;
use crate::view::ProtectView;
use crate::{Error, Result, Subject};
use follow::Followed;
pub(crate) use following::pause;
use points::{Point, points_of};

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
    /// By the number that programs know a node or a door by.
    followed: BTreeMap<u32, Followed>,
}

impl Guards {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets up the guards of a node whose interfaces came home.
    pub(crate) fn fit_node(&self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let mut inner = self.inner();
        inner.fit_node(context, slot)?;
        let links = points::links_around(context.state, slot);
        inner.gate_links(context, &links)
    }

    /// Sets or removes a node's socket limit. Its cgroup must exist.
    pub(crate) fn limit_sockets(&self, state: &State, node: &PlannedNode) -> Result<()> {
        let object = format!("node {:?}", node.name);
        let Some(dir) = state.groups.sockets_dir(node.id.get()) else { return Ok(()) };
        let mut inner = self.inner();
        // Nothing to remove either: most labs have no limit.
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
        // A new budget begins without what was learnt under the old one.
        inner.followed.remove(&number(new));
        // A node's own protection replaces the guards of its doors.
        inner.unguard_doors(context, slot, &old.protect)?;
        match (old.protect.is_empty(), new.protect.is_empty()) {
            (true, true) => {}
            (_, true) => inner.unprotect(context, slot)?,
            (true, false) => {
                // Before the plan has it: the caller writes that when this succeeded.
                inner.protect_with(context, slot, &new.protect)?;
                let links = points::links_around(context.state, slot);
                inner.gate(context, &points::ports_of(context.state, &links))?;
            }
            (false, false) => inner.change_budget(context, slot, &new.protect)?,
        }
        inner.guard_doors(context, slot, &new.protect);
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
        let protect = context.state.plan.nodes[slot].protect;
        if protect.is_empty() {
            return self.inner().unguard_doors(context, slot, &protect);
        }
        self.inner().unprotect(context, slot)
    }

    /// Counts of traffic to a protected node.
    pub(crate) fn protection(&self, state: &State, slot: Slot) -> Option<ProtectView> {
        let node = &state.plan.nodes[slot];
        let inner = self.inner();
        if node.protect.is_empty() {
            return inner.at_doors(state, slot);
        }
        let followed = inner.followed.get(&number(node));
        let mut view = ProtectView {
            packets: node.protect.packets,
            bytes: node.protect.bytes,
            auto: node.protect.follows(),
            auto_packets: followed.and_then(Followed::budget),
            ..ProtectView::default()
        };
        let mut spaces: Vec<NodeId> = points_of(state, slot).iter().map(|p| p.at.space).collect();
        spaces.sort_unstable();
        spaces.dedup();
        for space in spaces {
            let read = inner.shields.get(&space).and_then(|s| s.read(number(node)).ok());
            if let Some(totals) = read {
                report::add(&mut view, state, slot, Some(space), &totals);
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
            // Shields of a core that is gone hold maps of nothing.
            self.forget(context.state, Gone { nodes: &[NodeId::CORE], links: &[] });
        }
        // The core itself is not protected.
        let mut touched: Vec<Slot> = fresh.slots.iter().copied().filter(|s| *s < core).collect();
        for slot in &touched {
            self.limit_sockets(context.state, &plan.nodes[*slot])?;
        }
        let ends = fresh.links.iter().flat_map(|l| &plan.links[*l].ends);
        touched.extend(ends.filter_map(|e| match e {
            // Living nodes at new links have a new interface to guard.
            PlannedEnd::Node { node, .. } => Some(*node),
            _ => None,
        }));
        touched.sort_unstable();
        touched.dedup();
        let mut inner = self.inner();
        touched.into_iter().try_for_each(|slot| inner.fit_node(context, slot))?;
        for link in fresh.links {
            inner.guard_door(context, &plan.links[*link]);
        }
        inner.gate_links(context, fresh.links)
    }

    fn adopt(&self, context: &Context<'_>) -> Result<()> {
        let mut inner = self.inner();
        let plan = &context.state.plan;
        for link in &plan.links {
            if let Some(door) = doors::of(context.state, link, None) {
                inner.reopen(context, door.at)?;
            }
        }
        for (slot, node) in plan.slots().zip(&plan.nodes) {
            if !node.protect.is_empty() {
                for point in points_of(context.state, slot) {
                    inner.reopen(context, point.at)?;
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
        if let Some(shield) = inner.shields.get(&NodeId::CORE) {
            let indexes = gone.links.iter().flat_map(|l| [0, 1].map(|side| l.port_index(side)));
            indexes.for_each(|index| shield.forget_gate(index));
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
                // Programs of an earlier lab process: their counts go on.
                Some(found) => found,
                None => {
                    SocketLimits::create(&lab).map_err(Error::of(object, "load its programs"))?
                }
            });
        }
        Ok(self.sockets.as_ref())
    }

    fn fit_node(&mut self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        if !node.protect.is_empty() {
            self.protect(context, slot)?;
        }
        self.guard_doors(context, slot, &node.protect);
        // Kernel threads cannot be put into an ordinary user's groups.
        if node.charge_receive && !context.state.user {
            self.charge(context, slot)?;
        }
        Ok(())
    }

    fn protect(&mut self, context: &Context<'_>, slot: Slot) -> Result<()> {
        let protect = context.state.plan.nodes[slot].protect;
        self.protect_with(context, slot, &protect)
    }

    fn protect_with(&mut self, context: &Context<'_>, slot: Slot, with: &Protect) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let object = Subject::of("node", &node.name);
        for point in points_of(context.state, slot) {
            // A machine's process has its frames before any program there.
            if node.kind.as_vm().is_some() && point.at.space == node.id {
                return Err(Error::Invalid {
                    object: object.part("protect"),
                    reason: "its guest gets frames before they can be counted; protect works behind a switch, without \
                             `vhost-user`"
                        .to_owned(),
                });
            }
            let shields = &mut self.shields;
            // In the namespace: programs are placed from inside.
            attach::run_in_living(context.inits, point.at.space, &object, || {
                let make =
                    || new_shield(point.at.space).map_err(Error::of(&object, "load its programs"));
                let shield = attach::kept(shields, point.at.space, make)?;
                place(shield, context.state, &point, number(node), &budget(with))
                    .map_err(Error::of(&object, "protect"))
            })?;
        }
        Ok(())
    }

    /// Makes gates of those of these links' ports that belong to a switch with a protected node.
    fn gate_links(&self, context: &Context<'_>, links: &[LinkSlot]) -> Result<()> {
        self.gate(context, &points::gates_of(context.state, links))
    }

    fn gate(&self, context: &Context<'_>, gates: &[(u32, u16)]) -> Result<()> {
        let Some(shield) = self.shields.get(&NodeId::CORE).filter(|_| !gates.is_empty()) else {
            return Ok(());
        };
        attach::run_in_living(context.inits, NodeId::CORE, "protection", || {
            let each = gates.iter().try_for_each(|(index, switch)| shield.gate(*index, *switch));
            each.map_err(Error::of("protection", "look ahead at a switch's port"))
        })
        .map(drop)
    }

    fn change_budget(&mut self, context: &Context<'_>, slot: Slot, to: &Protect) -> Result<()> {
        let node = &context.state.plan.nodes[slot];
        let object = format!("node {:?}", node.name);
        for point in points_of(context.state, slot) {
            if let Some(shield) = self.shields.get(&point.at.space) {
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
            let Some(shield) = self.shields.get(&point.at.space) else { continue };
            let idle = points::idle_gates(context.state, &point, slot);
            attach::run_in_living(context.inits, point.at.space, &object, || {
                shield
                    .unprotect(point.at.index)
                    .and_then(|_| idle.iter().try_for_each(|i| shield.ungate(*i).map(drop)))
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
        // Disabling ends the threads.
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
            // A number may be another process's by now, which must not be charged.
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
    // A tap's frames are received on the CPU time of its plug; it has no queue for threads. A guest's card is none of ours.
    let queues = |i: &&Interface| {
        let link = state.plan.link_at(i.link);
        !link.is_some_and(|link| matches!(state.form(link), LinkForm::Tap | LinkForm::Guest))
    };
    let here = node.interfaces.iter().filter(|i| !is_absent(state, node, i)).filter(queues);
    here.map(|i| i.name.as_str()).collect()
}

/// Protects a node at a point.
fn place(
    shield: &Shield,
    state: &State,
    point: &Point,
    node: u32,
    budget: &Budget,
) -> netloom_ebpf::Result<()> {
    match point.beside {
        true => shield.protect_beside(point.at.index, node, budget)?,
        false => shield.protect(point.at.index, point.at.direction, node, budget)?,
    }
    let Some(switch) = point.switch else { return Ok(()) };
    shield.own(point.at.index, point.mac, points::switch_number(state, switch))
}
