//! The other side: a front end and a driver without a guest, for tests and measurements (feature `front`).
//!
//! Its memory is one memfd. Descriptors, rings and memory can be written at will, so that it can be as wrong as a
//! hostile guest. The memory's address in the guest differs from the one in this process, as in any machine.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};
use vmm_sys_util::eventfd::EventFd;

/// Where the memory begins in the guest.
pub const BASE: u64 = 0x4000_0000;

/// Flag of a descriptor: another follows.
pub const NEXT: u16 = 1;
/// Flag of a descriptor: the device writes it.
pub const WRITE: u16 = 2;
/// Flag of a descriptor: it is a table of others.
pub const INDIRECT: u16 = 4;

/// Features by their names in VIRTIO 1.3.
pub mod feature {
    /// The device finishes checksums.
    pub const CSUM: u64 = 1;
    /// The driver takes unfinished checksums.
    pub const GUEST_CSUM: u64 = 1 << 1;
    /// The driver takes super-frames of TCP over IPv4.
    pub const GUEST_TSO4: u64 = 1 << 7;
    /// The device takes them.
    pub const HOST_TSO4: u64 = 1 << 11;
    /// Frames may take several buffers.
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// Tables of descriptors.
    pub const INDIRECT_DESC: u64 = 1 << 28;
    /// Wake-ups by index.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// The protocol has features of its own.
    pub const PROTOCOL: u64 = 1 << 30;
    /// The standard's version 1.
    pub const VERSION_1: u64 = 1 << 32;
}

/// How a machine is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Pairs of queues.
    pub pairs: usize,
    /// Descriptors of each.
    pub size: u16,
    /// Bytes of each descriptor's own buffer.
    pub buffer: usize,
    /// Features that it accepts.
    pub features: u64,
}

impl Default for Setup {
    /// One pair with 256 buffers of 2 KiB, all that a modern driver asks for.
    fn default() -> Setup {
        let features = feature::CSUM
            | feature::GUEST_CSUM
            | feature::GUEST_TSO4
            | feature::HOST_TSO4
            | feature::MRG_RXBUF
            | feature::INDIRECT_DESC
            | feature::EVENT_IDX
            | feature::PROTOCOL
            | feature::VERSION_1;
        Setup { pairs: 1, size: 256, buffer: 2048, features }
    }
}

/// A machine: memory and queues, which outlive connections.
pub struct Machine {
    setup: Setup,
    file: File,
    map: MmapRegion,
    /// Even: received; odd: transmitted.
    pub queues: Vec<DriverQueue>,
}

/// A queue, from the driver's side.
pub struct DriverQueue {
    /// Where its table of descriptors begins in memory; the rings follow.
    at: usize,
    buffers: usize,
    /// The next available entry.
    pub available: u16,
    /// The next used entry.
    pub used: u16,
    kick: EventFd,
    call: EventFd,
    error: EventFd,
}

impl Machine {
    /// A machine without a connection.
    ///
    /// # Errors
    /// There is no memory, or there are no descriptors.
    pub fn new(setup: Setup) -> io::Result<Machine> {
        let queue = QUEUE_AREA + usize::from(setup.size) * setup.buffer;
        let total = (2 * setup.pairs * queue).next_multiple_of(4096) + SCRATCH;
        let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, total as u64)?;
        let file = File::from(file);
        let offset = FileOffset::new(file.try_clone()?, 0);
        let map = MmapRegion::from_file(offset, total).map_err(io::Error::other)?;
        let flags = libc::EFD_NONBLOCK;
        let mut queues = vec![];
        for index in 0..2 * setup.pairs {
            queues.push(DriverQueue {
                at: index * queue,
                buffers: index * queue + QUEUE_AREA,
                available: 0,
                used: 0,
                kick: EventFd::new(flags)?,
                call: EventFd::new(flags)?,
                error: EventFd::new(flags)?,
            });
        }
        Ok(Machine { setup, file, map, queues })
    }

    /// Connects to a port that listens, and sets the card up.
    ///
    /// # Errors
    /// The port refuses something.
    pub fn connect(&self, path: &Path) -> io::Result<Link> {
        self.over(UnixStream::connect(path)?)
    }

    /// Sets the card up over a connection.
    ///
    /// # Errors
    /// The port refuses something.
    pub fn over(&self, stream: UnixStream) -> io::Result<Link> {
        self.set_up(stream).map_err(|e| io::Error::other(format!("{e:?}")))
    }

    fn set_up(&self, stream: UnixStream) -> vhost::Result<Link> {
        let mut front = Frontend::from_stream(stream, 2 * self.setup.pairs as u64);
        front.set_owner()?;
        let offered = front.get_features()?;
        front.set_features(self.setup.features & offered)?;
        if self.setup.features & feature::PROTOCOL != 0 {
            let offered = front.get_protocol_features()?;
            let wanted = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
            front.set_protocol_features(wanted & offered)?;
            front.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
        front.set_mem_table(&[self.region()])?;
        for index in 0..self.queues.len() {
            self.start(&mut front, index)?;
        }
        // Once this is answered, all before it was done.
        front.get_features()?;
        Ok(Link { front })
    }

    /// The memory, as a front end tells of it.
    pub fn region(&self) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: BASE,
            memory_size: self.map.size() as u64,
            userspace_addr: self.map.as_ptr() as u64,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        }
    }

    /// The file of its memory.
    pub fn memory(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn start(&self, front: &mut Frontend, index: usize) -> vhost::Result<()> {
        let queue = &self.queues[index];
        front.set_vring_num(index, self.setup.size)?;
        // As QEMU does when a port was lost: it goes on behind what was returned.
        let base = self.load(queue.used_ring(self.setup.size) + 2);
        front.set_vring_base(index, base)?;
        front.set_vring_addr(index, &self.addresses(index))?;
        front.set_vring_call(index, &queue.call)?;
        front.set_vring_err(index, &queue.error)?;
        front.set_vring_kick(index, &queue.kick)?;
        if self.setup.features & feature::PROTOCOL != 0 {
            front.set_vring_enable(index, true)?;
        }
        Ok(())
    }

    /// Where a queue lies in this process.
    pub fn addresses(&self, index: usize) -> VringConfigData {
        let queue = &self.queues[index];
        let base = self.map.as_ptr() as u64;
        VringConfigData {
            queue_max_size: self.setup.size,
            queue_size: self.setup.size,
            flags: 0,
            desc_table_addr: base + queue.at as u64,
            used_ring_addr: base + queue.used_ring(self.setup.size) as u64,
            avail_ring_addr: base + queue.available_ring(self.setup.size) as u64,
            log_addr: None,
        }
    }

    /// The address in the guest of a descriptor's own buffer.
    pub fn buffer(&self, index: usize, descriptor: u16) -> u64 {
        let at = self.queues[index].buffers + usize::from(descriptor) * self.setup.buffer;
        BASE + at as u64
    }

    /// The address of some memory that no queue uses.
    pub fn scratch(&self) -> u64 {
        BASE + (self.map.size() - SCRATCH) as u64
    }

    /// Writes memory, by an address in the guest.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        if let Some(at) = address.checked_sub(BASE)
            && let Ok(slice) =
                self.map.get_slice(usize::try_from(at).unwrap_or(usize::MAX), bytes.len())
        {
            slice.copy_from(bytes);
        }
    }

    /// Reads memory.
    pub fn read(&self, address: u64, bytes: &mut [u8]) {
        if let Some(at) = address.checked_sub(BASE)
            && let Ok(slice) =
                self.map.get_slice(usize::try_from(at).unwrap_or(usize::MAX), bytes.len())
        {
            slice.copy_to(bytes);
        }
    }

    fn word(&self, at: usize) -> Option<&AtomicU16> {
        self.map.get_atomic_ref(at).ok()
    }

    fn load(&self, at: usize) -> u16 {
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, at: usize, value: u16) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    /// Writes a descriptor of a queue's table.
    pub fn describe(&self, index: usize, descriptor: u16, parts: (u64, u32, u16, u16)) {
        let at = self.queues[index].at + 16 * usize::from(descriptor);
        self.write(BASE + at as u64, &encode(parts));
    }

    /// Makes a chain available, without telling.
    pub fn offer(&mut self, index: usize, head: u16) {
        let size = self.setup.size;
        let queue = &mut self.queues[index];
        let ring = queue.available_ring(size);
        let entry = ring + 4 + 2 * usize::from(queue.available % size);
        queue.available = queue.available.wrapping_add(1);
        let available = queue.available;
        self.store(entry, head);
        self.store(ring + 2, available);
    }

    /// Claims that this many chains are available.
    pub fn claim(&mut self, index: usize, available: u16) {
        let ring = self.queues[index].available_ring(self.setup.size);
        self.queues[index].available = available;
        self.store(ring + 2, available);
    }

    /// Whether the port wants to be told that a queue has more since it had `before`; tells it.
    pub fn kick(&self, index: usize, before: u16) -> bool {
        // The index was stored before; now the look at what the device wants to hear.
        fence(Ordering::SeqCst);
        let (queue, size) = (&self.queues[index], self.setup.size);
        let used = queue.used_ring(size);
        let wanted = if self.setup.features & feature::EVENT_IDX != 0 {
            let event = self.load(used + 4 + 8 * usize::from(size));
            let reached = queue.available.wrapping_sub(event).wrapping_sub(1);
            reached < queue.available.wrapping_sub(before)
        } else {
            self.load(used) & 1 == 0
        };
        if wanted {
            let _ = queue.kick.write(1);
        }
        wanted
    }

    /// The next chain that the port has returned, with its length.
    pub fn returned(&mut self, index: usize) -> Option<(u16, u32)> {
        let size = self.setup.size;
        let queue = &self.queues[index];
        let ring = queue.used_ring(size);
        if self.load(ring + 2) == queue.used {
            return None;
        }
        let entry = ring + 4 + 8 * usize::from(queue.used % size);
        let read =
            |at| self.map.get_atomic_ref::<AtomicU32>(at).map_or(0, |w| w.load(Ordering::Relaxed));
        let (head, length) = (read(entry), read(entry + 4));
        self.queues[index].used = self.queues[index].used.wrapping_add(1);
        Some((u16::try_from(head).unwrap_or(u16::MAX), length))
    }

    /// Makes all chains that the port has returned available again, at once; returns how many.
    pub fn recycle(&mut self, index: usize) -> u16 {
        let size = self.setup.size;
        let queue = &self.queues[index];
        let (used, available) = (queue.used_ring(size), queue.available_ring(size));
        let (from, to) = (queue.used, queue.available);
        let count = self.load(used + 2).wrapping_sub(from).min(size);
        for at in 0..count {
            let entry = used + 4 + 8 * usize::from(from.wrapping_add(at) % size);
            let head = self.map.get_atomic_ref::<AtomicU32>(entry);
            let head = head.map_or(0, |head| head.load(Ordering::Relaxed));
            let place = available + 4 + 2 * usize::from(to.wrapping_add(at) % size);
            if let Some(word) = self.word(place) {
                word.store(u16::try_from(head).unwrap_or(u16::MAX), Ordering::Relaxed);
            }
        }
        if count > 0 {
            self.store(available + 2, to.wrapping_add(count));
        }
        let queue = &mut self.queues[index];
        queue.used = from.wrapping_add(count);
        queue.available = to.wrapping_add(count);
        count
    }

    /// Asks to be woken once the port has returned a chain more than were taken so far, or never.
    pub fn listen(&self, index: usize, wanted: bool) {
        let (queue, size) = (&self.queues[index], self.setup.size);
        let ring = queue.available_ring(size);
        let event = if wanted { queue.used } else { queue.used.wrapping_sub(1) };
        self.store(ring + 4 + 2 * usize::from(size), event);
        self.store(ring, u16::from(!wanted));
        fence(Ordering::SeqCst);
    }

    /// How often the port has woken this queue since the last call.
    pub fn woken(&self, index: usize) -> u64 {
        self.queues[index].call.read().unwrap_or(0)
    }

    /// Whether the port has called this queue broken.
    pub fn is_broken(&self, index: usize) -> bool {
        self.queues[index].error.read().is_ok()
    }

    /// Bytes of the header before each frame.
    pub fn header(&self) -> usize {
        let long = feature::VERSION_1 | feature::MRG_RXBUF;
        if self.setup.features & long == 0 { 10 } else { 12 }
    }

    /// Transmits a frame, header first, from the buffer of this descriptor.
    pub fn transmit(&mut self, index: usize, descriptor: u16, frame: &[u8]) {
        let buffer = self.buffer(index, descriptor);
        self.write(buffer, frame);
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.describe(index, descriptor, (buffer, length, 0, 0));
        self.offer(index, descriptor);
    }

    /// Makes all buffers of a queue available for frames.
    pub fn fill(&mut self, index: usize) {
        for descriptor in 0..self.setup.size {
            self.post(index, descriptor);
        }
    }

    /// Makes one of them available.
    pub fn post(&mut self, index: usize, descriptor: u16) {
        let length = u32::try_from(self.setup.buffer).unwrap_or(u32::MAX);
        let parts = (self.buffer(index, descriptor), length, WRITE, 0);
        self.describe(index, descriptor, parts);
        self.offer(index, descriptor);
    }

    /// The next received frame, header first, and its buffers, which are not made available again.
    pub fn received(&mut self, index: usize) -> Option<(Vec<u8>, Vec<u16>)> {
        let (head, length) = self.returned(index)?;
        let mut frame = vec![0; length as usize];
        self.read(self.buffer(index, head), &mut frame);
        let mut heads = vec![head];
        let more = match frame.get(10..12) {
            Some([a, b]) if self.setup.features & feature::MRG_RXBUF != 0 => {
                u16::from_le_bytes([*a, *b]).saturating_sub(1)
            }
            _ => 0,
        };
        for _ in 0..more {
            let (head, length) = self.returned(index)?;
            let mut part = vec![0; length as usize];
            self.read(self.buffer(index, head), &mut part);
            frame.extend(part);
            heads.push(head);
        }
        Some((frame, heads))
    }

    /// Shortens the memory's file, as no guest but a hostile front end can.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn shorten(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.file, bytes)?)
    }
}

/// A descriptor's bytes.
pub fn encode((address, length, flags, next): (u64, u32, u16, u16)) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&length.to_le_bytes());
    bytes[12..14].copy_from_slice(&flags.to_le_bytes());
    bytes[14..].copy_from_slice(&next.to_le_bytes());
    bytes
}

/// Bytes for a table of descriptors and both rings: up to 1024 descriptors.
const QUEUE_AREA: usize = 64 << 10;
/// Bytes that no queue uses.
const SCRATCH: usize = 256 << 10;

impl DriverQueue {
    fn available_ring(&self, size: u16) -> usize {
        self.at + 16 * usize::from(size)
    }

    fn used_ring(&self, size: u16) -> usize {
        (self.available_ring(size) + 6 + 2 * usize::from(size)).next_multiple_of(64)
    }
}

/// A connection to a port; the card is gone with it.
pub struct Link {
    /// The front end, for further requests.
    pub front: Frontend,
}
