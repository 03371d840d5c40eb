//! Packet sockets as ports, by rings shared with the kernel: frames are lent in place (long ones
//! are received by a call) and sent by one call per burst (packet(7), packet_mmap.rst).
//!
//! As with [`crate::PacketPort`], the interface stays with the kernel and is not changed;
//! promiscuous mode is a membership that ends with the socket. Super-frames and unfinished
//! checksums pass unchanged, and a cut frame is reported as truncated. A frame that the interface
//! does not accept waits at most 2 ms, then it is lost.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_rawsock::{Peeked, RingSizes, RxRing, State, TxRing, WHOLE_SLOT, rings, socket};
use netloom_sys::Failure;
use rustix::net::SocketFlags;

use crate::packet::{RECEIVE_BUFFER, check_family, receive_by_call, send_by_call};
use crate::{Error, Flushed, HEADER, Lent, Port, Received, Result, Sent};

/// Longest wait of a frame for an interface that is up and accepts nothing.
const BUSY: Duration = Duration::from_millis(2);

/// Send buffer, in bytes of kernel memory.
const SEND_BUFFER: i32 = 8 << 20;

/// Bytes of an Ethernet header and of a VLAN tag, which the MTU does not include.
const ETHERNET: usize = 14;
const TAG: usize = 4;
/// Slots for the frames of an ordinary wire.
const SMALL_SLOT: u32 = 2048;

/// Options of a port with rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// MiB of memory for incoming frames.
    pub receive: u32,
    /// Whether receive slots hold any frame, 15 per MiB. Otherwise there are 512 of 2 KiB, and each
    /// longer frame takes a call, which copies it as often.
    pub whole_slots: bool,
    /// MiB of memory for outgoing frames; with 0 each is sent by its own call: one copy less for
    /// large frames, but a call for each small one.
    pub transmit: u32,
    /// Whether frames bypass the interface's queueing discipline and egress programs. The kernel
    /// then drops super-frames that the interface cannot segment itself.
    pub direct: bool,
    /// Whether frames for other stations are received, too, if the interface tells them apart.
    pub promiscuous: bool,
    /// Only for comparison: no offload header and slots of 2 KiB, as in old programs. Packets
    /// merged by the kernel or the card are then lost as truncated, unfinished checksums are
    /// forwarded as if they were right, and super-frames are refused.
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
    /// Since when the first waiting frame has not been accepted.
    busy: Option<Instant>,
    overruns: u64,
}

impl RingPort {
    /// Opens a socket on the interface `index` of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without permission; [`Error::Failed`] if the kernel refuses.
    pub fn open(index: u32, options: RingOptions) -> Result<RingPort> {
        let fd = socket::open(index, SocketFlags::NONBLOCK)?;
        // Without a protocol, so that nothing arrives before the rings are there.
        socket::bind(&fd, index, 0)?;
        RingPort::prepare(fd, index, options)
    }

    /// Makes a port from a packet socket that is bound to an interface and was passed on. Needs no
    /// rights and no namespace. Frames received before are lost.
    ///
    /// # Errors
    /// [`Error::Kind`] if it is not such a socket; [`Error::Failed`] if the kernel refuses, e.g. EBUSY
    /// if it has rings already.
    pub fn from_fd(fd: OwnedFd, options: RingOptions) -> Result<RingPort> {
        check_family(&fd)?;
        let Some(index) = socket::interface(&fd)? else {
            let reason = "its interface is gone, or it has none";
            return Err(Error::Kind { kind: "a packet socket", reason });
        };
        rustix::io::ioctl_fionbio(&fd, true)
            .map_err(|e| Failure::new(socket::object(index), "make non-blocking", e))?;
        RingPort::prepare(fd, index, options)
    }

    fn prepare(fd: OwnedFd, index: u32, options: RingOptions) -> Result<RingPort> {
        let has_header = !options.without_offloads;
        let set = |name, on: bool, operation| socket::set(&fd, index, name, on.into(), operation);
        set(libc::PACKET_VNET_HDR, has_header, "enable offload reports of")?;
        set(libc::PACKET_IGNORE_OUTGOING, true, "ignore sent frames on")?;
        set(libc::PACKET_QDISC_BYPASS, options.direct, "send directly through")?;
        set(libc::PACKET_AUXDATA, true, "enable VLAN tags of")?;
        socket::enlarge(&fd, RECEIVE_BUFFER, SEND_BUFFER);
        let any = has_header && options.whole_slots;
        let sizes = RingSizes {
            receive_slot: if any { WHOLE_SLOT } else { SMALL_SLOT },
            receive: options.receive.max(1),
            aside: has_header && !any,
            transmit_slot: if has_header { WHOLE_SLOT } else { SMALL_SLOT },
            transmit: options.transmit,
        };
        let (Some(receive), transmit) = rings(&fd, sizes)? else {
            // Never: `sizes` has at least 1 MiB for it.
            let reason = "it has no ring for frames that come in";
            return Err(Error::Kind { kind: "a packet socket", reason });
        };
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

    /// The kernel does not check the length of frames sent by a ring with an offload header.
    fn fits(&self, frame: &[u8]) -> bool {
        let is_super = frame.get(1).is_some_and(|kind| *kind != 0);
        // Without an offload header the kernel allows one tag beyond the MTU, too (`packet_extra_vlan_len_allowed`).
        let tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
        let tagged = if tag(HEADER + 12) { TAG } else { 0 };
        let bytes = frame.len().saturating_sub(HEADER + ETHERNET + tagged);
        frame.len() >= HEADER + ETHERNET && (is_super || bytes <= self.mtu)
    }

    fn send_by_call(&self, frame: &[u8]) -> Result<Sent> {
        let bytes = if self.has_header { frame } else { frame.get(HEADER..).unwrap_or(&[]) };
        send_by_call(&self.fd, bytes)
    }

    /// Sends the waiting frames. After [`BUSY`] without progress they are lost, and later ones at
    /// once, until the interface accepts a frame again.
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
                // The socket could not keep it.
                Received::Empty => Received::Truncated,
                // The socket reports its state before the frame, which still waits.
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

    /// Reading resets the kernel's counter, so only one port of a socket may ask.
    fn overruns(&mut self) -> Option<u64> {
        // The MTU may have changed. Users ask for overruns now and then, so a look costs no frame anything.
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
        // The kernel reports an interface's end only if it was not down before.
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
