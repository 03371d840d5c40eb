//! A ring of blocks, each with many frames and handed over whole (TPACKET_V3, packet_mmap.rst).
//!
//! For capture: both directions of an interface, each frame lent in place. A block arrives when it is
//! full, or some milliseconds after its first frame; dropping it returns it to the kernel. Nothing is
//! captured before the filter is attached: until then everything is rejected. Super-frames are
//! recognised by a kernel flag and by their length. An offload header (PACKET_VNET_HDR) would mark them
//! all, but loses types that it cannot express, such as SCTP's. Every frame that the filter accepts is
//! in a block or counted as dropped; after [`BlockRing::stop`] the two add up. Invariant: blocks are
//! taken and given back in order, one at a time.

mod contents;
mod filter;
mod memory;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SocketFlags;

pub use contents::{BlockFrame, BlockFrames, Status};
pub use filter::RawInsn;

use crate::socket::{self, object};
use crate::{Error, Result, option};
use contents::Look;
use filter::Filter;
use memory::Blocks;
use netloom_sys::Failure;

/// An Ethernet header and two tags: bytes before a packet of at most the MTU.
const BEFORE_PACKET: u32 = 14 + 8;
/// Interval for reading the 32-bit counters and the MTU.
const REFRESH: Duration = Duration::from_secs(1);
/// Interval for checking an interface that is down: no event reports its end.
const LOOK: Duration = Duration::from_millis(50);

/// Options of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOptions {
    /// Bytes of a block: a multiple of the page size. Longer super-frames are cut.
    pub block_bytes: usize,
    /// Number of blocks. All memory is allocated when the ring is opened.
    pub blocks: usize,
    /// How long the first frame of a block waits for others, in milliseconds, at least 1; the
    /// kernel may take up to twice as long.
    pub timeout_ms: u32,
    /// Whether several rings share the frames.
    pub fanout: Option<Fanout>,
    /// The most bytes kept of a frame, including its VLAN tag; 0: all.
    pub snaplen: u32,
    /// Whether frames for other stations are captured, too.
    pub promiscuous: bool,
}

impl Default for BlockOptions {
    /// 64 blocks of 1 MiB, 10 ms, whole frames, one ring.
    fn default() -> Self {
        BlockOptions {
            block_bytes: 1 << 20,
            blocks: 64,
            timeout_ms: 10,
            fanout: None,
            snaplen: 0,
            promiscuous: false,
        }
    }
}

/// A group of rings that share an interface's frames: each frame goes to one ring. All rings have
/// the same interface and mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fanout {
    /// The group's id in the network namespace, for all but its first ring; `None`: a new group
    /// with an unused id, which [`BlockRing::group`] returns.
    pub id: Option<u16>,
    /// Which ring gets a frame.
    pub mode: FanoutMode,
}

/// Which ring of a group gets a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanoutMode {
    /// The same ring for all frames of a flow, in both directions.
    Hash,
    /// One ring for each CPU that receives frames.
    Cpu,
    /// Each ring in turn.
    RoundRobin,
}

/// The kernel's frame counters since the ring was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Accepted by the filter, including dropped ones.
    pub packets: u64,
    /// Lost because no block was free.
    pub drops: u64,
    /// Number of times no block was free.
    pub freezes: u64,
}

/// The interface's state, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    /// It went down; the caller has not been told yet.
    Fell,
    Down,
    Gone,
}

/// A packet socket on one interface with a ring of blocks.
#[derive(Debug)]
pub struct BlockRing {
    fd: OwnedFd,
    blocks: Blocks,
    index: u32,
    options: BlockOptions,
    look: Look,
    /// The next block to be handed over by the kernel.
    next: usize,
    link: Link,
    stopped: bool,
    statistics: Statistics,
    refreshed: Instant,
}

impl BlockRing {
    /// Opens a ring on the interface `index` of the calling thread's network namespace, for the
    /// frames that `filter` (classic BPF) accepts, or all. The interface may be down.
    ///
    /// A group of rings gets all frames once its last ring is open.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without permission; [`Error::Failed`] if the kernel refuses: EINVAL for
    /// invalid sizes or instructions, ENODEV for no such interface, ENOMEM.
    pub fn open(
        index: u32,
        options: BlockOptions,
        filter: Option<&[RawInsn]>,
    ) -> Result<BlockRing> {
        BlockRing::make(index, options, filter.map_or(Filter::All, Filter::Classic))
    }

    /// As [`BlockRing::open`], with a loaded program of type `BPF_PROG_TYPE_SOCKET_FILTER`.
    ///
    /// # Errors
    /// As for [`BlockRing::open`].
    pub fn open_with_program(
        index: u32,
        options: BlockOptions,
        program: BorrowedFd<'_>,
    ) -> Result<BlockRing> {
        BlockRing::make(index, options, Filter::Program(program))
    }

    fn make(index: u32, options: BlockOptions, filter: Filter<'_>) -> Result<BlockRing> {
        let failed =
            |operation| move |e: io::Error| Error::from(Failure::new(object(index), operation, e));
        let fd = socket::open(index, SocketFlags::empty())?;
        filter::reject(&fd).map_err(failed("reject frames before its filter is at"))?;
        // The conversion cannot fail: the constant is 2.
        let version = i32::try_from(libc::tpacket_versions::TPACKET_V3 as u32).unwrap_or(2);
        socket::set(&fd, index, libc::PACKET_VERSION, version, "have blocks on")?;
        let (bytes, count, timeout) = (options.block_bytes, options.blocks, options.timeout_ms);
        let blocks =
            Blocks::make(&fd, bytes, count, timeout).map_err(failed("make a ring of blocks by"))?;
        socket::bind(&fd, index, socket::ALL)?;
        if options.promiscuous {
            socket::promiscuous(&fd, index)?;
        }
        if let Some(fanout) = options.fanout {
            join(&fd, fanout).map_err(failed("share frames by"))?;
        }
        let snaplen = (options.snaplen > 0).then_some(options.snaplen);
        filter::attach(&fd, filter, snaplen).map_err(failed("attach a filter to"))?;
        let most = snaplen.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let mut ring = BlockRing {
            fd,
            blocks,
            index,
            options,
            look: Look { snaplen: most, longest: u32::MAX },
            next: 0,
            link: Link::Up,
            stopped: false,
            statistics: Statistics::default(),
            refreshed: Instant::now(),
        };
        ring.refresh()?;
        Ok(ring)
    }

    /// The next block, waiting at most `wait`; `None` after that time or, after
    /// [`BlockRing::stop`], when all have been taken. Blocks from before an error come before it.
    ///
    /// # Errors
    /// [`Error::Down`], once each time the interface goes down: the ring continues by itself when
    /// it is up again. [`Error::Gone`], from then on always, if it was deleted or moved away;
    /// [`Error::Down`] may come before. [`Error::Failed`] if the kernel refuses.
    pub fn block(&mut self, wait: Duration) -> Result<Option<Block<'_>>> {
        self.block_or_call(wait, None)
    }

    /// The same, waiting no longer than until `call` is readable, too.
    ///
    /// # Errors
    /// As [`BlockRing::block`].
    pub fn block_or_call(
        &mut self,
        wait: Duration,
        call: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Block<'_>>> {
        if self.refreshed.elapsed() >= REFRESH {
            self.refresh()?;
        }
        Ok(if self.ready(wait, call)? { Some(Block { ring: self }) } else { None })
    }

    /// The counters so far. They match the blocks only after [`BlockRing::stop`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn statistics(&mut self) -> Result<Statistics> {
        // struct tpacket_stats_v3; reading resets the kernel's counters.
        let [packets, drops, freezes]: [u32; 3] =
            option::get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)
                .map_err(|e| Failure::new(object(self.index), "read statistics of", e))?;
        self.statistics.packets += u64::from(packets);
        self.statistics.drops += u64::from(drops);
        self.statistics.freezes += u64::from(freezes);
        Ok(self.statistics)
    }

    /// Stops capturing. Frames captured so far still come by [`BlockRing::block`], which then
    /// returns `None` at once when all are taken. All blocks then hold exactly
    /// [`Statistics::packets`] minus [`Statistics::drops`] frames.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn stop(&mut self) -> Result<()> {
        let failed = |e| Error::from(Failure::new(object(self.index), "stop", e));
        filter::reject(&self.fd).map_err(failed)?;
        match self.options.fanout {
            None => unbind(&self.fd, self.index)?,
            // A ring in a group stays bound; unbinding any socket makes the kernel wait for all.
            Some(_) => {
                let other = socket::open(self.index, SocketFlags::empty())?;
                filter::reject(&other).map_err(failed)?;
                match socket::bind(&other, self.index, socket::ALL) {
                    Err(e) if e.raw_os_error() != Some(libc::ENODEV) => return Err(e),
                    _ => unbind(&other, self.index)?,
                }
            }
        }
        self.stopped = true;
        Ok(())
    }

    /// Whether the interface still exists, up or down.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn interface_alive(&self) -> Result<bool> {
        Ok(self.link != Link::Gone && socket::interface(&self.fd)?.is_some())
    }

    /// How long the first frame of a block waits for others.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.options.timeout_ms))
    }

    /// The id of the ring's group.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn group(&self) -> Result<Option<u16>> {
        if self.options.fanout.is_none() {
            return Ok(None);
        }
        let told: i32 = option::get(&self.fd, libc::SOL_PACKET, libc::PACKET_FANOUT)
            .map_err(|e| Failure::new(object(self.index), "read the group of", e))?;
        Ok(u16::try_from(told & 0xffff).ok())
    }

    /// Waits at most `wait` for the next block, or for a call; returns whether the block is ours.
    fn ready(&mut self, wait: Duration, call: Option<BorrowedFd<'_>>) -> Result<bool> {
        if self.blocks.ours(self.next) {
            return Ok(true);
        }
        let end = Instant::now().checked_add(wait);
        loop {
            if self.stopped {
                return self.settle();
            }
            if matches!(self.link, Link::Fell | Link::Gone) {
                return Ok(self.settle()? || self.tell()?);
            }
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            let slice = if self.link == Link::Down { left.min(LOOK) } else { left };
            let called = self.poll(slice, call)?;
            if self.blocks.ours(self.next) {
                self.link = if self.link == Link::Down { Link::Up } else { self.link };
                return Ok(true);
            }
            if self.link != Link::Fell && socket::interface(&self.fd)?.is_none() {
                self.link = Link::Gone;
            } else if self.link != Link::Fell && (called || left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// Reports why no frames come any more.
    fn tell(&mut self) -> Result<bool> {
        let index = self.index;
        match self.link {
            Link::Fell => {
                self.link = Link::Down;
                Err(Error::Down { index })
            }
            Link::Gone => Err(Error::Gone { index }),
            Link::Up | Link::Down => Ok(false),
        }
    }

    /// Once no more frames come: waits for the kernel to hand over the block it has begun; returns
    /// whether the next block is ours.
    fn settle(&mut self) -> Result<bool> {
        // The kernel checks every timeout and hands over a block unchanged since.
        let bound = Duration::from_millis(u64::from(self.options.timeout_ms)) * 4 + LOOK;
        let end = Instant::now() + bound;
        loop {
            let begun = self.blocks.frames(self.next) > 0;
            if self.blocks.ours(self.next) {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if !begun || left.is_zero() {
                return Ok(false);
            }
            self.poll(left, None)?;
        }
    }

    /// Waits for a block, an interface event or a call, and records the second; returns whether it was called.
    fn poll(&mut self, wait: Duration, call: Option<BorrowedFd<'_>>) -> Result<bool> {
        let failed = |e: Errno| Error::from(Failure::new(object(self.index), "wait for", e));
        // A time beyond its range waits without end, which is as good.
        let timeout = Timespec::try_from(wait).ok();
        let fds = std::iter::once(self.fd.as_fd()).chain(call);
        let mut set: Vec<PollFd<'_>> =
            fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match rustix::event::poll(&mut set, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(failed(e)),
        }
        let called = set.get(1).is_some_and(|call| !call.revents().is_empty());
        if !set[0].revents().contains(PollFlags::ERR) {
            return Ok(called);
        }
        match rustix::net::sockopt::socket_error(&self.fd).map_err(failed)? {
            Err(Errno::NETDOWN) if socket::interface(&self.fd)?.is_none() => {
                self.link = Link::Gone;
                Ok(called)
            }
            Err(Errno::NETDOWN) => {
                self.link = Link::Fell;
                Ok(called)
            }
            Err(e) => Err(failed(e)),
            Ok(()) => Ok(called),
        }
    }

    /// Reads the counters before they wrap, and updates the longest single packet.
    fn refresh(&mut self) -> Result<()> {
        self.statistics()?;
        // The end of an interface is reported elsewhere.
        if let Ok(mtu) = socket::mtu(&self.fd, self.index) {
            self.look.longest = mtu.saturating_add(BEFORE_PACKET);
        }
        self.refreshed = Instant::now();
        Ok(())
    }
}

impl AsFd for BlockRing {
    /// For waiting: readable if there is a block.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A block of frames; dropping it returns it to the kernel.
#[derive(Debug)]
pub struct Block<'r> {
    ring: &'r mut BlockRing,
}

impl Block<'_> {
    /// Its frames, in order of arrival.
    pub fn frames(&self) -> BlockFrames<'_> {
        let (blocks, block) = (&self.ring.blocks, self.ring.next);
        // SAFETY: the block is ours since this value was made, and is given back only when it is
        // dropped; frames borrow it.
        let bytes = unsafe { blocks.bytes(block) };
        BlockFrames::new(bytes, blocks.first(block), blocks.frames(block), self.ring.look)
    }

    /// Number of its frames.
    pub fn count(&self) -> u32 {
        self.ring.blocks.frames(self.ring.next)
    }
}

impl<'a> IntoIterator for &'a Block<'_> {
    type Item = BlockFrame<'a>;
    type IntoIter = BlockFrames<'a>;

    fn into_iter(self) -> BlockFrames<'a> {
        self.frames()
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        self.ring.blocks.give_back(self.ring.next);
        self.ring.next = self.ring.blocks.after(self.ring.next);
    }
}

/// Adds the socket, bound to an interface, to a group.
fn join(fd: &OwnedFd, fanout: Fanout) -> io::Result<()> {
    let mode = match fanout.mode {
        FanoutMode::Hash => libc::PACKET_FANOUT_HASH,
        FanoutMode::Cpu => libc::PACKET_FANOUT_CPU,
        FanoutMode::RoundRobin => libc::PACKET_FANOUT_LB,
    };
    let (id, new) = match fanout.id {
        Some(id) => (id, 0),
        None => (0, libc::PACKET_FANOUT_FLAG_UNIQUEID),
    };
    let value = (mode | new) << 16 | u32::from(id);
    option::set(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, value.cast_signed())
}

/// Binds it to no protocol. The kernel first waits until no CPU is handing over a frame. An
/// interface that is gone hands over none.
fn unbind(fd: &OwnedFd, index: u32) -> Result<()> {
    match socket::bind(fd, index, 0) {
        Err(e) if e.raw_os_error() != Some(libc::ENODEV) => Err(e),
        _ => Ok(()),
    }
}
