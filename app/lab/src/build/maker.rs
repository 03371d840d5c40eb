//! Makes a plan real: all of it, or missing nodes and their links.
//!
//! The order: cgroups and inits chunk by chunk, switches, links, doors, addresses and routes. Programs
//! are started by [`starting`](crate::build::starting). The first failure stops it; the caller takes everything down or
//! leaves the rest as it was. Teardown finds all objects by itself, so nothing is recorded here.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netloom_model::Plan;
use netloom_model::kinds::NodeKind;
use netloom_model::lab::Limits;
use netloom_model::plan::NodeId;
use netloom_model::plan::Slot;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{Interface, LinkSlot, PlannedEnd, PlannedLink, PlannedNode};
use netloom_node::init::BUT;
use netloom_node::spawner::{Spawner, Surrounding};
use netloom_node::spec::{Kind, NodeSpec};
use netloom_sys::{cgroup, journal, namespace, process};

use crate::build::configure::Scope;
use crate::build::keeper::{Ground, Keeper};
use crate::build::links::New;
use crate::build::{configure, links, machines, routers};
use crate::stage::inits::{Init, Inits};
use crate::stage::lab_process::room_for_spaces;
use crate::stage::reports::Reports;
use crate::stage::spaces::Spaces;
use crate::stage::{absent, host, images, users};
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// Inits per request to the spawner; the cgroups of the next batch are made meanwhile.
const CHUNK: usize = 64;

/// Time limit for inits to report, and the interval of checks on silent ones.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);
const REPORT_LOOK: Duration = Duration::from_millis(50);

/// Everything that making needs. A *slot* is a node's place in the plan; the core's follows the last
/// node's.
pub(crate) struct Maker<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) state: &'a State,
    pub(crate) spawner: &'a Spawner,
    pub(crate) keepers: &'a [&'a dyn Keeper],
    /// The reading end of the inits' reports.
    pub(crate) reports: &'a OwnedFd,
    /// Called with the current step, and how much of it is done of how much.
    pub(crate) progress: &'a (dyn Fn(&str, usize, usize) + Sync),
    /// Called with the new slots and links when the network is complete, before programs start:
    /// attaches protection, charging and wires.
    pub(crate) before_programs: &'a Fitting<'a>,
}

/// See [`Maker::before_programs`].
type Fitting<'a> = dyn Fn(&Inits, &[Slot], &[LinkSlot]) -> Result<()> + Sync + 'a;

/// Inits of one request to the spawner.
struct Batch {
    /// The slot of the node around them.
    parent: Option<Slot>,
    slots: Vec<Slot>,
}

/// The missing parts of a lab.
pub(crate) struct Missing {
    /// Slots without a living init.
    slots: Vec<Slot>,
    /// Places of the links to make.
    pub(crate) links: Vec<LinkSlot>,
}

impl Missing {
    pub(crate) fn of(state: &State, inits: &Inits, keepers: &[&dyn Keeper]) -> Missing {
        let plan = &state.plan;
        let ids = plan
            .nodes
            .iter()
            .map(|n| n.id)
            .chain([NodeId::CORE])
            .enumerate()
            .map(|(at, id)| (Slot::new(at), id));
        let dead = |id: &NodeId| !inits.get(id).is_some_and(Init::lives);
        let slots: Vec<Slot> = ids.filter(|(_, id)| dead(id)).map(|(slot, _)| slot).collect();
        let lost_doors = keepers.iter().any(|keeper| keeper.lost_doors(state));
        let links = links_of(state, &slots, lost_doors);
        Missing { slots, links }
    }

    /// The nodes among them, and the core, by id.
    pub(crate) fn ids(&self, plan: &Plan) -> Vec<NodeId> {
        let id = |slot: &Slot| plan.node_at(*slot).map_or(NodeId::CORE, |node| node.id);
        self.slots.iter().map(id).collect()
    }
}

/// The links to make when these inits are new: those with an end there; and all doors if one of these is a door or was
/// lost, because the host's side is undone and made as a whole.
fn links_of(state: &State, missing: &[Slot], lost_doors: bool) -> Vec<LinkSlot> {
    let plan = &state.plan;
    let missing: BTreeSet<Slot> = missing.iter().copied().collect();
    let core = missing.contains(&plan.core_slot());
    let touched = |end: &PlannedEnd| match end {
        PlannedEnd::Node { node, .. } => missing.contains(node),
        PlannedEnd::Port { .. } | PlannedEnd::Nowhere { .. } => core,
        PlannedEnd::Host { .. } | PlannedEnd::Internet { .. } => false,
    };
    let hit = |i: &LinkSlot| {
        let link = &plan.links[*i];
        let is_lost = state.lost.contains_key(&link.id);
        // Other lost links are made one by one once all nodes exist, see `Running::make_lost`.
        if is_lost { state.form(link).is_door() } else { link.ends.iter().any(touched) }
    };
    let is_door = |i: &LinkSlot| state.form(&plan.links[*i]).is_door();
    let doors = plan.link_slots().filter(is_door).any(|i| lost_doors || hit(&i));
    plan.link_slots().filter(|i| hit(i) || (doors && is_door(i))).collect()
}

impl Maker<'_> {
    /// Makes the missing inits and everything that depends on them, except programs; returns their
    /// slots. On success all inits exist.
    pub(crate) fn make(&self, inits: &mut Inits) -> Result<Vec<Slot>> {
        let Missing { slots: missing, links } = Missing::of(self.state, inits, self.keepers);
        if missing.is_empty() && links.is_empty() {
            return Ok(missing);
        }
        // All are missing: nothing of before is in the way.
        let fresh = missing.len() == self.state.plan.nodes.len() + 1;
        self.make_inits(&missing, inits)?;
        let spaces = self.open_spaces(inits, &missing, &links)?;
        if !fresh {
            self.clear_way(&spaces, &missing, &links)?;
        }
        self.make_network(&spaces, &missing, &links)?;
        drop(spaces);
        (self.before_programs)(inits, &missing, &links)?;
        Ok(missing)
    }

    fn core_slot(&self) -> Slot {
        self.state.plan.core_slot()
    }

    /// The id of the node at a slot.
    fn id(&self, slot: Slot) -> NodeId {
        identity(self.state, slot).0
    }

    fn slot(&self, id: NodeId) -> Option<Slot> {
        if id == NodeId::CORE {
            return Some(self.core_slot());
        }
        self.state.plan.slot_of(id)
    }

    /// Batches of inits: first nodes in no other node, then children, by parent; a parent always precedes its
    /// children.
    fn batches(&self, missing: &[Slot]) -> Vec<Batch> {
        // Sorted by depth: maps iterate in the order of their keys.
        let mut by_parent: BTreeMap<(usize, Option<Slot>), Vec<Slot>> = BTreeMap::new();
        for &slot in missing {
            let parent = self.state.plan.node_at(slot).and_then(|n| n.parent);
            by_parent.entry((self.depth(slot), parent)).or_default().push(slot);
        }
        let batch = |parent: Option<Slot>, slots: &[Slot]| Batch { parent, slots: slots.to_vec() };
        let chunked = by_parent.into_iter().flat_map(|((_, parent), slots)| {
            slots.chunks(CHUNK).map(|c| batch(parent, c)).collect::<Vec<_>>()
        });
        chunked.collect()
    }

    fn depth(&self, slot: Slot) -> usize {
        let parent = |slot: Slot| self.state.plan.node_at(slot).and_then(|n| n.parent);
        std::iter::successors(parent(slot), |p| parent(*p)).count()
    }

    fn make_inits(&self, missing: &[Slot], inits: &mut Inits) -> Result<()> {
        let total = missing.len();
        let mut reports = Reports::new(self.reports);
        let batches = self.batches(missing);
        let mut batches = batches.iter();
        let mut asked = batches.next();
        if let Some(first) = asked {
            self.begin(first, self.specs(first)?, inits)?;
        }
        while let Some(batch) = asked {
            // While the spawner clones these, the cgroups of the next are made.
            let next = batches.next();
            let specs = next.map(|b| self.specs(b)).transpose()?;
            for (slot, pid) in batch.slots.iter().zip(self.spawner.finish_create()?) {
                // An init that has ended already will be missing among the reports.
                if let Ok(pidfd) = process::pidfd(pid) {
                    let id = self.id(*slot);
                    inits.insert(id, Init { id, pid, pidfd });
                }
            }
            if let (Some(next), Some(specs)) = (next, specs) {
                // A child's namespace is made inside of its parent's.
                self.await_parent(next, missing, inits, &mut reports)?;
                self.begin(next, specs, inits)?;
            }
            asked = next;
            reports.take_ready(|index, text| self.report(index, text))?;
            (self.progress)("nodes", reports.count, total);
        }
        let asked_at = Instant::now();
        while reports.count < total {
            if !reports.wait(REPORT_LOOK, |index, text| self.report(index, text))? {
                self.look_after(missing, inits, &mut reports, asked_at)?;
            }
            (self.progress)("nodes", reports.count, total);
        }
        Ok(())
    }

    /// Waits until the node that these are to live in is set up: nobody may look at a child's init before, and
    /// a node's init enters its user namespace last.
    fn await_parent(
        &self,
        batch: &Batch,
        missing: &[Slot],
        inits: &Inits,
        reports: &mut Reports<'_>,
    ) -> Result<()> {
        let unready =
            |slot: &Slot| missing.contains(slot) && (self.depth(*slot) > 0 || !self.state.user);
        let Some(parent) = batch.parent.filter(unready) else { return Ok(()) };
        let asked_at = Instant::now();
        while !reports.from.contains(&self.id(parent)) {
            if !reports.wait(REPORT_LOOK, |index, text| self.report(index, text))? {
                self.look_after(&[parent], inits, reports, asked_at)?;
            }
        }
        Ok(())
    }

    /// Asks the spawner for a batch.
    fn begin(&self, batch: &Batch, specs: Vec<NodeSpec>, inits: &Inits) -> Result<()> {
        let Some(parent) = batch.parent else {
            return Ok(self.spawner.begin_create(specs, None)?);
        };
        let outer = inits.get(&self.id(parent)).ok_or_else(|| ended(&self.name(parent)))?;
        let object = format!("node {:?}", self.name(parent));
        let space = namespace::processes_of(outer.pid)
            .map_err(Error::of(&object, "open its PID namespace"))?;
        let user = namespace::has_other_user(outer.pid)
            .then(|| namespace::user_of(outer.pid))
            .transpose()
            .map_err(Error::of(&object, "open its user namespace"))?;
        // Looked at after its namespaces were opened: the pid may be another process's by then.
        if !outer.lives() {
            return Err(ended(&self.name(parent)).into());
        }
        let inside = Surrounding { processes: space.as_fd(), user: user.as_ref().map(AsFd::as_fd) };
        Ok(self.spawner.begin_create(specs, Some(inside))?)
    }

    fn specs(&self, batch: &Batch) -> Result<Vec<NodeSpec>> {
        batch.slots.iter().map(|slot| self.spec(*slot)).collect()
    }

    fn report(&self, id: NodeId, text: &str) -> Result<()> {
        if text == "ok" {
            return Ok(());
        }
        let node = self.name(self.slot(id).unwrap_or_default());
        if let Some(why) = text.strip_prefix("ok ").and_then(|rest| rest.strip_prefix(BUT)) {
            journal::line(format_args!("netloom: node {node:?}: /proc shows the machine's {why}"));
            return Ok(());
        }
        Err(netloom_node::Error::Init { node, report: text.to_owned() }.into())
    }

    /// Fails if an init has ended without a report, or takes too long.
    fn look_after(
        &self,
        missing: &[Slot],
        inits: &Inits,
        reports: &mut Reports<'_>,
        asked_at: Instant,
    ) -> Result<()> {
        // Looked at before the pipe is read: what ended earlier has written all by then.
        let dead: Vec<Slot> = missing
            .iter()
            .copied()
            .filter(|slot| !inits.get(&self.id(*slot)).is_some_and(Init::lives))
            .collect();
        // Its report, if it wrote one before it ended, is in the pipe by now.
        reports.take_ready(|index, text| self.report(index, text))?;
        let unheard = |slot: &Slot| !reports.from.contains(&self.id(*slot));
        let silent = dead.into_iter().find(unheard);
        if silent.is_none() && asked_at.elapsed() < REPORT_TIMEOUT {
            return Ok(());
        }
        let late = missing.iter().copied().find(unheard);
        let node = self.name(silent.or(late).unwrap_or_default());
        let report = "its init ended or hung before it was set up".to_owned();
        Err(netloom_node::Error::Init { node, report }.into())
    }

    fn name(&self, slot: Slot) -> String {
        identity(self.state, slot).1
    }

    /// The description of an init for the spawner; also makes its cgroups.
    fn spec(&self, slot: Slot) -> Result<NodeSpec> {
        let Some(node) = self.state.plan.node_at(slot) else {
            return Ok(NodeSpec::core(NodeId::CORE.get(), &self.state.plan.lab));
        };
        let groups = &self.state.groups;
        groups
            .create_node(node.id.get(), &limits(&node.limits))
            .and_then(|()| match node.limits.weight {
                Some(weight) => groups.weigh(node.id.get(), Some(weight)),
                None => Ok(()),
            })
            .map_err(Error::of(format!("node {:?}", node.name), "make its cgroups"))?;
        let scope = node.children.is_some().then(|| self.folder.scope(node.id));
        if let Some(scope) = &scope {
            crate::store::state::make_private_dir(scope)?;
        }
        let spec = NodeSpec {
            index: node.id.get(),
            name: node.name.clone(),
            host_name: node.host_name().to_owned(),
            scope,
            kind: match node.kind {
                NodeKind::Plain | NodeKind::Vm(_) | NodeKind::Router(_) => Kind::Node,
            },
            privileged: node.privileged,
            users: users::in_node(self.state, node),
            root: self.root_of(slot),
            layers: images::layers(self.state, slot)?,
            storage: node.storage,
            tasks: groups.tasks_files(node.id.get()),
            v2_cgroup: groups.v2_dir(node.id.get()),
            gauges: groups.gauges(node.id.get()),
            no_own_time: None,
            files: node.files.clone(),
            binds: node.binds.clone(),
            shown: vec![],
            resolv: node.internet.then(|| host::name_servers(self.state.user)),
            sysctls: before_interfaces(node),
            env: node.env.clone(),
            setup: node.setup.clone(),
            run: node.run.clone(),
            ready: node.ready.clone(),
            exec: node.exec.clone(),
            health: node.health.clone(),
            told_in: None,
        };
        match &node.kind {
            NodeKind::Plain => Ok(spec),
            NodeKind::Vm(machine) => {
                let cards = self.cards(node);
                machines::around(spec, &self.state.plan.lab, node, machine, cards)
            }
            NodeKind::Router(_) => {
                let carried = self.folder.carried(&node.plane_name());
                Ok(routers::around(spec, &self.state.plan, slot, &carried))
            }
        }
    }

    /// The interfaces of a machine that are cards by vhost-user.
    fn cards(&self, node: &PlannedNode) -> Vec<String> {
        let state = &self.state;
        let is_card = |i: &&Interface| {
            let link = state.plan.link_at(i.link);
            link.is_some_and(|link| state.form(link) == LinkForm::Guest)
        };
        node.interfaces.iter().filter(is_card).map(|i| i.name.clone()).collect()
    }

    /// A child uses its parent's root unless it has its own.
    fn root_of(&self, slot: Slot) -> Option<PathBuf> {
        let nodes = &self.state.plan.nodes;
        let mut up = std::iter::successors(Some(slot), |s| nodes[*s].parent);
        // An image counts as a root: it ends the search without a path.
        up.find(|s| nodes[*s].root.is_some() || nodes[*s].image.is_some())
            .and_then(|s| nodes[s].root.clone())
    }

    /// The network namespaces of new nodes, of nodes at the ends of these links, and the core's: as many open as there is
    /// room for.
    fn open_spaces<'b>(
        &'b self,
        inits: &'b Inits,
        missing: &[Slot],
        links: &[LinkSlot],
    ) -> Result<Spaces<'b>> {
        let state = self.state;
        let ends = links.iter().flat_map(|i| &state.plan.links[*i].ends);
        let core = state.plan.core_slot();
        let mut wanted: BTreeSet<Slot> =
            missing.iter().copied().filter(|slot| *slot != core).collect();
        wanted.extend(ends.filter_map(|e| match e {
            PlannedEnd::Node { node, .. } => Some(*node),
            _ => None,
        }));
        let open = |slot: Slot| {
            let (id, name) = identity(state, slot);
            inits.get(&id).ok_or_else(|| ended(&name))?.network(&name)
        };
        // Only what is needed: a lab of a thousand nodes would need as many descriptors for one new
        // link.
        let room = room_for_spaces(inits.len());
        let kept = wanted.into_iter().take(room).map(|slot| Ok((slot, open(slot)?)));
        let kept = kept.collect::<Result<_>>()?;
        Ok(Spaces::of(kept, open(core)?, &state.forms).with_others(open))
    }

    fn ground<'b>(&'b self, spaces: &'b Spaces<'_>, links: &'b [LinkSlot]) -> Ground<'b> {
        Ground { folder: self.folder, state: self.state, spaces, links }
    }

    /// Removes the remains of links of dead inits, so that they can be recreated.
    fn clear_way(&self, spaces: &Spaces<'_>, missing: &[Slot], links: &[LinkSlot]) -> Result<()> {
        let ground = self.ground(spaces, links);
        for keeper in self.keepers {
            keeper.clear(&ground)?;
        }
        let lost = |link: &PlannedLink| self.state.lost.contains_key(&link.id);
        links::remove_links(&self.state.plan, spaces, links, lost, New::Of(missing))
    }

    fn make_network(
        &self,
        spaces: &Spaces<'_>,
        missing: &[Slot],
        links: &[LinkSlot],
    ) -> Result<()> {
        let plan = &self.state.plan;
        if missing.contains(&self.core_slot()) && !plan.switches.is_empty() {
            links::make_switches(plan, spaces.core.as_fd())?;
        }
        (self.progress)("links", 0, links.len());
        let fresh_core = missing.contains(&self.core_slot());
        links::make_links(plan, spaces, links, fresh_core, New::Of(missing))?;
        let ground = self.ground(spaces, links);
        for keeper in self.keepers {
            keeper.lay(&ground)?;
        }
        links::raise_ports(plan, spaces, links)?;
        (self.progress)("links", links.len(), links.len());
        let work = self.to_configure(missing, links);
        if self.state.moved.is_empty() && self.state.lost.is_empty() {
            return configure::configure(plan, spaces, &work, links);
        }
        // Lost doors exist again by now; routes by interfaces that are elsewhere are left out.
        let mut now = self.state.clone();
        now.lost.retain(|id, _| !links.iter().any(|at| plan.links[*at].id == *id));
        configure::configure(&absent::without_absent(&now), spaces, &work, links)
    }

    /// New nodes as a whole, and living nodes with new links.
    fn to_configure(&self, missing: &[Slot], links: &[LinkSlot]) -> Vec<(Slot, Scope)> {
        let new: BTreeSet<Slot> = missing.iter().copied().collect();
        // Where a router's plane is separate, a living node's interface stays when the router goes.
        let core = new.contains(&self.core_slot());
        let plan = &self.state.plan;
        let stays = |i: &LinkSlot| self.state.form(&plan.links[*i]) == LinkForm::Beside && !core;
        let ends = links.iter().filter(|i| !stays(i)).flat_map(|i| &plan.links[*i].ends);
        let living: BTreeSet<Slot> = ends
            .filter_map(|e| match e {
                PlannedEnd::Node { node, .. } if !new.contains(node) => Some(*node),
                _ => None,
            })
            .collect();
        let nodes = new.iter().filter(|i| **i < self.core_slot());
        nodes
            .map(|i| (*i, Scope::All))
            .chain(living.into_iter().map(|i| (i, Scope::Links)))
            .collect()
    }
}

/// The id and the name of the node at a slot, which may be the core's.
fn identity(state: &State, slot: Slot) -> (NodeId, String) {
    let node = state.plan.node_at(slot);
    node.map_or_else(|| (NodeId::CORE, "(core)".to_owned()), |node| (node.id, node.name.clone()))
}

fn ended(node: &str) -> netloom_node::Error {
    let report = "its init ended while its network was made".to_owned();
    netloom_node::Error::Init { node: node.to_owned(), report }
}

/// Sysctls to set before interfaces are made, which copy them; the others are set afterwards.
fn before_interfaces(node: &PlannedNode) -> Vec<(String, String)> {
    node.sysctls.iter().filter(|(path, _)| !configure::is_late(path)).cloned().collect()
}

/// Records the groups that a node needs; the node around it is in the plan.
pub(crate) fn add_group(groups: &mut cgroup::Groups, plan: &Plan, node: &PlannedNode) {
    let parent = node.parent.map(|parent| plan.nodes[parent].id.get());
    let (memory, sockets) = (node.limits.memory.is_some(), node.limits.sockets.is_some());
    groups.add(node.id.get(), parent, memory, sockets);
}

/// Limits as `netloom_sys` takes them.
pub(crate) fn limits(limits: &Limits) -> cgroup::Limits {
    cgroup::Limits {
        cpu_milli: limits.cpu_milli,
        memory: limits.memory,
        processes: limits.processes,
    }
}
