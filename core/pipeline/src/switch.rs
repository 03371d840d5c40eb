//! The switch: what it has, what goes in, what comes out. Its rooms: connections and their messages (`control`,
//! `roles`, `notify`), state that controllers change (`flow_mod`, `group_mod`, `ports`), answers (`stats`,
//! `features`), what is done some at a time (`task`, `jobs`), packets (`walk`, `walk_state`, `output`), time
//! (`expire`), what outlives its process (`saved`), and which results a change is about (`affected`).

mod affected;
mod control;
mod expire;
mod features;
mod flow_mod;
mod group_mod;
mod jobs;
mod notify;
mod output;
mod ports;
mod roles;
mod saved;
mod stats;
mod task;
mod walk;
mod walk_state;

use std::collections::{BTreeMap, BTreeSet};

use netloom_openflow::multipart::TableFeatures;
use netloom_openflow::port::PortConfig;
use netloom_openflow::switch::Fragments;
use netloom_openflow::{Message, Port, PortNumber, Version, encode};

use crate::buffers::Buffers;
use crate::group::Groups;
use crate::learning::Learning;
use crate::meter::Meter;
use crate::rule::{Rule, RuleId, Time};
use crate::table::{Deadline, Table};
use crate::trace::{Trace, grown};
use crate::uses::Uses;

pub use affected::Affected;
pub use control::ReadMessage;
pub use jobs::Place;
pub use saved::{Change, SavedGroup, SavedMeter, SavedRule, SavedSettings};

use jobs::Job;
use ports::PortState;
use roles::Connection;

/// A connection to a controller; the caller chooses numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// What happens to packets while no controller is connected (section 6.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// The tables go on; what would go to controllers is dropped.
    #[default]
    Secure,
    /// Packets are forwarded as by a switch without OpenFlow.
    Standalone,
    /// No controller is expected: the tables go on, and packets without a match in the first are forwarded as by a
    /// switch without OpenFlow.
    Learning,
}

/// What a switch is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its number for controllers.
    pub datapath_id: u64,
    /// Versions it speaks.
    pub versions: Vec<Version>,
    /// How many tables it has, 1 to 254.
    pub tables: u8,
    /// How many entries a table can have.
    pub max_entries: u32,
    /// How many bytes of memory all entries, groups and meters may take, about.
    pub memory: usize,
    /// How many groups of each kind there can be.
    pub max_groups: u32,
    /// How many meters there can be.
    pub max_meters: u32,
    /// How many packets wait for controllers.
    pub buffers: u32,
    /// How many addresses are learned for forwarding without OpenFlow.
    pub addresses: usize,
    /// What happens while no controller is connected.
    pub fail_mode: FailMode,
    /// Seed of the choice of buckets.
    pub seed: u64,
    /// Its maker, hardware, software, serial number and name, for controllers.
    pub description: [String; 5],
}

impl Default for Options {
    fn default() -> Options {
        Options {
            datapath_id: 1,
            versions: vec![Version::V10, Version::V13],
            tables: 254,
            max_entries: 100_000,
            memory: 128 << 20,
            max_groups: 65_536,
            max_meters: 65_536,
            buffers: 16_384,
            addresses: 16_384,
            fail_mode: FailMode::Secure,
            seed: 0,
            description: ["netloom", "software", env!("CARGO_PKG_VERSION"), "", ""]
                .map(String::from),
        }
    }
}

/// A frame to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// By this port.
    pub port: PortNumber,
    /// In this queue of it.
    pub queue: Option<u32>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What follows from an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Messages to connections, in order. A barrier reply is to be sent when the data plane obeys everything before it.
    pub messages: Vec<(ConnectionId, Vec<u8>)>,
    /// Frames to send, in order.
    pub frames: Vec<Frame>,
    /// Connections to close, after their messages.
    pub closed: Vec<ConnectionId>,
    /// Ports whose configuration a controller changed.
    pub ports: Vec<(PortNumber, PortConfig)>,
    /// Messages that could not be encoded, and were left out.
    pub lost: u64,
    /// How many packets were not told to connections, because there is no room for them ([`Switch::set_full`]).
    pub left_out: BTreeMap<ConnectionId, u64>,
}

impl Outputs {
    fn send(&mut self, to: ConnectionId, version: Version, xid: u32, message: &Message) {
        match encode(version, xid, message) {
            Ok(bytes) => self.messages.push((to, bytes)),
            Err(_) => self.lost += 1,
        }
    }
}

/// The switch.
#[derive(Debug)]
pub struct Switch {
    options: Options,
    tables: Vec<Table>,
    groups: Groups,
    meters: BTreeMap<u32, Meter>,
    /// What entries, groups and meters take.
    uses: Uses,
    /// What messages asked for that is not done, by their connection.
    jobs: BTreeMap<ConnectionId, Job>,
    /// Orders that were left and not carried out.
    abandoned: u64,
    ports: BTreeMap<PortNumber, PortState>,
    connections: BTreeMap<ConnectionId, Connection>,
    buffers: Buffers,
    learning: Learning,
    fragments: Fragments,
    /// The greatest generation of an election of masters.
    election: Option<u64>,
    /// When entries are to be looked at for expiry.
    deadlines: BTreeSet<Deadline>,
    /// Numbers of entries given so far.
    numbers: u64,
    generation: u64,
    /// Features of tables that a controller set.
    features: Option<Vec<TableFeatures>>,
    /// The changes, if a caller keeps them.
    changes: Option<Vec<Change>>,
}

impl Switch {
    /// A switch without ports and connections.
    pub fn new(mut options: Options) -> Switch {
        // 0xff is OFPTT_ALL; and 254 tables have the numbers 0 to 253, below 1.0's table for emergencies.
        options.tables = options.tables.clamp(1, netloom_openflow::flow::TABLE_MAX);
        Switch {
            tables: vec![Table::default(); usize::from(options.tables)],
            groups: Groups::default(),
            meters: BTreeMap::new(),
            uses: Uses::default(),
            jobs: BTreeMap::new(),
            abandoned: 0,
            ports: BTreeMap::new(),
            connections: BTreeMap::new(),
            buffers: Buffers::new(options.buffers),
            learning: Learning::new(options.addresses),
            fragments: Fragments::Normal,
            election: None,
            deadlines: BTreeSet::new(),
            numbers: 0,
            generation: 0,
            features: None,
            changes: None,
            options,
        }
    }

    /// A number that changes with everything that can change what happens to packets; a cache of results is
    /// valid while it stays.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn changed(&mut self) {
        self.generation += 1;
    }

    /// The flow entries, by table.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.tables.iter().flat_map(Table::rules)
    }

    /// How many flow entries there are.
    pub fn entries(&self) -> u64 {
        let lengths = self.tables.iter().map(Table::len);
        u64::try_from(lengths.sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// How many bytes of memory entries, groups and meters take, about.
    pub fn bytes(&self) -> usize {
        self.uses.bytes
    }

    /// Whether there is memory for something of this many bytes, in the place of something else.
    fn has_memory(&self, freed: usize, taken: usize) -> bool {
        // What frees as much as it takes is never refused, however little there is.
        taken <= freed || self.uses.bytes.saturating_add(taken - freed) <= self.options.memory
    }

    /// A flow entry, if it still exists.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.tables.get(usize::from(id.table))?.get(id)
    }

    /// The ports.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.values().map(|port| &port.desc)
    }

    /// Counts packets that a cache treated as this trace says: each of its entries, groups and ports. `bytes` is the
    /// sum over the packets as they came in; `used` when the last one came.
    pub fn credit(
        &mut self,
        trace: &Trace,
        in_port: PortNumber,
        packets: u64,
        bytes: u64,
        used: Time,
    ) {
        if let Some(port) = self.ports.get_mut(&in_port) {
            port.stats.rx_packets += packets;
            port.stats.rx_bytes += bytes;
        }
        let growth = &trace.growth;
        for (at, step) in trace.steps.iter().enumerate() {
            let Some(table) = self.tables.get_mut(usize::from(step.table)) else { continue };
            let bytes = grown(bytes, packets, growth.steps.get(at));
            table.count(packets, step.rule.is_some());
            if let Some(rule) = step.rule.and_then(|id| table.get_mut(id)) {
                rule.count(packets, bytes, used);
            }
        }
        for (at, (group, bucket)) in trace.groups.iter().enumerate() {
            let bytes = grown(bytes, packets, growth.groups.get(at));
            self.count_group(*group, *bucket, packets, bytes);
        }
        if let Some((vlan, address)) = trace.station {
            self.learning.refresh(vlan, address, in_port, used);
        }
        let sends = trace.effects.iter().filter_map(|effect| match effect {
            crate::Effect::Send { port, queue } => Some((port, queue)),
            _ => None,
        });
        for (at, (port, queue)) in sends.enumerate() {
            let bytes = grown(bytes, packets, growth.sends.get(at));
            self.count_sent(*port, *queue, packets, bytes);
        }
    }
}
