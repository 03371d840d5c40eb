//! Wakes the reader of a tap's rings, who sleeps where nothing comes.
//!
//! A ring buffer (`BPF_MAP_TYPE_RINGBUF`) of which only the wake-ups are used: a program puts an empty record into it, and
//! poll(2) says so until the record is passed over. The kernel maps its consumer's position, a page that may be written,
//! before its producer's (kernel/bpf/ringbuf.c).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use netloom_sys::Failure;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mm::ProtFlags;

use crate::Result;
use crate::memory::Mapping;

const NAME: &str = "nl_tap_bell";

#[derive(Debug)]
pub(super) struct Bell {
    map: OwnedFd,
    passed: Mapping,
    rung: Mapping,
}

impl Bell {
    pub(super) fn of(map: BorrowedFd<'_>) -> Result<Self> {
        let page = rustix::param::page_size();
        let passed = Mapping::of(map, NAME, page, ProtFlags::READ | ProtFlags::WRITE)?;
        let rung = Mapping::from(map, NAME, page, ProtFlags::READ, page as u64)?;
        let map = map.try_clone_to_owned().map_err(|e| Failure::new(NAME, "duplicate", e))?;
        Ok(Self { map, passed, rung })
    }

    /// Passes over what has rung.
    pub(super) fn silence(&self) {
        let rung = self.rung.word(0).load(Ordering::Acquire);
        self.passed.word(0).store(rung, Ordering::Release);
    }

    /// Waits until it rings, or until `call` is readable; returns whether the latter is.
    pub(super) fn wait(&self, most: Duration, call: Option<BorrowedFd<'_>>) -> bool {
        let bell = PollFd::from_borrowed_fd(self.map.as_fd(), PollFlags::IN);
        let call = call.map(|call| PollFd::from_borrowed_fd(call, PollFlags::IN));
        let mut all: Vec<PollFd<'_>> = std::iter::once(bell).chain(call).collect();
        let timeout = Timespec::try_from(most).ok();
        // A signal ends the wait: the caller looks, and waits again.
        rustix::event::poll(&mut all, timeout.as_ref()).is_ok()
            && all.get(1).is_some_and(|call| !call.revents().is_empty())
    }
}
