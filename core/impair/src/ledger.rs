//! The fates of all packets of one direction, by count and bytes.
//!
//! Invariant: offered + duplicated = sent + lost + held, in packets and in bytes. `held` is counted
//! independently, so that [`Ledger::closes`] detects a packet that vanished or was counted twice. The
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
    /// A count of these packets and bytes.
    pub fn new(packets: u64, bytes: u64) -> Self {
        Count { packets, bytes }
    }

    /// Adds another count.
    pub fn add(&mut self, other: Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    /// Subtracts another count, down to zero.
    fn take(&mut self, other: Count) {
        self.packets = self.packets.saturating_sub(other.packets);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// Defines [`Cause`] and [`Losses`]: each cause with its name.
macro_rules! causes {
    ($($(#[doc = $doc:literal])* $cause:ident $name:ident,)*) => {
        /// Why a packet was lost.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Cause {
            $($(#[doc = $doc])* $cause,)*
        }

        impl Cause {
            /// All of them.
            pub const ALL: [Cause; [$(Cause::$cause),*].len()] = [$(Cause::$cause),*];

            /// Its name in the books.
            pub fn name(self) -> &'static str {
                match self {
                    $(Cause::$cause => stringify!($name),)*
                }
            }
        }

        /// Lost packets by cause.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Losses {
            $($(#[doc = $doc])* pub $name: Count,)*
        }

        impl Losses {
            /// Those of one cause.
            pub fn of(&self, cause: Cause) -> Count {
                match cause {
                    $(Cause::$cause => self.$name,)*
                }
            }

            fn of_mut(&mut self, cause: Cause) -> &mut Count {
                match cause {
                    $(Cause::$cause => &mut self.$name,)*
                }
            }
        }
    };
}

causes! {
    /// The configured loss.
    Loss loss,
    /// The expression of `drop` matched it.
    Drop drop,
    /// As many packets as may be held were.
    Limit limit,
    /// The queue before the transmitter was full.
    Queue queue,
    /// Longer than the wire's MTU.
    Mtu mtu,
    /// Carrier: its memory for held frames was full.
    Memory memory,
    /// Carrier: it was not read in time. Unknown bytes count as none.
    Overrun overrun,
    /// Carrier: the other side did not accept it.
    Refused refused,
    /// Carrier: its headers contradict it, or it was truncated.
    Malformed malformed,
    /// Carrier: it was still held when the wire was removed.
    Closed closed,
}

impl Losses {
    /// All together.
    pub fn total(&self) -> Count {
        let mut sum = Count::default();
        Cause::ALL.into_iter().for_each(|cause| sum.add(self.of(cause)));
        sum
    }
}

/// The counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// What arrived.
    pub offered: Count,
    /// Copies made of what arrived.
    pub duplicated: Count,
    /// Delivered packets, copies included.
    pub sent: Count,
    /// Undelivered packets.
    pub lost: Losses,
    /// Packets in flight, copies included.
    pub held: Count,
    /// Of `offered`: had a bit flipped.
    pub corrupted: Count,
    /// Of `offered`: allowed to overtake earlier ones.
    pub reordered: Count,
}

impl Ledger {
    /// Counts arrived packets that are in flight.
    pub(crate) fn accept(&mut self, count: Count) {
        self.offered.add(count);
        self.held.add(count);
    }

    /// Counts copies that are in flight, too.
    pub(crate) fn duplicate(&mut self, count: Count) {
        self.duplicated.add(count);
        self.held.add(count);
    }

    /// Counts arrived packets that are lost at once.
    pub fn refuse(&mut self, cause: Cause, count: Count) {
        self.offered.add(count);
        self.lost.of_mut(cause).add(count);
    }

    /// Counts packets in flight that are lost.
    pub fn lose(&mut self, cause: Cause, count: Count) {
        self.held.take(count);
        self.lost.of_mut(cause).add(count);
    }

    /// Counts packets in flight that are delivered.
    pub fn deliver(&mut self, count: Count) {
        self.held.take(count);
        self.sent.add(count);
    }

    /// Whether every packet and byte is accounted for exactly once.
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
