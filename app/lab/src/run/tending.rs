//! Drives what a lab process keeps beside nodes and links: guards, wires, switches, measurements, views from inside
//! nodes, and namespaces of nodes that hold interfaces of others.
//!
//! [`Running::tend`] is called when a descriptor of [`Running::watched`] is readable: it restarts the wires'
//! process, and returns interfaces from a killed node.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::time::Instant;

use netloom_model::plan::Slot;
use netloom_model::plan::{LinkSlot, NodeId};
use netloom_model::plan::{PlannedEnd, PlannedLink, PlannedNode};
use netloom_node::loads;
use netloom_node::root::LOADS_OF_THE_CORE;
use netloom_sys::{clock, namespace};

use crate::build::keeper::{Context, Fresh, Gone, Keeper};
use crate::keep::{guards, wires};
use crate::run::load_average;
use crate::run::running::{Guest, Phase, Running, Work};
use crate::run::scope::{self, Scoped};
use crate::stage::inits::{Init, Inits};
use crate::store::state::State;
use crate::view::AcrossView;
use crate::{Error, Result};

impl Running {
    pub(crate) fn context<'a>(&'a self, state: &'a State, inits: &'a Inits) -> Context<'a> {
        Context { folder: &self.folder, state, inits }
    }

    /// Attaches keepers after these links were made: protection and charging of the nodes at their ends, and
    /// wires.
    pub(crate) fn fit(
        &self,
        state: &State,
        inits: &Inits,
        slots: &[Slot],
        links: &[LinkSlot],
    ) -> Result<()> {
        let fresh = Fresh { slots, links };
        // Names first: programs may ask for them as soon as they start.
        self.kept.resolving.follow(inits, fresh.ids(state));
        let context = self.context(state, inits);
        for keeper in self.kept.keepers.all() {
            keeper.fit(&context, fresh)?;
        }
        self.cut_again(inits, links)?;
        self.kept.wake();
        Ok(())
    }

    /// Finds what an earlier lab process kept.
    pub(crate) fn adopt_kept(&self, state: &State, inits: &Inits) -> Result<()> {
        self.kept.resolving.follow(inits, inits.keys().copied());
        let context = self.context(state, inits);
        for keeper in self.kept.keepers.all() {
            keeper.adopt(&context)?;
        }
        for moved in &state.moved {
            self.hold(inits, moved.node)?;
        }
        Ok(())
    }

    /// Removes what is kept for these nodes, which are being removed.
    pub(crate) fn unfit(&self, state: &State, nodes: &[NodeId]) {
        self.kept.resolving.forget(nodes);
        let slots: Vec<Slot> = nodes.iter().filter_map(|id| state.plan.slot_of(*id)).collect();
        let ends_there = |l: &&PlannedLink| {
            l.ends
                .iter()
                .any(|e| matches!(e, PlannedEnd::Node { node, .. } if slots.contains(node)))
        };
        let links: Vec<&PlannedLink> = state.plan.links.iter().filter(ends_there).collect();
        self.kept.forget(state, Gone { nodes, links: &links });
    }

    /// Changes protection and charging of a living node.
    pub(crate) fn apply_guards(
        &self,
        work: &Work,
        state: &State,
        slot: Slot,
        new: &PlannedNode,
    ) -> Result<()> {
        let context = self.context(state, &work.inits);
        self.kept.keepers.guards.change(&context, slot, &state.plan.nodes[slot], new)
    }

    /// The same for a state that has the new node already: `old` is what it was.
    pub(crate) fn apply_guards_from(
        &self,
        work: &Work,
        state: &State,
        slot: Slot,
        old: &PlannedNode,
        new: &PlannedNode,
    ) -> Result<()> {
        let mut before = State::clone(state);
        let node = &mut before.plan.nodes[slot];
        (node.protect, node.charge_receive) = (old.protect, old.charge_receive);
        self.apply_guards(work, &before, slot, new)
    }

    /// Serves every node that may have children and is not served yet.
    pub(crate) fn serve_scopes(&self) -> Result<()> {
        let state = self.state();
        let mut scopes = self.kept.scopes();
        let Some(running) = scopes.running.upgrade() else { return Ok(()) };
        // Asked under the lock that end_kept() takes: nothing comes back into the folder of a lab that is gone.
        if self.phase() == Phase::Ended {
            return Ok(());
        }
        for node in state.plan.nodes.iter().filter(|n| n.children.is_some()) {
            if scopes.servers.contains_key(&node.id) {
                continue;
            }
            let folder = scope::make_folder(&running, node.id)?;
            let service = Arc::new(Scoped::new(Arc::clone(&running), node.id));
            let server = (scopes.serve)(&folder, service).map_err(|reason| Error::Conflict {
                lab: state.plan.lab.clone(),
                reason: format!("node {:?}: serve the nodes in it: {reason}", node.name),
            })?;
            scopes.servers.insert(node.id, server);
        }
        Ok(())
    }

    /// Stops serving these nodes.
    pub(crate) fn end_scopes(&self, nodes: &[NodeId]) {
        let mut scopes = self.kept.scopes();
        let ended: Vec<_> = nodes.iter().filter_map(|id| scopes.servers.remove(id)).collect();
        // The lock is free before servers end: they may want it.
        drop(scopes);
        end_elsewhere(ended);
    }

    /// Stops serving all nodes, ends the wires' process.
    pub(crate) fn end_kept(&self) {
        let servers = std::mem::take(&mut self.kept.scopes().servers);
        end_elsewhere(servers.into_values().collect());
        for keeper in self.kept.keepers.all() {
            keeper.end(&self.folder);
        }
        self.kept.guests().clear();
    }

    /// Keeps the namespace of a node that holds another's interface.
    pub(crate) fn hold(&self, inits: &Inits, node: NodeId) -> Result<()> {
        let Some(init) = inits.get(&node).filter(|i| i.lives()) else { return Ok(()) };
        let object = || format!("init {}", init.pid.as_raw_nonzero());
        let space = namespace::network_of(init.pid)
            .map_err(Error::of(object(), "open its network namespace"))?;
        let copied = init.pidfd.try_clone().map_err(Error::at(object(), "copy its pidfd"))?;
        self.kept.guests().insert(node, Guest { space, init: copied });
        self.kept.wake();
        Ok(())
    }

    /// Drops namespaces that no longer hold interfaces of others.
    pub(crate) fn let_go(&self, state: &State) {
        let holds = |id: &NodeId| state.moved.iter().any(|m| m.node == *id);
        self.kept.guests().retain(|id, _| holds(id));
    }

    /// Ids of the nodes that hold interfaces of others and have ended.
    pub(crate) fn ended_guests(&self) -> Vec<NodeId> {
        let guests = self.kept.guests();
        let ended = guests.iter().filter(|(_, g)| netloom_sys::process::has_ended(g.init.as_fd()));
        ended.map(|(id, _)| *id).collect()
    }

    /// Drops the namespaces of these nodes.
    pub(crate) fn release(&self, nodes: &[NodeId]) {
        self.kept.guests().retain(|id, _| !nodes.contains(id));
    }

    /// The namespaces kept, by node's id.
    pub(crate) fn kept_spaces(&self) -> Vec<(NodeId, OwnedFd)> {
        let guests = self.kept.guests();
        let copy = |(id, guest): (&NodeId, &Guest)| Some((*id, guest.space.try_clone().ok()?));
        guests.iter().filter_map(copy).collect()
    }

    /// Descriptors that become readable when there is something to tend.
    pub(crate) fn watched(&self) -> Vec<OwnedFd> {
        let guests: Vec<OwnedFd> =
            self.kept.guests().values().filter_map(|g| g.init.try_clone().ok()).collect();
        let kept = self.kept.keepers.all().into_iter().flat_map(Keeper::watched);
        guests.into_iter().chain(kept).collect()
    }

    /// Restarts what has ended on its own. Returns when to try again, if something failed.
    pub(crate) fn tend(&self) -> Option<Duration> {
        let mut work = self.work();
        // A lab that is down has nothing to tend.
        work.spawner.as_ref()?;
        self.tend_guests(&mut work);
        let state = self.state();
        let context = self.context(&state, &work.inits);
        // Each is tended, whatever the others return.
        let again = self.kept.keepers.all().map(|keeper| keeper.tend(&context));
        let again = again.into_iter().flatten().min();
        let revived = self.revive(&mut work);
        again.into_iter().chain(revived).min()
    }

    /// States of the wires of all links.
    pub(crate) fn wire_states(&self, state: &State) -> wires::States {
        let work = self.work();
        self.kept.keepers.wires.states(&self.context(state, &work.inits))
    }

    /// What is known of other hosts; `None` for a lab of one host.
    pub(crate) fn far_view(&self, state: &State) -> Option<AcrossView> {
        state.across.as_ref()?;
        self.kept.keepers.far_links.view(state, &self.work().inits)
    }

    /// Removes the wires of a link whose interface is about to move.
    pub(crate) fn take_wire_out(&self, work: &Work, link: LinkSlot) -> Result<()> {
        let state = self.state();
        let context = self.context(&state, &work.inits);
        self.kept.keepers.wires.take_out(&context, &state.plan.links[link])
    }

    /// Removes the guards of a node, by its id, if it lives; see [`Running::raise_guards`].
    pub(crate) fn lift_guards(&self, work: &Work, node: NodeId) -> Result<()> {
        let state = self.state();
        let Some(slot) = state.plan.slot_of(node) else { return Ok(()) };
        self.kept.keepers.guards.lift(&self.context(&state, &work.inits), slot)
    }

    /// Sets the guards up again, for the node's current interfaces.
    pub(crate) fn raise_guards(&self, work: &Work, node: NodeId) -> Result<()> {
        let state = self.state();
        let Some(slot) = state.plan.slot_of(node) else { return Ok(()) };
        self.kept.keepers.guards.fit_node(&self.context(&state, &work.inits), slot)
    }

    /// Inserts the wires where the interface is now.
    pub(crate) fn put_wire_in(&self, work: &Work, link: LinkSlot) -> Result<()> {
        let state = self.state();
        self.kept.keepers.wires.fit_links(&self.context(&state, &work.inits), &[link])
    }

    /// The living init of a node.
    pub(crate) fn living<'a>(&self, work: &'a Work, node: &PlannedNode) -> Result<&'a Init> {
        let init = work.inits.get(&node.id).filter(|i| i.lives());
        init.ok_or_else(|| Error::DeadNode(node.name.clone()))
    }
}

impl Running {
    /// Lets budgets follow what nodes keep up with; whether there are any that follow.
    pub(crate) fn follow_loads(&self) -> bool {
        self.kept.keepers.guards.follow(&self.state(), || self.living_inits())
    }
}

impl Running {
    /// Writes the nodes' loads where the nodes read them.
    fn tell_loads(&self) {
        let core = self.work().inits.get(&NodeId::CORE).map(|init| init.pid);
        let Some(core) = core else { return };
        let path = format!("/proc/{}/root{LOADS_OF_THE_CORE}", core.as_raw_nonzero());
        // Without it nodes go on from the last ones.
        let _ = loads::write(path.as_ref(), clock::monotonic(), &self.loads().to_tell());
    }
}

/// Measures load averages and waits, and lets budgets follow on threads of their own, as long as the lab exists.
pub(crate) fn watch_loads(running: Weak<Running>) {
    watch_budgets(Weak::clone(&running));
    // A small stack: both threads only count.
    let thread = std::thread::Builder::new().name("netloom-load".into()).stack_size(128 << 10);
    let look = move || {
        let mut last = Instant::now();
        loop {
            std::thread::sleep(load_average::LOOK);
            let Some(running) = running.upgrade() else { return };
            let (found, busy) = load_average::look(&running.living_inits());
            running.loads().observe(&found, last.elapsed());
            running.meter.look(&running.folder, &running.state().plan, &busy);
            last = Instant::now();
            running.tell_loads();
        }
    };
    // Without the thread loads stay at zero.
    let _ = thread.spawn(look);
}

/// Lets budgets follow from now on, on a thread of its own, as long as the lab is there.
fn watch_budgets(running: Weak<Running>) {
    let thread = std::thread::Builder::new().name("netloom-budgets".into()).stack_size(128 << 10);
    let look = move || {
        let mut wait = guards::pause(true, Duration::ZERO);
        loop {
            std::thread::sleep(wait);
            let Some(running) = running.upgrade() else { return };
            let start = Instant::now();
            wait = guards::pause(running.follow_loads(), start.elapsed());
        }
    };
    // Without the thread budgets stay as they are.
    let _ = thread.spawn(look);
}

/// Ends servers without waiting: one of them may be serving the very call that ends it.
fn end_elsewhere(servers: Vec<Box<dyn std::any::Any + Send>>) {
    if servers.is_empty() {
        return;
    }
    let ender = std::thread::Builder::new().name("netloom-end".into());
    // Without a thread they end here, within their grace.
    let _ = ender.spawn(move || drop(servers));
}
