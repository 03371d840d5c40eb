//! Filters for packet sockets that count rejected frames, which the kernel's own filters do not.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::MapHandle;
use netloom_filter::Program as Filter;
use netloom_filter::ebpf::Flavour;

use super::programs::{self, Entry};
use super::ring::Words;
use super::{TapCounts, cpus};
use crate::Result;

/// The kernel takes this as "whole", whatever the frame's length.
const WHOLE: u32 = 1 << 30;
const SLOT: u32 = 1;

/// An eBPF socket filter (`SO_ATTACH_BPF`) that keeps the first bytes of matching frames, and
/// counts. The socket holds its own reference; the counts are read here.
#[derive(Debug)]
pub struct SocketFilter {
    program: OwnedFd,
    words: Words,
    /// The kernel empties it when its last descriptor is closed.
    _next: MapHandle,
}

impl SocketFilter {
    /// Loads a filter; `snaplen` 0 keeps frames whole.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if the kernel or the user lacks something, or the filter is
    /// too long.
    pub fn load(filter: &Filter, snaplen: u32) -> Result<Self> {
        let cpus = cpus::online()?;
        let kept = if snaplen == 0 { WHOLE } else { snaplen.min(WHOLE) };
        let parts = programs::socket(kept, &cpus)?;
        let next = programs::table(&parts.refuser)?;
        programs::put(&next, SLOT, &parts.taker)?;
        let entry = Entry {
            kind: libbpf_sys::BPF_PROG_TYPE_SOCKET_FILTER,
            name: c"nl_tap_filter",
            flavour: Flavour::Socket,
            flags: 0,
            attach: 0,
            // Such a frame is not counted, but not lost either; the table is never empty.
            otherwise: kept.cast_signed(),
        };
        let program = entry.load(filter, next.as_fd(), SLOT)?;
        Ok(Self { program, words: Words::map(parts.cpus.fd(), &cpus)?, _next: next })
    }

    /// The counters so far: `captured` is the number of matching frames; `lost` is 0, since the
    /// socket's own losses come later.
    pub fn counts(&self) -> TapCounts {
        self.words.counts()
    }
}

impl AsFd for SocketFilter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}
