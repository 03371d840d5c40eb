//! What a slice has on one switch: its numbers of ports, groups, meters and buffers, its settings and what is left of
//! its quota.

use std::collections::{BTreeMap, VecDeque};

use netloom_impair::bucket::Bucket;
use netloom_openflow::async_config::AsyncConfig;
use netloom_openflow::port::PortConfig;
use netloom_openflow::role::Role;
use netloom_openflow::switch::SwitchConfig;
use netloom_openflow::{Field, GroupMod, MeterMod, Port, PortNumber};

use super::Counters;
use crate::cube::Cube;
use crate::memory::Remembered;
use crate::walk::Known;
use crate::{Rate, Slice, Time};

/// Buffers that a slice knows of at most.
const MOST_BUFFERS: usize = 1024;
const SECOND: Time = 1_000_000_000;
/// Wait at most before asking again.
const LONGEST: Time = SECOND;

/// A group or meter of a slice.
#[derive(Debug)]
pub(super) struct Kept<T> {
    /// Its number at the real switch.
    pub(super) real: u32,
    /// What the slice said.
    pub(super) said: T,
    /// The buckets that the real one has.
    pub(super) buckets: u64,
    pub(super) bytes: u64,
}

impl Kept<()> {
    pub(super) fn with<T>(self, said: T) -> Kept<T> {
        Kept { real: self.real, said, buckets: self.buckets, bytes: self.bytes }
    }
}

/// Groups or meters, by the slice's numbers.
#[derive(Debug)]
pub(super) struct Keeps<T> {
    all: BTreeMap<u32, Kept<T>>,
    pub(super) buckets: u64,
    pub(super) bytes: u64,
}

impl<T> Default for Keeps<T> {
    fn default() -> Keeps<T> {
        Keeps { all: BTreeMap::new(), buckets: 0, bytes: 0 }
    }
}

impl<T> Keeps<T> {
    pub(super) fn get(&self, number: u32) -> Option<&Kept<T>> {
        self.all.get(&number)
    }

    pub(super) fn real(&self, number: u32) -> Option<u32> {
        self.get(number).map(|kept| kept.real)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn put(&mut self, number: u32, kept: Kept<T>) {
        self.remove(number);
        self.buckets += kept.buckets;
        self.bytes += kept.bytes;
        self.all.insert(number, kept);
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Kept<T>> {
        let kept = self.all.remove(&number)?;
        self.buckets -= kept.buckets;
        self.bytes -= kept.bytes;
        Some(kept)
    }

    /// All of them, from a number on.
    pub(super) fn from(&self, number: u32) -> impl Iterator<Item = (u32, &Kept<T>)> {
        self.all.range(number..).map(|(number, kept)| (*number, kept))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &Kept<T>)> {
        self.from(0)
    }
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) connected: bool,
    /// Real ports, and the numbers that the controller sees; and the other way round.
    ports: BTreeMap<PortNumber, PortNumber>,
    reals: BTreeMap<PortNumber, PortNumber>,
    /// The real ports, in order.
    all: Vec<PortNumber>,
    /// Whether every port of the switch is its.
    any_port: bool,
    /// Bits of the ports' configuration that are the slice's alone.
    pub(super) port_config: BTreeMap<PortNumber, PortConfig>,
    pub(super) role: Role,
    pub(super) generation: Option<u64>,
    pub(super) interests: AsyncConfig,
    pub(super) config: SwitchConfig,
    pub(super) groups: Keeps<GroupMod>,
    pub(super) meters: Keeps<MeterMod>,
    /// The meter that all its packets pass.
    pub(super) rate: Option<u32>,
    /// Buffers that it was told of, with the packets in them, in the order in which it was.
    buffers: VecDeque<(u32, Cube)>,
    messages: Option<(Rate, Bucket)>,
    /// Until when what it asked for before uses up its quota.
    paying: Time,
    /// Whether the next message for the switch was counted with the one that it follows from.
    counted: bool,
    pub(super) packet_ins: Option<Bucket>,
    pub(super) counters: Counters,
    /// The proofs for all its packets.
    known: Known,
}

fn bucket(rate: Option<Rate>) -> Option<Bucket> {
    rate.map(|rate| Bucket::new(rate.per_second, rate.burst))
}

impl Member {
    pub(super) fn new(slice: &Slice, ports: &BTreeMap<PortNumber, Port>) -> Member {
        let mut member = Member {
            connected: false,
            ports: BTreeMap::new(),
            reals: BTreeMap::new(),
            all: vec![],
            any_port: slice.spaces.iter().any(|space| space.ports.is_none()),
            port_config: BTreeMap::new(),
            role: Role::Equal,
            generation: None,
            interests: AsyncConfig::default(),
            config: SwitchConfig::default(),
            groups: Keeps::default(),
            meters: Keeps::default(),
            rate: None,
            buffers: VecDeque::new(),
            messages: slice.quota.messages.zip(bucket(slice.quota.messages)),
            paying: 0,
            counted: false,
            packet_ins: bucket(slice.quota.packet_ins),
            counters: Counters::default(),
            known: Known::default(),
        };
        let listed = slice.spaces.iter().flat_map(|space| space.ports.iter().flatten());
        for port in
            listed.chain(ports.keys().filter(|_| member.any_port)).copied().collect::<Vec<_>>()
        {
            member.number(port);
        }
        member
    }

    /// Gives a port a number, which it keeps.
    fn number(&mut self, port: PortNumber) {
        if self.ports.contains_key(&port) {
            return;
        }
        let number = match port {
            // Its number is the protocol's.
            PortNumber::LOCAL => port,
            _ => {
                // Above all that were given: a number that a
                // controller knows never becomes another port's.
                let given = self.reals.keys().rev().find(|port| !port.is_reserved());
                PortNumber(given.map_or(0, |port| port.0).saturating_add(1))
            }
        };
        self.pair(port, number);
    }

    fn pair(&mut self, real: PortNumber, seen: PortNumber) {
        self.ports.insert(real, seen);
        self.reals.insert(seen, real);
        if let Err(at) = self.all.binary_search(&real) {
            self.all.insert(at, real);
        }
        self.known.forget_sets();
    }

    /// A port appeared.
    pub(super) fn appeared(&mut self, port: PortNumber) {
        if self.any_port {
            self.number(port);
        }
    }

    /// What an earlier process had for the slice, without groups. Ports that the slice still has keep their numbers.
    pub(super) fn recall(&mut self, before: &Remembered) {
        let new = std::mem::take(&mut self.ports);
        self.reals.clear();
        self.all.clear();
        let kept = before.ports.iter().filter(|(real, _)| new.contains_key(real) || self.any_port);
        for (real, seen) in kept.map(|(real, seen)| (*real, *seen)).collect::<Vec<_>>() {
            self.pair(real, seen);
        }
        // After those that have one: numbers are given above all that are known.
        new.into_keys().for_each(|real| self.number(real));
        let config = before.port_config.iter();
        let config = config.filter(|(real, _)| self.ports.contains_key(real));
        self.port_config = config.map(|(real, config)| (*real, *config)).collect();
        self.rate = before.rate;
    }

    /// Its real ports, with the numbers that its controller sees.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (PortNumber, PortNumber)> {
        self.ports.iter().map(|(real, seen)| (*real, *seen))
    }

    /// A controller is there, with the settings of a new connection.
    pub(super) fn connect(&mut self) {
        self.connected = true;
        self.role = Role::Equal;
        self.interests = AsyncConfig::default();
        self.config = SwitchConfig::default();
        // Settings and buffers belong to a connection; rules, groups and meters stay.
        self.buffers.clear();
    }

    /// The number of a real port in the slice.
    pub(super) fn seen(&self, real: PortNumber) -> Option<PortNumber> {
        self.ports.get(&real).copied()
    }

    /// The real port of a number in the slice.
    pub(super) fn real(&self, seen: PortNumber) -> Option<PortNumber> {
        self.reals.get(&seen).copied()
    }

    /// All its real ports.
    pub(super) fn all(&self) -> &[PortNumber] {
        &self.all
    }

    /// Its known state, and its real ports.
    pub(super) fn proving(&mut self) -> (&mut Known, &[PortNumber]) {
        (&mut self.known, &self.all)
    }

    /// Whether a port takes part in the slice's floods.
    pub(super) fn floods(&self, real: PortNumber) -> bool {
        let config = self.port_config.get(&real).copied().unwrap_or_default();
        real != PortNumber::LOCAL && !config.has(PortConfig::NO_FLOOD)
    }

    /// The controller was told of a buffer.
    pub(super) fn give_buffer(&mut self, buffer: u32, packet: Cube) {
        self.buffers.push_back((buffer, packet));
        if self.buffers.len() > MOST_BUFFERS {
            self.buffers.pop_front();
        }
    }

    /// The switch reuses a buffer.
    pub(super) fn lose_buffer(&mut self, buffer: u32) {
        self.buffers.retain(|(known, _)| *known != buffer);
    }

    /// The packet in a buffer that it was told of, once; the port of arrival is in it.
    pub(super) fn take_buffer(&mut self, buffer: u32) -> Option<(PortNumber, Cube)> {
        let at = self.buffers.iter().position(|(known, _)| *known == buffer)?;
        let (_, packet) = self.buffers.remove(at)?;
        let port = packet.exact(Field::InPort).and_then(|port| u32::try_from(port).ok())?;
        Some((PortNumber(port), packet))
    }

    /// Which of a pair of settings is for its role.
    pub(super) fn side(&self) -> usize {
        usize::from(self.role == Role::Slave)
    }

    /// Whether its quota has room for a message, which it then uses.
    pub(super) fn has_turn(&mut self, now: Time) -> bool {
        // One message for the switch that follows from it is counted with it.
        self.counted = true;
        let Some((_, bucket)) = &mut self.messages else { return true };
        now >= self.paying && bucket.take(now, 1)
    }

    /// A message became this many for the switch: all but one, which was counted, are counted now.
    pub(super) fn pay(&mut self, now: Time, orders: usize) {
        let Some((rate, bucket)) = self.messages.as_mut().filter(|_| orders > 0) else { return };
        let mut left = u64::try_from(orders).unwrap_or(u64::MAX);
        left -= u64::from(std::mem::take(&mut self.counted));
        while left > 0 && bucket.take(now, 1) {
            left -= 1;
        }
        if left > 0 {
            let pause = left.saturating_mul(SECOND) / rate.per_second.max(1);
            self.paying = now.max(self.paying).saturating_add(pause);
            // What comes in until then is spent.
            while left > 0 && bucket.take(self.paying, 1) {
                left -= 1;
            }
        }
    }

    /// When its quota of messages has room, if it has none now.
    pub(super) fn wait(&self, now: Time) -> Option<Time> {
        let (_, bucket) = self.messages.as_ref()?;
        let fits = |at: Time| {
            let mut copy = *bucket;
            at >= self.paying && copy.take(at, 1)
        };
        if fits(now) {
            return None;
        }
        // The least time at which it does; the bucket only fills.
        let (mut none, mut some) = (0, LONGEST);
        while some - none > 1 {
            let middle = none + (some - none) / 2;
            if fits(now.saturating_add(middle)) { some = middle } else { none = middle }
        }
        Some(now.saturating_add(some))
    }
}
