//! Frames by libpcap, as the last resort and for comparison.
//!
//! Losses are the drops of libpcap's ring; offered are the frames returned plus those drops,
//! because libpcap's own count runs ahead of the last returned frame. By blocks libpcap waits for a
//! frame without limit, whatever its timeout: a thread of this engine wakes it some times a second.
//! Before libpcap 1.10 that takes effect only with the next frame.
//!
//! libpcap asks for its interface by name, and may take a new one of that name for the old one, whose frames never
//! come again; so the interface's number is looked at here.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use netloom_libpcap::{Breaker, Error, Live, LiveOptions, Taken};
use netloom_sys::Failure;
use rustix::io::Errno;
use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{Counts, Engine, Round};
use crate::{Filler, Frame, Result};

/// Interval at which libpcap's wait is interrupted.
const WAKE: Duration = Duration::from_millis(100);

/// Most frames of a round.
const MOST: usize = 4096;

/// A libpcap engine.
pub struct Pcap {
    live: Live,
    taken: u64,
    dropped: u64,
    gone: bool,
    /// Without the interface there was nothing to take: once more, and it is gone.
    missed: bool,
    place: Option<Place>,
    timeout: Duration,
    _waking: Waking,
}

/// An interface, and a socket of its namespace.
struct Place {
    socket: OwnedFd,
    index: u32,
}

impl Place {
    /// The index of this name; none for names without an interface, such as `any`.
    fn of(name: &str) -> Option<Place> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).ok()?;
        let index = name_to_index(&socket, name).ok()?;
        Some(Place { socket, index })
    }

    /// Whether it is still there, whatever its name; true if that cannot be found out.
    fn is_there(&self) -> bool {
        index_to_name(&self.socket, self.index) != Err(Errno::NODEV)
    }
}

/// A thread that interrupts libpcap's wait, until it is dropped.
struct Waking {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waking {
    fn start(breaker: Breaker) -> Result<Waking> {
        let (end, ended) = channel::<()>();
        let wake = move || {
            while ended.recv_timeout(WAKE) == Err(RecvTimeoutError::Timeout) {
                breaker.stop();
            }
        };
        let thread = std::thread::Builder::new().name("capture-wake".to_owned()).spawn(wake);
        let thread = thread.map_err(|e| Failure::new("thread \"capture-wake\"", "start", e))?;
        Ok(Waking { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        self.end.take();
        // It cannot panic.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Pcap {
    /// Opens an interface of the calling thread's network namespace. A missing timeout becomes 100
    /// ms, so that the file is live; a missing ring size becomes 64 MiB, since libpcap's own 2 MiB
    /// fill within a few milliseconds.
    ///
    /// # Errors
    /// As [`Live::open`].
    pub fn open(interface: &str, options: &LiveOptions) -> Result<Pcap> {
        let mut options = options.clone();
        if options.timeout_ms == 0 {
            options.timeout_ms = 100;
        }
        if options.buffer_bytes == 0 {
            options.buffer_bytes = 64 << 20;
        }
        // Before: one that is replaced meanwhile is missed at once.
        let place = Place::of(interface);
        let live = Live::open(interface, &options)?;
        let _waking = Waking::start(live.breaker())?;
        let timeout = Duration::from_millis(u64::from(options.timeout_ms));
        Ok(Pcap { live, taken: 0, dropped: 0, gone: false, missed: false, place, timeout, _waking })
    }
}

impl Pcap {
    /// What to say when there was no frame. A wake-up may have hidden some, so that once is not enough.
    fn nothing(&mut self) -> Round {
        let there = self.place.as_ref().is_none_or(Place::is_there);
        self.gone = !there && self.missed;
        self.missed = !there;
        if self.gone { Round::Gone } else { Round::Nothing }
    }
}

impl std::fmt::Debug for Pcap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pcap").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Engine for Pcap {
    /// Waits as long as libpcap's settings allow, ignoring the given time.
    fn round(&mut self, into: &mut Filler, _: Duration) -> Result<Round> {
        for taken in 0..MOST {
            if self.gone {
                return Ok(if taken == 0 { Round::Gone } else { Round::Some });
            }
            match self.live.next() {
                // It went down or away; libpcap continues in neither case.
                Err(Error::Interface { .. }) => self.gone = true,
                Err(error) => return Err(error.into()),
                Ok(Taken::Frame(frame)) => {
                    self.taken += 1;
                    into.frame(&Frame {
                        time_ns: frame.time_ns,
                        original: frame.original,
                        data: frame.data,
                        tag: None,
                        flags: 0,
                    });
                }
                Ok(_) if taken > 0 => return Ok(Round::Some),
                Ok(_) => return Ok(self.nothing()),
            }
        }
        Ok(Round::Part)
    }

    fn finish(&mut self, into: &mut Filler) -> Result<()> {
        // Takes waiting frames, but waits for no later ones. Twice: the first call may have ended
        // because of a wake-up.
        self.round(into, Duration::ZERO)?;
        self.round(into, Duration::ZERO)?;
        self.counts().map(drop)
    }

    fn lag(&self) -> Duration {
        5 * self.timeout
    }

    fn counts(&mut self) -> Result<Counts> {
        // An interface that is gone returns no statistics.
        if let Ok(statistics) = self.live.statistics() {
            self.dropped = statistics.dropped;
        }
        Ok(Counts { offered: self.taken + self.dropped, filtered: 0, lost: self.dropped })
    }
}
