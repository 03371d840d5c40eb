//! Carries connections: bytes both ways, and the end of each way. A few threads carry all of them.
//!
//! An end of one way is passed on and leaves the other open. Bytes that the other side does not take yet are kept, and no more is read
//! before it has been taken. A connection has its turn like all others, however much it has to carry.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use netloom_sys::Failure;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use crate::Result;
use crate::seats::{Seat, Seats, reset};

/// The bytes read at a time.
const CHUNK: usize = 128 << 10;

/// How many chunks of one way are carried in a turn.
const TURN: usize = 8;

/// The key of the sign that there are new connections.
const WAKE: u64 = u64::MAX;

/// A connection to carry.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) seat: Arc<Seat>,
    /// The program's side.
    pub(crate) inner: TcpStream,
}

/// A thread's work: new connections come in here.
#[derive(Debug)]
pub(crate) struct Carrier {
    epoll: OwnedFd,
    wake: OwnedFd,
    new: Mutex<Vec<Link>>,
}

/// One way of a connection.
#[derive(Default)]
struct HalfConnection {
    /// Bytes that were read and are not written yet.
    kept: Vec<u8>,
    ended: bool,
}

struct Carried {
    link: Link,
    /// From the peer, and from the program.
    ways: [HalfConnection; 2],
}

/// A way of a connection that can go on: by its number, the side that it comes from, and whether less than a whole chunk means
/// that nothing is left. After the end of a side it does not.
type Ready = (u64, usize, bool);

/// What became of a way in its turn.
enum Turn {
    /// It waits for one of its sides.
    Waits,
    /// It would go on.
    More,
}

impl Carrier {
    /// The work of a thread that [`Carrier::run`]s.
    pub(crate) fn new() -> Result<Arc<Carrier>> {
        let failed = |operation| Failure::of("ports", operation);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed("make an epoll"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(failed("make a sign"))?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)
            .map_err(failed("watch a sign"))?;
        Ok(Arc::new(Carrier { epoll, wake, new: Mutex::default() }))
    }

    /// Gives it a connection, whose sockets do not block.
    pub(crate) fn give(&self, link: Link) {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Carries for ever.
    pub(crate) fn run(&self, seats: &Seats) {
        let mut all: HashMap<u64, Carried> = HashMap::new();
        let mut ready: Vec<Ready> = Vec::new();
        let mut events = Vec::with_capacity(256);
        let mut buffer = vec![0; CHUNK];
        loop {
            events.clear();
            let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let timeout = (!ready.is_empty()).then_some(&at_once);
            if epoll::wait(&self.epoll, spare_capacity(&mut events), timeout).is_err() {
                // A signal.
                continue;
            }
            // One look at the clock a turn: it is exact enough for silence.
            let now = seats.now();
            let mut turn = std::mem::take(&mut ready);
            for event in &events {
                match { event.data }.u64() {
                    WAKE => turn.extend(self.take_new(&mut all)),
                    key => turn.extend(ways_of(&mut all, key, event.flags).into_iter().flatten()),
                }
            }
            for (id, way, short) in turn {
                let Some(carried) = all.get_mut(&id) else { continue };
                match carried.advance((way, short), now, &mut buffer) {
                    Ok(Turn::More) => ready.push((id, way, false)),
                    Ok(Turn::Waits) if carried.ways.iter().all(|way| way.ended) => {
                        all.remove(&id);
                    }
                    Ok(Turn::Waits) => {}
                    Err(_) => {
                        carried.break_off();
                        all.remove(&id);
                    }
                }
            }
        }
    }

    /// Begins with new connections; returns their ways, on which something may have come already.
    fn take_new(&self, all: &mut HashMap<u64, Carried>) -> Vec<Ready> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        let new = std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner));
        let mut ways = vec![];
        for link in new {
            let id = link.seat.id();
            // Edge-triggered: a side is told of once when it can
            // go on, not each time while nobody may read it.
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            let watch = |socket: &TcpStream, side| {
                epoll::add(&self.epoll, socket, EventData::new_u64(2 * id + side), flags)
            };
            if watch(link.seat.outer(), 0).and_then(|()| watch(&link.inner, 1)).is_err() {
                // A reset, not a regular end: nothing was carried.
                reset(link.seat.outer());
                continue;
            }
            all.insert(id, Carried { link, ways: Default::default() });
            ways.extend([(id, 0, false), (id, 1, false)]);
        }
        ways
    }
}

/// The ways that can go on after an event of a side.
fn ways_of(all: &mut HashMap<u64, Carried>, key: u64, flags: EventFlags) -> [Option<Ready>; 2] {
    let (id, side) = (key / 2, usize::from(key % 2 == 1));
    let Some(carried) = all.get(&id) else { return [None; 2] };
    if flags.contains(EventFlags::ERR) && carried.ways[side].ended {
        // Nothing more is read there, where the error would be told.
        carried.break_off();
        all.remove(&id);
        return [None; 2];
    }
    let ends = !flags.difference(EventFlags::IN | EventFlags::OUT).is_empty();
    let comes = (ends || flags.contains(EventFlags::IN)).then_some((id, side, !ends));
    // The way to this side, if it waits for it.
    let waits = flags.contains(EventFlags::OUT) && !carried.ways[1 - side].kept.is_empty();
    [comes, waits.then_some((id, 1 - side, false))]
}

impl Carried {
    /// Has neither side take its end for a regular one.
    fn break_off(&self) {
        reset(self.link.seat.outer());
        reset(&self.link.inner);
    }

    /// Carries what it can of a way from one side, 0 for the peer's; `short` as in [`Ready`].
    fn advance(
        &mut self,
        (from, short): (usize, bool),
        now: u64,
        buffer: &mut [u8],
    ) -> io::Result<Turn> {
        let Carried { link: Link { seat, inner }, ways } = self;
        if seat.is_gone() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let (sides, way) = ([&**seat.outer(), &*inner], &mut ways[from]);
        if way.ended {
            return Ok(Turn::Waits);
        }
        let (mut from, to) = (sides[from], sides[1 - from]);
        if !write(to, &mut way.kept)? {
            return Ok(Turn::Waits);
        }
        for _ in 0..TURN {
            let read = match from.read(buffer) {
                Ok(0) => {
                    way.ended = true;
                    seat.note_end();
                    // A side that is gone has heard all it could.
                    let _ = to.shutdown(Shutdown::Write);
                    return Ok(Turn::Waits);
                }
                Ok(read) => read,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(Turn::Waits),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            seat.use_at(now);
            let written = write_some(to, &buffer[..read])?;
            if written < read {
                way.kept = buffer[written..read].to_vec();
                return Ok(Turn::Waits);
            }
            // Less than was asked for: the socket is empty (epoll(7), questions and answers).
            if short && read < buffer.len() {
                // What comes from now on is told again.
                return Ok(Turn::Waits);
            }
        }
        Ok(Turn::More)
    }
}

/// Writes what is kept; whether all of it was taken.
fn write(to: &TcpStream, kept: &mut Vec<u8>) -> io::Result<bool> {
    let written = write_some(to, kept)?;
    if written == kept.len() {
        // The memory goes, too: most connections keep nothing.
        *kept = vec![];
        return Ok(true);
    }
    kept.drain(..written);
    Ok(false)
}

/// Writes until all is taken or the other side takes no more; returns how much it took.
fn write_some(mut to: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(written)
}
