//! Which bytes of a packet are hashed: profiles, and what offload leaves unfinished.
//!
//! Two points must hash the same bytes of the same packet, though one may see it in a super-frame
//! or with a checksum that a card has yet to finish. A profile that would need such bytes returns
//! [`Unhashable`] instead, and the packet is counted as unhashable. TTL, DSCP, ECN and the
//! IPv4 header's checksum are never hashed, so marks do not change hashes. See RFC 5475, sections 6.2
//! and A.

use serde::{Deserialize, Serialize};

use crate::packet::{ICMP, ICMPV6, SCTP, TCP, UDP, UDP_LITE, has_ports};
use crate::{HashFunction, Packet, bob, crc32, ipsx};

/// Maximum bytes of a profile.
const MOST: usize = 80;

/// Which list of fields is hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// That of RFC 5475. IPv4: header bytes 4-7 (identification, flags, fragment offset), source,
    /// destination, then a part of the payload. IPv6: payload length, bytes 10, 11, 14, 15, 16 of
    /// source and of destination (counted from 1), then the part of the payload.
    Rfc5475,
    /// That of the source: IPv4 header bytes 4-7, source, destination, payload bytes 4-7 (TCP: sequence
    /// number; UDP: length and checksum), then the total length in four bytes. IPv4 only.
    Source,
    /// Fields that every point of a path sees alike, with or without offload: IPv4 header bytes 4-7, source
    /// and destination (IPv6: the address bytes of RFC 5475 and two bytes of 0; in fragments 8
    /// bytes more: identification, offset with the flag in the lowest bit, two bytes of 0); ports
    /// (ICMP: type, code, two bytes of 0; else four of 0); a byte of 0, the protocol, and the
    /// length after the IP header (2); then of TCP the sequence and acknowledgement numbers, of
    /// ICMP bytes 4-7, and of all but TCP a part of the data (after 8 bytes of header of UDP,
    /// UDP-Lite and ICMP, 12 of SCTP; of later fragments and others the payload), padded with 0.
    #[default]
    Portable,
}

impl Profile {
    /// All names.
    pub const NAMES: [&str; 3] = ["rfc5475", "source", "portable"];

    /// The profile of a name.
    pub fn named(name: &str) -> Option<Profile> {
        match name {
            "rfc5475" => Some(Profile::Rfc5475),
            "source" => Some(Profile::Source),
            "portable" => Some(Profile::Portable),
            _ => None,
        }
    }
}

/// A part of the payload, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PayloadPart {
    /// Where it begins.
    pub offset: u16,
    /// Its length; at most [`PayloadPart::MOST`].
    pub size: u8,
}

impl PayloadPart {
    /// The longest part.
    pub const MOST: u8 = 32;
}

impl Default for PayloadPart {
    /// The first eight bytes.
    fn default() -> PayloadPart {
        PayloadPart { offset: 0, size: 8 }
    }
}

/// What offload left undone in a packet as seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The checksum of TCP or UDP is unfinished.
    pub partial_checksum: bool,
    /// The segment of a super-frame; `None` for a packet as on the wire.
    pub segment: Option<Segment>,
}

/// A segment of a super-frame of TCP or of UDP datagrams of one length (USO). Never use it for a tunnel's
/// super-frame, whose segments are those of the inner packet: its packets have no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its index, from 0.
    pub index: u16,
    /// Bytes of data in each segment except the last (`gso_size`).
    pub size: u16,
    /// All segments have the same IPv4 identification (`SKB_GSO_TCP_FIXEDID`).
    pub fixed_id: bool,
}

/// Why a packet has no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "lowercase")]
pub enum Unhashable {
    /// It, or the part a point sees, is too short.
    #[error("ends before what is hashed")]
    Short,
    /// Offload has not finished the hashed bytes.
    #[error("offload has not finished what is hashed")]
    Unfinished,
    /// The function or the profile is for IPv4 only.
    #[error("the hash is for IPv4 only")]
    NotIpv4,
}

/// The bytes that are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    bytes: [u8; MOST],
    used: usize,
}

impl Input {
    fn new() -> Input {
        Input { bytes: [0; MOST], used: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.bytes.get_mut(self.used..).unwrap_or_default();
        let taken = room.len().min(bytes.len());
        room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.used += taken;
    }

    /// The bytes in order.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }

    /// The bytes as IPSX's four words: the first three, and the XOR of all that follow. With
    /// the RFC's part of payload (bytes 4-7) the fourth is exactly that.
    pub fn words(&self) -> [u32; 4] {
        let mut words = [0; 4];
        // Bytes that are not used are zero, and change nothing.
        for (index, bytes) in self.bytes.as_chunks::<4>().0.iter().enumerate() {
            words[index.min(3)] ^= u32::from_be_bytes(*bytes);
        }
        words
    }
}

/// A function with all its parameters: two points with equal hashers compute equal hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hasher {
    /// The function that selects packets.
    pub function: HashFunction,
    /// The list of fields to hash.
    pub profile: Profile,
    /// BOB's initial value; appended to CRC-32's input, most significant byte first, unless 0. IPSX has
    /// none.
    pub seed: u32,
    /// Which part of the payload is hashed; not used by [`Profile::Source`].
    pub payload: PayloadPart,
}

/// The difference between the seeds of identity and selection.
const IDENTITY: u32 = 0x6964_656e;

impl Hasher {
    /// The hash that selects a packet.
    ///
    /// # Errors
    ///
    /// Why it has none.
    pub fn hash(&self, packet: &Packet<'_>, offload: Offload) -> Result<u32, Unhashable> {
        if self.function == HashFunction::Ipsx {
            return self.ipsx(packet, offload).map(u32::from);
        }
        let input = self.input(packet, offload)?;
        Ok(match (self.function, self.seed) {
            (HashFunction::Crc32, 0) => crc32(input.bytes(), &[]),
            (HashFunction::Crc32, seed) => crc32(input.bytes(), &seed.to_be_bytes()),
            _ => bob(input.bytes(), self.seed),
        })
    }

    /// The identity of a selected packet at other points: BOB of the same bytes with a seed of
    /// its own, whatever function selects. It must not depend on the selecting hash, because all selected
    /// packets share bits of that.
    ///
    /// # Errors
    ///
    /// Why it has none.
    pub fn identity(&self, packet: &Packet<'_>, offload: Offload) -> Result<u32, Unhashable> {
        Ok(bob(self.input(packet, offload)?.bytes(), self.seed ^ IDENTITY))
    }

    /// The bytes that are hashed.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn input(&self, packet: &Packet<'_>, offload: Offload) -> Result<Input, Unhashable> {
        match self.profile {
            Profile::Rfc5475 => rfc5475(packet, offload, self.payload),
            Profile::Source => source(packet, offload),
            Profile::Portable => portable(packet, offload, self.payload),
        }
    }

    fn ipsx(&self, packet: &Packet<'_>, offload: Offload) -> Result<u16, Unhashable> {
        if packet.is_v6() {
            return Err(Unhashable::NotIpv4);
        }
        let words = match self.profile {
            Profile::Portable => portable(packet, offload, self.payload)?.words(),
            _ => {
                // IPSX is defined with these bytes (RFC 5475, appendix A.1).
                let fixed = PayloadPart { offset: 4, size: 4 };
                rfc5475(packet, offload, fixed)?.words()
            }
        };
        Ok(ipsx(words))
    }
}

fn rfc5475(packet: &Packet<'_>, offload: Offload, part: PayloadPart) -> Result<Input, Unhashable> {
    let mut input = Input::new();
    if packet.is_v6() {
        let length = header_length_field(packet, offload)?;
        input.push(&length.to_be_bytes());
        push_v6_addresses(&mut input, packet);
    } else {
        push_v4(&mut input, packet, offload);
    }
    let (offset, size) = (usize::from(part.offset), usize::from(part.size.min(PayloadPart::MOST)));
    push_payload(&mut input, packet, offload, offset, size)?;
    Ok(input)
}

fn source(packet: &Packet<'_>, offload: Offload) -> Result<Input, Unhashable> {
    if packet.is_v6() {
        return Err(Unhashable::NotIpv4);
    }
    let mut input = Input::new();
    push_v4(&mut input, packet, offload);
    push_payload(&mut input, packet, offload, 4, 4)?;
    input.push(&u32::from(header_length_field(packet, offload)?).to_be_bytes());
    Ok(input)
}

fn portable(packet: &Packet<'_>, offload: Offload, part: PayloadPart) -> Result<Input, Unhashable> {
    let mut input = Input::new();
    if packet.is_v6() {
        push_v6_addresses(&mut input, packet);
        // With the addresses 12 bytes, as many as IPv4 has here.
        input.push(&[0; 2]);
        // IPv4 has this in the bytes of its header.
        if packet.is_fragment() {
            input.push(&packet.fragment_word());
        }
    } else {
        push_v4(&mut input, packet, offload);
    }
    let (protocol, later) = (packet.protocol(), packet.is_later_fragment());
    let icmp = matches!(protocol, ICMP | ICMPV6) && !later;
    if icmp {
        let [kind, code, ..] = four(packet, 0)?;
        // Not the checksum, which a card may have yet to finish.
        input.push(&[kind, code, 0, 0]);
    } else if has_ports(protocol) && !later {
        input.push(&four(packet, 0)?);
    } else {
        // What follows is at the same place for every protocol.
        input.push(&[0; 4]);
    }
    let [high, low] = payload_length(packet, offload)?.to_be_bytes();
    input.push(&[0, protocol, high, low]);
    if protocol == TCP && !later {
        let sequence = u32::from_be_bytes(four(packet, 4)?);
        input.push(&sequence.wrapping_add(data_before(offload)).to_be_bytes());
        input.push(&four(packet, 8)?);
        return Ok(input);
    }
    if icmp {
        input.push(&four(packet, 4)?);
    }
    let header = match protocol {
        _ if later => 0,
        ICMP | ICMPV6 | UDP | UDP_LITE => 8,
        SCTP => 12,
        _ => 0,
    };
    push_data(&mut input, packet, offload, header, part)?;
    Ok(input)
}

/// Four bytes of the payload's own header.
fn four(packet: &Packet<'_>, at: usize) -> Result<[u8; 4], Unhashable> {
    packet.payload(at, 4).and_then(<[u8]>::first_chunk).copied().ok_or(Unhashable::Short)
}

/// IPv4 identification, flags and fragment offset; source; destination.
fn push_v4(input: &mut Input, packet: &Packet<'_>, offload: Offload) {
    let id = packet.header(4, 6).first_chunk().copied().map_or(0, u16::from_be_bytes);
    // Segmentation counts identifications up, except where the sender fixed them.
    let ahead = offload.segment.filter(|s| !s.fixed_id).map_or(0, |s| s.index);
    input.push(&id.wrapping_add(ahead).to_be_bytes());
    input.push(packet.header(6, 8));
    input.push(packet.header(12, 20));
}

/// The ten address bytes that RFC 5475 names for IPv6.
fn push_v6_addresses(input: &mut Input, packet: &Packet<'_>) {
    for start in [8, 24] {
        input.push(packet.header(start + 9, start + 11));
        input.push(packet.header(start + 13, start + 16));
    }
}

/// Bytes of data in the segments before this one.
fn data_before(offload: Offload) -> u32 {
    offload.segment.map_or(0, |s| u32::from(s.index) * u32::from(s.size))
}

/// Bytes of the transport header that each segment of a super-frame has.
fn segment_header(packet: &Packet<'_>) -> Result<usize, Unhashable> {
    match packet.protocol() {
        TCP => Ok(usize::from(four(packet, 12)?[0] >> 4) * 4),
        UDP => Ok(8),
        _ => Err(Unhashable::Unfinished),
    }
}

/// The length after the IP header and its extension headers, as on the wire.
fn payload_length(packet: &Packet<'_>, offload: Offload) -> Result<u16, Unhashable> {
    let whole = packet.payload_length();
    let length = match offload.segment {
        None => whole,
        Some(segment) => {
            let header = segment_header(packet)?;
            let before = header + usize::try_from(data_before(offload)).unwrap_or(usize::MAX);
            let left = whole.checked_sub(before).ok_or(Unhashable::Short)?;
            header + left.min(usize::from(segment.size))
        }
    };
    u16::try_from(length).map_err(|_| Unhashable::Unfinished)
}

/// The length field of the IP header, as on the wire: total length, or IPv6's payload length.
fn header_length_field(packet: &Packet<'_>, offload: Offload) -> Result<u16, Unhashable> {
    let before = if packet.is_v6() { packet.extensions() } else { packet.header_length() };
    let length = before + usize::from(payload_length(packet, offload)?);
    u16::try_from(length).map_err(|_| Unhashable::Unfinished)
}

/// Adds bytes of the payload as on the wire.
fn push_payload(
    input: &mut Input,
    packet: &Packet<'_>,
    offload: Offload,
    offset: usize,
    size: usize,
) -> Result<(), Unhashable> {
    let range = (offset, offset + size);
    let transport = !packet.is_later_fragment();
    let meets = |from: usize, to: usize| range.0 < to && from < range.1;
    let unfinished = match (packet.protocol(), offload.segment) {
        _ if !transport => false,
        // Ports, numbers and header length are equal or can be computed; flags and data cannot.
        (TCP, Some(_)) => range.1 > 12,
        // Only ports: length and checksum are those of the super-frame.
        (_, Some(_)) => range.1 > 4,
        // The checksum of TCP, of UDP and of SCTP is in these bytes.
        (TCP, None) => offload.partial_checksum && meets(16, 18),
        (UDP | UDP_LITE, None) => offload.partial_checksum && meets(6, 8),
        (SCTP, None) => offload.partial_checksum && meets(8, 12),
        _ => false,
    };
    if unfinished {
        return Err(Unhashable::Unfinished);
    }
    let bytes = packet.payload(offset, size).ok_or(Unhashable::Short)?;
    let Some(_) = offload.segment.filter(|_| packet.protocol() == TCP) else {
        input.push(bytes);
        return Ok(());
    };
    let sequence = u32::from_be_bytes(four(packet, 4)?).wrapping_add(data_before(offload));
    // Bytes 4 to 7 of TCP's header are the sequence number.
    for (at, byte) in (offset..).zip(bytes) {
        let counted = at.checked_sub(4).and_then(|i| sequence.to_be_bytes().get(i).copied());
        input.push(&[counted.unwrap_or(*byte)]);
    }
    Ok(())
}

/// Adds a part of the data of a packet or segment, padded with 0.
fn push_data(
    input: &mut Input,
    packet: &Packet<'_>,
    offload: Offload,
    header: usize,
    part: PayloadPart,
) -> Result<(), Unhashable> {
    let length = usize::from(payload_length(packet, offload)?);
    let has = length.saturating_sub(header + usize::from(part.offset));
    let size = usize::from(part.size.min(PayloadPart::MOST));
    let before = usize::try_from(data_before(offload)).unwrap_or(usize::MAX);
    let from = header + usize::from(part.offset) + before;
    let bytes = match has.min(size) {
        // The part may begin beyond the packet's end.
        0 => &[],
        some => packet.payload(from, some).ok_or(Unhashable::Short)?,
    };
    input.push(bytes);
    let zeros = [0; PayloadPart::MOST as usize];
    input.push(zeros.get(bytes.len()..size).unwrap_or(&[]));
    Ok(())
}

#[cfg(test)]
mod tests;
