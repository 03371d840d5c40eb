//! Where the headers of a frame are, and its flow key (section 7.2.3.8: what each field is of).
//!
//! Ethernet, any number of VLAN tags, then PBB, MPLS, ARP, IPv4 or IPv6 with extension headers, TCP, UDP, SCTP, ICMP.
//! Nothing behind a PBB service tag or an MPLS label is looked at. Total: of a header that is cut, no field is set.
//! Ports of fragments are not set (1.0.0 section 3.4).

use netloom_openflow::Field;
use netloom_openflow::matching::VID_PRESENT;

use crate::key::FlowKey;

/// Ethertypes of VLAN tags.
pub const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// The ethertype of a PBB service tag.
pub const PBB: u16 = 0x88e7;
/// Ethertypes of MPLS.
pub const MPLS: [u16; 2] = [0x8847, 0x8848];
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
/// ARP for reverse lookups, which 1.0 treats alike.
const RARP: u16 = 0x8035;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;

/// Tags and extension headers that are followed at most.
const MOST: usize = 16;

/// An IP header in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// IPv6, else IPv4.
    pub v6: bool,
    /// Where it begins.
    pub start: usize,
    /// Where the packet ends; padding follows.
    pub end: usize,
    /// Where the byte with the protocol is: in IPv6, that of the last extension header.
    pub protocol_at: usize,
    /// The protocol after all extension headers.
    pub protocol: u8,
    /// Where the transport header begins; `None` in later fragments.
    pub transport: Option<usize>,
    /// Whether it is a fragment.
    pub fragment: bool,
    /// Whether the destination is not that of the pseudo-header: a routing header goes on elsewhere.
    pub routed: bool,
}

/// Where the headers of a frame are. Offsets count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// How many VLAN tags there are; they begin at 12.
    pub tags: usize,
    /// Where the ethertype after them is.
    pub ethertype_at: usize,
    /// That ethertype; zero in a frame of IEEE 802.3 without SNAP.
    pub ethertype: u16,
    /// Where its header begins.
    pub network: usize,
    /// The IP header, if it is one and whole.
    pub ip: Option<Ip>,
    /// Where the option with the source link-layer address of neighbour discovery has it.
    pub nd_sll: Option<usize>,
    /// The same of the target's.
    pub nd_tll: Option<usize>,
}

pub(crate) fn be16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

pub(crate) fn be32(frame: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

/// A number of up to 16 bytes.
pub(crate) fn number(frame: &[u8], at: usize, bytes: usize) -> Option<u128> {
    let bytes = frame.get(at..at.checked_add(bytes)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

/// Headers and key of a frame; what is not a header (port, metadata, tunnel) is not set.
pub fn parse(frame: &[u8]) -> (Headers, FlowKey) {
    let mut key = FlowKey::default();
    let Some(mut headers) = ethernet(frame, &mut key) else {
        return (Headers::default(), key);
    };
    match headers.ethertype {
        IPV4 => headers.ip = ipv4(frame, headers.network, &mut key),
        IPV6 => headers.ip = ipv6(frame, headers.network, &mut key),
        ARP | RARP => arp(frame, headers.network, &mut key),
        PBB => {
            // A byte of flags is before it (IEEE 802.1Q, 9.7).
            if let Some(isid) = number(frame, headers.network + 1, 3) {
                key.set(Field::PbbIsid, isid);
            }
        }
        ethertype if MPLS.contains(&ethertype) => {
            if let Some(label) = be32(frame, headers.network) {
                // RFC 3032, 2.1. Each field takes the low bits of what it is given.
                key.set(Field::MplsLabel, u128::from(label >> 12));
                key.set(Field::MplsTc, u128::from(label >> 9));
                key.set(Field::MplsBos, u128::from(label >> 8));
            }
        }
        _ => {}
    }
    if let Some(ip) = headers.ip {
        transport(frame, &ip, &mut headers, &mut key);
    }
    (headers, key)
}

fn ethernet(frame: &[u8], key: &mut FlowKey) -> Option<Headers> {
    key.set(Field::EthDst, number(frame, 0, 6)?);
    key.set(Field::EthSrc, number(frame, 6, 6)?);
    let (mut at, mut tags) = (12, 0);
    let mut ethertype = be16(frame, at)?;
    // Only the outermost tag is in the key (section 7.2.3.8), but what follows all tags is.
    while VLAN.contains(&ethertype) && tags < MOST {
        let Some(inner) = be16(frame, at + 4) else { break };
        if tags == 0 {
            let tci = be16(frame, at + 2)?;
            key.set(Field::VlanVid, u128::from(tci & 0xfff) | VID_PRESENT);
            key.set(Field::VlanPcp, u128::from(tci >> 13));
        }
        (at, tags, ethertype) = (at + 4, tags + 1, inner);
    }
    let (ethertype_at, ethertype) =
        // IEEE 802.3: below 0x600 the field is a length.
        if ethertype < 0x600 { llc(frame, at) } else { (at, ethertype) };
    key.set(Field::EthType, u128::from(ethertype));
    Some(Headers { tags, ethertype_at, ethertype, network: ethertype_at + 2, ..Headers::default() })
}

/// A frame of IEEE 802.3 has the ethertype of its SNAP header, or OFP_DL_TYPE_NOT_ETH_TYPE (1.0.0 section 3.4).
fn llc(frame: &[u8], at: usize) -> (usize, u16) {
    const NOT_ETH_TYPE: u16 = 0x05ff;
    let snap = frame.get(at + 2..at + 8) == Some(&[0xaa, 0xaa, 3, 0, 0, 0]);
    match be16(frame, at + 8) {
        Some(ethertype) if snap => (at + 8, ethertype),
        _ => (at, NOT_ETH_TYPE),
    }
}

fn arp(frame: &[u8], start: usize, key: &mut FlowKey) {
    // Ethernet and IPv4 only.
    if frame.get(start..start + 6) != Some(&[0, 1, 8, 0, 6, 4]) || frame.len() < start + 28 {
        return;
    }
    for (field, at, bytes) in [
        (Field::ArpOp, 6, 2),
        (Field::ArpSha, 8, 6),
        (Field::ArpSpa, 14, 4),
        (Field::ArpTha, 18, 6),
        (Field::ArpTpa, 24, 4),
    ] {
        key.set(field, number(frame, start + at, bytes).unwrap_or(0));
    }
}

fn ipv4(frame: &[u8], start: usize, key: &mut FlowKey) -> Option<Ip> {
    let header = frame.get(start..)?.first_chunk::<20>()?;
    let length = usize::from(header[0] & 15) * 4;
    let total = usize::from(be16(header, 2)?);
    if header[0] >> 4 != 4 || length < 20 || total < length || frame.len() < start + length {
        return None;
    }
    let bits = be16(header, 6)?;
    // More fragments follow, or an offset; the bit above them is "don't fragment".
    let fragment = bits & 0x3fff != 0;
    let protocol = header[9];
    key.set(Field::IpDscp, u128::from(header[1] >> 2));
    key.set(Field::IpEcn, u128::from(header[1]));
    key.set(Field::IpProto, u128::from(protocol));
    key.set(Field::Ipv4Src, u128::from(be32(header, 12)?));
    key.set(Field::Ipv4Dst, u128::from(be32(header, 16)?));
    Some(Ip {
        v6: false,
        start,
        end: frame.len().min(start + total),
        protocol_at: start + 9,
        protocol,
        // Only the first fragment has the transport header.
        transport: (bits & 0x1fff == 0).then_some(start + length),
        fragment,
        routed: false,
    })
}

fn ipv6(frame: &[u8], start: usize, key: &mut FlowKey) -> Option<Ip> {
    let header = frame.get(start..)?.first_chunk::<40>()?;
    let word = be32(header, 0)?;
    if word >> 28 != 6 {
        return None;
    }
    key.set(Field::IpDscp, u128::from(word >> 22));
    key.set(Field::IpEcn, u128::from(word >> 20));
    key.set(Field::Ipv6Flabel, u128::from(word));
    key.set(Field::Ipv6Src, number(header, 8, 16)?);
    key.set(Field::Ipv6Dst, number(header, 24, 16)?);
    let mut ip = Ip {
        v6: true,
        start,
        end: frame.len().min(start + 40 + usize::from(be16(header, 4)?)),
        protocol_at: start + 6,
        protocol: header[6],
        transport: Some(start + 40),
        fragment: false,
        routed: false,
    };
    let extensions = extensions(frame, &mut ip);
    key.set(Field::Ipv6Exthdr, u128::from(extensions));
    key.set(Field::IpProto, u128::from(ip.protocol));
    Some(ip)
}

/// Bits of OFPIEH_* (section 7.2.3.8).
mod exthdr {
    pub(super) const NO_NEXT: u16 = 1;
    pub(super) const ESP: u16 = 1 << 1;
    pub(super) const AUTH: u16 = 1 << 2;
    pub(super) const DEST: u16 = 1 << 3;
    pub(super) const FRAG: u16 = 1 << 4;
    pub(super) const ROUTER: u16 = 1 << 5;
    pub(super) const HOP: u16 = 1 << 6;
    pub(super) const REPEATED: u16 = 1 << 7;
    pub(super) const SEQUENCE: u16 = 1 << 8;
}

/// Follows the extension headers; returns which there are.
fn extensions(frame: &[u8], ip: &mut Ip) -> u16 {
    let mut seen = 0;
    // The place in the order that RFC 8200 section 4.1 recommends.
    let mut last = 0;
    let mut destinations = 0;
    for _ in 0..MOST {
        let (bit, order) = match ip.protocol {
            0 => (exthdr::HOP, 1),
            43 => (exthdr::ROUTER, 3),
            44 => (exthdr::FRAG, 4),
            51 => (exthdr::AUTH, 5),
            50 => (exthdr::ESP, 6),
            // Before a routing header, or last.
            60 if seen & exthdr::ROUTER == 0 && last < 2 => (exthdr::DEST, 2),
            60 => (exthdr::DEST, 7),
            59 => (exthdr::NO_NEXT, 8),
            _ => return seen,
        };
        destinations += u32::from(bit == exthdr::DEST);
        let again = seen & bit != 0 && (bit != exthdr::DEST || destinations > 2);
        seen |= bit | if again { exthdr::REPEATED } else { 0 };
        seen |= if order < last { exthdr::SEQUENCE } else { 0 };
        last = order;
        if matches!(ip.protocol, 50 | 59) || !skip_extension(frame, ip) {
            return seen;
        }
    }
    seen
}

/// Skips one extension header; returns whether another header may follow.
fn skip_extension(frame: &[u8], ip: &mut Ip) -> bool {
    let Some(at) = ip.transport else { return false };
    let Some(header) = frame.get(at..ip.end).and_then(|rest| rest.first_chunk::<8>()) else {
        return false;
    };
    let units = usize::from(header[1]);
    // Units: none in a fragment header (RFC 8200, 4.5), words less two in AH (RFC 4302, 2.2), else 8 bytes
    // less one.
    let length = match ip.protocol {
        44 => 8,
        51 => (units + 2) * 4,
        _ => (units + 1) * 8,
    };
    // Segments are left: the final destination is in the header, and the checksum covers that one (RFC 8200,
    // 8.1).
    if ip.protocol == 43 && header[3] > 0 {
        ip.routed = true;
    }
    let offset = u16::from_be_bytes([header[2], header[3]]);
    let fragment = ip.protocol == 44;
    ip.protocol = header[0];
    ip.protocol_at = at;
    ip.transport = Some(at + length);
    // A header with neither offset nor more fragments is an atomic fragment, which is a whole packet (RFC
    // 6946).
    if fragment && offset & 0xfff9 != 0 {
        ip.fragment = true;
        if offset & 0xfff8 != 0 {
            ip.transport = None;
            return false;
        }
    }
    true
}

fn transport(frame: &[u8], ip: &Ip, headers: &mut Headers, key: &mut FlowKey) {
    let Some(at) = ip.transport.filter(|_| !ip.fragment) else { return };
    let packet = frame.get(..ip.end).unwrap_or(frame);
    match ip.protocol {
        TCP | UDP | SCTP => {
            if let (Some(source), Some(destination)) = (be16(packet, at), be16(packet, at + 2)) {
                key.set(Field::TcpSrc, u128::from(source));
                key.set(Field::TcpDst, u128::from(destination));
            }
        }
        ICMP if !ip.v6 => icmp(packet, at, key),
        ICMPV6 if ip.v6 => {
            icmp(packet, at, key);
            neighbour(packet, at, headers, key);
        }
        _ => {}
    }
}

fn icmp(packet: &[u8], at: usize, key: &mut FlowKey) {
    if let Some([kind, code]) = packet.get(at..at + 2) {
        key.set(Field::Icmpv4Type, u128::from(*kind));
        key.set(Field::Icmpv4Code, u128::from(*code));
    }
}

/// Target and link-layer addresses of neighbour discovery (RFC 4861 section 4).
fn neighbour(packet: &[u8], at: usize, headers: &mut Headers, key: &mut FlowKey) {
    let Some([kind @ (135 | 136), 0]) = packet.get(at..at + 2) else { return };
    let Some(target) = number(packet, at + 8, 16) else { return };
    key.set(Field::Ipv6NdTarget, target);
    let mut option = at + 24;
    for _ in 0..MOST {
        let Some([number_of, units]) = packet.get(option..option + 2) else { return };
        let address = option + 2;
        match (kind, number_of, number(packet, address, 6)) {
            // OXM has the source's address for solicitations alone, the target's for advertisements (table of
            // section 7.2.3.8).
            (135, 1, Some(value)) if *units > 0 => {
                key.set(Field::Ipv6NdSll, value);
                headers.nd_sll = Some(address);
            }
            (136, 2, Some(value)) if *units > 0 => {
                key.set(Field::Ipv6NdTll, value);
                headers.nd_tll = Some(address);
            }
            _ => {}
        }
        if *units == 0 {
            return;
        }
        option += usize::from(*units) * 8;
    }
}
