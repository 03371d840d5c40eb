//! Wake-ups: an eventfd for each edge, a futex for a full ring, an epoll for a port.
//!
//! A [`Bell`] belongs to one edge: a hostile sender could drain or fill a shared one. A port sleeps
//! on its [`Watch`], and its user polls it: bells are in it edge-triggered and never read, so one
//! call clears all that rang. Only the rings tell what a bell announces; a bell without a cause
//! costs one check.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netloom_sys::Failure;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::thread::futex;

use crate::error::Result;
use crate::sync::AtomicU32;

/// The eventfd of one edge, held by its sender and its receiver.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// Creates a bell.
    ///
    /// # Errors
    /// Descriptors are exhausted.
    pub fn create() -> Result<Bell> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Bell)
            .map_err(|source| Failure::new("bell", "make an eventfd", source).into())
    }

    /// A bell from the switch's descriptor.
    pub fn from_fd(fd: OwnedFd) -> Bell {
        Bell(fd)
    }

    /// Rings. A counter that is full, or a descriptor that is not an eventfd, does not matter to us.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Resets the bell; for bells watched level-triggered.
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The epoll of a port.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Creates an epoll that watches nothing yet.
    ///
    /// # Errors
    /// Descriptors are exhausted.
    pub fn create() -> Result<Watch> {
        epoll::create(CreateFlags::CLOEXEC)
            .map(Watch)
            .map_err(|source| Failure::new("port", "make an epoll", source).into())
    }

    /// Watches a bell: it shows once each time it rings.
    ///
    /// # Errors
    /// It is watched already, or cannot be watched.
    pub fn add_bell(&self, bell: &Bell, key: u64) -> Result<()> {
        self.add(bell.fd(), key, EventFlags::IN | EventFlags::ET)
    }

    /// Watches a descriptor: it shows as long as it is readable.
    ///
    /// # Errors
    /// It is watched already, or cannot be watched.
    pub fn add_level(&self, fd: BorrowedFd<'_>, key: u64) -> Result<()> {
        self.add(fd, key, EventFlags::IN)
    }

    fn add(&self, fd: BorrowedFd<'_>, key: u64, flags: EventFlags) -> Result<()> {
        epoll::add(&self.0, fd, EventData::new_u64(key), flags)
            .map_err(|source| Failure::new("port", "watch a descriptor", source).into())
    }

    /// Stops watching. A descriptor must be removed before it is closed, as others hold it too.
    ///
    /// # Errors
    /// It was not watched.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<()> {
        epoll::delete(&self.0, fd)
            .map_err(|source| Failure::new("port", "unwatch a descriptor", source).into())
    }

    /// Sleeps until something shows or the timeout is over (`None`: for ever; zero: only clears
    /// what rang), and passes the keys to `each`. A signal ends it early. True if something showed.
    ///
    /// # Errors
    /// None is known.
    pub fn wait(&self, timeout: Option<Duration>, mut each: impl FnMut(u64)) -> Result<bool> {
        let mut some = false;
        let mut timeout = timeout.map(timespec);
        loop {
            let mut events = [const { NOTHING }; 64];
            let count = match epoll::wait(&self.0, &mut events, timeout.as_ref()) {
                Err(Errno::INTR) => return Ok(some),
                other => other.map_err(|source| Failure::new("port", "wait", source))?,
            };
            events.iter().take(count).for_each(|event| each({ event.data }.u64()));
            some |= count > 0;
            // A full list may not be the whole one.
            if count < events.len() {
                return Ok(some);
            }
            timeout = Some(timespec(Duration::ZERO));
        }
    }

    /// The descriptor: readable while [`Self::wait`] would find something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const NOTHING: Event = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };

/// Sleeps while `word` is `value`, woken by [`wake`], for at most `bound`. The word may be mapped
/// read-only.
pub(crate) fn sleep_while(word: &AtomicU32, value: u32, bound: Duration) {
    // EAGAIN, EINTR and ETIMEDOUT all mean that the caller looks again.
    let _ = futex::wait(word, futex::Flags::empty(), value, Some(&timespec(bound)));
}

/// Wakes the sleepers on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // One is enough: a cell has one writer.
    // Not a private futex: the sleeper is another process.
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::{Inbox, PeerInbox};
    use crate::sync::Ordering;

    /// A sender sleeps on a word of memory that it can only read.
    #[test]
    fn a_futex_in_foreign_memory_wakes() {
        let inbox = Inbox::create().unwrap();
        let peer = PeerInbox::open(inbox.fd()).unwrap();
        let sleeper = std::thread::spawn(move || {
            let long = Duration::from_secs(300);
            futex::wait(peer.futex(9), futex::Flags::empty(), 0, Some(&timespec(long)))
        });
        // The thread may not sleep yet; the kernel tells when a sleeper was woken.
        while futex::wake(inbox.futex(9), futex::Flags::empty(), 1) == Ok(0) {
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().unwrap(), Ok(()));
        // A sleep does not begin after the word has changed.
        inbox.futex(9).store(1, Ordering::Relaxed);
        let peer = PeerInbox::open(inbox.fd()).unwrap();
        let found = futex::wait(peer.futex(9), futex::Flags::empty(), 0, None);
        assert_eq!(found, Err(Errno::AGAIN));
    }

    /// A bell shows once each time it rings, without being read, and at the epoll's own descriptor.
    #[test]
    fn a_bell_shows_once() {
        let (bell, watch) = (Bell::create().unwrap(), Watch::create().unwrap());
        watch.add_bell(&bell, 7).unwrap();
        let outer = Watch::create().unwrap();
        outer.add_level(watch.fd(), 1).unwrap();
        let shows = |watch: &Watch| {
            let mut keys = vec![];
            let some = watch.wait(Some(Duration::ZERO), |key| keys.push(key)).unwrap();
            assert_eq!(some, !keys.is_empty());
            keys
        };
        for _ in 0..3 {
            assert_eq!((shows(&outer), shows(&watch)), (vec![], vec![]));
            bell.ring();
            bell.ring();
            assert_eq!((shows(&outer), shows(&outer)), (vec![1], vec![1]));
            assert_eq!(shows(&watch), [7]);
        }
        watch.remove(bell.fd()).unwrap();
        bell.ring();
        assert!(shows(&watch).is_empty());
    }
}
