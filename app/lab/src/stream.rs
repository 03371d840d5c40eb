//! The stream of a lab's events, without the lab: what is different between two moments, which events are kept, and where a
//! listener goes on.
//!
//! A [`Recorder`] is told what was read, and makes an event of what is different. The [`Kept`] events are the last
//! [`MOST_KEPT`]: a listener that asks for what follows an older one gets a snapshot that says so. A [`Picture`] is what both sides
//! have: the lab as of the last event. No clock, no kernel.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::view::{
    BehindView, Counters, EventKind, Gone, LabEvent, LabFacts, LinkCounters, LinkStatus,
    LosingView, NodeCounters, NodeStatus, SwitchStatus,
};

mod losing;

use losing::Losing;

/// How many events are kept.
pub const MOST_KEPT: usize = 30;

/// Most nodes, and most switches, that the lab process visits in a second without need.
pub const A_TURN: usize = 32;

/// A lab as of the last event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// The lab itself, once something is known of it.
    pub lab: Option<LabFacts>,
    /// What is behind, as it was when the last of it began or ceased to be.
    pub behind: Vec<BehindView>,
    /// What loses packets, as it was when the last of it began or ceased to.
    pub losing: Vec<LosingView>,
    /// Its nodes by name. The counters in a status are as old as the status.
    pub nodes: BTreeMap<String, (NodeStatus, NodeCounters)>,
    /// Its links by name.
    pub links: BTreeMap<String, (LinkStatus, LinkCounters)>,
    /// Its switches by name.
    pub switches: BTreeMap<String, SwitchStatus>,
}

impl Picture {
    /// Takes an event over.
    pub fn apply(&mut self, event: LabEvent) {
        if event.kind == EventKind::Snapshot {
            *self = Picture::default();
        }
        self.lab = event.lab.or(self.lab.take());
        self.behind = event.behind.unwrap_or(std::mem::take(&mut self.behind));
        self.losing = event.losing.unwrap_or(std::mem::take(&mut self.losing));
        for node in event.nodes {
            let counters = NodeCounters::of(&node);
            self.nodes.insert(node.name.clone(), (node, counters));
        }
        for link in event.links {
            let known = self.links.remove(&link.name).map(|(_, counters)| counters);
            let counters = known
                .unwrap_or_else(|| LinkCounters { name: link.name.clone(), ..Default::default() });
            self.links.insert(link.name.clone(), (link, counters));
        }
        self.switches.extend(event.switches.into_iter().map(|s| (s.name.clone(), s)));
        event.gone.nodes.iter().for_each(|name| drop(self.nodes.remove(name)));
        event.gone.links.iter().for_each(|name| drop(self.links.remove(name)));
        event.gone.switches.iter().for_each(|name| drop(self.switches.remove(name)));
        for new in event.counters.nodes {
            if let Some((_, counters)) = self.nodes.get_mut(&new.name) {
                *counters = new;
            }
        }
        for new in event.counters.links {
            if let Some((_, counters)) = self.links.get_mut(&new.name) {
                *counters = new;
            }
        }
    }

    /// All of it as an event.
    fn snapshot(&self, id: String, time_ns: u64, missed: bool) -> LabEvent {
        LabEvent {
            id,
            kind: EventKind::Snapshot,
            missed,
            time_ns,
            lab: self.lab.clone(),
            behind: (!self.behind.is_empty()).then(|| self.behind.clone()),
            losing: (!self.losing.is_empty()).then(|| self.losing.clone()),
            nodes: self.nodes.values().map(|(node, _)| node.clone()).collect(),
            switches: self.switches.values().cloned().collect(),
            links: self.links.values().map(|(link, _)| link.clone()).collect(),
            gone: Gone::default(),
            counters: Counters {
                nodes: self.nodes.values().map(|(_, counters)| counters.clone()).collect(),
                links: self.links.values().map(|(_, counters)| counters.clone()).collect(),
            },
        }
    }
}

/// A node without what changes all the time.
fn facts_of_node(node: &NodeStatus) -> NodeStatus {
    let mut facts = NodeStatus {
        cpu_ns: None,
        cpu_user_ns: None,
        cpu_system_ns: None,
        cpu_receive_ns: None,
        load: None,
        memory: None,
        processes: None,
        sockets: None,
        sockets_counted: None,
        sockets_refused: None,
        drops: vec![],
        ..node.clone()
    };
    if let Some(protect) = &mut facts.protect {
        (protect.auto_packets, protect.senders) = (None, vec![]);
        (protect.passed_packets, protect.passed_bytes) = (0, 0);
        (protect.dropped_packets, protect.dropped_bytes) = (0, 0);
    }
    facts.interfaces.iter_mut().for_each(|interface| interface.traffic = None);
    facts.programs.iter_mut().for_each(|program| program.restart_in_ms = None);
    facts
}

/// Whether two states of a link differ in their counters at most.
fn same_link(one: &LinkStatus, other: &LinkStatus) -> bool {
    let wire = |link: &LinkStatus| link.wire.as_ref().map(|w| (w.state.clone(), w.restarts));
    let does = |link: &LinkStatus| -> Vec<_> {
        let directions = link.wire.iter().flat_map(|wire| &wire.directions);
        directions.map(|d| d.as_ref().map(|d| d.impairments.clone())).collect()
    };
    (&one.ends, one.up, one.down) == (&other.ends, other.up, other.down)
        && wire(one) == wire(other)
        && does(one) == does(other)
}

/// Makes events of what is read.
#[derive(Debug, Default)]
pub struct Recorder {
    picture: Picture,
    pending: LabEvent,
    losing: Losing,
}

impl Recorder {
    /// The lab as it was read last.
    pub fn picture(&self) -> &Picture {
        &self.picture
    }

    /// The lab itself was read.
    pub fn lab(&mut self, lab: LabFacts) {
        if self.picture.lab.as_ref() != Some(&lab) {
            self.picture.lab = Some(lab.clone());
            self.pending.lab = Some(lab);
        }
    }

    /// What is behind was read.
    pub fn behind(&mut self, behind: Vec<BehindView>) {
        let place = |b: &BehindView| (b.kind, b.name.clone(), b.from.clone(), b.cause);
        let places = |all: &[BehindView]| all.iter().map(place).collect::<BTreeSet<_>>();
        if places(&behind) != places(&self.picture.behind) {
            self.picture.behind.clone_from(&behind);
            self.pending.behind = Some(behind);
        }
    }

    /// A node was read.
    pub fn node(&mut self, node: NodeStatus) {
        let counters = NodeCounters::of(&node);
        let known = self.picture.nodes.get(&node.name);
        if known.is_none_or(|(old, _)| facts_of_node(old) != facts_of_node(&node)) {
            self.pending.nodes.push(node.clone());
        }
        // A node that is told of as a whole has its counters with it.
        if known.is_some_and(|(_, old)| *old != counters) {
            self.pending.counters.nodes.push(counters.clone());
        }
        self.picture.nodes.insert(node.name.clone(), (node, counters));
    }

    /// A link was read.
    pub fn link(&mut self, link: LinkStatus, counters: LinkCounters) {
        let known = self.picture.links.get(&link.name);
        if known.is_none_or(|(old, _)| !same_link(old, &link)) {
            self.pending.links.push(link.clone());
        }
        if known.is_none_or(|(_, old)| *old != counters) {
            self.pending.counters.links.push(counters.clone());
        }
        self.picture.links.insert(link.name.clone(), (link, counters));
    }

    /// A switch was read.
    pub fn switch(&mut self, switch: SwitchStatus) {
        if self.picture.switches.get(&switch.name) != Some(&switch) {
            self.picture.switches.insert(switch.name.clone(), switch.clone());
            self.pending.switches.push(switch);
        }
    }

    /// Only these are there.
    pub fn only(
        &mut self,
        nodes: &BTreeSet<&str>,
        links: &BTreeSet<&str>,
        switches: &BTreeSet<&str>,
    ) {
        fn drop_others<T>(all: &mut BTreeMap<String, T>, kept: &BTreeSet<&str>) -> Vec<String> {
            let before: Vec<String> = all.keys().cloned().collect();
            all.retain(|name, _| kept.contains(name.as_str()));
            before.into_iter().filter(|name| !kept.contains(name.as_str())).collect()
        }
        let gone = &mut self.pending.gone;
        gone.nodes.extend(drop_others(&mut self.picture.nodes, nodes));
        gone.links.extend(drop_others(&mut self.picture.links, links));
        gone.switches.extend(drop_others(&mut self.picture.switches, switches));
    }

    /// All was read at this time, in ns: looks what loses packets.
    pub fn losses(&mut self, now: u64) {
        if let Some(losing) = self.losing.read(&self.picture, now) {
            self.picture.losing.clone_from(&losing);
            self.pending.losing = Some(losing);
        }
    }

    /// What is different since the last call, if anything is.
    pub fn take(&mut self) -> Option<LabEvent> {
        let event = std::mem::take(&mut self.pending);
        (event != LabEvent::default()).then_some(event)
    }
}

/// The last events, and where they are: an id is the stream's own number and that of the event.
#[derive(Debug)]
pub struct Kept {
    stream: u64,
    /// Number of the last event.
    last: u64,
    /// When the counters were read last.
    time_ns: u64,
    events: VecDeque<LabEvent>,
}

impl Kept {
    /// None yet, of a stream whose number no other one has.
    pub fn new(stream: u64) -> Kept {
        Kept { stream, last: 0, time_ns: 0, events: VecDeque::new() }
    }

    /// Adds an event, of this time; the oldest one goes if there are too many.
    pub fn push(&mut self, event: Option<LabEvent>, time_ns: u64) {
        self.time_ns = time_ns;
        let Some(event) = event else { return };
        self.last += 1;
        self.events.push_back(LabEvent { id: self.id(self.last), time_ns, ..event });
        if self.events.len() > MOST_KEPT {
            self.events.pop_front();
        }
    }

    fn id(&self, number: u64) -> String {
        format!("{:x}.{number}", self.stream)
    }

    /// The events after the one with this id; a snapshot if that is not possible, or nothing was heard before.
    pub fn since(&self, id: Option<&str>, picture: &Picture) -> Vec<LabEvent> {
        let snapshot = |missed| vec![picture.snapshot(self.id(self.last), self.time_ns, missed)];
        let Some(id) = id else { return snapshot(false) };
        let number = id.split_once('.').and_then(|(stream, number)| {
            (u64::from_str_radix(stream, 16) == Ok(self.stream)).then_some(())?;
            number.parse::<u64>().ok()
        });
        let first = self.last - self.events.len() as u64;
        match number {
            Some(number) if (first..=self.last).contains(&number) => {
                let known = usize::try_from(number - first).unwrap_or(usize::MAX);
                self.events.iter().skip(known).cloned().collect()
            }
            _ => snapshot(true),
        }
    }
}

#[cfg(test)]
#[path = "stream/tests.rs"]
mod tests;
