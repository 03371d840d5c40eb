//! The ring of frames without a result, as the kernel's `BPF_MAP_TYPE_RINGBUF` lays it out: a page with the reader's
//! position, a page with the writers', and the records, mapped twice in a row so that each is in one piece.
//!
//! A ring and not a packet socket: one descriptor for all ports, in the order in which programs saw the frames, with
//! the port and what offload left undone; and no frame is copied for it that has a result.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use netloom_packet::checksum;
use netloom_packet::vnet::{Gso, VnetHeader};
use netloom_pipeline::FlowKey;
use rustix::mm::ProtFlags;

use crate::Result;
use crate::map::{Map, unpair};
use crate::memory::Mapping;

const RING: &str = "nl_fl_up";
/// Bits of a record's first word beside its length.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Bytes before a record.
const BEFORE: usize = 8;
/// Size of `struct nl_fl_upcall`, and offsets in it.
const HEAD: usize = 152;
const KEY: usize = 24;
/// `NL_FL_NEEDS_SUM`, `NL_FL_SUM_KNOWN`.
const NEEDS_SUM: u16 = 1;
const SUM_KNOWN: u16 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// A frame without a result.
#[derive(Debug)]
pub struct Upcall<'a> {
    /// The number of the port that it came in by.
    pub port: u32,
    /// What offload left undone.
    pub header: VnetHeader,
    /// Its key; `None` if only the pipeline parses such frames.
    pub key: Option<FlowKey>,
    /// Its bytes, with its tag in place.
    pub frame: &'a [u8],
}

/// The reader of the ring; there is one at a time.
#[derive(Debug)]
pub struct Upcalls {
    map: Map,
    reader: Mapping,
    records: Mapping,
    page: usize,
    size: usize,
}

impl Upcalls {
    pub(super) fn map(map: &dyn Fn(&'static str) -> Result<Map>) -> Result<Upcalls> {
        let map = map(RING)?;
        let (page, size) =
            (rustix::param::page_size(), usize::try_from(map.entries()).unwrap_or(0));
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // The kernel lets user space write the page with the reader's position alone.
        let reader = Mapping::of(map.fd(), RING, page, access)?;
        // The kernel maps the records twice in a row: one that wraps can be read in one piece.
        let length = page + 2 * size;
        let records = Mapping::from(map.fd(), RING, length, ProtFlags::READ, page as u64)?;
        Ok(Upcalls { map, reader, records, page, size })
    }

    /// Readable while frames wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.map.fd()
    }

    /// Gives `hear` what waits, at most that many frames; returns how many there were.
    pub fn receive(&mut self, most: usize, hear: &mut dyn FnMut(&Upcall<'_>)) -> usize {
        let mut heard = 0;
        // Relaxed, because only this reader writes the position.
        let mut at = self.reader.word(0).load(Ordering::Relaxed);
        while heard < most && at < self.records.word(0).load(Ordering::Acquire) {
            let offset = self.page + usize::try_from(at).unwrap_or(0) % self.size;
            let length = self.records.half(offset).load(Ordering::Acquire);
            if length & BUSY != 0 {
                // Records are in order: behind one still being written none may be read.
                break;
            }
            let bytes = usize::try_from(length & !(BUSY | DISCARDED)).unwrap_or(0);
            if length & DISCARDED == 0 {
                // SAFETY: the record is complete, since it is not busy, and programs write there again only when
                // the reader's position has passed it, below.
                let record = unsafe { self.records.bytes(offset + BEFORE, bytes) };
                if let Some(upcall) = upcall(record) {
                    hear(&upcall);
                }
                heard += 1;
            }
            // The kernel rounds a record with its header up to 8 bytes.
            at += (bytes + BEFORE).next_multiple_of(8) as u64;
            self.reader.word(0).store(at, Ordering::Release);
        }
        heard
    }
}

fn upcall(record: &[u8]) -> Option<Upcall<'_>> {
    let (head, rest) = record.split_first_chunk::<HEAD>()?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| head[at + index]));
    let half = |at: usize| unpair(word(at).to_ne_bytes());
    let (port, length) = half(0);
    let [f0, f1, protocol, v6] = half(8).1.to_ne_bytes();
    let [t0, t1, ..] = half(16).0.to_ne_bytes();
    let frame = rest.get(..usize::try_from(length).ok()?)?;
    let told = OffloadNotice {
        gso_size: half(8).0,
        flags: u16::from_ne_bytes([f0, f1]),
        protocol,
        v6: v6 != 0,
        transport: u16::from_ne_bytes([t0, t1]),
    };
    let foreign = half(16).1 != 0;
    let key = FlowKey(std::array::from_fn(|index| word(KEY + index * 8)));
    let key = (!foreign).then_some(key);
    Some(Upcall { port, header: told.header(frame), key, frame })
}

/// What programs say of offloads.
struct OffloadNotice {
    gso_size: u32,
    flags: u16,
    protocol: u8,
    v6: bool,
    transport: u16,
}

impl OffloadNotice {
    fn header(&self, frame: &[u8]) -> VnetHeader {
        let offset = match self.protocol {
            TCP => 16,
            UDP => 6,
            ICMPV6 => 2,
            _ => return VnetHeader::default(),
        };
        let needs_csum = match self.flags & SUM_KNOWN != 0 {
            true => self.flags & NEEDS_SUM != 0,
            false => is_unfinished(frame),
        };
        let gso = match (self.gso_size, self.protocol, self.v6) {
            (0, ..) => Gso::None,
            (_, TCP, false) => Gso::TcpV4,
            (_, TCP, true) => Gso::TcpV6,
            (_, UDP, _) => Gso::UdpL4,
            _ => Gso::None,
        };
        VnetHeader {
            needs_csum,
            gso,
            gso_size: u16::try_from(self.gso_size).unwrap_or(0),
            csum_start: if needs_csum { self.transport } else { 0 },
            csum_offset: if needs_csum { offset } else { 0 },
            ..VnetHeader::default()
        }
    }
}

/// Whether the checksum is only that of the pseudo-header: for kernels that do not say.
fn is_unfinished(frame: &[u8]) -> bool {
    let Ok(headers) = netloom_packet::Headers::parse(frame) else { return false };
    let Some(ip) = headers.ip else { return false };
    let at = ip.transport
        + match ip.protocol {
            TCP => 16,
            UDP => 6,
            _ => 2,
        };
    let Some(found) = frame.get(at..).and_then(|rest| rest.first_chunk::<2>()) else {
        return false;
    };
    let length = ip.end.saturating_sub(ip.transport);
    let pseudo = checksum::fold(checksum::pseudo_header(frame, headers.network, &ip, length));
    u16::from_be_bytes(*found) == pseudo
}
