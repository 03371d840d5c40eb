//! Why a frame was dropped.
//!
//! Numbers are part of the memory layout (they index counters that other processes read) and never
//! change; new causes are added at the end.

use std::fmt;

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $number:literal $word:literal,)*) => {
        /// Why a frame was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Drop {
            $($(#[$doc])* $name = $number,)*
        }

        impl Drop {
            /// All causes, by number.
            pub const ALL: [Drop; Drop::COUNT] = [$(Drop::$name),*];

            /// How many causes there are.
            pub const COUNT: usize = [$($number),*].len();

            /// Its word in tables and JSON.
            pub fn word(self) -> &'static str {
                match self {
                    $(Drop::$name => $word,)*
                }
            }
        }
    };
}

causes! {
    /// Shorter than an Ethernet header, or than the tag it claims to have.
    Runt = 0 "runt",
    /// Longer than any frame can be.
    Oversize = 1 "oversize",
    /// Its VLAN is not allowed at the sender or at the receiver.
    Vlan = 2 "vlan",
    /// Its source address is locked to another port, or the sender is locked to others.
    Spoofed = 3 "spoofed",
    /// Its vnet header contradicts it.
    Header = 4 "bad-header",
    /// The receiver did not read for longer than the bound.
    Stalled = 5 "stalled",
    /// No port can receive it.
    NoReceiver = 6 "no-receiver",
    /// Its ring was corrupt.
    Corrupt = 7 "corrupt",
    /// A relayed frame found the receiver's ring full.
    Full = 8 "full",
    /// The receiver's buffer was too small for it.
    Truncated = 9 "truncated",
    /// Its destination is reserved for bridges.
    Reserved = 10 "reserved",
    /// Its destination is at the port it came from.
    Same = 11 "same-port",
    /// It could not be cut into packets for a port that accepts no super-frames.
    Uncut = 12 "uncut",
    /// It waited for its edge to open for longer than the bound.
    Unopened = 13 "unopened",
    /// It claims to be a mirror's copy, from a port that may not make it.
    Forged = 14 "forged",
}

impl Drop {
    /// Its index among the counters.
    #[inline]
    pub fn number(self) -> usize {
        self as usize
    }

    /// The cause of a number.
    pub fn from_number(number: usize) -> Option<Drop> {
        Drop::ALL.get(number).copied()
    }
}

impl fmt::Display for Drop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        for (number, cause) in Drop::ALL.into_iter().enumerate() {
            assert_eq!(cause.number(), number);
            assert_eq!(Drop::from_number(number), Some(cause));
        }
        assert_eq!(Drop::from_number(Drop::COUNT), None);
        let words: std::collections::BTreeSet<_> = Drop::ALL.map(Drop::word).into();
        assert_eq!(words.len(), Drop::COUNT);
    }
}
