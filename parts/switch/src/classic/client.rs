//! A client: its frames in both directions.
//!
//! Nothing here waits. A frame that finds no room stays with its client, and so does everything behind it;
//! after a bounded time it is dropped and counted, and so are later ones at once until one finds room. What comes
//! from a client is a frame only by its length: the rest is judged as every member's is.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_shm::{HEADER, MOST_FRAME, Received, Sent, SwitchPort};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::register::{Lost, Register};

/// Frames of one direction before other clients have their turn.
const BURST: usize = 64;
/// The shortest frame: an Ethernet header. Old clients announce their end by a shorter one.
const LEAST: usize = 14;
/// How long a frame waits for room, as at other ports.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often room in the switch is looked for, where nothing tells.
const RETRY: Duration = Duration::from_micros(50);

/// When a client wants its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// At once.
    Now,
    /// Then, or when one of its descriptors tells.
    At(Instant),
    /// When one of its descriptors tells.
    Notices,
    /// None: its port is gone.
    Never,
}

/// What its descriptors have told since they were found empty, or full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// Frames from the client.
    pub(super) from: bool,
    /// Frames for the client.
    pub(super) of: bool,
    /// Room for frames to the client.
    pub(super) room: bool,
}

/// A client in service.
pub(super) struct Client {
    /// Its connection; at its end the client is gone.
    pub(super) control: Arc<OwnedFd>,
    /// Connected to the client's socket.
    pub(super) data: OwnedFd,
    pub(super) port: SwitchPort,
    pub(super) id: u32,
    pub(super) path: PathBuf,
    pub(super) lost: Arc<Lost>,
    pub(super) register: Arc<Register>,
    pub(super) ready: Ready,
    inward: Way,
    outward: Way,
    /// It has sent frames since its port wrote its counters.
    sent: bool,
}

/// A direction.
#[derive(Debug, Default)]
struct Way {
    /// A frame that waits for room.
    held: Option<Vec<u8>>,
    /// Since when there is none.
    full: Option<Instant>,
}

impl Way {
    /// There is no room: until when a frame may wait, or `None` if it has waited long enough.
    fn patience(&mut self, now: Instant, most: Duration) -> Option<Instant> {
        let until = *self.full.get_or_insert(now) + most;
        (now < until).then_some(until)
    }
}

/// Buffers that all clients share.
pub(super) struct Buffers {
    inward: Vec<u8>,
    outward: Vec<u8>,
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers { inward: vec![0; MOST_FRAME], outward: vec![0; MOST_FRAME] }
    }
}

/// What a client needs besides its descriptors.
pub(super) struct Identity {
    pub(super) id: u32,
    pub(super) path: PathBuf,
    pub(super) lost: Arc<Lost>,
    pub(super) register: Arc<Register>,
}

impl Client {
    pub(super) fn new(
        control: Arc<OwnedFd>,
        data: OwnedFd,
        port: SwitchPort,
        identity: Identity,
    ) -> Client {
        let Identity { id, path, lost, register } = identity;
        let ready = Ready { from: true, of: true, room: true };
        let (inward, outward) = (Way::default(), Way::default());
        Client {
            control,
            data,
            port,
            id,
            path,
            lost,
            register,
            ready,
            inward,
            outward,
            sent: false,
        }
    }

    /// Carries a burst in each direction.
    pub(super) fn carry(&mut self, buffers: &mut Buffers, now: Instant) -> Turn {
        let inward = self.carry_in(&mut buffers.inward, now);
        let outward = self.carry_out(&mut buffers.outward, now);
        if (inward, outward) == (Turn::Notices, Turn::Notices) && std::mem::take(&mut self.sent) {
            // Or its counters would tell of these frames only with later ones. A failure shows with the next frame.
            let _ = self.port.service();
        }
        match (inward, outward) {
            (Turn::Never, _) | (_, Turn::Never) => Turn::Never,
            (Turn::Now, _) | (_, Turn::Now) => Turn::Now,
            (Turn::At(one), Turn::At(other)) => Turn::At(one.min(other)),
            (Turn::At(one), Turn::Notices) | (Turn::Notices, Turn::At(one)) => Turn::At(one),
            (Turn::Notices, Turn::Notices) => Turn::Notices,
        }
    }

    /// From the client to the switch.
    fn carry_in(&mut self, buffer: &mut [u8], now: Instant) -> Turn {
        let mut turn = Turn::Now;
        for _ in 0..BURST {
            let frame = match self.inward.held.take() {
                Some(frame) => Cow::Owned(frame),
                None => match self.receive(buffer) {
                    Some(length) => Cow::Borrowed(&buffer[..HEADER + length]),
                    None if self.ready.from => continue,
                    None => {
                        turn = Turn::Notices;
                        break;
                    }
                },
            };
            // A failed call has lost a frame; the port remains usable.
            match self.port.try_queue(&frame).unwrap_or(Sent::Stalled) {
                Sent::Done => (self.inward.full, self.sent) = (None, true),
                Sent::Full if self.inward.patience(now, PATIENCE).is_some() => {
                    self.inward.held = Some(frame.into_owned());
                    turn = Turn::At(now + RETRY);
                    break;
                }
                Sent::Full => Lost::add(&self.lost.stalled),
                // The switch's counters have them.
                Sent::Stalled | Sent::Refused => {}
                Sent::Gone => return Turn::Never,
            }
        }
        self.port.flush();
        turn
    }

    /// The next frame's length; it is behind an empty header. `None` with `ready.from` after something that is no
    /// frame.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        if !self.ready.from {
            return None;
        }
        let (header, frame) = buffer.split_at_mut_checked(HEADER)?;
        header.fill(0);
        let most = frame.len();
        // TRUNC: the length that the datagram had (recv(2)), so that one that was cut is noticed.
        match rustix::net::recv(&self.data, frame, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, length)) if (LEAST..=most).contains(&length) => Some(length),
            Ok((_, length)) => {
                // An empty one is how old clients announce their end.
                if length > 0 {
                    Lost::add(&self.lost.malformed);
                }
                None
            }
            Err(Errno::INTR | Errno::CONNRESET) => None,
            Err(_) => {
                self.ready.from = false;
                None
            }
        }
    }

    /// From the switch to the client.
    fn carry_out(&mut self, buffer: &mut [u8], now: Instant) -> Turn {
        for _ in 0..BURST {
            let frame = match self.outward.held.take() {
                Some(frame) => Cow::Owned(frame),
                None => match self.take(buffer) {
                    Ok(Some((start, end))) => Cow::Borrowed(&buffer[start..end]),
                    Ok(None) if self.ready.of => continue,
                    Ok(None) => return Turn::Notices,
                    Err(turn) => return turn,
                },
            };
            if self.ready.room {
                match rustix::net::send(
                    &self.data,
                    &frame,
                    SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
                ) {
                    Ok(_) => {
                        self.outward.full = None;
                        continue;
                    }
                    Err(Errno::AGAIN) => self.ready.room = false,
                    // Closed, or never to be sent.
                    Err(_) => {
                        Lost::add(&self.lost.unread);
                        continue;
                    }
                }
            }
            match self.outward.patience(now, PATIENCE) {
                Some(until) => {
                    self.outward.held = Some(frame.into_owned());
                    return Turn::At(until);
                }
                None => Lost::add(&self.lost.unread),
            }
        }
        Turn::Now
    }

    /// The next frame from the switch: where it is in the buffer. `None` with `ready.of` where another look may
    /// find one.
    fn take(&mut self, buffer: &mut [u8]) -> Result<Option<(usize, usize)>, Turn> {
        if !self.ready.of {
            return Ok(None);
        }
        Ok(match self.port.receive(buffer) {
            Ok(Received::Frame { start, length }) => Some((start + HEADER, start + length)),
            // The port has counted it.
            Ok(Received::Truncated) => None,
            Ok(Received::Empty) => {
                self.ready.of = self.port.was_woken().unwrap_or(false);
                None
            }
            Ok(Received::Gone) => return Err(Turn::Never),
            Err(_) => {
                self.ready.of = false;
                None
            }
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let number = u8::try_from(self.port.number()).unwrap_or(0);
        self.register.leave(number, self.id);
        let _ = std::fs::remove_file(&self.path);
    }
}
