//! Counters of a pump: frames carried and lost, by cause, and a handle to read them while it runs.

use std::sync::{Arc, Mutex, PoisonError};

/// Frames carried in one direction. A super-frame counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// All frames.
    pub frames: u64,
    /// Their bytes, without the virtio-net headers.
    pub bytes: u64,
    /// Super-frames among them.
    pub super_frames: u64,
}

impl Carried {
    /// Counts a frame with its virtio-net header.
    pub(crate) fn count(&mut self, frame: &[u8]) {
        self.frames += 1;
        let bytes = frame.len().saturating_sub(netloom_port::HEADER);
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
        // The second byte of the header is the type of super-frame.
        self.super_frames += u64::from(frame.get(1).is_some_and(|kind| *kind != 0));
    }
}

/// Frames lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// From the interface: truncated on arrival. They are never forwarded.
    pub truncated: u64,
    /// From the interface: not read in time; `None` if the interface does not report it.
    pub overrun: Option<u64>,
    /// To the switch: the receiver did not read within the patience.
    pub stalled: u64,
    /// To the switch: against its rules.
    pub refused_by_switch: u64,
    /// From the switch: longer than any frame.
    pub oversize: u64,
    /// To the interface: it took nothing within the patience, or had no carrier.
    pub no_room: u64,
    /// To the interface: too long for it, or with an invalid header.
    pub refused: u64,
    /// To the interface: it was down.
    pub down: u64,
    /// To the interface: taken, but then not sent for one of the last three causes.
    pub unsent: u64,
}

impl Lost {
    /// Frames lost at the interface; all others the switch's port counts itself.
    pub(crate) fn at_interface(&self) -> u64 {
        let refused = self.no_room + self.refused + self.down + self.unsent;
        self.truncated + self.overrun.unwrap_or(0) + refused
    }
}

/// All counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// From the interface to the switch.
    pub to_switch: Carried,
    /// From the switch to the interface, including [`Lost::unsent`].
    pub to_interface: Carried,
    /// Lost frames.
    pub lost: Lost,
    /// Sleeps because there was nothing to do.
    pub sleeps: u64,
    /// Unexpected failures of single calls.
    pub failures: u64,
}

/// Reads a pump's counters: as of its last sleep, or slightly older.
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
