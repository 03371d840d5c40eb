//! One direction of a wire: packets in, their fates out.
//!
//! A packet's path: lost if `drop` matches it; lost if too long for the MTU; lost if as many as may are held; lost if the
//! queue is full; transmitted at the rate; lost in transit; a bit flipped; delayed; delivered, once or twice. So a packet lost in transit has
//! used the transmitter, as on a real line. Packets are numbered as they are offered, lost ones
//! included, and random draws go by number: they depend neither on times nor on each other's kind.
//! Invariants: packets not picked by `reorder` keep their order; the queue bounds what
//! waits; [`Ledger::closes`] at any moment. The carrier holds the frames and reports what it did.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::jitter::Chain;
use crate::ledger::{Cause, Count, Ledger};
use crate::loss::Losing;
use crate::pace::Transmitter;
use crate::random::{Random, Stream};
use crate::spec::LONGEST;
use crate::{Impairments, Queue, Share};

/// A super-frame whose transmission takes longer is cut, so that its packets arrive one by one.
pub const LONGEST_WHOLE: Duration = Duration::from_micros(500);

/// What the engine needs to know about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The frame's length, Ethernet header included.
    pub bytes: u32,
    /// The same without the Ethernet header (14 bytes and VLAN tags), for comparison with `mtu`.
    pub network_bytes: u32,
    /// How many packets it stands for: 1, or more for a whole super-frame.
    pub packets: u32,
    /// Whether the expression of `drop` matches it.
    pub dropped: bool,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It is lost.
    Lost(Cause),
    /// Deliver it.
    Sent {
        /// When, on the clock of `now_ns`.
        at_ns: u64,
        /// The bit to flip: in byte `bit / 8` of the frame the bit of value `1 << (bit % 8)`,
        /// always after the Ethernet header. Finish an unfinished checksum first,
        /// or finishing it would hide the error.
        corrupt_bit: Option<u32>,
        /// When to deliver it a second time: never before `at_ns`.
        again_ns: Option<u64>,
    },
}

/// One direction of a wire.
#[derive(Clone, Debug)]
pub struct Direction {
    asked: Impairments,
    random: Random,
    /// The next packet's number.
    number: u64,
    transmitter: Option<Transmitter>,
    /// For each waiting frame, when its transmission starts, and its number of packets.
    waiting: VecDeque<(u64, u32)>,
    /// The sum of packets in `waiting`.
    waiters: u64,
    jitter: Option<Chain>,
    loss: Option<Losing>,
    /// When the last order-keeping packet is delivered.
    last: u64,
    ledger: Ledger,
}

impl Direction {
    /// A direction on which nothing was sent yet. This does not refuse what [`Impairments::check`]
    /// would: a rate of zero counts as none.
    pub fn new(asked: &Impairments, seed: u64) -> Self {
        let mut direction = Direction {
            asked: Impairments::default(),
            random: Random::new(seed),
            number: 0,
            transmitter: None,
            waiting: VecDeque::new(),
            waiters: 0,
            jitter: None,
            loss: None,
            last: 0,
            ledger: Ledger::default(),
        };
        direction.set(asked);
        direction
    }

    /// Changes the impairments from the next packet on. Keeps the packet count and with it the random
    /// numbers, the transmitter's busy time, the order, and the ledger; fates already
    /// decided stay. Ignores `seed` in `asked`.
    pub fn set(&mut self, asked: &Impairments) {
        match (asked.rate.and_then(NonZeroU64::new), &mut self.transmitter) {
            (Some(rate), Some(transmitter)) => transmitter.set(rate),
            (Some(rate), none) => *none = Some(Transmitter::new(rate)),
            (None, transmitter) => *transmitter = None,
        }
        // Nothing waits for a transmitter that is gone: the fates of those frames are decided.
        if self.transmitter.is_none() {
            self.waiting.clear();
            self.waiters = 0;
        }
        match (&asked.jitter, &mut self.jitter) {
            (Some(jitter), Some(chain)) => chain.set(jitter.distribution, jitter.correlation),
            (Some(jitter), none) => {
                *none = Some(Chain::new(jitter.distribution, jitter.correlation));
            }
            (None, chain) => *chain = None,
        }
        match (&asked.loss, &mut self.loss) {
            (Some(loss), Some(losing)) => losing.set(loss),
            (Some(loss), none) => *none = Some(Losing::new(loss.clone())),
            (None, losing) => *losing = None,
        }
        self.asked = asked.clone();
    }

    /// Its current impairments.
    pub fn impairments(&self) -> &Impairments {
        &self.asked
    }

    /// Whether a super-frame of this length must be cut into packets before it is offered: when
    /// packets can have different fates, when it would arrive more than [`LONGEST_WHOLE`] after
    /// its first packet could, or when an MTU applies to packets.
    pub fn needs_packets(&self, frame_bytes: usize) -> bool {
        let some = |share: Share| share != Share::NONE;
        let slow = || self.transmitter.as_ref().map_or(0, |t| t.duration(frame_bytes));
        some(self.asked.duplicate)
            || some(self.asked.reorder)
            || some(self.asked.corrupt)
            || self.asked.mtu.is_some()
            || self.asked.limit.is_some()
            || self.asked.drop.is_some()
            || self.loss.as_ref().is_some_and(Losing::any)
            || u128::from(slow()) > LONGEST_WHOLE.as_nanos()
    }

    /// Decides a packet's fate and enters it in the ledger. `now_ns` may be of any clock that never
    /// runs backwards. For a packet that is sent the carrier reports every delivery by
    /// [`Direction::delivered`], or its failure by [`Direction::count_lost`].
    pub fn offer(&mut self, now_ns: u64, packet: &Packet) -> Fate {
        let number = self.number;
        // A whole super-frame takes the numbers of its packets: those behind it keep theirs.
        self.number = self.number.wrapping_add(u64::from(packet.packets.max(1)));
        // Both chains advance whatever becomes of the packet: their later values
        // must not depend on other impairments.
        let swing = self.jitter.as_mut().map(|chain| chain.next(self.random, number));
        let random = self.random;
        let lost = self.loss.as_mut().is_some_and(|l| l.next(random, number, packet.packets));
        let count = Count::new(u64::from(packet.packets), u64::from(packet.bytes));

        if packet.dropped {
            return self.lose(Cause::Drop, count);
        }
        if self.asked.mtu.is_some_and(|mtu| packet.network_bytes > mtu) {
            return self.lose(Cause::Mtu, count);
        }
        // A packet that is lost in transit is not held.
        if !lost && !self.has_room(packet.packets) {
            return self.lose(Cause::Limit, count);
        }
        // Before the loss counts: what is lost in transit has used the transmitter.
        let Some(out) = self.transmit(now_ns, packet) else {
            return self.lose(Cause::Queue, count);
        };
        if lost {
            return self.lose(Cause::Loss, count);
        }
        self.ledger.accept(count);
        let at_ns = self.arrival(out, swing, number, count);
        let corrupt_bit = self.corrupt(number, packet, count);
        // The copy is held as well, so it needs room of its own; without it the packet still goes.
        let again = random.chance(Stream::Duplicate, number, self.asked.duplicate)
            && self.has_room(packet.packets);
        if again {
            self.ledger.duplicate(count);
        }
        Fate::Sent { at_ns, corrupt_bit, again_ns: again.then_some(at_ns) }
    }

    /// Carrier: delivered this much of what was sent, copies included.
    pub fn delivered(&mut self, packets: u32, bytes: u64) {
        self.ledger.deliver(Count::new(u64::from(packets), bytes));
    }

    /// Carrier: could not hold or deliver this much of what was sent, copies included.
    pub fn count_lost(&mut self, cause: Cause, packets: u32, bytes: u64) {
        self.ledger.lose(cause, Count::new(u64::from(packets), bytes));
    }

    /// Carrier: this much reached the wire but could not be offered (not read in time, malformed).
    /// It takes no packet number.
    pub fn count_refused(&mut self, cause: Cause, packets: u32, bytes: u64) {
        self.ledger.refuse(cause, Count::new(u64::from(packets), bytes));
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How many packets were offered, which is the next one's number.
    pub fn offered(&self) -> u64 {
        self.number
    }

    /// Whether this many more packets may be held.
    fn has_room(&self, packets: u32) -> bool {
        let held = self.ledger.held.packets + u64::from(packets);
        self.asked.limit.is_none_or(|most| held <= u64::from(most))
    }

    fn lose(&mut self, cause: Cause, count: Count) -> Fate {
        self.ledger.refuse(cause, count);
        Fate::Lost(cause)
    }

    /// When the packet's last bit is sent; `None` if the queue has no room for it.
    fn transmit(&mut self, now: u64, packet: &Packet) -> Option<u64> {
        let Some(transmitter) = &mut self.transmitter else { return Some(now) };
        // A frame whose transmission has begun waits no longer.
        while let Some((start, packets)) = self.waiting.front().copied() {
            if start > now {
                break;
            }
            self.waiting.pop_front();
            self.waiters -= u64::from(packets);
        }
        let start = transmitter.start(now);
        // A frame that starts at once is not in the queue, whatever its bound.
        if start > now {
            match self.asked.queue.unwrap_or(Queue::DEFAULT) {
                Queue::Packets(most) => {
                    if self.waiters + u64::from(packet.packets) > u64::from(most) {
                        return None;
                    }
                    self.waiting.push_back((start, packet.packets));
                    self.waiters += u64::from(packet.packets);
                }
                // How long a frame would wait is known when it comes: such a queue needs no list.
                Queue::Time(most) => {
                    if u128::from(start - now) > most.as_nanos() {
                        return None;
                    }
                }
            }
        }
        Some(transmitter.send(now, packet.bytes))
    }

    /// When a transmitted packet arrives at the other end.
    fn arrival(&mut self, out: u64, swing: Option<f64>, number: u64, count: Count) -> u64 {
        if self.random.chance(Stream::Reorder, number, self.asked.reorder) {
            self.ledger.reordered.add(count);
            // Not noted as the last in order: packets behind it do not wait for it.
            return out;
        }
        let at = out.saturating_add(self.delay(swing));
        // Jitter lets nothing overtake: such a packet leaves with the one before it.
        self.last = self.last.max(at);
        self.last
    }

    /// Delay and jitter, between 0 and [`LONGEST`], in ns.
    fn delay(&self, swing: Option<f64>) -> u64 {
        let (Some(swing), Some(jitter)) = (swing, self.asked.jitter) else {
            return nanoseconds(self.asked.delay);
        };
        let longest = nanoseconds(LONGEST);
        let extra = swing * jitter.spread.as_nanos() as f64;
        let wanted = self.asked.delay.as_nanos() as f64 + extra;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast of a float saturates, and the bounds are checked before and behind"
        )]
        let whole = wanted.max(0.0).round() as u64;
        whole.min(longest)
    }

    fn corrupt(&mut self, number: u64, packet: &Packet, count: Count) -> Option<u32> {
        if !self.random.chance(Stream::Corrupt, number, self.asked.corrupt) {
            return None;
        }
        let header = packet.bytes.saturating_sub(packet.network_bytes);
        let bits = (packet.bytes - header).checked_mul(8).filter(|&bits| bits > 0)?;
        self.ledger.corrupted.add(count);
        Some(header * 8 + self.random.below(Stream::Bit, number, bits))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
