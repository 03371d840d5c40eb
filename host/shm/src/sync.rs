//! The atomics that the protocols of the memories are written with, in one place, so that the
//! models (`tests/ring_loom.rs`) put loom's in their stead.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A fence between a store and a later load of another word, for everybody.
#[inline(always)]
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}
