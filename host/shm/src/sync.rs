//! The atomics used by the memory protocols, in one place, so that the models
//! (`tests/ring_loom.rs`) can substitute loom's.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A full fence between a store and a later load of another word.
#[inline(always)]
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}
