//! Changes of a running lab: nodes made, removed and set.
//!
//! Every change is recorded before it is made, under the lock that making and taking down use,
//! and undone if it fails. Processes in a node are never ended unless requested.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use netloom_model::lookup::slot;
use netloom_model::plan::NodeId;
use netloom_model::plan::PlannedNode;
use netloom_model::plan::Slot;
use netloom_model::setting::{self, Settings};
use netloom_model::{Plan, node_name_problem, set_node};
use netloom_node::control::{Connection, Request};
use netloom_node::figures::open_gauges;
use netloom_node::spec::socket_name;

use crate::build::binds;
use crate::build::maker::{add_group, limits};
use crate::run::running::{Running, Work};
use crate::run::teardown;
use crate::stage::{allowed, occupants, users};
use crate::store::state::State;
use crate::view::{Changed, NewNode, NodeSettings};
use crate::{Error, Result, Subject};

/// How long an init that does not answer holds up a change.
const ASKING: Duration = Duration::from_secs(2);

impl Running {
    /// See [`CreateNode`](crate::calls::CreateNode).
    pub(crate) fn create(&self, request: &NewNode) -> Result<Changed> {
        let mut work = self.work();
        let node = self.fresh(request)?;
        let (name, id) = (node.name.clone(), node.id);
        self.change(&mut work, |state| {
            add_group(&mut state.groups, &state.plan, &node);
            state.plan.add_node(node);
            Ok(())
        })?;
        if let Err(e) = self.make_with(&mut work) {
            // Remove what was made; the caller gets the error.
            let _ = self.forget(&mut work, &[id]);
            return Err(e);
        }
        self.serve_scopes()?;
        Ok(Changed { name, notes: vec![] })
    }

    /// The requested node, checked against the lab.
    fn fresh(&self, request: &NewNode) -> Result<PlannedNode> {
        let state = self.state();
        let plan = &state.plan;
        let object = Subject::of("node", &request.name);
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        let (parent, last) = match request.name.rsplit_once('/') {
            Some((parent, last)) => (Some(slot(plan, parent)?), last),
            None => (None, request.name.as_str()),
        };
        if let Some(problem) = node_name_problem(last) {
            return Err(invalid(problem));
        }
        // The request is valid, but conflicts with the current state.
        let full = |reason: String| Error::Busy { object: object.clone(), reason };
        if plan.is_taken(&request.name) {
            return Err(full("there is one of this name already".into()));
        }
        if let Some(parent) = parent {
            plan.room_for_child(parent).map_err(full)?;
        }
        let mut node = PlannedNode::fresh(plan, &request.name, parent);
        let mut settings = Settings::of(&node);
        for (key, value) in &request.settings {
            set_node(&mut settings, key, value).map_err(&invalid)?;
        }
        settings.put(&mut node);
        users::check_node(&state, &node)?;
        node.root = request.root.as_ref().map(PathBuf::from);
        self.check_bounds(&state, &node)?;
        allowed::check_limits(&state.groups, &node, state.user)?;
        if let Some(root) = &node.root {
            binds::check_root(&object, root, self.folder.runtime())?;
        }
        Ok(node)
    }

    /// A child gets no more than any node around it has.
    fn check_bounds(&self, state: &State, node: &PlannedNode) -> Result<()> {
        let up = |slot: &Slot| state.plan.nodes[*slot].parent;
        for around in std::iter::successors(node.parent, up) {
            setting::check_bounds(node, &state.plan.nodes[around]).map_err(|reason| {
                Error::Invalid { object: Subject::of("node", &node.name), reason }
            })?;
        }
        Ok(())
    }

    /// See [`DeleteNode`](crate::calls::DeleteNode).
    pub(crate) fn delete(&self, node: &str, force: bool) -> Result<Changed> {
        let mut work = self.work();
        let state = self.state();
        let top = slot(&state.plan, node)?;
        let slots: Vec<Slot> = std::iter::once(top).chain(state.plan.descendants(top)).collect();
        if !force {
            let remedy = "end them, or delete it with --force";
            self.refuse_inhabited(&work, &state.plan, &slots, remedy)?;
        }
        let ids: Vec<NodeId> = slots.iter().map(|s| state.plan.nodes[*s].id).collect();
        self.remove(&mut work, &ids)?;
        Ok(Changed { name: node.to_owned(), notes: vec![] })
    }

    /// Refuses if there are processes or sockets in one of these nodes, and names them.
    fn refuse_inhabited(
        &self,
        work: &Work,
        plan: &Plan,
        slots: &[Slot],
        remedy: &str,
    ) -> Result<()> {
        let recorders = self.sockets_of_recorder();
        for slot in slots {
            let node = &plan.nodes[*slot];
            let Some(init) = work.inits.get(&node.id).filter(|i| i.lives()) else { continue };
            let found = occupants::of(&node.name, init, &recorders)?;
            if let Some(who) = found.words() {
                let reason = format!("{who}; {remedy}");
                return Err(Error::Busy { object: Subject::of("node", &node.name), reason });
            }
        }
        Ok(())
    }

    /// Ends these nodes, and leads the others' routes past them.
    fn remove(&self, work: &mut Work, ids: &[NodeId]) -> Result<()> {
        let old = self.state();
        // Both are tried: routes must not lead to nodes that are gone, even if some remains stay.
        let ended = self.end_nodes(work, ids, Plan::delete_nodes);
        let followed = self.follow_plan(work, &old.plan);
        Error::of_all(ended.err().into_iter().chain(followed.err()).collect())
    }

    /// Ends these nodes and removes everything of them. Routes of others are decided by the plan that is being applied.
    pub(crate) fn forget(&self, work: &mut Work, ids: &[NodeId]) -> Result<()> {
        let ended = self.end_nodes(work, ids, Plan::remove_nodes);
        self.settle_names();
        ended
    }

    /// Ends these nodes; continues past failures and returns all of them. `take` takes them out of the plan.
    fn end_nodes(
        &self,
        work: &mut Work,
        ids: &[NodeId],
        take: fn(&mut Plan, &BTreeSet<Slot>),
    ) -> Result<()> {
        // After a kill the next lab process completes this.
        self.change(work, |state| {
            state.leaving.extend(ids);
            Ok(())
        })?;
        let state = self.state();
        let mut failures = Vec::new();
        // Interfaces that are visitors leave first: their home goes on.
        failures.extend(self.bring_home(work, ids).err());
        self.unfit(&state, ids);
        self.end_scopes(ids);
        let working = |n: &&PlannedNode| ids.contains(&n.id) && crate::build::starting::has_work(n);
        let nodes: Vec<&PlannedNode> = state.plan.nodes.iter().filter(working).collect();
        teardown::stop_programs(&self.folder, &nodes);
        let inits = ids.iter().filter_map(|id| work.inits.remove(id)).collect();
        failures.extend(teardown::end_inits(inits, || true).err());
        // Children's cgroups lie in their parents': remove the deepest first.
        for id in ids.iter().rev() {
            let removed = state.groups.remove_node(id.get());
            failures.extend(removed.err().map(Error::of("cgroups", "remove")));
            failures.extend(self.folder.remove_node_files(*id).err());
        }
        let kept = self.change(work, |state| {
            let gone: BTreeSet<Slot> = state
                .plan
                .slots()
                .filter(|slot| ids.contains(&state.plan.nodes[*slot].id))
                .collect();
            take(&mut state.plan, &gone);
            let links = &state.plan.links;
            state.lost.retain(|id, _| links.iter().any(|link| link.id == *id));
            state.leaving.retain(|id| !ids.contains(id));
            ids.iter().for_each(|id| state.groups.forget(id.get()));
            Ok(())
        });
        failures.extend(kept.err());
        Error::of_all(failures)
    }

    /// Completes removals of nodes that a kill of the lab process interrupted.
    pub(crate) fn end_leaving(&self, work: &mut Work) {
        let state = self.state();
        let left = |id: &NodeId| state.leaving.contains(id);
        // In the plan's order: parents before their children.
        let ids: Vec<NodeId> = state.plan.nodes.iter().map(|node| node.id).filter(left).collect();
        if ids.is_empty() {
            return;
        }
        let ended = if self.folder.was_cut_off() {
            self.forget(work, &ids)
        } else {
            self.remove(work, &ids)
        };
        if let Err(e) = ended {
            netloom_sys::journal::line(format_args!("netloom: {}", netloom_sys::describe(&e)));
        }
    }

    /// See [`SetNode`](crate::calls::SetNode).
    pub(crate) fn set(&self, node: &str, change: &NodeSettings) -> Result<Changed> {
        let mut work = self.work();
        let state = self.state();
        let at = slot(&state.plan, node)?;
        let object = Subject::of("node", node);
        let invalid = |reason: String| Error::Invalid { object: object.clone(), reason };
        let old = &state.plan.nodes[at];
        let mut new = old.clone();
        let mut settings = Settings::of(old);
        for (key, value) in &change.settings {
            if key == "root" {
                new.root = (value != "none").then(|| PathBuf::from(value));
                continue;
            }
            set_node(&mut settings, key, value).map_err(&invalid)?;
        }
        settings.put(&mut new);
        if old.children.is_none() && new.children.is_some() {
            let reason = "it was made without children, so it has no way to manage any; recreate \
                          it with a limit of children";
            return Err(invalid(reason.into()));
        }
        self.check_bounds(&state, &new)?;
        for inner in state.plan.descendants(at) {
            setting::check_bounds(&state.plan.nodes[inner], &new).map_err(&invalid)?;
        }
        allowed::check_limits(&state.groups, &new, state.user)?;
        users::check_node(&state, &new)?;
        let remake = new.root != old.root || new.privileged != old.privileged || new.ids != old.ids;
        if remake {
            new.root
                .as_ref()
                .map_or(Ok(()), |root| binds::check_root(&object, root, self.folder.runtime()))?;
            // Children live in its namespaces and end with it.
            let below = state.plan.descendants(at);
            let slots: Vec<Slot> = std::iter::once(at).chain(below).collect();
            let remedy = "`root`, `privileged` and `ids` can be changed when they have ended";
            self.refuse_inhabited(&work, &state.plan, &slots, remedy)?;
        }
        let mut notes = Vec::new();
        if new.limits != old.limits {
            notes = self.apply_limits(&mut work, old, &new)?;
        }
        self.apply_guards(&work, &state, at, &new)?;
        self.change(&mut work, |state| {
            state.plan.nodes[at] = new.clone();
            Ok(())
        })?;
        if remake {
            self.remake(&mut work, &new)?;
            notes.push("recreated".into());
        }
        let count = state.plan.descendants(at).len();
        if new.children.is_some_and(|limit| count > limit as usize) {
            notes.push(format!("{count} nodes live in it already; no more can be made"));
        }
        Ok(Changed { name: node.to_owned(), notes })
    }

    /// Sets the limits of a living node.
    pub(crate) fn apply_limits(
        &self,
        work: &mut Work,
        old: &PlannedNode,
        new: &PlannedNode,
    ) -> Result<Vec<String>> {
        let object = format!("node {:?}", new.name);
        // Groups first: a limit needs one to be set on.
        let mut notes = self.enlarge_groups(work, old, new)?;
        let state = self.state();
        let set = state.groups.apply(new.id.get(), &limits(&old.limits), &limits(&new.limits));
        notes.extend(set.map_err(Error::of(&object, "set its limits"))?);
        if new.limits.weight != old.limits.weight {
            let weighed = state.groups.weigh(new.id.get(), new.limits.weight);
            weighed.map_err(Error::of(&object, "set its weight"))?;
        }
        self.kept.keepers.guards.limit_sockets(&state, new)?;
        let counts = self.kept.keepers.guards.sockets(&state, new);
        let over = new.limits.sockets.zip(counts).filter(|(limit, c)| c.open > u64::from(*limit));
        if let Some((limit, counts)) = over {
            notes.push(format!("{} sockets are open, limit {limit}: no more can be", counts.open));
        }
        Ok(notes)
    }

    /// Gives a node that had no memory or socket limit the groups for one.
    fn enlarge_groups(
        &self,
        work: &mut Work,
        old: &PlannedNode,
        new: &PlannedNode,
    ) -> Result<Vec<String>> {
        let object = format!("node {:?}", new.name);
        let state = self.state();
        let (memory, sockets) = (new.limits.memory.is_some(), new.limits.sockets.is_some());
        let lacks_memory = memory && old.limits.memory.is_none();
        let lacks_sockets = sockets && state.groups.sockets_dir(new.id.get()).is_none();
        if !lacks_memory && !lacks_sockets {
            return Ok(vec![]);
        }
        // Before it is made: a killed process leaves no group that nobody knows.
        self.change(work, |state| {
            add_group(&mut state.groups, &state.plan, new);
            Ok(())
        })?;
        let state = self.state();
        let init = self.living(work, new)?;
        let open = if lacks_sockets { occupants::sockets_open(&new.name, init)? } else { 0 };
        state
            .groups
            .create_node(new.id.get(), &limits(&old.limits))
            .map_err(Error::of(&object, "make a group for it"))?;
        // Looked up after the group exists: a process that starts later is already in it.
        let pids = occupants::pids(init, &state.groups, new.id);
        state
            .groups
            .move_in(new.id.get(), &pids)
            .map_err(Error::of(&object, "move its processes into a group"))?;
        self.tell_gauges(&state, new)?;
        Ok(match open {
            0 => vec![],
            1 => vec!["a socket that was open before does not count for the limit".into()],
            n => vec![format!("{n} sockets that were open before do not count for the limit")],
        })
    }

    /// Tells the inits of a node and of those in it by which groups they know from now on what they may use.
    fn tell_gauges(&self, state: &State, node: &PlannedNode) -> Result<()> {
        let plan = &state.plan;
        let own = plan.slot_of(node.id);
        for slot in own.into_iter().flat_map(|own| [vec![own], plan.descendants(own)].concat()) {
            let node = &plan.nodes[slot];
            let socket = self.folder.sockets().join(socket_name(node.id.get()));
            // An init that has ended reads them when it is recreated.
            let Some(init) = Connection::open_within(&node.name, &socket, ASKING)? else {
                continue;
            };
            let gauges = open_gauges(&state.groups.gauges(node.id.get()));
            let (names, files): (Vec<_>, Vec<_>) = gauges.into_iter().unzip();
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            init.send_with(&Request::Gauges(names), &files)?;
        }
        Ok(())
    }

    /// Ends a node's init and recreates it.
    fn remake(&self, work: &mut Work, node: &PlannedNode) -> Result<()> {
        self.unfit(&self.state(), &[node.id]);
        let inits = work.inits.remove(&node.id).into_iter().collect();
        teardown::end_inits(inits, || true)?;
        self.make_with(work).map(drop)
    }
}
