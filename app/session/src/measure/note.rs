//! What a caller should know about a measurement that can be made.

use crate::Error;

/// Something to know about a measurement.
#[derive(Debug)]
pub enum Note {
    /// More flows were found than are told apart; the others are part of the rest.
    ManyFlows {
        /// How many there are.
        found: usize,
        /// How many are told apart.
        most: usize,
    },
    /// More flows appeared than there is room for; they stay part of the rest.
    NoRoom {
        /// How many are told apart.
        most: usize,
    },
    /// A family has no path that can be measured.
    Unmeasured {
        /// 4 or 6.
        version: u8,
        /// Why not.
        error: Error,
    },
    /// Packets of some flows take another path than the one that is measured.
    SeveralWays {
        /// The node where they may leave it.
        node: String,
        /// How many next hops of equal cost it has.
        count: usize,
        /// The node that packets are for.
        to: String,
    },
}
