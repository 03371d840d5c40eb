//! What became of every packet of one direction, by count and bytes.
//!
//! Invariant: offered + duplicated = sent + lost + held, in packets and in bytes. `held` is counted
//! on its own, so that [`Ledger::closes`] can find a packet that vanished or came twice. The
//! carrier reports what it delivered and what it had to drop; the engine counts the rest.

use serde::{Deserialize, Serialize};

/// Packets and their bytes, Ethernet header included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub packets: u64,
    /// Their frames' bytes.
    pub bytes: u64,
}

impl Count {
    /// This much.
    pub fn new(packets: u64, bytes: u64) -> Self {
        Count { packets, bytes }
    }

    /// More by so much.
    pub fn add(&mut self, other: Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    /// Less by so much, at least nothing.
    fn take(&mut self, other: Count) {
        self.packets = self.packets.saturating_sub(other.packets);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The loss that was asked for.
    Loss,
    /// The queue before the transmitter was full.
    Queue,
    /// Longer than the wire's MTU.
    Mtu,
    /// Carrier: it held as much as it may.
    Memory,
    /// Carrier: it came too late to read it. Bytes may be unknown and then count as none.
    Overrun,
    /// Carrier: the other side did not take it.
    Refused,
    /// Carrier: its headers contradict it, or it was cut off.
    Malformed,
    /// Carrier: it was still held when the wire was removed.
    Closed,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 8] = [
        Cause::Loss,
        Cause::Queue,
        Cause::Mtu,
        Cause::Memory,
        Cause::Overrun,
        Cause::Refused,
        Cause::Malformed,
        Cause::Closed,
    ];
}

/// Lost packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Losses {
    /// [`Cause::Loss`].
    pub loss: Count,
    /// [`Cause::Queue`].
    pub queue: Count,
    /// [`Cause::Mtu`].
    pub mtu: Count,
    /// [`Cause::Memory`].
    pub memory: Count,
    /// [`Cause::Overrun`].
    pub overrun: Count,
    /// [`Cause::Refused`].
    pub refused: Count,
    /// [`Cause::Malformed`].
    pub malformed: Count,
    /// [`Cause::Closed`].
    pub closed: Count,
}

impl Losses {
    /// Those of one cause.
    pub fn of(&self, cause: Cause) -> Count {
        match cause {
            Cause::Loss => self.loss,
            Cause::Queue => self.queue,
            Cause::Mtu => self.mtu,
            Cause::Memory => self.memory,
            Cause::Overrun => self.overrun,
            Cause::Refused => self.refused,
            Cause::Malformed => self.malformed,
            Cause::Closed => self.closed,
        }
    }

    /// All together.
    pub fn total(&self) -> Count {
        let mut sum = Count::default();
        Cause::ALL.into_iter().for_each(|cause| sum.add(self.of(cause)));
        sum
    }

    fn of_mut(&mut self, cause: Cause) -> &mut Count {
        match cause {
            Cause::Loss => &mut self.loss,
            Cause::Queue => &mut self.queue,
            Cause::Mtu => &mut self.mtu,
            Cause::Memory => &mut self.memory,
            Cause::Overrun => &mut self.overrun,
            Cause::Refused => &mut self.refused,
            Cause::Malformed => &mut self.malformed,
            Cause::Closed => &mut self.closed,
        }
    }
}

/// The books of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// What came in.
    pub offered: Count,
    /// Copies made of what came in.
    pub duplicated: Count,
    /// What was delivered, copies included.
    pub sent: Count,
    /// What was not.
    pub lost: Losses,
    /// What is on its way, copies included.
    pub held: Count,
    /// Of `offered`: given a wrong bit.
    pub corrupted: Count,
    /// Of `offered`: let past those before them.
    pub reordered: Count,
}

impl Ledger {
    /// Came in and is on its way.
    pub(crate) fn accept(&mut self, count: Count) {
        self.offered.add(count);
        self.held.add(count);
    }

    /// A copy of what came in is on its way, too.
    pub(crate) fn duplicate(&mut self, count: Count) {
        self.duplicated.add(count);
        self.held.add(count);
    }

    /// Came in and was lost at once.
    pub fn refuse(&mut self, cause: Cause, count: Count) {
        self.offered.add(count);
        self.lost.of_mut(cause).add(count);
    }

    /// Was on its way and is lost.
    pub fn lose(&mut self, cause: Cause, count: Count) {
        self.held.take(count);
        self.lost.of_mut(cause).add(count);
    }

    /// Was on its way and has arrived.
    pub fn deliver(&mut self, count: Count) {
        self.held.take(count);
        self.sent.add(count);
    }

    /// Whether every packet and byte is accounted for, once.
    pub fn closes(&self) -> bool {
        let mut out = self.lost.total();
        out.add(self.sent);
        out.add(self.held);
        let mut come = self.offered;
        come.add(self.duplicated);
        come == out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_until_something_is_counted_twice() {
        let mut ledger = Ledger::default();
        let one = Count::new(1, 100);
        ledger.accept(one);
        ledger.duplicate(one);
        ledger.accept(one);
        ledger.refuse(Cause::Overrun, Count::new(3, 0));
        for cause in Cause::ALL {
            ledger.refuse(cause, one);
            assert_eq!(ledger.lost.of(cause).bytes, 100);
        }
        ledger.deliver(one);
        ledger.lose(Cause::Closed, one);
        assert!(ledger.closes());
        assert_eq!(ledger.held, one);
        ledger.deliver(one);
        assert!(ledger.closes());
        ledger.deliver(one);
        assert!(!ledger.closes(), "delivered more than was held");
    }
}
