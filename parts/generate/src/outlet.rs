//! Where frames go one by one: a packet socket's ring, or a port of a switch in shared memory.
//!
//! Invariant: each frame offered is taken or refused, and counted so, at the latest in [`Outlet::finish`].

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use netloom_rawsock::{RingSizes, State, TxRing, rings, socket};
pub use netloom_shm::SwitchPort;
use netloom_shm::{HEADER, Sent};
use rustix::net::SocketFlags;

use crate::clock::Clock;
use crate::report::UsedEngine;
use crate::{Error, Result};

/// Frames that one call sends when there is no pace.
pub(crate) const BURST: u64 = 64;
/// How long a frame waits for room.
const PATIENCE: u64 = 100_000_000;
/// How long what was put may take to be taken in the end.
const LAST: u64 = 1_000_000_000;
/// An Ethernet header.
const ETHERNET: u32 = 14;
/// A VLAN tag, which comes on top of the MTU.
const TAG: u32 = 4;
/// `PACKET_VNET_HDR` and `PACKET_QDISC_BYPASS` of linux/if_packet.h.
const VNET_HDR: i32 = 15;
const QDISC_BYPASS: i32 = 20;
/// The longest frame that the kernel copies as it takes it. A longer one, and any without the header that
/// asks for it, stays in its slot's pages, which a receiver on this machine then copies to new pages: that
/// costs more.
const COPIED: usize = 2048;
/// Where the header of offloads has the length of what is to be copied.
const COPIED_AT: std::ops::Range<usize> = 2..4;
/// MiB of slots.
const MEMORY: u32 = 4;
/// A slot's own header.
const SLOT_HEADER: u32 = 32;
/// The header of offloads.
const OFFLOADS: u32 = 10;

/// A place for frames.
pub(crate) struct Outlet {
    way: Way,
    pub(crate) offered: u64,
    pub(crate) refused: u64,
}

enum Way {
    Ring(Box<Ring>),
    Switch { port: Box<SwitchPort>, buffer: Vec<u8> },
}

struct Ring {
    fd: OwnedFd,
    index: u32,
    ring: TxRing,
    /// The longest frame without a tag.
    most: u32,
    /// The header of offloads and the frame.
    buffer: Vec<u8>,
}

/// The longest frame, without tag and check sequence, that an interface takes.
pub(crate) fn most_of(index: u32) -> Result<u32> {
    let fd = socket::open(index, SocketFlags::empty())?;
    Ok(socket::mtu(&fd, index)?.saturating_add(ETHERNET))
}

impl Outlet {
    /// A ring past the queueing discipline, for frames of up to `longest` bytes; 0: all that it takes.
    pub(crate) fn ring(index: u32, longest: u32) -> Result<Outlet> {
        let fd = socket::open(index, SocketFlags::empty())?;
        let most = socket::mtu(&fd, index)?.saturating_add(ETHERNET);
        if longest > most {
            return Err(Error::TooLong { index, length: longest, most });
        }
        socket::set(&fd, index, QDISC_BYPASS, 1, "send directly through")?;
        socket::set(&fd, index, VNET_HDR, 1, "put a header before frames of")?;
        socket::bind(&fd, index, 0)?;
        let longest = if longest == 0 { most + TAG } else { longest };
        let slot = (longest + SLOT_HEADER + OFFLOADS).next_power_of_two().clamp(2048, 128 << 10);
        let sizes = RingSizes {
            receive_slot: 2048,
            receive: 0,
            aside: false,
            transmit_slot: slot,
            transmit: MEMORY,
        };
        let (_, ring) = rings(&fd, sizes)?;
        let Some(ring) = ring else {
            let reason = "the kernel made no ring".to_owned();
            return Err(Error::Engine { engine: "ring", reason });
        };
        let way = Way::Ring(Box::new(Ring { fd, index, ring, most, buffer: vec![0; HEADER] }));
        Ok(Outlet { way, offered: 0, refused: 0 })
    }

    /// A port that has joined a switch.
    pub(crate) fn switch(port: Box<SwitchPort>) -> Outlet {
        let way = Way::Switch { port, buffer: vec![0; HEADER] };
        Outlet { way, offered: 0, refused: 0 }
    }

    pub(crate) fn engine(&self) -> UsedEngine {
        match self.way {
            Way::Ring(_) => UsedEngine::Ring,
            Way::Switch { .. } => UsedEngine::Shm,
        }
    }

    /// Whether a frame is not too long.
    pub(crate) fn takes(&self, frame: &[u8]) -> bool {
        let Way::Ring(ring) = &self.way else {
            return frame.len() <= netloom_shm::MOST_FRAME - HEADER;
        };
        let tagged = matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
        let most = ring.most + if tagged { TAG } else { 0 };
        u32::try_from(frame.len()).is_ok_and(|length| length <= most)
            && frame.len() + HEADER <= ring.ring.most()
    }

    /// Offers a frame, which may wait for [`Outlet::flush`].
    #[inline]
    pub(crate) fn offer(&mut self, frame: &[u8]) -> Result<()> {
        self.offered += 1;
        match &mut self.way {
            Way::Ring(ring) => {
                ring.prepare(frame);
                if !ring.ring.put(&ring.buffer) && !ring.put_slowly(&mut self.refused)? {
                    self.refused += 1;
                }
            }
            Way::Switch { port, buffer } => {
                buffer.truncate(HEADER);
                buffer.extend_from_slice(frame);
                match port.queue(buffer)? {
                    Sent::Done => {}
                    Sent::Full | Sent::Stalled | Sent::Refused => self.refused += 1,
                    Sent::Gone => return Err(Error::Gone { object: "switch".to_owned() }),
                }
            }
        }
        Ok(())
    }

    /// Gives what waits to the interface.
    #[inline]
    pub(crate) fn flush(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Ring(ring) => self.refused += ring.kick()?,
            Way::Switch { port, .. } => port.flush(),
        }
        Ok(())
    }

    /// Waits, bounded, until all has been taken; what has not is refused. By a switch frames are taken
    /// when their receivers have them; those for all, and for stations that are not known, when the
    /// switch itself has.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.flush()?;
        match &mut self.way {
            Way::Ring(ring) => {
                let end = Clock::now() + LAST;
                while ring.ring.waiting() > 0 && Clock::now() < end {
                    std::thread::yield_now();
                    self.refused += ring.kick()?;
                }
                self.refused += ring.ring.drop_all();
            }
            Way::Switch { port, .. } => {
                self.refused += port.drain(Duration::from_nanos(LAST))?;
            }
        }
        Ok(())
    }
}

impl Ring {
    /// Gives what waits to the interface; how many of it are lost.
    #[inline]
    fn kick(&mut self) -> Result<u64> {
        let kick = self.ring.kick(self.fd.as_fd())?;
        match kick.state {
            State::Done | State::Busy => Ok(kick.lost),
            State::Down => Err(Error::Down { index: self.index }),
            State::Gone => Err(Error::Gone { object: format!("interface {}", self.index) }),
        }
    }

    /// Lays out a frame behind its header, which asks for no offload.
    #[inline]
    fn prepare(&mut self, frame: &[u8]) {
        let copied = if frame.len() <= COPIED { frame.len() } else { 0 };
        let copied = u16::try_from(copied).unwrap_or(0);
        self.buffer.truncate(HEADER);
        if let Some(place) = self.buffer.get_mut(COPIED_AT) {
            place.copy_from_slice(&copied.to_ne_bytes());
        }
        self.buffer.extend_from_slice(frame);
    }

    /// Waits for a free slot, bounded; whether the frame that was prepared was put.
    #[cold]
    fn put_slowly(&mut self, lost: &mut u64) -> Result<bool> {
        let end = Clock::now() + PATIENCE;
        loop {
            *lost += self.kick()?;
            if self.ring.put(&self.buffer) {
                return Ok(true);
            }
            if Clock::now() >= end {
                return Ok(false);
            }
            std::thread::yield_now();
        }
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (offered, refused) = (self.offered, self.refused);
        f.debug_struct("Outlet")
            .field("engine", &self.engine())
            .field("offered", &offered)
            .field("refused", &refused)
            .finish_non_exhaustive()
    }
}
