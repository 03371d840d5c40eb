//! Colours of blocks.

use serde::Serialize;

/// The colour of a block, alternating between even and odd blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Colour {
    /// Of blocks 0, 2, 4 …
    Starter,
    /// Of blocks 1, 3, 5 …
    Next,
}

impl Colour {
    /// The colour of a block.
    pub fn of(block: u64) -> Colour {
        if block.is_multiple_of(2) { Colour::Starter } else { Colour::Next }
    }
}
