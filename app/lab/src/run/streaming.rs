//! Reads a running lab once a second while somebody listens, for the stream of its events.
//!
//! Listeners look often; the one that comes first after the second reads for all. Interfaces of all nodes are read through a
//! few sockets without entering namespaces. What else a node has costs a visit: so [`A_TURN`] nodes are read for each second since the
//! last reading, those first that ended, began or cannot be read otherwise. After a change of the lab everything is read. What is
//! different, and what is kept of it, is the business of [`crate::stream`]; [`crate::metrics`] are made of the same readings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use netloom_model::plan::{NodeId, PlannedLink, Slot};
use netloom_sys::journal;
use rustix::process::Pid;

use crate::Result;
use crate::keep::slicers;
use crate::run::fidelity;
use crate::run::impairing;
use crate::run::losses::{self, Between};
use crate::run::readings::{Seen, Stream};
use crate::run::running::Running;
use crate::run::sources::{Sources, traffic};
use crate::run::status;
use crate::stage::lab_process::now_ns;
use crate::stage::spaces::in_parts;
use crate::store::moved::Home;
use crate::store::state::State;
use crate::stream::A_TURN;
use crate::view::{
    self, InterfaceStatus, LabEvent, LabFacts, LabState, LinkCounters, LinkStatus, NodeState,
    NodeStatus,
};

/// The time between two readings.
const PERIOD: Duration = Duration::from_secs(1);

impl Running {
    /// Events after the one with this id; a snapshot if there is none.
    pub(crate) fn events(&self, since: Option<&str>) -> Result<Vec<LabEvent>> {
        self.with_reading(|stream| stream.kept.since(since, stream.recorder.picture()))
    }

    /// The lab as Prometheus reads it.
    pub(crate) fn exposition(&self) -> Result<String> {
        let _turn = self.streaming.handing_over.lock().unwrap_or_else(PoisonError::into_inner);
        let (text, earlier) =
            self.with_reading(|stream| stream.metrics.exposition(stream.recorder.picture()))?;
        // Listeners to events do not wait for the file: that of a large lab is large, and differs with each reading.
        let written = earlier.map(|earlier| self.folder.write_totals(&*earlier));
        let (closing, is_new) = self.with_reading(|stream| {
            let is_new = written.as_ref().is_some_and(|w| stream.metrics.note_kept(w.is_ok()));
            (stream.metrics.closing(stream.recorder.picture()), is_new)
        })?;
        // A full disk keeps nobody from reading them; it is told once, for they are read every few seconds.
        match written {
            Some(Err(error)) if is_new => journal::line(format_args!(
                "netloom: metrics are answered and cannot be kept: {}; free space, or counters may fall when the lab \
                 process is started again",
                netloom_sys::describe(&error)
            )),
            Some(Ok(())) if is_new => {
                journal::line(format_args!("netloom: metrics are kept again"))
            }
            _ => {}
        }
        Ok(text + &closing)
    }

    /// Does something with a reading that is at most as old as the time between two.
    fn with_reading<T>(&self, work: impl FnOnce(&mut Stream) -> T) -> Result<T> {
        // Held while it reads: another listener would read the same again.
        let mut stream = self.streaming.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = match &mut *stream {
            Some(stream) => stream,
            none => none.insert(Stream::new(self.folder.read_totals())),
        };
        if Instant::now() >= stream.next {
            stream.read(self)?;
        }
        Ok(work(stream))
    }
}

/// What a reading finds of a node.
type Found = (Slot, NodeStatus, Seen);

impl Stream {
    /// Reads the lab, and makes an event of what is different.
    fn read(&mut self, running: &Running) -> Result<()> {
        let (state, pids) = settled(running);
        let (now, time_ns) = (Instant::now(), now_ns());
        let passed = self.read.replace(now).map_or(PERIOD, |read| now.duration_since(read));
        self.share = share(passed);
        let sources = Sources::new(running, &state, &pids);
        // By its place: each change makes another state.
        let same = self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &state));
        if !same {
            // A slot may be another node's now.
            self.nodes.clear();
        }
        self.nodes.resize_with(state.plan.nodes.len(), Seen::default);
        self.follow(running, &state, &pids)?;
        let changed_core = self.read_core();
        let links: Vec<&PlannedLink> = state.plan.links.iter().collect();
        let between = Between::beside(&sources, &links, self.core.clone());
        let changed = self.read_nodes(&sources, &between, same)?;
        self.read_links(&sources, &between, same, &changed, &changed_core);
        self.read_switches(&sources, same);
        self.recorder.losses(time_ns);
        let came_up = self.close(&sources);
        self.kept.push(self.recorder.take(), time_ns);
        // What nodes were while the lab was made is not what they are now.
        self.of = (!came_up).then(|| Arc::clone(&state));
        // Nobody listened for a while: the rhythm begins here.
        self.next = Some(self.next + PERIOD).filter(|next| *next > now).unwrap_or(now + PERIOD);
        Ok(())
    }

    fn follow(&mut self, running: &Running, state: &State, pids: &[Option<Pid>]) -> Result<()> {
        let nodes = state.plan.nodes.iter().zip(pids);
        let mut inits: BTreeMap<NodeId, Pid> =
            nodes.filter_map(|(node, pid)| Some((node.id, (*pid)?))).collect();
        inits.extend(running.core_pid().map(|pid| (NodeId::CORE, pid)));
        self.spaces.follow(&inits)
    }

    /// Reads the core namespace; returns the indexes of interfaces with other counters than before.
    fn read_core(&mut self) -> BTreeSet<u32> {
        let found = self.spaces.links(NodeId::CORE).unwrap_or_default();
        let core: BTreeMap<u32, view::Traffic> =
            found.iter().map(|link| (link.index, traffic(&link.traffic))).collect();
        let different = core.iter().filter(|(index, t)| self.core.get(index) != Some(t));
        let changed = different.map(|(index, _)| *index).collect();
        self.core = core;
        changed
    }

    /// Reads nodes; returns those whose interfaces are not as before.
    fn read_nodes(
        &mut self,
        sources: &Sources<'_>,
        between: &Between,
        same: bool,
    ) -> Result<BTreeSet<Slot>> {
        let plan = &sources.state.plan;
        let mut visited = match same {
            true => self.due(sources),
            false => plan.slots().collect(),
        };
        let mut changed = BTreeSet::new();
        for slot in plan.slots().filter(|slot| !visited.contains(slot)).collect::<Vec<_>>() {
            match self.spaces.links(plan.nodes[slot].id) {
                // The same interfaces with the same counters.
                Some(links) if links == self.nodes[slot.get()].links => {}
                Some(links) => {
                    self.nodes[slot.get()].links = links;
                    changed.insert(slot);
                }
                // Its namespace is not known to the socket: only a visit can tell.
                None if sources.pids[slot.get()].is_some() => drop(visited.insert(slot)),
                None => {}
            }
        }
        for slot in &changed {
            self.refresh(sources, between, *slot);
        }
        let visited: Vec<Slot> = visited.into_iter().collect();
        let found = in_parts(&visited, |slot| -> Result<Found> {
            let visit = status::visit(sources, slot)?;
            let node = status::node(sources, slot, between, &visit);
            let held = status::held(sources, slot, &visit);
            Ok((slot, node, Seen { pid: sources.pids[slot.get()], links: visit.seen.links, held }))
        })?;
        for (slot, node, seen) in found {
            changed.insert(slot);
            self.nodes[slot.get()] = seen;
            self.recorder.node(node);
        }
        sources.running.quiet.keep(plan.nodes.iter().map(|node| node.id));
        Ok(changed)
    }

    /// The nodes to visit: those whose turn it is, that ended or began, or that have or had interfaces of others.
    fn due(&mut self, sources: &Sources<'_>) -> BTreeSet<Slot> {
        let all: Vec<Slot> = sources.state.plan.slots().collect();
        let mut due: BTreeSet<Slot> = turn(&all, &mut self.turns[0], self.share).collect();
        let other = |slot: &Slot| self.nodes[slot.get()].pid != sources.pids[slot.get()];
        due.extend(all.iter().copied().filter(other));
        for moved in &sources.state.moved {
            let home = match &moved.home {
                Home::Node { node, .. } => sources.state.plan.slot_of(*node),
                _ => None,
            };
            due.extend(home.into_iter().chain(sources.state.plan.slot_of(moved.node)));
        }
        due
    }

    /// Brings a node's interfaces up to date without a visit.
    fn refresh(&mut self, sources: &Sources<'_>, between: &Between, slot: Slot) {
        let Some((node, _)) =
            self.recorder.picture().nodes.get(&sources.state.plan.nodes[slot].name)
        else {
            return;
        };
        let mut node = node.clone();
        let Seen { links, held, .. } = &self.nodes[slot.get()];
        node.interfaces = status::interface_statuses(sources, slot, between, links, held).0;
        self.recorder.node(node);
    }

    /// Reads links, as far as they may be different.
    fn read_links(
        &mut self,
        sources: &Sources<'_>,
        between: &Between,
        same: bool,
        changed: &BTreeSet<Slot>,
        core: &BTreeSet<u32>,
    ) {
        let (state, picture) = (sources.state, self.recorder.picture());
        let plan = &state.plan;
        let wired = plan.links.iter().any(|link| impairing::has_wire(state, link));
        let directions = match wired {
            true => sources.running.wire_states(state),
            false => Ok(BTreeMap::new()),
        };
        let found = |slot: Slot| -> &[InterfaceStatus] {
            let node = plan.node_at(slot).and_then(|node| picture.nodes.get(&node.name));
            node.map_or(&[], |(node, _)| &node.interfaces)
        };
        let touched = |link: &PlannedLink, slots: &BTreeSet<Slot>| {
            // A wire and a port of a process count what no interface shows.
            !same
                || impairing::has_wire(state, link)
                || plan.has_shm_end(link)
                || !slots.is_disjoint(changed)
                || losses::indexes(state, link).iter().any(|index| core.contains(index))
        };
        let mut read: Vec<(LinkStatus, LinkCounters)> = Vec::new();
        for at in plan.link_slots() {
            let link = &plan.links[at];
            let slots = status::ends_and_guests(state, link);
            if touched(link, &slots) {
                let slots: Vec<Slot> = slots.into_iter().collect();
                let now = status::link(sources, link, between, &directions, &found, &slots);
                let counters = counters(sources, link, between, &now, &found);
                read.push((now, counters));
            }
        }
        read.into_iter().for_each(|(link, counters)| self.recorder.link(link, counters));
        self.recorder.behind(fidelity::now(sources.running, plan, directions.as_ref().ok()));
    }

    /// Reads switches; those of kind `openflow` ask their processes.
    fn read_switches(&mut self, sources: &Sources<'_>, same: bool) {
        let plan = &sources.state.plan;
        let all: Vec<_> = plan.switch_slots().collect();
        let slicer = slicers::shown(&sources.running.folder, plan).ok();
        let due: Vec<_> = match same {
            true => turn(&all, &mut self.turns[1], self.share).collect(),
            false => all,
        };
        for (slot, links) in status::links_of_switches(plan, &due) {
            self.recorder.switch(status::switch(sources, slot, links, slicer.as_ref()));
        }
    }

    /// Tells of the lab itself, and of what is gone; returns whether the lab does not start any more.
    fn close(&mut self, sources: &Sources<'_>) -> bool {
        let (state, plan) = (sources.state, &sources.state.plan);
        let names = plan.nodes.iter().map(|node| node.name.as_str()).collect();
        let links = plan.links.iter().map(|link| link.name.as_str()).collect();
        let switches = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
        // What is gone first: nodes that are gone must not decide the lab's state.
        self.recorder.only(&names, &links, &switches);
        let whole = sources.running.is_whole(state, sources.pids);
        let mut nodes = self.recorder.picture().nodes.values();
        let troubled =
            nodes.any(|(node, _)| matches!(node.state, NodeState::Degraded | NodeState::Failed));
        let now = status::lab_state(sources.phase, whole, troubled);
        let before = self.recorder.picture().lab.as_ref().map(|lab| lab.state);
        self.recorder.lab(LabFacts {
            name: plan.lab.clone(),
            state: now,
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            since: state.since,
        });
        before == Some(LabState::Starting) && now != LabState::Starting
    }
}

/// The state with the inits that live, by slot. Inits are told between two changes; the state then is not that of before a
/// change, or of its middle.
fn settled(running: &Running) -> (Arc<State>, Vec<Option<Pid>>) {
    loop {
        let state = running.state();
        let pids = running.pids(&state.plan);
        // The same before and after: no change came between.
        if Arc::ptr_eq(&state, &running.state()) {
            return (state, pids);
        }
    }
}

/// How many have their turn after this time: as many as if the lab had been read each second. So what a reader that comes
/// seldom sees is as fresh as what one sees that comes often, and both cost the same.
fn share(passed: Duration) -> usize {
    let seconds = usize::try_from(passed.as_secs()).unwrap_or(usize::MAX);
    A_TURN.saturating_mul(seconds.max(1))
}

/// The next ones in turn, at most `share`.
fn turn<T: Copy>(all: &[T], at: &mut usize, share: usize) -> impl Iterator<Item = T> {
    // The list may have become shorter.
    let first = if *at < all.len() { *at } else { 0 };
    let last = all.len().min(first.saturating_add(share));
    *at = last;
    all[first..last].iter().copied()
}

/// The counters of a link: those of the interface at each end, and where that is not seen, of the other end.
fn counters<'f>(
    sources: &Sources<'_>,
    link: &PlannedLink,
    between: &Between,
    now: &LinkStatus,
    found: &impl Fn(Slot) -> &'f [InterfaceStatus],
) -> LinkCounters {
    let state = sources.state;
    let ends = [0, 1].map(|side| {
        let here = between.at(state, link, side);
        here.or_else(|| status::at_node(&state.plan, link, side, found))
    });
    let sent = |side: usize| match (ends[side], ends[1 - side]) {
        // What one end sent the other has received, but for losses.
        (Some(own), _) => (own.tx_packets, own.tx_bytes),
        (None, Some(other)) => (other.rx_packets, other.rx_bytes),
        (None, None) => (0, 0),
    };
    let lost = |side: usize| {
        let here = now.lost.iter().filter(|loss| loss.from == now.ends[side]);
        here.map(|loss| loss.packets).sum()
    };
    LinkCounters {
        name: now.name.clone(),
        packets: [0, 1].map(|side| sent(side).0),
        bytes: [0, 1].map(|side| sent(side).1),
        lost: [0, 1].map(lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn() {
        let all: Vec<usize> = (0..75).collect();
        let mut at = 0;
        let mut next = || turn(&all, &mut at, 32).collect::<Vec<_>>();
        assert_eq!([next(), next(), next()].concat(), all);
        assert_eq!(next(), all[..32]);
        let mut at = 7;
        assert_eq!(turn(&[1, 2], &mut at, 32).collect::<Vec<_>>(), [1, 2], "the others are gone");
        assert_eq!(turn::<u8>(&[], &mut at, 32).count(), 0);
        assert_eq!(turn(&all, &mut at, usize::MAX).collect::<Vec<_>>(), all);
    }

    #[test]
    fn who_reads_seldom_reads_more() {
        let seconds = |seconds: f64| share(Duration::from_secs_f64(seconds));
        assert_eq!([seconds(0.2), seconds(1.04), seconds(15.0)], [A_TURN, A_TURN, 15 * A_TURN]);
        assert_eq!(share(Duration::MAX), usize::MAX);
    }
}
