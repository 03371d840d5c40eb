//! The descriptor by which a port is polled: an epoll of its socket, its front end, and the kicks of its queues.
//!
//! Kicks are in it edge-triggered and never read: the front end shares their descriptors, and could make a read block.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use netloom_sys::Failure;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::Result;

/// Keys of what is not a kick.
pub(crate) const LISTENER: u64 = 1 << 32;
pub(crate) const FRONT_END: u64 = 2 << 32;
pub(crate) const TIMER: u64 = 3 << 32;

/// The epoll.
#[derive(Clone, Debug)]
pub(crate) struct Watch(Arc<OwnedFd>);

/// The observed events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) listener: bool,
    pub(crate) front_end: bool,
    pub(crate) timer: bool,
}

impl Watch {
    pub(crate) fn create() -> Result<Watch> {
        let made = epoll::create(CreateFlags::CLOEXEC);
        Ok(Watch(Arc::new(made.map_err(Failure::of("vhost-user port", "make an epoll"))?)))
    }

    /// Watches a descriptor: it shows as long as it is readable.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, key: u64) -> Result<()> {
        epoll::add(&self.0, fd, EventData::new_u64(key), EventFlags::IN)
            .map_err(Failure::of("vhost-user port", "watch a descriptor"))?;
        Ok(())
    }

    /// Stops watching. Descriptors that others hold, too, stay watched when they are closed.
    pub(crate) fn forget(&self, fd: Option<BorrowedFd<'_>>) {
        if let Some(fd) = fd {
            // ENOENT: it was not watched.
            let _ = epoll::delete(&self.0, fd);
        }
    }

    /// Clears what has shown, and tells it. Kicks say nothing that the rings do not.
    pub(crate) fn look(&self) -> Shown {
        let mut shown = Shown::default();
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [none; 64];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // EINTR: what is ready shows again in the next call.
        let count = epoll::wait(&self.0, &mut events, Some(&now)).unwrap_or(0);
        for event in events.iter().take(count) {
            match { event.data }.u64() {
                LISTENER => shown.listener = true,
                FRONT_END => shown.front_end = true,
                TIMER => shown.timer = true,
                // A kick only wakes the port, which then looks at all queues.
                _ => {}
            }
        }
        shown
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
