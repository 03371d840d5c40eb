//! An IP packet as selection and filters see it: its headers parsed, the rest possibly truncated.
//!
//! Points often see only the first bytes, so only the headers must be present. Lengths
//! are those in the headers; those of a super-frame are of the unsegmented packet. Where
//! the length field is 0 (super-frames above 64 KiB) the packet ends where the bytes do.
//! Total: any bytes give a packet or `None`. See RFC 791, RFC 8200.

/// A view of an IPv4 or IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    v6: bool,
    protocol: u8,
    transport: usize,
    end: usize,
    fragment: Option<(u16, bool)>,
    fragment_id: u32,
}

/// More extension headers than any useful packet has.
const MOST_EXTENSIONS: usize = 8;

/// TCP's protocol number.
pub(crate) const TCP: u8 = 6;
/// UDP's protocol number.
pub(crate) const UDP: u8 = 17;
/// UDP-Lite's protocol number.
pub(crate) const UDP_LITE: u8 = 136;
/// SCTP's protocol number.
pub(crate) const SCTP: u8 = 132;
/// ICMP's protocol number.
pub(crate) const ICMP: u8 = 1;
/// ICMPv6's protocol number.
pub(crate) const ICMPV6: u8 = 58;

/// Whether a protocol has ports in the first four bytes of its header.
pub(crate) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | UDP_LITE | SCTP)
}

impl<'a> Packet<'a> {
    /// Reads a packet that begins with its IP header; `None` if its headers are incomplete.
    pub fn parse(bytes: &'a [u8]) -> Option<Packet<'a>> {
        match bytes.first()? >> 4 {
            4 => ipv4(bytes),
            6 => ipv6(bytes),
            _ => None,
        }
    }

    /// Whether it is IPv6.
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// The protocol after all extension headers that could be followed.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The byte with DSCP and ECN.
    pub fn traffic_class(&self) -> u8 {
        let [first, second] = self.pair(0);
        // The version falls out at the top of the byte.
        if self.v6 { first << 4 | second >> 4 } else { second }
    }

    /// Source and destination address: 4 or 16 bytes each.
    pub fn addresses(&self) -> (&'a [u8], &'a [u8]) {
        let (from, size) = if self.v6 { (8, 16) } else { (12, 4) };
        let part = |from: usize| self.bytes.get(from..from + size).unwrap_or(&[]);
        (part(from), part(from + size))
    }

    /// Source and destination port, if it has any and is not a later fragment.
    pub fn ports(&self) -> Option<(u16, u16)> {
        if self.is_later_fragment() || !has_ports(self.protocol) {
            return None;
        }
        let four = self.payload(0, 4)?;
        Some((u16::from_be_bytes([four[0], four[1]]), u16::from_be_bytes([four[2], four[3]])))
    }

    /// Whether it is a fragment other than the first.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|(offset, _)| offset > 0)
    }

    /// Whether it is any fragment.
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some()
    }

    /// Of a fragment of IPv6: the identification that all share, its offset in bytes with the flag for more in the lowest bit,
    /// and two bytes of 0; else 0.
    pub(crate) fn fragment_word(&self) -> [u8; 8] {
        let mut word = [0; 8];
        if let Some((offset, more)) = self.fragment {
            word[..4].copy_from_slice(&self.fragment_id.to_be_bytes());
            word[4..6].copy_from_slice(&(offset | u16::from(more)).to_be_bytes());
        }
        word
    }

    /// Bytes of the IP header.
    pub(crate) fn header(&self, from: usize, to: usize) -> &'a [u8] {
        self.bytes.get(from..to).unwrap_or(&[])
    }

    /// Bytes of the IP header, with extension headers.
    pub(crate) fn header_length(&self) -> usize {
        self.transport
    }

    /// Bytes of extension headers.
    pub(crate) fn extensions(&self) -> usize {
        self.transport.saturating_sub(40)
    }

    /// Bytes after the IP header and its extension headers, according to the header.
    pub(crate) fn payload_length(&self) -> usize {
        self.end.saturating_sub(self.transport)
    }

    /// Bytes after the IP header and its extension headers; `None` if some are missing or
    /// not part of the packet.
    pub(crate) fn payload(&self, offset: usize, size: usize) -> Option<&'a [u8]> {
        let from = self.transport.checked_add(offset)?;
        let to = from.checked_add(size)?;
        if to > self.end { None } else { self.bytes.get(from..to) }
    }

    fn pair(&self, at: usize) -> [u8; 2] {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two))
}

fn ipv4(bytes: &[u8]) -> Option<Packet<'_>> {
    let header = usize::from(bytes.first()? & 15) * 4;
    if header < 20 || bytes.len() < header {
        return None;
    }
    let bits = be16(bytes, 6)?;
    let (offset, more) = ((bits & 0x1fff) << 3, bits & 0x2000 != 0);
    // A length of 0 means a super-frame above 64 KiB.
    let end = match usize::from(be16(bytes, 2)?) {
        0 => bytes.len(),
        total if total < header => return None,
        total => total,
    };
    Some(Packet {
        bytes,
        v6: false,
        protocol: *bytes.get(9)?,
        transport: header,
        end,
        fragment: (offset > 0 || more).then_some((offset, more)),
        fragment_id: 0,
    })
}

fn ipv6(bytes: &[u8]) -> Option<Packet<'_>> {
    if bytes.len() < 40 {
        return None;
    }
    let end = match usize::from(be16(bytes, 4)?) {
        0 => bytes.len(),
        // The field does not count the fixed header (RFC 8200, section 3).
        length => 40 + length,
    };
    let protocol = *bytes.get(6)?;
    let mut packet =
        Packet { bytes, v6: true, protocol, transport: 40, end, fragment: None, fragment_id: 0 };
    for _ in 0..MOST_EXTENSIONS {
        if !extension(&mut packet)? {
            break;
        }
    }
    Some(packet)
}

/// Skips one extension header, if there is one; `None` if it is truncated.
fn extension(packet: &mut Packet<'_>) -> Option<bool> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    // Behind a later fragment's header are data, whatever its next header says.
    if packet.is_later_fragment() {
        return Some(false);
    }
    let length = match packet.protocol {
        HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(packet.payload(0, 8)?[1]) + 1) * 8,
        // Words of 4 bytes less two (RFC 4302); the others count words of 8 less one.
        AUTHENTICATION => (usize::from(packet.payload(0, 8)?[1]) + 2) * 4,
        FRAGMENT => 8,
        _ => return Some(false),
    };
    let header = packet.payload(0, length)?;
    if packet.protocol == FRAGMENT {
        let bits = be16(header, 2)?;
        // A packet in one fragment (RFC 6946) is whole.
        if bits & 0xfff9 != 0 {
            packet.fragment = Some((bits & 0xfff8, bits & 1 == 1));
            packet.fragment_id = u32::from_be_bytes(*header.get(4..)?.first_chunk()?);
        }
    }
    packet.protocol = header[0];
    packet.transport += length;
    Some(true)
}

#[cfg(test)]
mod tests;
