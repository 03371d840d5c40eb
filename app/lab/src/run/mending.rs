//! Puts right what differs: links that are gone, the core namespace, then node by node.
//!
//! Every step reads the kernel again and is harmless where nothing differs any more.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;

use netloom_model::plan::form::Seat;
use netloom_model::plan::{LinkSlot, NodeId, PlannedEnd, PlannedNode, Slot};
use netloom_netlink::{Batch, Change};
use netloom_sys::{describe, sysctl};

use crate::build::keeper::{Gone, Keeper};
use crate::build::{configure, links};
use crate::keep::switches::Switches;
use crate::run::drift::of_node::{self, Difference};
use crate::run::drift::{self, Differences, Left, LivingInits, Object, of_core, seen, slots_of};
use crate::run::link_changes::delete_ends;
use crate::run::running::{Phase, Running, Work};
use crate::stage::inits::Init;
use crate::stage::{attach, spaces};
use crate::store::state::State;
use crate::{Error, Result};

/// How often a node is compared: what is put right may change something else, as IPv6 follows the MTU.
const ROUNDS: usize = 4;

impl Running {
    /// Notes what commands and programs of these nodes have changed, which are ready, and of others that lack a note.
    pub(crate) fn note_left(&self, work: &Work, ready: &[Slot]) -> Result<()> {
        if self.phase() == Phase::Ended {
            return Ok(());
        }
        let state = self.state();
        let plan = &state.plan;
        let mut known = Left::read(&self.folder)?;
        let ids: BTreeSet<NodeId> = plan.nodes.iter().map(|node| node.id).collect();
        let before = known.0.len();
        known.0.retain(|id, _| ids.contains(id));
        let ready: BTreeSet<NodeId> =
            ready.iter().filter_map(|slot| plan.node_at(*slot)).map(|node| node.id).collect();
        let wanted = |node: &PlannedNode| {
            has_own(node) && (ready.contains(&node.id) || !known.0.contains_key(&node.id))
        };
        let pid = |node: &PlannedNode| {
            let init = work.inits.get(&node.id).filter(|init| init.lives());
            init.filter(|_| wanted(node)).map(|init: &Init| init.pid)
        };
        let nodes: Vec<_> = plan.nodes.iter().map(pid).collect();
        if nodes.iter().all(Option::is_none) && before == known.0.len() {
            return Ok(());
        }
        let looked: Vec<NodeId> =
            plan.nodes.iter().zip(&nodes).filter_map(|(node, pid)| pid.map(|_| node.id)).collect();
        // Against nothing known: all that differs now was left by the node's own programs.
        let Differences { mut changes, .. } =
            drift::find(&state, &LivingInits { nodes, core: None }, &Left::default())?;
        for id in looked {
            let left = changes.remove(&Object::Node(id)).unwrap_or_default();
            known.0.insert(id, left.into_iter().collect());
        }
        self.folder.write_commands(&known.0)
    }

    /// The living inits.
    pub(crate) fn inhabited(&self, work: &Work, state: &State) -> LivingInits {
        let pid = |id| work.inits.get(&id).filter(|init: &&Init| init.lives()).map(|init| init.pid);
        let nodes = state.plan.nodes.iter().map(|node| pid(node.id)).collect();
        LivingInits { nodes, core: pid(NodeId::CORE) }
    }

    /// What differs now.
    pub(crate) fn differences(&self, work: &Work, state: &State) -> Result<Differences> {
        let doors = self.kept.keepers.doors.differences(&self.folder, state)?;
        let found = drift::find(state, &self.inhabited(work, state), &Left::read(&self.folder)?)?;
        let shown = |switch: &str| self.kept.keepers.switches.shown(&self.folder, switch);
        let rules = Switches::differences(state, shown);
        Ok(found.with_doors(doors).with_processes(rules, self.lacking_recorder(state)))
    }

    /// What differs in a lab that is up, in words; mended unless it is to be kept.
    pub(crate) fn settle_drift(&self, keep: bool) -> Result<Vec<String>> {
        // While it starts, programs still change their networks.
        if self.phase() != Phase::Up {
            return Ok(vec![]);
        }
        let mut work = self.work();
        let state = self.state();
        let found = self.differences(&work, &state)?;
        if !keep {
            self.mend(&mut work, &found)?;
        }
        Ok(found.lines(&state))
    }

    /// Makes what differs as the plan has it.
    pub(crate) fn mend(&self, work: &mut Work, found: &Differences) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let state = self.state();
        self.mend_bridges(work, &state, found)?;
        for at in slots_of(&state, found.objects()) {
            let link = &state.plan.links[at];
            if found.missing.contains(&link.id) {
                self.lay_missing(work, &state, at)?;
            } else if found.wires.contains(&link.id) {
                self.renew_wires(work, &state, at)?;
            }
        }
        self.mend_ports(work, &state, found)?;
        for switch in &state.plan.switches {
            let differs =
                found.objects().any(|o| matches!(o, Object::Switch(name) if *name == switch.name));
            if let (true, Some(options)) = (differs, switch.kind.as_shm()) {
                self.kept.keepers.switches.mend(&self.folder, &switch.name, options)?;
            }
        }
        if found.doors {
            self.kept.keepers.doors.mend(&self.folder, &state)?;
        }
        let left = Left::read(&self.folder)?;
        for slot in state.plan.slots() {
            let node = &state.plan.nodes[slot];
            if found.objects().any(|object| *object == Object::Node(node.id)) {
                self.mend_node(work, &state, slot, &left)?;
            }
        }
        Ok(())
    }

    /// Makes a link again of which an interface is gone.
    fn lay_missing(&self, work: &Work, state: &State, at: LinkSlot) -> Result<()> {
        let link = &state.plan.links[at];
        self.kept.forget(state, Gone { nodes: &[], links: &[link] });
        delete_ends(&work.inits, state, link)?;
        self.lay_again(work, state, at)
    }

    fn renew_wires(&self, work: &Work, state: &State, at: LinkSlot) -> Result<()> {
        let link = &state.plan.links[at];
        let wires = &self.kept.keepers.wires;
        let context = self.context(state, &work.inits);
        // Their remains may be anything.
        let _ = wires.take_out(&context, link);
        Keeper::forget(wires, state, Gone { nodes: &[], links: &[link] });
        wires.fit_links(&context, &[at])
    }

    fn mend_bridges(&self, work: &Work, state: &State, found: &Differences) -> Result<()> {
        let differs = |name: &str| {
            found.objects().any(|o| matches!(o, Object::Switch(switch) if switch == name))
        };
        let bridges = state.plan.switches.iter().filter(|s| s.kind.is_bridge());
        let switches: Vec<_> = bridges.filter(|s| differs(&s.name)).collect();
        if switches.is_empty() {
            return Ok(());
        }
        let space = self.core_space(work)?;
        let there = spaces::inside(space.as_fd(), "core namespace", |socket| {
            let links = socket.links_alone();
            let links = links.map_err(Error::of("core namespace", "read its interfaces"))?;
            Ok(links.into_iter().map(|link| link.index).collect::<BTreeSet<u32>>())
        })?;
        let gone = |index: u32| !there.contains(&index);
        // Others stand: making them would fail.
        links::make_bridges(&state.plan, space.as_fd(), |s| differs(&s.name) && gone(s.index))?;
        spaces::inside(space.as_fd(), "core namespace", |socket| {
            let mut batch = Batch::new();
            for switch in &switches {
                let object = format!("switch {:?}", switch.name);
                batch.push(object, &Change::of(switch.index).up());
            }
            spaces::run(socket, &mut batch, "core namespace", "raise switches")
        })
    }

    /// Raises and attaches ports of links that differ, or whose switch does.
    fn mend_ports(&self, work: &Work, state: &State, found: &Differences) -> Result<()> {
        let plan = &state.plan;
        let differs = |object: &Object| found.objects().any(|found| found == object);
        let mut batch = Batch::new();
        for link in &plan.links {
            let of_switch = |end: &PlannedEnd| match end {
                PlannedEnd::Port { switch, .. } => {
                    let switch = plan.switch_at(*switch);
                    switch.is_some_and(|switch| differs(&Object::Switch(switch.name.clone())))
                }
                _ => false,
            };
            if !differs(&Object::Link(link.id)) && !link.ends.iter().any(of_switch) {
                continue;
            }
            for port in of_core::ports_of(state, link) {
                let change = Change::of(port.index).mtu(link.mtu);
                let change = if port.cut { change } else { change.up() };
                let change = match port.bridge {
                    Some(bridge) => change.enslave(bridge),
                    None => change,
                };
                batch.push(format!("link {:?}", link.name), &change);
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        let space = self.core_space(work)?;
        spaces::inside(space.as_fd(), "core namespace", |socket| {
            spaces::run(socket, &mut batch, "core namespace", "mend ports")
        })
    }

    fn mend_node(&self, work: &Work, state: &State, slot: Slot, left: &Left) -> Result<()> {
        let node = &state.plan.nodes[slot];
        let object = format!("node {:?}", node.name);
        let done = attach::run_in_living(&work.inits, node.id, &object, || {
            in_node(state, slot, left, &object)
        })?;
        let Some(init) = work.inits.get(&node.id).filter(|init| done.is_some() && init.lives())
        else {
            return Ok(());
        };
        // The kernel forgets neighbours of an interface that goes down.
        let has = |at: &LinkSlot| {
            let link = &state.plan.links[*at];
            (0..2).any(
                |side| matches!(state.seat(link, side), Seat::Node { node, .. } if node == slot),
            )
        };
        let own: Vec<LinkSlot> = node.interfaces.iter().map(|own| own.link).filter(has).collect();
        let space = init.network(&node.name)?;
        configure::give_neighbours(&state.plan, space.as_fd(), slot, &own)
    }
}

/// Puts right what differs in the network of the calling thread.
fn in_node(state: &State, slot: Slot, left: &Left, object: &str) -> Result<()> {
    let node = &state.plan.nodes[slot];
    let named: Arc<str> = object.into();
    let fixes = state.plan.fixes_neighbours();
    let mut failed = None;
    let differing = || -> Result<Vec<Difference>> {
        let mut found =
            of_node::compare(state, slot, &seen::node(node, fixes, object)?).differences;
        found.retain(|one| !left.has(node.id, &one.change()));
        Ok(found)
    };
    for _ in 0..ROUNDS {
        let found = differing()?;
        if found.is_empty() {
            return Ok(());
        }
        failed = round(node, &found, &named).err();
        if let (Some(error), true) = (&failed, found.len() == 1) {
            // Nothing else can bring it about.
            let words = found[0].change().words;
            return Err(unmended(object, &[words], Some(error)));
        }
    }
    let words: Vec<String> = differing()?.iter().map(|one| one.change().words).collect();
    match words.is_empty() {
        true => Ok(()),
        false => Err(unmended(object, &words, failed.as_ref())),
    }
}

/// Interfaces first, then settings, addresses and routes: each needs those before it.
fn round(node: &PlannedNode, found: &[Difference], object: &Arc<str>) -> Result<()> {
    let is_of_interface = |one: &&Difference| {
        matches!(
            one,
            Difference::Name { .. }
                | Difference::Mac { .. }
                | Difference::Mtu { .. }
                | Difference::Bridge { .. }
                | Difference::Discipline { .. }
                | Difference::Down { .. }
        )
    };
    let run = |some: &mut dyn Iterator<Item = &Difference>| {
        let mut batch = Batch::new();
        some.for_each(|one| one.push(&mut batch, object));
        match batch.is_empty() {
            true => Ok(()),
            false => spaces::run(&mut spaces::open(object)?, &mut batch, object, "mend"),
        }
    };
    let first = run(&mut found.iter().filter(is_of_interface));
    let mut settings = Ok(());
    for one in found {
        if let Difference::Setting { path, value, .. } = one {
            let of = || format!("{object}: {}", sysctl::full(path));
            let set = sysctl::set_in_node(path, value, node.privileged);
            // All are tried: one that is refused must not keep the others from being set.
            settings = settings.and(set.map_err(|e| Error::at(of(), "set sysctl")(e)));
        }
    }
    let rest = run(&mut found.iter().filter(|one| !is_of_interface(one)));
    first.and(settings).and(rest)
}

fn unmended(object: &str, words: &[String], cause: Option<&Error>) -> Error {
    let mut reason = format!("cannot be mended: {}", words.join("; "));
    if let Some(cause) = cause {
        reason.push_str(&format!(": {}", describe(cause)));
    }
    Error::Invalid { object: object.into(), reason }
}

/// Whether the file may change a node's network beyond the plan.
fn has_own(node: &PlannedNode) -> bool {
    !node.setup.is_empty()
        || !node.exec.is_empty()
        || !node.run.is_empty()
        || node.kind.as_router().is_some()
        || node.has_sysctls_of_file()
}
