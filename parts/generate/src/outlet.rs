//! Sinks that take frames one by one: a packet socket's ring, or a port of a shared-memory switch.
//!
//! Invariant: each offered frame is taken or refused and counted accordingly, in [`Outlet::finish`] at the
//! latest.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use netloom_rawsock::{RingSizes, State, TxRing, rings, socket};
pub use netloom_shm::SwitchPort;
use netloom_shm::{HEADER, Sent};
use rustix::net::SocketFlags;

use crate::clock::Clock;
use crate::report::UsedEngine;
use crate::{Error, Result};

/// Frames sent per call without a pace.
pub(crate) const BURST: u64 = 64;
/// How long a frame waits for room.
const PATIENCE: u64 = 100_000_000;
/// How long the final drain may take.
const LAST: u64 = 1_000_000_000;
/// An Ethernet header.
const ETHERNET: u32 = 14;
/// A VLAN tag, which is not part of the MTU.
const TAG: u32 = 4;
/// `PACKET_VNET_HDR` and `PACKET_QDISC_BYPASS` of linux/if_packet.h.
const VNET_HDR: i32 = 15;
const QDISC_BYPASS: i32 = 20;
/// Longest frame that the kernel copies when it takes it. A longer one, or any without the header that
/// requests the copy, stays in its slot's pages; a receiver on this machine then copies it to new pages,
/// which costs more.
const COPIED: usize = 2048;
/// Position of the copy length in the offload header.
const COPIED_AT: std::ops::Range<usize> = 2..4;
/// MiB of slots.
const MEMORY: u32 = 4;
/// Header of a ring slot.
const SLOT_HEADER: u32 = 32;
/// The offload header.
const OFFLOADS: u32 = 10;

/// A sink for frames.
pub(crate) struct Outlet {
    medium: Medium,
    pub(crate) offered: u64,
    pub(crate) refused: u64,
}

enum Medium {
    Ring(Box<Ring>),
    Switch { port: Box<SwitchPort>, buffer: Vec<u8> },
}

struct Ring {
    fd: OwnedFd,
    index: u32,
    ring: TxRing,
    /// Longest untagged frame.
    most: u32,
    /// The offload header and the frame.
    buffer: Vec<u8>,
}

/// Longest frame that an interface takes, without tag and check sequence.
pub(crate) fn most_of(index: u32) -> Result<u32> {
    let fd = socket::open(index, SocketFlags::empty())?;
    Ok(socket::mtu(&fd, index)?.saturating_add(ETHERNET))
}

impl Outlet {
    /// A ring that bypasses the queueing discipline, for frames of up to `longest` bytes; 0 means the
    /// interface's limit.
    pub(crate) fn ring(index: u32, longest: u32) -> Result<Outlet> {
        let fd = socket::open(index, SocketFlags::empty())?;
        let most = socket::mtu(&fd, index)?.saturating_add(ETHERNET);
        if longest > most {
            return Err(Error::TooLong { index, length: longest, most });
        }
        // A queueing discipline would hold and drop frames, against the schedule.
        socket::set(&fd, index, QDISC_BYPASS, 1, "send directly through")?;
        // Before the ring is made: with one, the kernel refuses this option (EBUSY).
        socket::set(&fd, index, VNET_HDR, 1, "put a header before frames of")?;
        // Protocol 0: the socket receives nothing (packet(7)).
        socket::bind(&fd, index, 0)?;
        // Nothing is known of the frames yet: the longest that the interface takes.
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
        let medium =
            Medium::Ring(Box::new(Ring { fd, index, ring, most, buffer: vec![0; HEADER] }));
        Ok(Outlet { medium, offered: 0, refused: 0 })
    }

    /// A port that has joined a switch.
    pub(crate) fn switch(port: Box<SwitchPort>) -> Outlet {
        let medium = Medium::Switch { port, buffer: vec![0; HEADER] };
        Outlet { medium, offered: 0, refused: 0 }
    }

    pub(crate) fn engine(&self) -> UsedEngine {
        match self.medium {
            Medium::Ring(_) => UsedEngine::Ring,
            Medium::Switch { .. } => UsedEngine::Shm,
        }
    }

    /// Whether the frame is within the limit.
    pub(crate) fn takes(&self, frame: &[u8]) -> bool {
        let Medium::Ring(ring) = &self.medium else {
            return frame.len() <= netloom_shm::MOST_FRAME - HEADER;
        };
        let tagged = matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
        let most = ring.most + if tagged { TAG } else { 0 };
        u32::try_from(frame.len()).is_ok_and(|length| length <= most)
            && frame.len() + HEADER <= ring.ring.most()
    }

    /// Offers a frame, which may stay pending until [`Outlet::flush`].
    #[inline]
    pub(crate) fn offer(&mut self, frame: &[u8]) -> Result<()> {
        self.offered += 1;
        match &mut self.medium {
            Medium::Ring(ring) => {
                ring.prepare(frame);
                if !ring.ring.put(&ring.buffer) && !ring.put_slowly(&mut self.refused)? {
                    self.refused += 1;
                }
            }
            Medium::Switch { port, buffer } => {
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

    /// Sends pending frames to the interface.
    #[inline]
    pub(crate) fn flush(&mut self) -> Result<()> {
        match &mut self.medium {
            Medium::Ring(ring) => self.refused += ring.kick()?,
            Medium::Switch { port, .. } => port.flush(),
        }
        Ok(())
    }

    /// Waits, bounded, until all frames are taken; the rest counts as refused. On a switch, a frame is taken
    /// when its receivers have it; broadcast, multicast and unknown destinations, when the switch itself has
    /// it.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.flush()?;
        match &mut self.medium {
            Medium::Ring(ring) => {
                let end = Clock::now() + LAST;
                while ring.ring.waiting() > 0 && Clock::now() < end {
                    std::thread::yield_now();
                    self.refused += ring.kick()?;
                }
                self.refused += ring.ring.drop_all();
            }
            Medium::Switch { port, .. } => {
                self.refused += port.drain(Duration::from_nanos(LAST))?;
            }
        }
        Ok(())
    }
}

impl Ring {
    /// Sends pending frames to the interface; returns how many are lost.
    #[inline]
    fn kick(&mut self) -> Result<u64> {
        let kick = self.ring.kick(self.fd.as_fd())?;
        match kick.state {
            State::Done | State::Busy => Ok(kick.lost),
            State::Down => Err(Error::Down { index: self.index }),
            State::Gone => Err(Error::Gone { object: format!("interface {}", self.index) }),
        }
    }

    /// Writes a frame behind an offload header that requests no offload.
    #[inline]
    fn prepare(&mut self, frame: &[u8]) {
        let copied = if frame.len() <= COPIED { frame.len() } else { 0 };
        let copied = u16::try_from(copied).unwrap_or(0);
        self.buffer.truncate(HEADER);
        // `hdr_len` of the header: af_packet.c copies that much, and maps the rest.
        if let Some(place) = self.buffer.get_mut(COPIED_AT) {
            place.copy_from_slice(&copied.to_ne_bytes());
        }
        self.buffer.extend_from_slice(frame);
    }

    /// Waits, bounded, for a free slot; returns whether the prepared frame was queued.
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
            // What frees slots may need this CPU.
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
