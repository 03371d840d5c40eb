//! What a loop waits on: descriptors with keys, by epoll, level-triggered.

use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netloom_sys::{Failure, process};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::{Result, Time};

/// Waits on descriptors; each has a key, which is a number for epoll.
#[derive(Debug)]
pub struct Watcher<K> {
    epoll: OwnedFd,
    /// Whose failures they are.
    object: &'static str,
    keys: PhantomData<K>,
}

impl<K: Into<u64> + From<u64>> Watcher<K> {
    /// Watches nothing yet. Failures are those of `object`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(object: &'static str) -> Result<Watcher<K>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|e| Failure::new(object, "make an epoll", e))?;
        Ok(Watcher { epoll, object, keys: PhantomData })
    }

    /// Watches a descriptor.
    ///
    /// # Errors
    /// The system refuses.
    pub fn add(&self, fd: impl AsFd, key: K, reads: bool, writes: bool) -> Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(key.into()), flags(reads, writes))
            .map_err(|e| Failure::new(self.object, "watch a descriptor", e).into())
    }

    /// Changes what is watched.
    pub fn change(&self, fd: impl AsFd, key: K, reads: bool, writes: bool) {
        let data = EventData::new_u64(key.into());
        // It fails only where the descriptor is not watched.
        let _ = epoll::modify(&self.epoll, fd, data, flags(reads, writes));
    }

    /// Stops watching.
    pub fn drop(&self, fd: impl AsFd) {
        // It fails only where the descriptor is not watched.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for this time at most; `None`: however long it takes.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait(&self, span: Option<Time>) -> Result<Vec<K>> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        // More than these are reported by the next call.
        let mut events = [nothing; 256];
        let span = span.map(|span| process::timespec(Duration::from_nanos(span)));
        match epoll::wait(&self.epoll, &mut events, span.as_ref()) {
            Ok(count) => Ok(events.iter().take(count).map(|e| K::from({ e.data }.u64())).collect()),
            Err(Errno::INTR) => Ok(vec![]),
            Err(e) => Err(Failure::new(self.object, "wait", e).into()),
        }
    }
}

impl<K> AsFd for Watcher<K> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn flags(reads: bool, writes: bool) -> EventFlags {
    let reads = if reads { EventFlags::IN } else { EventFlags::empty() };
    reads | if writes { EventFlags::OUT } else { EventFlags::empty() }
}
