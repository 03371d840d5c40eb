//! A hash that recognises a packet at another place, after it was forwarded.
//!
//! Over these bytes of an IP packet, in this order: version (4 or 6) and protocol, one byte each;
//! source and destination address; IPv4 identification (2 bytes) or IPv6 flow label (4, most
//! significant byte first); of a fragment its offset in bytes (2) with the lowest bit set
//! if more follow, and in IPv6 its identification (4); then, unless it is a later fragment:
//! of TCP (whole header) ports, sequence and acknowledgement numbers, window, options; of UDP (whole
//! header) and UDP-Lite the ports; of SCTP bytes 0-7; of ICMP bytes 0-1 and 4-7; then up to 64 bytes
//! after that. Never TTL, DSCP, ECN, TCP flags, a checksum, the Ethernet header, or padding.
//! Of any other frame, or an unreadable IP packet: all bytes.

use netloom_digest::splitmix::mix;

use crate::error::be32;
use crate::headers::{Headers, Ip, TCP, UDP};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Bytes of the payload that count.
const PAYLOAD: usize = 64;

/// More than [`collect`] collects: 2 + 32 + 4 + 6 + 54 + 64.
const MOST: usize = 192;

/// The identity of a frame that begins with its Ethernet header. Packets that differ only in what a
/// hop may change have equal identities; others collide with probability 2^-64.
pub fn identity(frame: &[u8]) -> u64 {
    identity_of(frame, Headers::parse(frame).ok().as_ref())
}

/// [`identity`] of a frame whose headers were parsed before; `None`: they could not be.
pub fn identity_of(frame: &[u8], headers: Option<&Headers>) -> u64 {
    let Some((network, ip)) = headers.and_then(|h| Some((h.network, h.ip?))) else {
        return hash(frame);
    };
    // On the stack: this is made for every packet.
    let mut bytes = Bytes { buffer: [0; MOST], used: 0 };
    collect(frame, network, &ip, &mut bytes);
    hash(bytes.buffer.get(..bytes.used).unwrap_or(&[]))
}

/// A buffer that never overflows.
struct Bytes {
    buffer: [u8; MOST],
    used: usize,
}

impl Bytes {
    fn push(&mut self, bytes: &[u8]) {
        let room = self.buffer.get_mut(self.used..).unwrap_or_default();
        let taken = room.len().min(bytes.len());
        room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.used += taken;
    }
}

fn collect(frame: &[u8], network: usize, ip: &Ip, bytes: &mut Bytes) {
    let header = frame.get(network..ip.transport).unwrap_or(&[]);
    bytes.push(&[if ip.v6 { 6 } else { 4 }, ip.protocol]);
    if ip.v6 {
        bytes.push(part(header, 8, 40));
        bytes.push(&(be32(header, 0) & 0x000f_ffff).to_be_bytes());
    } else {
        bytes.push(part(header, 12, 20));
        bytes.push(part(header, 4, 6));
    }
    if let Some(fragment) = ip.fragment {
        bytes.push(&(fragment.offset | u16::from(fragment.more)).to_be_bytes());
        if ip.v6 {
            bytes.push(&fragment.id.to_be_bytes());
        }
    }
    let segment = frame.get(ip.transport..ip.end).unwrap_or(&[]);
    let later = ip.fragment.is_some_and(|f| f.offset > 0);
    let payload = if later { 0 } else { transport(segment, ip, bytes) };
    bytes.push(part(segment, payload, payload + PAYLOAD));
}

/// Collects the transport header; returns where its payload begins.
fn transport(segment: &[u8], ip: &Ip, bytes: &mut Bytes) -> usize {
    match (ip.protocol, ip.payload) {
        (TCP, Some(payload)) => {
            let length = payload - ip.transport;
            bytes.push(part(segment, 0, 12));
            bytes.push(part(segment, 14, 16));
            bytes.push(part(segment, 20, length));
            length
        }
        (UDP, Some(_)) | (UDP_LITE, _) => {
            bytes.push(part(segment, 0, 4));
            8
        }
        (SCTP, _) => {
            bytes.push(part(segment, 0, 8));
            12
        }
        (ICMP | ICMPV6, _) => {
            bytes.push(part(segment, 0, 2));
            bytes.push(part(segment, 4, 8));
            8
        }
        _ => 0,
    }
}

/// The part of `bytes` between two offsets, as far as it exists.
fn part(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    let to = to.min(bytes.len());
    bytes.get(from.min(to)..to).unwrap_or(&[])
}

/// A 64-bit hash of bytes. h = length x A; for each 8 bytes, least significant first and the last
/// padded with zeros, as w: h = rotl(h ^ (w x A), 29) x B; at the end the output function of
/// SplitMix64. All modulo 2^64; A = 0x9e3779b97f4a7c15, B = 0xd1b54a32d192ed03. Not for secrets.
pub fn hash(bytes: &[u8]) -> u64 {
    const A: u64 = 0x9e37_79b9_7f4a_7c15;
    const B: u64 = 0xd1b5_4a32_d192_ed03;
    let step = |h: u64, word: [u8; 8]| {
        (h ^ u64::from_le_bytes(word).wrapping_mul(A)).rotate_left(29).wrapping_mul(B)
    };
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut h = words.iter().fold(length.wrapping_mul(A), |h, word| step(h, *word));
    if !rest.is_empty() {
        let mut word = [0; 8];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        h = step(h, word);
    }
    mix(h)
}

#[cfg(test)]
mod tests;
