//! How many bytes of memory something takes here, about: what is in it, and for each block of memory what the allocator
//! keeps beside it.

use netloom_openflow::meter::{Band, BandKind};
use netloom_openflow::{Action, Bucket, Instruction, Match, Oxm};

/// What the allocator keeps of each block, and rounds up, about.
const BLOCK: usize = 24;

/// What a place in a map takes beside what is in it, about.
pub(super) const PLACE: usize = 48;

fn block<T>(count: usize) -> usize {
    if count == 0 { 0 } else { BLOCK + count * size_of::<T>() }
}

pub(super) fn boxed<T>() -> usize {
    block::<T>(1)
}

pub(super) fn list<T>(all: &[T], each: impl Fn(&T) -> usize) -> usize {
    block::<T>(all.len()) + all.iter().map(each).sum::<usize>()
}

pub(super) fn matching(matching: &Match) -> usize {
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

pub(super) fn instructions(all: &[Instruction]) -> usize {
    list(all, |instruction| match instruction {
        Instruction::ApplyActions(all) | Instruction::WriteActions(all) => actions(all),
        Instruction::Experimenter { data, .. } => block::<u8>(data.len()),
        _ => 0,
    })
}

pub(super) fn buckets(all: &[Bucket]) -> usize {
    list(all, |bucket| actions(&bucket.actions))
}

pub(super) fn bands(all: &[Band]) -> usize {
    list(all, |band| match &band.kind {
        BandKind::Experimenter { data, .. } => block::<u8>(data.len()),
        _ => 0,
    })
}
