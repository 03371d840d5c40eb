//! How many bytes of memory parts of messages take, about: what is in them, and for each block of memory what the
//! allocator keeps beside it. For quotas of those who keep what messages say.

use crate::meter::{Band, BandKind};
use crate::{Action, Bucket, Instruction, Match, Oxm};

/// What the allocator keeps of each block, and rounds up, about.
const BLOCK: usize = 24;

/// What a place in a map takes beside what is in it, about.
pub const PLACE: usize = 48;

fn block<T>(count: usize) -> usize {
    if count == 0 { 0 } else { BLOCK + count * size_of::<T>() }
}

/// A value in a block of its own.
pub fn boxed<T>() -> usize {
    block::<T>(1)
}

/// A list, and what each of its values has beside it.
pub fn list<T>(all: &[T], each: impl Fn(&T) -> usize) -> usize {
    block::<T>(all.len()) + all.iter().map(each).sum::<usize>()
}

/// What a match has beside itself.
pub fn matching(matching: &Match) -> usize {
    match matching {
        Match::V10(_) => 0,
        Match::Oxm(fields) => block::<Oxm>(fields.len()),
    }
}

fn actions(all: &[Action]) -> usize {
    list(all, |action| match action {
        Action::Experimenter { data, .. } => block::<u8>(data.len()),
        _ => 0,
    })
}

/// A list of instructions.
pub fn instructions(all: &[Instruction]) -> usize {
    list(all, |instruction| match instruction {
        Instruction::ApplyActions(all) | Instruction::WriteActions(all) => actions(all),
        Instruction::Experimenter { data, .. } => block::<u8>(data.len()),
        _ => 0,
    })
}

/// A list of a group's buckets.
pub fn buckets(all: &[Bucket]) -> usize {
    list(all, |bucket| actions(&bucket.actions))
}

/// A list of a meter's bands.
pub fn bands(all: &[Band]) -> usize {
    list(all, |band| match &band.kind {
        BandKind::Experimenter { data, .. } => block::<u8>(data.len()),
        _ => 0,
    })
}
