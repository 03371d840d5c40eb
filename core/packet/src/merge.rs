//! Merges consecutive TCP segments of one connection into a super-frame: the inverse of [`crate::segment()`].
//!
//! Only segments that cutting the super-frame restores byte for byte (but for the two forms of zero in a
//! checksum): one length (the last may be shorter), consecutive sequence numbers and IPv4
//! identifications, headers otherwise equal, no flags but ACK and, on the last, PSH, and checksums
//! that are right or were left unfinished. No IP options, extension headers or fragments; VLAN tags
//! are allowed. Holds at most one super-frame, so frames stay in order.
//! See VIRTIO 1.3 section 5.1.6.2, RFC 9293 section 3.1.

use crate::checksum::{checksum, fold, pseudo_header, verifies};
use crate::error::{be16, be32, put};
use crate::headers::{Headers, Ip, TCP};
use crate::vnet::{self, Gso, VnetHeader};

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// Offset of the checksum in a TCP header.
const SUM: usize = 16;

/// The outcome for a frame given to [`Merger::offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It was copied, and is part of [`Merger::held`].
    Kept,
    /// It does not continue what is held: pass that on, [`Merger::clear`], and offer the frame again.
    Apart,
    /// Nothing is held, and this frame cannot begin a super-frame: pass it on as it is.
    Alone,
}

/// Merges frames; each is preceded by its [`VnetHeader`].
#[derive(Debug, Default)]
pub struct Merger {
    /// The held frame, with its header.
    bytes: Vec<u8>,
    held: Option<Held>,
}

/// The held segments.
#[derive(Debug)]
struct Held {
    first: Segment,
    segments: usize,
    /// What the next segment must have.
    sequence: u32,
    id: u16,
    /// No segment can follow.
    is_closed: bool,
    /// The headers say what the frame is.
    is_finished: bool,
}

/// Offsets in a segment, from the start of its frame.
#[derive(Clone, Copy, Debug)]
struct Segment {
    network: usize,
    ip: Ip,
    payload: usize,
    /// Bytes of payload.
    size: usize,
    push: bool,
}

impl Merger {
    /// A merger that holds nothing.
    pub fn new() -> Merger {
        Merger::default()
    }

    /// Offers the next frame with its header.
    pub fn offer(&mut self, whole: &[u8]) -> Offered {
        let segment = Segment::of(whole);
        match (&mut self.held, segment) {
            // A segment with PSH ends what it is in: alone it has nothing to wait for.
            (None, Some(first)) if !first.push => {
                self.begin(whole, first);
                Offered::Kept
            }
            (None, _) => Offered::Alone,
            (Some(held), Some(next)) if held.continues(&self.bytes, whole, &next) => {
                self.bytes.extend_from_slice(whole.get(vnet::LEN + next.payload..).unwrap_or(&[]));
                held.append(&next);
                if next.push {
                    let flags = vnet::LEN + held.first.ip.transport + 13;
                    self.bytes.get_mut(flags).into_iter().for_each(|flags| *flags |= PSH);
                }
                Offered::Kept
            }
            (Some(_), _) => Offered::Apart,
        }
    }

    fn begin(&mut self, whole: &[u8], first: Segment) {
        self.bytes.clear();
        self.bytes.extend_from_slice(whole);
        let frame = whole.get(vnet::LEN..).unwrap_or(&[]);
        let sequence = be32(frame, first.ip.transport + 4).wrapping_add(long(first.size));
        let id = be16(frame, first.network + 4).wrapping_add(1);
        let (is_closed, is_finished) = (false, false);
        self.held = Some(Held { first, segments: 1, sequence, id, is_closed, is_finished });
    }

    /// The held frame, with its header: one frame as it was offered, or a super-frame, which takes no more
    /// segments from now on.
    pub fn held(&mut self) -> Option<&[u8]> {
        let held = self.held.as_mut()?;
        held.is_closed = true;
        if !held.is_finished && held.segments > 1 {
            held.finish(&mut self.bytes);
        }
        held.is_finished = true;
        Some(&self.bytes)
    }

    /// Forgets what is held.
    pub fn clear(&mut self) {
        self.held = None;
    }
}

impl Segment {
    /// A segment that may be part of a super-frame.
    fn of(whole: &[u8]) -> Option<Segment> {
        let (header, frame) = whole.split_first_chunk::<{ vnet::LEN }>()?;
        let header = VnetHeader::parse(header).ok().filter(|header| !header.is_super())?;
        let headers = Headers::parse(frame).ok()?;
        let (network, ip) = (headers.network, headers.ip?);
        let plain = network + if ip.v6 { 40 } else { 20 };
        if ip.protocol != TCP || ip.fragment.is_some() || ip.lengthless || ip.transport != plain {
            return None;
        }
        let payload = ip.payload.filter(|payload| *payload < ip.end && ip.end == frame.len())?;
        let (reserved, flags) =
            (frame.get(ip.transport + 12)? & 15, *frame.get(ip.transport + 13)?);
        // The reserved bits may be flags of later standards, which a merge would lose.
        if reserved != 0 || flags & !PSH != ACK || !is_right(&header, frame, network, &ip) {
            return None;
        }
        Some(Segment { network, ip, payload, size: ip.end - payload, push: flags & PSH != 0 })
    }
}

/// Whether the checksums are right, or left to the frame's receiver.
fn is_right(header: &VnetHeader, frame: &[u8], network: usize, ip: &Ip) -> bool {
    let transport = if header.needs_csum {
        usize::from(header.csum_start) == ip.transport && usize::from(header.csum_offset) == SUM
    } else {
        header.data_valid || verifies(frame, network, ip)
    };
    let ip_header = frame.get(network..ip.transport).unwrap_or(&[]);
    transport && (ip.v6 || checksum(ip_header) == 0)
}

impl Held {
    /// Whether a segment continues what is held in `bytes`.
    fn continues(&self, bytes: &[u8], whole: &[u8], next: &Segment) -> bool {
        let first = &self.first;
        // The super-frame's own length field has 16 bits.
        let length = bytes.len() - vnet::LEN - first.network + next.size;
        if self.is_closed
            || (next.network, next.payload, next.ip.v6)
                != (first.network, first.payload, first.ip.v6)
            || next.size > first.size
            || length > usize::from(u16::MAX)
        {
            return false;
        }
        let (Some(ours), Some(theirs)) = (bytes.get(vnet::LEN..), whole.get(vnet::LEN..)) else {
            return false;
        };
        let equal = |from: usize, to: usize| ours.get(from..to) == theirs.get(from..to);
        let (network, tcp) = (first.network, first.ip.transport);
        let ip = match first.ip.v6 {
            true => equal(0, network + 4) && equal(network + 6, tcp),
            false => {
                let id = be16(theirs, network + 4) == self.id;
                id && equal(0, network + 2)
                    && equal(network + 6, network + 10)
                    && equal(network + 12, tcp)
            }
        };
        // Flags were compared to ACK alone. The rest: ports, acknowledged number, window, urgent pointer,
        // options.
        ip && equal(tcp, tcp + 4)
            && be32(theirs, tcp + 4) == self.sequence
            && equal(tcp + 8, tcp + 13)
            && equal(tcp + 14, tcp + SUM)
            && equal(tcp + SUM + 2, first.payload)
    }

    fn append(&mut self, next: &Segment) {
        self.segments += 1;
        self.sequence = self.sequence.wrapping_add(long(next.size));
        self.id = self.id.wrapping_add(1);
        self.is_closed = next.push || next.size < self.first.size;
    }

    /// Writes the headers of the super-frame.
    fn finish(&self, bytes: &mut [u8]) {
        let Segment { network, ip, payload, size, .. } = self.first;
        let header = VnetHeader {
            needs_csum: true,
            gso: if ip.v6 { Gso::TcpV6 } else { Gso::TcpV4 },
            hdr_len: short(payload),
            gso_size: short(size),
            csum_start: short(ip.transport),
            csum_offset: short(SUM),
            ..VnetHeader::default()
        };
        put(bytes, 0, header.encode());
        let Some(frame) = bytes.get_mut(vnet::LEN..) else { return };
        let end = frame.len();
        if ip.v6 {
            put(frame, network + 4, short(end - network - 40).to_be_bytes());
        } else {
            put(frame, network + 2, short(end - network).to_be_bytes());
            // The field counts as zero while its sum is made (RFC 791).
            put(frame, network + 10, [0, 0]);
            let sum = checksum(frame.get(network..ip.transport).unwrap_or(&[]));
            put(frame, network + 10, sum.to_be_bytes());
        }
        let pseudo = pseudo_header(frame, network, &ip, end - ip.transport);
        // Unfinished, as `needs_csum` says: the receiver adds the rest.
        put(frame, ip.transport + SUM, fold(pseudo).to_be_bytes());
    }
}

/// A number that the length of an IP packet bounds.
fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn long(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
