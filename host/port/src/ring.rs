//! Packet sockets as ports, by rings shared with the kernel: frames are looked at where they lie (long ones
//! are received by a call), and go out by one call a burst (packet(7), packet_mmap.rst).
//!
//! As with [`crate::PacketPort`] the interface stays the kernel's and nothing of it is changed; if it
//! is made promiscuous, then by a membership that goes with the socket. Super-frames and unfinished
//! checksums cross unchanged, and a frame that was cut is told as truncated.
//! A frame that the interface does not take now waits at most 2 ms, then it is lost.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_rawsock::{Peeked, RingSizes, RxRing, State, TxRing, WHOLE_SLOT, rings, socket};
use rustix::net::SocketFlags;

use crate::packet::{RECEIVE_BUFFER, check_family, receive_by_call, send_by_call};
use crate::{Error, Flushed, HEADER, Lent, Port, Received, Result, Sent};

/// How long a frame waits for an interface that is up and takes nothing.
const BUSY: Duration = Duration::from_millis(2);

/// What may be on its way into the interface, in bytes of the kernel's memory.
const SEND_BUFFER: i32 = 8 << 20;

/// Bytes of an Ethernet header, and of a VLAN tag, which do not count for the MTU.
const ETHERNET: usize = 14;
const TAG: usize = 4;
/// Slots that hold what is on an ordinary wire.
const SMALL_SLOT: u32 = 2048;

/// What one may choose of a port with rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// MiB of memory for frames that come in.
    pub receive: u32,
    /// Whether slots for what comes in hold any frame, 15 to a MiB. Else there are 512 of 2 KiB, and longer
    /// frames are received by a call each, which copies them as often.
    pub whole_slots: bool,
    /// MiB of memory for frames that go out, each by its own call if 0: that copies large frames once
    /// less, but costs a call for small ones.
    pub transmit: u32,
    /// Whether frames go past the interface's queueing discipline and the programs at its egress. The kernel
    /// then loses super-frames that the interface cannot cut up itself.
    pub direct: bool,
    /// Whether frames for others come in, too, where the interface tells them apart.
    pub promiscuous: bool,
    /// For comparison alone: no header of offloads and slots of 2 KiB, as programs of old have it.
    /// Packets that the kernel or the card has merged are then lost as truncated, unfinished
    /// checksums are carried on as if they were right, and super-frames are refused.
    pub without_offloads: bool,
}

impl Default for RingOptions {
    fn default() -> Self {
        RingOptions {
            receive: 4,
            whole_slots: false,
            transmit: 4,
            direct: false,
            promiscuous: false,
            without_offloads: false,
        }
    }
}

/// A packet socket with rings, bound to one interface.
#[derive(Debug)]
pub struct RingPort {
    receive: RxRing,
    transmit: Option<TxRing>,
    fd: OwnedFd,
    index: u32,
    mtu: usize,
    has_header: bool,
    /// Since when the first frame that waits could not be taken.
    busy: Option<Instant>,
    overruns: u64,
}

impl RingPort {
    /// Opens a socket on the interface `index` of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without the right to; [`Error::Call`] when the kernel refuses.
    pub fn open(index: u32, options: RingOptions) -> Result<RingPort> {
        let fd = socket::open(index, SocketFlags::NONBLOCK)?;
        socket::bind(&fd, index, 0)?;
        RingPort::prepare(fd, index, options)
    }

    /// Makes a port of a packet socket that was bound to an interface and given to us. It needs no right
    /// and no namespace. What has come in before is lost.
    ///
    /// # Errors
    /// [`Error::Kind`] when it is not such a one; [`Error::Call`] when the kernel refuses, as EBUSY when it
    /// has rings already.
    pub fn from_fd(fd: OwnedFd, options: RingOptions) -> Result<RingPort> {
        check_family(&fd)?;
        let Some(index) = socket::interface(&fd)? else {
            let reason = "its interface is no more, or it has none";
            return Err(Error::Kind { kind: "a packet socket", reason });
        };
        rustix::io::ioctl_fionbio(&fd, true)
            .map_err(|e| Error::call(socket::object(index), "make non-blocking", e))?;
        RingPort::prepare(fd, index, options)
    }

    fn prepare(fd: OwnedFd, index: u32, options: RingOptions) -> Result<RingPort> {
        let has_header = !options.without_offloads;
        let set = |name, on: bool, operation| socket::set(&fd, index, name, on.into(), operation);
        set(libc::PACKET_VNET_HDR, has_header, "have offloads told by")?;
        set(libc::PACKET_IGNORE_OUTGOING, true, "ignore what is sent on")?;
        set(libc::PACKET_QDISC_BYPASS, options.direct, "send directly through")?;
        set(libc::PACKET_AUXDATA, true, "have VLAN tags told by")?;
        socket::enlarge(&fd, RECEIVE_BUFFER, SEND_BUFFER);
        let any = has_header && options.whole_slots;
        let sizes = RingSizes {
            receive_slot: if any { WHOLE_SLOT } else { SMALL_SLOT },
            receive: options.receive.max(1),
            aside: has_header && !any,
            transmit_slot: if has_header { WHOLE_SLOT } else { SMALL_SLOT },
            transmit: options.transmit,
        };
        let (receive, transmit) = rings(&fd, sizes)?;
        socket::bind(&fd, index, socket::ALL)?;
        if options.promiscuous {
            socket::promiscuous(&fd, index)?;
        }
        let mtu = socket::mtu(&fd, index).map_or(usize::MAX, whole);
        let (busy, overruns) = (None, 0);
        Ok(RingPort { receive, transmit, fd, index, mtu, has_header, busy, overruns })
    }

    /// Whether the card merges packets irreversibly (LRO): see [`socket::merges_irreversibly`].
    pub fn is_merged_irreversibly(&self) -> bool {
        socket::merges_irreversibly(&self.fd, self.index).unwrap_or(false)
    }

    /// The kernel does not check the length of what it sends by a ring with a header of offloads.
    fn fits(&self, frame: &[u8]) -> bool {
        let is_super = frame.get(1).is_some_and(|kind| *kind != 0);
        let tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
        let tagged = if tag(HEADER + 12) { TAG } else { 0 };
        let bytes = frame.len().saturating_sub(HEADER + ETHERNET + tagged);
        frame.len() >= HEADER + ETHERNET && (is_super || bytes <= self.mtu)
    }

    fn send_by_call(&self, frame: &[u8]) -> Result<Sent> {
        let bytes = if self.has_header { frame } else { frame.get(HEADER..).unwrap_or(&[]) };
        send_by_call(&self.fd, bytes)
    }

    /// Sends what waits. Who has not been able to send for [`BUSY`] loses what waits, and from then on at
    /// once what comes, until something is taken again.
    fn kick(&mut self) -> Result<Flushed> {
        let Some(ring) = &mut self.transmit else {
            return Ok(Flushed { sent: Sent::Done, lost: 0 });
        };
        let before = ring.waiting();
        let kick = ring.kick(self.fd.as_fd())?;
        let mut flushed = Flushed { sent: Sent::Done, lost: kick.lost };
        flushed.sent = match kick.state {
            State::Done => Sent::Done,
            State::Down => Sent::Down,
            State::Gone => Sent::Gone,
            State::Busy => {
                let progress = ring.waiting() < before;
                let since = *self.busy.get_or_insert_with(Instant::now);
                if progress {
                    self.busy = Some(Instant::now());
                    Sent::Full
                } else if since.elapsed() >= BUSY {
                    flushed.lost += ring.drop_all();
                    Sent::NoRoom
                } else {
                    Sent::Full
                }
            }
        };
        if matches!(flushed.sent, Sent::Done | Sent::Down | Sent::Gone) {
            self.busy = None;
        }
        Ok(flushed)
    }
}

impl Port for RingPort {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        let received = match self.receive.peek() {
            Peeked::Frame(frame) => match buffer.get_mut(..frame.len()) {
                Some(room) => {
                    room.copy_from_slice(frame);
                    Received::Frame { start: 0, length: frame.len() }
                }
                None => Received::Truncated,
            },
            Peeked::Aside => match receive_by_call(&self.fd, buffer)? {
                // Its socket could not keep it.
                Received::Empty => Received::Truncated,
                // What was told first is not the frame, which still waits.
                state @ (Received::Down | Received::Gone) => return Ok(state),
                other => other,
            },
            Peeked::Cut => Received::Truncated,
            Peeked::Empty => return Ok(self.fault()),
        };
        self.receive.release();
        Ok(received)
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        if self.transmit.is_none() {
            return self.send_by_call(frame);
        }
        match self.queue(frame)? {
            Sent::Done => {}
            other => return Ok(other),
        }
        let flushed = self.kick()?;
        Ok(match flushed.sent {
            // It waits in the ring, to be sent with the next one.
            Sent::Full => Sent::Done,
            Sent::Done if flushed.lost > 0 => Sent::Refused,
            other => other,
        })
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reading sets the kernel's count back, so only one port of a socket may ask.
    fn overruns(&mut self) -> Option<u64> {
        if let Ok(mtu) = socket::mtu(&self.fd, self.index) {
            self.mtu = whole(mtu);
        }
        self.overruns += socket::statistics(&self.fd).ok()?.lost;
        Some(self.overruns)
    }

    fn queue(&mut self, frame: &[u8]) -> Result<Sent> {
        let fits = self.fits(frame);
        let Some(ring) = &mut self.transmit else { return self.send_by_call(frame) };
        let bytes = if self.has_header { frame } else { frame.get(HEADER..).unwrap_or(&[]) };
        if !fits || bytes.len() > ring.most() {
            return Ok(Sent::Refused);
        }
        Ok(if ring.put(bytes) { Sent::Done } else { Sent::Full })
    }

    fn flush(&mut self) -> Result<Flushed> {
        self.kick()
    }

    fn lend(&mut self) -> Lent<'_> {
        match self.receive.peek() {
            Peeked::Frame(frame) => Lent::Frame(frame),
            Peeked::Aside => Lent::Never,
            Peeked::Cut => Lent::Truncated,
            Peeked::Empty => Lent::Empty,
        }
    }

    fn give_back(&mut self) {
        self.receive.release();
    }

    fn fault(&mut self) -> Received {
        // The kernel tells of the end of an interface only when it was not down before.
        match (rustix::net::sockopt::socket_error(&self.fd), socket::interface(&self.fd)) {
            (_, Ok(None)) => Received::Gone,
            (Ok(Ok(())), _) => Received::Empty,
            _ => Received::Down,
        }
    }
}

fn whole(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
