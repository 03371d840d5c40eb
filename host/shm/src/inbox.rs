//! A port's inbox: what its owner publishes to its senders and to any observer.
//!
//! Sleep epoch, credit cells (how much of each sender's ring was taken), counters by cause, and a
//! copy of the owner's MAC table. Only the owner writes. Nothing here decides anything, and a
//! reader trusts it only as far as its own frames are concerned. Specification:
//! `docs/abi/switch-memory.md`.

use std::os::fd::BorrowedFd;

use netloom_bridge::Drop;

use crate::error::{Error, Result};
use crate::index;
use crate::layout::inbox as at;
use crate::layout::{LENGTH_AT, PORTS};
use crate::memory::{Foreign, Sealed};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// A port's counters. Each is a word of its inbox, in this order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Counter { $($(#[doc = $doc])+ $name,)+ }

        impl Counter {
            /// All counters, in order.
            pub const ALL: &'static [Counter] = &[$(Counter::$name,)+];

            /// Its displayed name.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => $text,)+ }
            }
        }
    };
}

counters! {
    /// Frames delivered to the port's user.
    ReceivedFrames = "received-frames",
    /// Bytes of these, without virtio-net headers.
    ReceivedBytes = "received-bytes",
    /// Super-frames among them.
    ReceivedSuper = "received-super",
    /// The user's frames that were put into a ring.
    SentFrames = "sent-frames",
    /// Bytes of these, without virtio-net headers.
    SentBytes = "sent-bytes",
    /// Super-frames among them.
    SentSuper = "sent-super",
    /// Sent frames that went to the switch, to be relayed to all ports.
    Flooded = "flooded",
    /// Received frames relayed by the switch.
    Relayed = "relayed",
    /// Copies given to mirror ports.
    Mirrored = "mirrored",
    /// Frames segmented for a port that accepts no super-frames.
    Segmented = "segmented",
    /// Waits for room in a full ring.
    Waits = "waits",
    /// Wake-ups of sleeping receivers.
    Wakes = "wakes",
    /// Times that the port itself slept.
    Sleeps = "sleeps",
    /// Edges closed because of invalid content.
    CorruptEdges = "corrupt-edges",
    /// Sent frames lost: the receiver does not read.
    DroppedStalled = "dropped-stalled",
    /// Frames lost: no room, and waiting was not allowed.
    DroppedFull = "dropped-full",
    /// Frames lost: shorter than an Ethernet header.
    DroppedRunt = "dropped-runt",
    /// Frames lost: longer than allowed.
    DroppedOversize = "dropped-oversize",
    /// Frames lost: an invalid virtio-net header.
    DroppedHeader = "dropped-header",
    /// Frames lost: too long for the user's buffer.
    DroppedTruncated = "dropped-truncated",
    /// Frames lost: the sender or the receiver is not in their VLAN.
    DroppedVlan = "dropped-vlan",
    /// Frames lost: a source address that the sender must not use.
    DroppedSpoofed = "dropped-spoofed",
    /// Frames lost: not for this port.
    DroppedElsewhere = "dropped-elsewhere",
    /// Frames lost: reserved for the link (IEEE 802.1D 7.12.6).
    DroppedReserved = "dropped-reserved",
    /// Frames lost: the destination port has gone.
    DroppedGone = "dropped-gone",
    /// Frames lost: marked as mirror copies by a port that may not make them.
    DroppedForged = "dropped-forged",
    /// Frames sent to the switch that it did not relay, once for every port without room for them.
    RelayDropped = "relay-dropped",
    /// Frames lost between the port's owner and the interface that it joins to the switch.
    DroppedInterface = "dropped-interface",
}

/// The counter of a dropped frame.
impl From<Drop> for Counter {
    fn from(cause: Drop) -> Counter {
        match cause {
            Drop::Runt => Counter::DroppedRunt,
            Drop::Oversize => Counter::DroppedOversize,
            Drop::Vlan => Counter::DroppedVlan,
            Drop::Spoofed => Counter::DroppedSpoofed,
            Drop::Header | Drop::Uncut => Counter::DroppedHeader,
            Drop::Stalled | Drop::Unopened => Counter::DroppedStalled,
            Drop::NoReceiver => Counter::DroppedGone,
            Drop::Corrupt => Counter::CorruptEdges,
            Drop::Full => Counter::DroppedFull,
            Drop::Truncated => Counter::DroppedTruncated,
            Drop::Reserved => Counter::DroppedReserved,
            Drop::Same => Counter::DroppedElsewhere,
            Drop::Forged => Counter::DroppedForged,
        }
    }
}

const _: () = assert!(Counter::ALL.len() <= at::MOST_COUNTERS);

/// An entry of a port's MAC table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The station's address.
    pub mac: [u8; 6],
    /// Its VLAN; 0 if VLANs are not separated.
    pub vid: u16,
    /// The port that leads to it.
    pub port: u16,
    /// Time last seen: seconds of the owner's monotonic clock.
    pub seen: u32,
}

/// Counters of one sender's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Frames taken.
    pub frames: u64,
    /// Their bytes, without virtio-net headers.
    pub bytes: u64,
    /// Frames not taken, for any reason.
    pub drops: u64,
}

/// A port's own inbox.
#[derive(Debug)]
pub struct Inbox {
    memory: Sealed,
}

impl Inbox {
    /// Creates an empty inbox.
    ///
    /// # Errors
    /// Memory or descriptors are exhausted.
    pub fn create() -> Result<Inbox> {
        let memory = Sealed::create("netloom-inbox", at::MAGIC, at::LENGTH, at::LENGTH as u64)?;
        Ok(Inbox { memory })
    }

    /// The descriptor to pass to the switch and, through it, to senders.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// Asks senders to wake the owner, which must then check all its rings once more before it
    /// sleeps. An odd epoch stays: after a wake-up, or after clearing its bells, the owner calls
    /// [`Self::wake_up`] first.
    pub fn fall_asleep(&self) {
        index::fall_asleep(self.memory.word(at::SLEEP_AT));
    }

    /// Tells senders that the owner is awake. The owner checks its rings after clearing its bells.
    pub fn wake_up(&self) {
        index::wake_up(self.memory.word(at::SLEEP_AT));
    }

    /// Whether [`Self::fall_asleep`] was called after the last [`Self::wake_up`].
    pub fn is_asleep(&self) -> bool {
        // Relaxed, because only the owner, who asks here, writes this word.
        self.memory.word(at::SLEEP_AT).load(Ordering::Relaxed) % 2 == 1
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, more: u64) {
        add(self.memory.word(at::COUNTERS_AT + 8 * counter as usize), more);
    }

    /// A counter's value.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.memory.word(at::COUNTERS_AT + 8 * counter as usize).load(Ordering::Relaxed)
    }

    /// Counts taken frames of a sender. Ignores an invalid sender number.
    #[inline]
    pub fn add_taken(&self, sender: u16, frames: u64, bytes: u64) {
        if usize::from(sender) < PORTS {
            add(self.memory.word(cell(sender) + at::CELL_FRAMES), frames);
            add(self.memory.word(cell(sender) + at::CELL_BYTES), bytes);
        }
    }

    /// Counts frames of a sender that were not taken. Ignores an invalid sender number.
    pub fn add_drops(&self, sender: u16, frames: u64) {
        if usize::from(sender) < PORTS {
            add(self.memory.word(cell(sender) + at::CELL_DROPS), frames);
        }
    }

    /// Frames of a sender that were not taken; 0 for an invalid sender number.
    pub fn drops_of(&self, sender: u16) -> u64 {
        match usize::from(sender) < PORTS {
            true => self.memory.word(cell(sender) + at::CELL_DROPS).load(Ordering::Relaxed),
            false => 0,
        }
    }

    /// Writes entry `slot` of the MAC table, or removes it. Ignores slots beyond the table.
    pub fn set_entry(&self, slot: usize, entry: Option<Entry>) {
        if slot >= at::ENTRIES {
            return;
        }
        let (key, value) = (entry_at(slot), entry_at(slot) + 8);
        // The value is zeroed first and written last, so that no reader mixes two entries.
        self.memory.word(value).store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        let Some(entry) = entry else { return };
        let [a, b, c, d, e, f] = entry.mac;
        let [low, high] = entry.vid.to_le_bytes();
        let word = u64::from_le_bytes([a, b, c, d, e, f, low, high]);
        self.memory.word(key).store(word, Ordering::Relaxed);
        let word = u64::from(entry.seen) << 32 | 1 << 16 | u64::from(entry.port);
        self.memory.word(value).store(word, Ordering::Release);
    }

    /// The credit cell of a sender.
    pub(crate) fn cell(&self, sender: u16) -> index::Cell<'_> {
        index::Cell {
            generation: self.memory.half(cell(sender) + at::CELL_GENERATION),
            tail: self.memory.word(cell(sender) + at::CELL_TAIL),
        }
    }

    /// The futex of senders with a full ring: the low half of the tail.
    pub(crate) fn futex(&self, sender: u16) -> &AtomicU32 {
        self.memory.half(cell(sender) + TAIL_LOW)
    }
}

/// Another port's inbox.
#[derive(Debug)]
pub struct PeerInbox {
    memory: Foreign,
}

impl PeerInbox {
    /// Maps an inbox received from a peer through the switch.
    ///
    /// # Errors
    /// [`Error::Memory`] if it is not an inbox.
    pub fn open(fd: BorrowedFd<'_>) -> Result<PeerInbox> {
        let memory = Foreign::open("inbox", fd, at::MAGIC, at::LENGTH, at::LENGTH)?;
        if memory.word(LENGTH_AT).load(Ordering::Relaxed) != at::LENGTH as u64 {
            return Err(Error::Memory { object: "inbox", reason: "of another length" });
        }
        Ok(PeerInbox { memory })
    }

    /// The sleep epoch: odd if the owner must be woken.
    pub fn epoch(&self) -> u64 {
        self.sleep().load(Ordering::Relaxed)
    }

    /// A counter's value.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.memory.word(at::COUNTERS_AT + 8 * counter as usize).load(Ordering::Relaxed)
    }

    /// The owner's counters for a sender.
    pub fn of_sender(&self, sender: u16) -> SenderCounters {
        if usize::from(sender) >= PORTS {
            return SenderCounters::default();
        }
        let word = |offset| self.memory.word(cell(sender) + offset).load(Ordering::Relaxed);
        SenderCounters {
            frames: word(at::CELL_FRAMES),
            bytes: word(at::CELL_BYTES),
            drops: word(at::CELL_DROPS),
        }
    }

    /// The generation of the sender's ring that the owner reads; 0 for none.
    pub fn generation(&self, sender: u16) -> u32 {
        match usize::from(sender) < PORTS {
            true => self.cell(sender).generation.load(Ordering::Relaxed),
            false => 0,
        }
    }

    /// The owner's MAC table, without entries being written.
    pub fn table(&self) -> Vec<Entry> {
        (0..at::ENTRIES).filter_map(|slot| self.entry(slot)).collect()
    }

    /// The owner's entry of a station in a VLAN, 0 for none.
    pub fn find(&self, mac: [u8; 6], vid: u16) -> Option<Entry> {
        let is = |entry: &Entry| entry.mac == mac && entry.vid == vid;
        (0..at::ENTRIES).filter_map(|slot| self.entry(slot)).find(is)
    }

    fn entry(&self, slot: usize) -> Option<Entry> {
        let (key, value) = (entry_at(slot), entry_at(slot) + 8);
        let found = self.memory.word(value).load(Ordering::Relaxed);
        if found == 0 {
            return None;
        }
        fence(Ordering::Acquire);
        let [a, b, c, d, e, f, low, high] =
            self.memory.word(key).load(Ordering::Relaxed).to_le_bytes();
        fence(Ordering::Acquire);
        // Unchanged around the reading of the key, so that both are of one entry.
        if self.memory.word(value).load(Ordering::Relaxed) != found {
            return None;
        }
        let [port_low, port_high, _, _, seen @ ..] = found.to_le_bytes();
        Some(Entry {
            mac: [a, b, c, d, e, f],
            vid: u16::from_le_bytes([low, high]),
            port: u16::from_le_bytes([port_low, port_high]),
            seen: u32::from_le_bytes(seen),
        })
    }

    #[inline(always)]
    pub(crate) fn sleep(&self) -> &AtomicU64 {
        self.memory.fast_word::<{ at::SLEEP_AT }>()
    }

    pub(crate) fn cell(&self, sender: u16) -> index::Cell<'_> {
        index::Cell {
            generation: self.memory.half(cell(sender) + at::CELL_GENERATION),
            tail: self.memory.word(cell(sender) + at::CELL_TAIL),
        }
    }

    pub(crate) fn futex(&self, sender: u16) -> &AtomicU32 {
        self.memory.half(cell(sender) + TAIL_LOW)
    }
}

/// Offset of the tail's low half in a cell.
const TAIL_LOW: usize = at::CELL_TAIL + if cfg!(target_endian = "big") { 4 } else { 0 };

fn cell(sender: u16) -> usize {
    at::CELLS_AT + usize::from(sender) * at::CELL
}

fn entry_at(slot: usize) -> usize {
    at::TABLE_AT + slot * at::ENTRY
}

/// There is only one writer, so no locked instruction is needed.
#[inline(always)]
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_owner_writes_others_see() {
        let inbox = Inbox::create().unwrap();
        let peer = PeerInbox::open(inbox.fd()).unwrap();
        inbox.add(Counter::DroppedVlan, 3);
        inbox.add(Counter::DroppedVlan, 4);
        assert_eq!((peer.counter(Counter::DroppedVlan), peer.counter(Counter::Waits)), (7, 0));
        inbox.add_taken(255, 2, 120);
        inbox.add_drops(255, 1);
        inbox.add_taken(256, 9, 9);
        inbox.add_drops(256, 9);
        assert_eq!((inbox.drops_of(255), inbox.drops_of(256)), (1, 0));
        assert_eq!(peer.of_sender(255), SenderCounters { frames: 2, bytes: 120, drops: 1 });
        assert_eq!(peer.of_sender(256), SenderCounters::default());
        let entry = |n: u8| Entry {
            mac: [n, 1, 2, 3, 4, 5],
            vid: 4094,
            port: u16::from(n),
            seen: u32::MAX - u32::from(n),
        };
        for slot in [0, 5, at::ENTRIES - 1, at::ENTRIES] {
            inbox.set_entry(slot, Some(entry(slot.to_le_bytes()[0])));
        }
        let last = (at::ENTRIES - 1).to_le_bytes()[0];
        assert_eq!(peer.table(), [entry(0), entry(5), entry(last)]);
        assert_eq!(peer.find(entry(5).mac, 4094), Some(entry(5)));
        assert_eq!((peer.find(entry(5).mac, 0), peer.find(entry(6).mac, 4094)), (None, None));
        inbox.set_entry(5, None);
        assert_eq!(peer.table().len(), 2);
    }

    #[test]
    fn an_epoch_is_odd_while_its_owner_sleeps() {
        let inbox = Inbox::create().unwrap();
        let peer = PeerInbox::open(inbox.fd()).unwrap();
        let mut seen = vec![];
        for step in [true, true, false, false, true] {
            if step {
                inbox.fall_asleep()
            } else {
                inbox.wake_up()
            }
            assert_eq!(inbox.is_asleep(), step);
            seen.push(peer.epoch());
        }
        assert_eq!(seen, [1, 1, 2, 2, 3]);
    }

    #[test]
    fn counters_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> =
            Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
    }
}
