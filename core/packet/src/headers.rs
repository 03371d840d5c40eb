//! A view of a frame: where its network and transport headers begin, and their kinds.
//!
//! Ethernet with up to two VLAN tags, IPv4 with options, IPv6 with extension headers, and the
//! length of TCP and UDP headers. Total: any bytes give a view or an error. Addresses, ports and
//! payload are slices at the given offsets. Ignored: checksums, the content of tunnels.
//! See RFC 791, RFC 8200, RFC 4302 (length of AH), IEEE 802.1Q.

use crate::error::{Error, Result, at_least, be16};

/// Length of an Ethernet header without tags.
pub const ETHERNET: usize = 14;

/// The types of VLAN tags: of 802.1Q, of 802.1ad, and two that were in use before it.
pub const TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
const IPV4: u16 = 0x0800;
/// IPv6's EtherType.
pub const IPV6: u16 = 0x86dd;

/// TCP's protocol number.
pub const TCP: u8 = 6;
/// UDP's protocol number.
pub const UDP: u8 = 17;

/// More extension headers than any useful packet has.
const MOST_EXTENSIONS: usize = 8;

/// The headers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Its type after the tags.
    pub ethertype: u16,
    /// Where the network packet begins.
    pub network: usize,
    /// The IP packet, if it is one.
    pub ip: Option<Ip>,
}

/// An IP packet in a frame. Offsets count from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// IPv6, else IPv4.
    pub v6: bool,
    /// The protocol after all extension headers that could be followed.
    pub protocol: u8,
    /// Where the transport header begins.
    pub transport: usize,
    /// Where the packet ends; padding follows.
    pub end: usize,
    /// Which part of a packet it is, if it is a fragment.
    pub fragment: Option<Fragment>,
    /// Where the payload begins, if a whole TCP or UDP header is in the first or only fragment.
    pub payload: Option<usize>,
    /// Whether the length field is 0, as in packets over 64 KiB: the packet then extends to the frame's end.
    pub lengthless: bool,
}

/// Which part of a packet a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its offset in the packet, in bytes.
    pub offset: u16,
    /// Whether more follow.
    pub more: bool,
    /// The packet's identification: 16 bits in IPv4, 32 in IPv6.
    pub id: u32,
}

/// The type and start of a frame's network packet: after the Ethernet header and up to two tags.
pub fn network(frame: &[u8]) -> Result<(u16, usize)> {
    at_least("Ethernet header", frame, 0, ETHERNET)?;
    let (mut ethertype, mut start) = (be16(frame, 12), ETHERNET);
    for _ in 0..2 {
        if !TAGS.contains(&ethertype) {
            break;
        }
        at_least("VLAN tag", frame, start, 4)?;
        ethertype = be16(frame, start + 2);
        start += 4;
    }
    Ok((ethertype, start))
}

impl Headers {
    /// Parses a frame that begins with its Ethernet header.
    pub fn parse(frame: &[u8]) -> Result<Headers> {
        let (ethertype, network) = network(frame)?;
        let ip = match ethertype {
            IPV4 => Some(ipv4(frame, network)?),
            IPV6 => Some(ipv6(frame, network)?),
            _ => None,
        };
        Ok(Headers { ethertype, network, ip })
    }
}

fn ipv4(frame: &[u8], start: usize) -> Result<Ip> {
    let packet = at_least("IPv4 header", frame, start, 20)?;
    let (version, words) = (packet[0] >> 4, usize::from(packet[0] & 15));
    check("IPv4 header", "version", usize::from(version), version == 4)?;
    check("IPv4 header", "header length", words, words >= 5)?;
    at_least("IPv4 header", frame, start, words * 4)?;
    let total = usize::from(be16(packet, 2));
    let end = if total == 0 { frame.len() } else { start + total };
    check("IPv4 header", "total length", total, end >= start + words * 4)?;
    at_least("IPv4 packet", frame, start, end - start)?;
    let bits = be16(packet, 6);
    let (offset, more) = ((bits & 0x1fff) * 8, bits & 0x2000 != 0);
    let id = u32::from(be16(packet, 4));
    let fragment = (offset > 0 || more).then_some(Fragment { offset, more, id });
    let ip = Ip {
        v6: false,
        protocol: packet[9],
        transport: start + words * 4,
        end,
        fragment,
        payload: None,
        lengthless: total == 0,
    };
    Ok(Ip { payload: payload(frame, &ip), ..ip })
}

fn ipv6(frame: &[u8], start: usize) -> Result<Ip> {
    let packet = at_least("IPv6 header", frame, start, 40)?;
    let version = packet[0] >> 4;
    check("IPv6 header", "version", usize::from(version), version == 6)?;
    let length = usize::from(be16(packet, 4));
    let end = if length == 0 { frame.len() } else { start + 40 + length };
    at_least("IPv6 packet", frame, start, end - start)?;
    let mut ip = Ip {
        v6: true,
        protocol: packet[6],
        transport: start + 40,
        end,
        fragment: None,
        payload: None,
        lengthless: length == 0,
    };
    for _ in 0..MOST_EXTENSIONS {
        if !extension(frame, &mut ip)? {
            break;
        }
    }
    Ok(Ip { payload: payload(frame, &ip), ..ip })
}

/// Skips one extension header, if there is one.
fn extension(frame: &[u8], ip: &mut Ip) -> Result<bool> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    // Behind a later fragment's header are data, whatever its next header says.
    if !matches!(ip.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION)
        || ip.fragment.is_some_and(|f| f.offset > 0)
    {
        return Ok(false);
    }
    let packet = frame.get(..ip.end).unwrap_or(frame);
    let header = at_least("IPv6 extension header", packet, ip.transport, 8)?;
    let length = usize::from(header[1]);
    let length = match ip.protocol {
        FRAGMENT => {
            let bits = be16(header, 2);
            let id = crate::error::be32(header, 4);
            // A packet in one fragment (RFC 6946) is whole.
            if bits & 0xfff9 != 0 {
                ip.fragment = Some(Fragment { offset: bits & 0xfff8, more: bits & 1 != 0, id });
            }
            8
        }
        AUTHENTICATION => (length + 2) * 4,
        _ => (length + 1) * 8,
    };
    at_least("IPv6 extension header", packet, ip.transport, length)?;
    ip.protocol = header[0];
    ip.transport += length;
    Ok(true)
}

/// Where the payload of TCP or UDP begins, if its header is complete.
fn payload(frame: &[u8], ip: &Ip) -> Option<usize> {
    if ip.fragment.is_some_and(|f| f.offset > 0) {
        return None;
    }
    let segment = frame.get(ip.transport..ip.end)?;
    let length = match ip.protocol {
        TCP => usize::from(segment.get(12)? >> 4) * 4,
        UDP => 8,
        _ => return None,
    };
    let least = if ip.protocol == TCP { 20 } else { 8 };
    (length >= least && segment.len() >= length).then_some(ip.transport + length)
}

fn check(object: &'static str, field: &'static str, value: usize, good: bool) -> Result<()> {
    if good { Ok(()) } else { Err(Error::Field { object, field, value }) }
}

#[cfg(test)]
mod tests;
