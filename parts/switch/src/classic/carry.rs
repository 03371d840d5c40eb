//! The thread that carries the frames of all clients.
//!
//! Clients have turns of bounded length. Descriptors are watched edge-triggered and remembered as ready until a
//! call finds nothing, so a client that waits for room costs nothing until its turn.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use netloom_sys::{Failure, caps, process};
use rustix::event::EventfdFlags;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::client::{Buffers, Client, Turn};
use crate::Result;

/// Hands clients to the thread.
pub(super) struct Handed {
    to: Sender<Client>,
    bell: Arc<OwnedFd>,
}

impl Handed {
    /// From now on the thread serves this client.
    pub(super) fn hand(&self, client: Client) {
        if self.to.send(client).is_ok() {
            // Refused only while it rings already.
            let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        }
    }
}

/// Starts the thread. It ends only by a failure, or with the process.
pub(super) fn start() -> Result<(JoinHandle<()>, Handed)> {
    let failed = |operation| Failure::of("vde", operation);
    let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map(Arc::new)
        .map_err(failed("make an eventfd"))?;
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed("make an epoll"))?;
    let (to, from) = channel();
    let mut carrier = Carrier {
        bell: bell.clone(),
        epoll,
        from,
        clients: BTreeMap::new(),
        turns: Vec::new(),
        next: 1,
        buffers: Buffers::new(),
    };
    carrier.watch(bell.as_fd(), BELL, EventFlags::IN).map_err(failed("watch an eventfd"))?;
    let thread = Builder::new().name("vde-carry".into()).spawn(move || carrier.run());
    Ok((thread.map_err(Failure::of("vde", "start a thread"))?, Handed { to, bell }))
}

/// What an event is about; the client's number stands above.
const BELL: u64 = 0;
const CONTROL: u64 = 1;
const DATA: u64 = 2;
const PORT: u64 = 3;

struct Seat {
    client: Client,
    /// It is in `turns`.
    waits: bool,
}

struct Carrier {
    epoll: OwnedFd,
    bell: Arc<OwnedFd>,
    from: Receiver<Client>,
    clients: BTreeMap<u64, Seat>,
    /// Clients that want a turn.
    turns: Vec<u64>,
    next: u64,
    buffers: Buffers,
}

impl Carrier {
    fn watch(&self, fd: BorrowedFd<'_>, data: u64, flags: EventFlags) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(data), flags)
    }

    fn run(&mut self) {
        // A thread's own (capabilities(7)): the one that admits clients still gives them their sockets.
        if caps::drop_all().is_err() {
            return;
        }
        loop {
            let pause = self.carry();
            if self.wait(pause).is_err() {
                return;
            }
        }
    }

    /// Gives each client that wants one a turn; returns for how long nobody needs another.
    fn carry(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let mut soonest: Option<Instant> = None;
        for number in std::mem::take(&mut self.turns) {
            let Some(seat) = self.clients.get_mut(&number) else { continue };
            let at = match seat.client.carry(&mut self.buffers, now) {
                Turn::Now => now,
                Turn::At(at) => at,
                Turn::Notices => {
                    seat.waits = false;
                    continue;
                }
                Turn::Never => {
                    self.clients.remove(&number);
                    continue;
                }
            };
            soonest = Some(soonest.map_or(at, |soonest| soonest.min(at)));
            self.turns.push(number);
        }
        soonest.map(|at| at.saturating_duration_since(now))
    }

    fn wait(&mut self, pause: Option<Duration>) -> rustix::io::Result<()> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; 64];
        let timeout = pause.map(process::timespec);
        let count = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(()),
            Err(e) => return Err(e),
        };
        for event in events.iter().take(count) {
            let (flags, data) = (event.flags, { event.data }.u64());
            self.heed(data >> 2, data & 3, flags);
        }
        Ok(())
    }

    fn heed(&mut self, number: u64, about: u64, flags: EventFlags) {
        if about == BELL {
            return self.take_clients();
        }
        let Some(seat) = self.clients.get_mut(&number) else { return };
        let ready = &mut seat.client.ready;
        match about {
            // Nothing is said after the request: more of it ends the client like its end.
            CONTROL => return drop(self.clients.remove(&number)),
            DATA => {
                ready.from |= flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP);
                ready.room |= flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP);
            }
            _ => ready.of = true,
        }
        if !std::mem::replace(&mut seat.waits, true) {
            self.turns.push(number);
        }
    }

    fn take_clients(&mut self) {
        // Before the clients are taken: one that comes later rings again.
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        while let Ok(client) = self.from.try_recv() {
            let number = self.next;
            self.next += 1;
            let both = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            let key = |about| number << 2 | about;
            let watched = self
                // Level-triggered: its first event ends the client.
                .watch(client.control.as_fd(), key(CONTROL), EventFlags::IN | EventFlags::RDHUP)
                .and_then(|()| self.watch(client.data.as_fd(), key(DATA), both))
                .and_then(|()| {
                    self.watch(client.port.as_fd(), key(PORT), EventFlags::IN | EventFlags::ET)
                });
            // Without descriptors left it cannot be served, and is disconnected.
            if watched.is_ok() {
                self.clients.insert(number, Seat { client, waits: true });
                self.turns.push(number);
            }
        }
    }
}
