//! Errors of filters.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program was refused. Instructions are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No instruction, or too many.
    #[error("filter: {count} instructions, not 1 to {most}", most = crate::MOST_INSNS)]
    Count {
        /// How many.
        count: usize,
    },
    /// An operation that classic BPF does not have.
    #[error("filter instruction {at}: unknown operation {code:#06x}")]
    Operation {
        /// Which instruction.
        at: usize,
        /// Its code.
        code: u16,
    },
    /// A jump beyond the end.
    #[error("filter instruction {at}: jump out of the program")]
    Jump {
        /// Which instruction.
        at: usize,
    },
    /// A meaningless word of an expression.
    #[error("filter: {word}: {reason}")]
    Words {
        /// The word.
        word: String,
        /// Its fault.
        reason: String,
    },
    /// The last instruction is not a return.
    #[error("filter: the last instruction does not return")]
    End,
    /// A division by the constant 0.
    #[error("filter instruction {at}: division by zero")]
    Division {
        /// Which instruction.
        at: usize,
    },
    /// A shift by a constant of 32 bits or more.
    #[error("filter instruction {at}: shift by {by} bits")]
    Shift {
        /// Which instruction.
        at: usize,
        /// By how many bits.
        by: u32,
    },
    /// Scratch memory that does not exist.
    #[error("filter instruction {at}: no scratch memory {slot}, it has 0 to 15")]
    Memory {
        /// Which instruction.
        at: usize,
        /// Which word.
        slot: u32,
    },
    /// Scratch memory that may be read before it is written.
    #[error("filter instruction {at}: scratch memory {slot} is read before it is written")]
    Unwritten {
        /// Which instruction.
        at: usize,
        /// Which word.
        slot: u32,
    },
    /// A load from a negative offset, which is not among the frame's bytes.
    #[error("filter instruction {at}: load from offset {offset}: ancillary data is not supported")]
    Ancillary {
        /// Which instruction.
        at: usize,
        /// The offset.
        offset: i32,
    },
    /// A translation whose jumps are too long for eBPF.
    #[error("filter: {count} instructions as eBPF, too many for its jumps")]
    TooLong {
        /// How many.
        count: usize,
    },
}
