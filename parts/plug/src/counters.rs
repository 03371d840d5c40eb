//! What a pump has carried and lost, by cause, and a handle to read it while it runs.

use std::sync::{Arc, Mutex, PoisonError};

/// Frames that were carried one way. A super-frame is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// All of them.
    pub frames: u64,
    /// Their bytes, without the header before each.
    pub bytes: u64,
    /// Those among them that stand for several packets.
    pub super_frames: u64,
}

impl Carried {
    /// Counts a frame with its virtio-net header.
    pub(crate) fn count(&mut self, frame: &[u8]) {
        self.frames += 1;
        let bytes = frame.len().saturating_sub(netloom_port::HEADER);
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
        // The kind of super-frame is the header's second byte.
        self.super_frames += u64::from(frame.get(1).is_some_and(|kind| *kind != 0));
    }
}

/// Frames that were not carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// From the interface: cut before we had them. They are never carried on.
    pub truncated: u64,
    /// From the interface: not read in time; `None` where it does not tell.
    pub overrun: Option<u64>,
    /// To the switch: its receiver did not read for as long as it was waited for.
    pub stalled: u64,
    /// To the switch: against its rules.
    pub refused_by_switch: u64,
    /// From the switch: longer than any frame.
    pub oversize: u64,
    /// To the interface: it took nothing for as long as it was waited for, or had no carrier.
    pub no_room: u64,
    /// To the interface: too long for it, or with a header that makes no sense.
    pub refused: u64,
    /// To the interface: it was down.
    pub down: u64,
    /// To the interface: taken, and then not sent for one of the last three causes.
    pub unsent: u64,
}

/// All of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// From the interface to the switch.
    pub to_switch: Carried,
    /// From the switch to the interface; [`Lost::unsent`] are among them.
    pub to_interface: Carried,
    /// What was lost.
    pub lost: Lost,
    /// How often it slept because there was nothing to do.
    pub sleeps: u64,
    /// Failures of single calls, which nobody had foreseen.
    pub failures: u64,
}

/// Where a pump's counters are read. They are those of its last sleep, or little older.
#[derive(Clone, Debug, Default)]
pub struct Reading(Arc<Mutex<Counters>>);

impl Reading {
    /// The counters.
    pub fn read(&self) -> Counters {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn publish(&self, counters: &Counters) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = *counters;
    }
}
