//! What a slice has on one switch: its numbers of ports, groups, meters and buffers, its settings and what is left of
//! its quota.

use std::collections::{BTreeMap, VecDeque};

use netloom_impair::bucket::Bucket;
use netloom_openflow::async_config::AsyncConfig;
use netloom_openflow::port::PortConfig;
use netloom_openflow::role::Role;
use netloom_openflow::switch::SwitchConfig;
use netloom_openflow::{Field, GroupMod, MeterMod, Port, PortNumber, Version};

use super::Counters;
use crate::cube::Cube;
use crate::memory::{Note, Remembered};
use crate::{Rate, Slice, SliceId, Time};

/// Buffers that a slice knows of at most.
const MOST_BUFFERS: usize = 1024;
const SECOND: Time = 1_000_000_000;
/// Wait at most before asking again.
const LONGEST: Time = SECOND;

#[derive(Debug)]
pub(super) struct Member {
    pub(super) connected: bool,
    /// Real ports, and the numbers that the controller sees.
    ports: BTreeMap<PortNumber, PortNumber>,
    /// Whether every port of the switch is its.
    any_port: bool,
    /// Bits of the ports' configuration that are the slice's alone.
    pub(super) port_config: BTreeMap<PortNumber, PortConfig>,
    pub(super) role: Role,
    pub(super) generation: Option<u64>,
    pub(super) interests: AsyncConfig,
    pub(super) config: SwitchConfig,
    /// Groups and meters: the slice's number, the real one, and what the slice said.
    pub(super) groups: BTreeMap<u32, (u32, GroupMod)>,
    pub(super) meters: BTreeMap<u32, (u32, MeterMod)>,
    /// The meter that all its packets pass.
    pub(super) rate: Option<u32>,
    /// Buffers that it was told of, with the packets in them, in the order in which it was.
    buffers: VecDeque<(u32, Cube)>,
    messages: Option<(Rate, Bucket)>,
    /// Until when what it asked for before uses up its quota.
    paying: Time,
    pub(super) packet_ins: Option<Bucket>,
    pub(super) counters: Counters,
}

fn bucket(rate: Option<Rate>) -> Option<Bucket> {
    rate.map(|rate| Bucket::new(rate.per_second, rate.burst))
}

impl Member {
    pub(super) fn new(slice: &Slice, ports: &BTreeMap<PortNumber, Port>) -> Member {
        let mut member = Member {
            connected: false,
            ports: BTreeMap::new(),
            any_port: slice.spaces.iter().any(|space| space.ports.is_none()),
            port_config: BTreeMap::new(),
            role: Role::Equal,
            generation: None,
            interests: AsyncConfig::default(),
            config: SwitchConfig::default(),
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
            rate: None,
            buffers: VecDeque::new(),
            messages: slice.quota.messages.zip(bucket(slice.quota.messages)),
            paying: 0,
            packet_ins: bucket(slice.quota.packet_ins),
            counters: Counters::default(),
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
            PortNumber::LOCAL => port,
            _ => {
                let given = self.ports.values().filter(|port| !port.is_reserved());
                PortNumber(given.map(|port| port.0).max().unwrap_or(0).saturating_add(1))
            }
        };
        self.ports.insert(port, number);
    }

    /// A port appeared.
    pub(super) fn appeared(&mut self, port: PortNumber) {
        if self.any_port {
            self.number(port);
        }
    }

    /// What an earlier process had for the slice. Ports that the slice still has keep their numbers.
    pub(super) fn recall(&mut self, before: &Remembered) {
        let new = std::mem::take(&mut self.ports);
        let kept = before.ports.iter().filter(|(real, _)| new.contains_key(real) || self.any_port);
        self.ports = kept.map(|(real, seen)| (*real, *seen)).collect();
        new.into_keys().for_each(|real| self.number(real));
        let config = before.port_config.iter();
        let config = config.filter(|(real, _)| self.ports.contains_key(real));
        self.port_config = config.map(|(real, config)| (*real, *config)).collect();
        self.groups.clone_from(&before.groups);
        self.meters.clone_from(&before.meters);
        self.rate = before.rate;
    }

    /// Writes what a later process has to know of it, beside its rules.
    pub(super) fn write(&self, slice: SliceId, name: &str, version: Version, to: &mut Vec<u8>) {
        let mut put = |note: Note<'_>| note.write(version, to);
        put(Note::Slice { slice, name });
        for (real, seen) in &self.ports {
            put(Note::Port { slice, real: *real, seen: *seen });
        }
        for (real, config) in &self.port_config {
            put(Note::PortConfig { slice, real: *real, config: *config });
        }
        for (real, said) in self.groups.values() {
            put(Note::Group { slice, real: *real, said });
        }
        for (real, said) in self.meters.values() {
            put(Note::Meter { slice, real: *real, said });
        }
        if let Some(meter) = self.rate {
            put(Note::Rate { slice, meter });
        }
    }

    /// A controller is there, with the settings of a new connection.
    pub(super) fn connect(&mut self) {
        self.connected = true;
        self.role = Role::Equal;
        self.interests = AsyncConfig::default();
        self.config = SwitchConfig::default();
        self.buffers.clear();
    }

    /// The number of a real port in the slice.
    pub(super) fn seen(&self, real: PortNumber) -> Option<PortNumber> {
        self.ports.get(&real).copied()
    }

    /// The real port of a number in the slice.
    pub(super) fn real(&self, seen: PortNumber) -> Option<PortNumber> {
        self.ports.iter().find(|(_, number)| **number == seen).map(|(real, _)| *real)
    }

    /// All its real ports.
    pub(super) fn all(&self) -> Vec<PortNumber> {
        self.ports.keys().copied().collect()
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

    /// The switch uses a buffer anew.
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
        let Some((_, bucket)) = &mut self.messages else { return true };
        now >= self.paying && bucket.take(now, 1)
    }

    /// A message became so many for the switch: all but one, which was counted, are counted now.
    pub(super) fn pay(&mut self, now: Time, orders: usize) {
        let Some((rate, bucket)) = &mut self.messages else { return };
        let mut left = u64::try_from(orders).unwrap_or(u64::MAX).saturating_sub(1);
        while left > 0 && bucket.take(now, 1) {
            left -= 1;
        }
        if left > 0 {
            let pause = left.saturating_mul(SECOND) / rate.per_second.max(1);
            self.paying = now.saturating_add(pause);
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
