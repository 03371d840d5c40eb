//! Writing a segment: frames to blocks, each packet stored once.
//!
//! Frames are the same packet if hops may have made one of the other (`netloom_packet::identity`), if everything behind the transport
//! header is equal by a keyed hash of 64 bits, and if they were seen at different links. Two equal packets on one link
//! are two, also while both are on their way: a link is taken to keep their order, so a frame belongs to the oldest of them that was
//! not seen there. After a pause they are apart, since one of them may have been lost. What is remembered is bounded: some 260,000
//! packets, and never more than a segment's.

use std::collections::HashMap;
use std::hash::BuildHasher;

use netloom_packet::headers::Headers;
use netloom_packet::identity_of;
use netloom_pcap::run::Record;
use netloom_pcap::{InterfaceId, ng};

use crate::block::{self, Head, Seen, length};
use crate::flow::Flow;
use crate::index::{Building, Index};

/// Packets of one of the two halves of what is remembered.
const HALF: usize = 1 << 17;

/// Most equal packets that are told apart while they are on their way.
const MOST_EQUAL: u64 = 8;

/// An equal packet that was seen last so long ago is not the one that comes now, but an earlier one: a repeated request, for
/// one. A lone packet may take longer.
const PAUSE_NS: u64 = 500_000_000;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is stored.
    Stored,
    /// Its packet is stored already; this is one more sighting of it.
    Again,
}

/// A stored packet.
#[derive(Clone, Copy, Debug)]
struct Stored {
    place: u64,
    /// Its links, by their number modulo 128: that two share a bit only stores a packet again.
    links: u128,
    /// When it was seen last, in nanoseconds since 1970 UTC.
    last: u64,
}

impl Stored {
    fn is_on_its_way(&self, time_ns: u64) -> bool {
        self.last.abs_diff(time_ns) <= PAUSE_NS
    }
}

/// A segment under way.
#[derive(Debug)]
pub struct Segment<S> {
    head: Head,
    at: u64,
    building: Building,
    hasher: S,
    /// Younger and older packets by their hashes; an equal one has the next free number.
    young: HashMap<u64, Stored, S>,
    old: HashMap<u64, Stored, S>,
}

impl<S: BuildHasher + Clone> Segment<S> {
    /// Begins a segment: appends its head. `hasher` has to be keyed, since frames may come from an attacker.
    pub fn begin(out: &mut Vec<u8>, head: Head, about: &ng::Section<'_>, hasher: S) -> Segment<S> {
        let before = out.len();
        ng::section(out, about);
        block::put_head(out, head);
        let map = || HashMap::with_hasher(hasher.clone());
        let (young, old) = (map(), map());
        let at = (out.len() - before) as u64;
        Segment { head, at, building: Building::default(), hasher, young, old }
    }

    /// Appends a link; they are numbered from 0.
    pub fn link(&mut self, out: &mut Vec<u8>, link: &ng::Interface<'_>) {
        let before = out.len();
        ng::interface(out, link);
        self.at += (out.len() - before) as u64;
        self.building.link(link.name);
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Appends a frame seen at a link.
    pub fn add(&mut self, out: &mut Vec<u8>, link: InterfaceId, record: &Record<'_>) -> Kept {
        let (frame, before) = (record.data, out.len());
        let headers = Headers::parse(frame).ok();
        let (own, tail) = frame.split_at(changeable(headers.as_ref()).min(frame.len()));
        let key = self.hasher.hash_one((identity_of(frame, headers.as_ref()), tail));
        let again = self.again(key, link, record.time_ns);
        let seen = Seen {
            at: self.at,
            place: again.unwrap_or(self.at),
            interface: link,
            time_ns: record.time_ns,
            original: record.original,
            flags: block::flags(record),
            own,
            shared: length(tail.len()),
        };
        if again.is_some() {
            block::put_sighting(out, &seen);
        } else {
            out.extend_from_slice(record.bytes);
            if let Some(number) = out.get_mut(before + 8..before + 12) {
                number.copy_from_slice(&link.to_le_bytes());
            }
        }
        self.at += (out.len() - before) as u64;
        let flow = headers.and_then(|headers| Flow::read(frame, &headers));
        self.building.add(&seen, self.at, flow);
        if again.is_some() { Kept::Again } else { Kept::Stored }
    }

    /// Ends it: its index.
    pub fn finish(self) -> Index {
        self.building.finish(self.head, self.at)
    }

    /// The place of the packet of which this frame is one more sighting; otherwise remembers it as stored here.
    fn again(&mut self, key: u64, link: InterfaceId, time_ns: u64) -> Option<u64> {
        let bit = 1_u128 << (link % 128);
        let equal = self.equal(key);
        let is_lone = equal.len() == 1;
        let may_be = |(_, stored): &&(u64, Stored)| {
            stored.links & bit == 0 && (is_lone || stored.is_on_its_way(time_ns))
        };
        let found = equal.iter().filter(may_be).min_by_key(|(_, stored)| stored.place);
        for half in [&mut self.young, &mut self.old] {
            if let Some((slot, _)) = found
                && let Some(stored) = half.get_mut(slot)
            {
                stored.links |= bit;
                stored.last = stored.last.max(time_ns);
                return Some(stored.place);
            }
        }
        // It takes the place of one that has arrived or was lost, or else a new one, or that of the oldest.
        let past = equal.iter().find(|(_, stored)| !stored.is_on_its_way(time_ns));
        let count = equal.len() as u64;
        let oldest = || equal.iter().min_by_key(|(_, stored)| stored.place);
        let slot = match past {
            Some((slot, _)) => *slot,
            None if count < MOST_EQUAL => key.wrapping_add(count),
            None => oldest().map_or(key, |(slot, _)| *slot),
        };
        if self.young.len() >= HALF {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(slot, Stored { place: self.at, links: bit, last: time_ns });
        None
    }

    /// The packets that are remembered under a hash, with their numbers.
    fn equal(&self, key: u64) -> Vec<(u64, Stored)> {
        let slots = (0..MOST_EQUAL).map(|nth| key.wrapping_add(nth));
        let known = |slot: u64| {
            let stored = self.young.get(&slot).or_else(|| self.old.get(&slot))?;
            Some((slot, *stored))
        };
        slots.map_while(known).collect()
    }
}

/// Bytes of all headers that a hop may change: up to the payload of TCP and UDP, of other IP packets up to the transport
/// header and the checksum in it, of other frames none.
fn changeable(headers: Option<&Headers>) -> usize {
    /// Of SCTP 12 bytes, and of ICMP and UDP-Lite 8, hold a checksum.
    const MOST_OTHER: usize = 12;
    let ip = headers.and_then(|headers| headers.ip);
    ip.map_or(0, |ip| ip.payload.unwrap_or(ip.end.min(ip.transport + MOST_OTHER)))
}
