//! Which frames a mirror session copies.
//!
//! A filter is up to six conditions, which must all hold. Its text is their list, like
//! `vlan 7, ip 10.0.0.0/8, tcp, port 80`; any text can be parsed safely. It also has a fixed form in
//! bytes, for memory that others read. Frames may hold any bytes: an unreadable one does not match.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use netloom_packet::{Headers, headers};

use crate::address::Mac;
use crate::error::{Error, Result};
use crate::vlan::Vid;

/// Bytes of a filter's fixed form.
pub const FILTER_BYTES: usize = 32;

/// Conditions on a frame, all of which must hold. The default has none and matches every frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorFilter {
    /// This is its source or destination.
    pub mac: Option<Mac>,
    /// The VLAN it was classified into; on a switch that knows no VLANs, that of its outermost tag.
    pub vid: Option<Vid>,
    /// Its type after its tags.
    pub ethertype: Option<u16>,
    /// Its IP protocol, after IPv6 extension headers.
    pub protocol: Option<u8>,
    /// Its IP source or destination is in here.
    pub prefix: Option<Prefix>,
    /// Its TCP or UDP source or destination port.
    pub port: Option<u16>,
}

/// An IP prefix; bits beyond its length are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The prefix of `length` bits of an address; `None` if the address has fewer.
    pub fn new(address: IpAddr, length: u8) -> Option<Prefix> {
        let address = match address {
            IpAddr::V4(v4) if length <= 32 => {
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & high(u32::MAX, 32 - length)))
            }
            IpAddr::V6(v6) if length <= 128 => {
                let mask = u128::MAX.checked_shl(u32::from(128 - length)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
            _ => return None,
        };
        Some(Prefix { address, length })
    }

    /// Its first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Its length in bits.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        // An address of the other family makes another prefix, or none, and so is not in this one.
        Prefix::new(address, self.length).is_some_and(|of| of.address == self.address)
    }
}

fn high(ones: u32, low: u8) -> u32 {
    // Rust has no shift by all 32 bits: the mask of length 0 is 0.
    ones.checked_shl(u32::from(low)).unwrap_or(0)
}

impl MirrorFilter {
    /// Whether it matches every frame.
    pub fn is_empty(&self) -> bool {
        *self == MirrorFilter::default()
    }

    /// Whether a frame matches. `vid`: the VLAN it was classified into.
    pub fn matches(&self, vid: Option<Vid>, frame: &[u8]) -> bool {
        if let Some(mac) = self.mac {
            let its = [Mac::source(frame), Mac::destination(frame)];
            if !its.contains(&Some(mac)) {
                return false;
            }
        }
        if self.vid.is_some() && self.vid != vid.or_else(|| tagged(frame)) {
            return false;
        }
        if let Some(ethertype) = self.ethertype
            && headers::network(frame).ok().map(|(of, _)| of) != Some(ethertype)
        {
            return false;
        }
        // The IP header is read only for conditions on it; a frame without one fails them.
        let deeper = self.protocol.is_some() || self.prefix.is_some() || self.port.is_some();
        !deeper || self.matches_ip(frame).unwrap_or(false)
    }

    fn matches_ip(&self, frame: &[u8]) -> Option<bool> {
        let of = Headers::parse(frame).ok()?;
        let ip = of.ip?;
        let mut wanted = self.protocol.is_none_or(|protocol| protocol == ip.protocol);
        if let Some(prefix) = self.prefix {
            let (source, destination) = addresses(frame, of.network, ip.v6)?;
            wanted &= prefix.contains(source) || prefix.contains(destination);
        }
        if let Some(port) = self.port {
            // Only a whole header of TCP or UDP has ports, and no later fragment.
            ip.payload?;
            let ports = frame.get(ip.transport..)?.first_chunk::<4>()?;
            let [a, b, c, d] = *ports;
            wanted &= [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])].contains(&port);
        }
        Some(wanted)
    }
}

/// The VLAN of a frame's outermost tag.
fn tagged(frame: &[u8]) -> Option<Vid> {
    let [0x81, 0x00, high, low] = *frame.get(12..)?.first_chunk::<4>()? else { return None };
    Vid::new(u16::from_be_bytes([high, low]) & 0x0fff)
}

fn addresses(frame: &[u8], network: usize, v6: bool) -> Option<(IpAddr, IpAddr)> {
    let packet = frame.get(network..)?;
    if v6 {
        let source: [u8; 16] = *packet.get(8..)?.first_chunk()?;
        let destination: [u8; 16] = *packet.get(24..)?.first_chunk()?;
        return Some((IpAddr::from(source), IpAddr::from(destination)));
    }
    let source: [u8; 4] = *packet.get(12..)?.first_chunk()?;
    let destination: [u8; 4] = *packet.get(16..)?.first_chunk()?;
    Some((IpAddr::from(source), IpAddr::from(destination)))
}

/// Types with a name, which is also a condition by itself.
const TYPES: [(&str, u16); 4] =
    [("arp", 0x0806), ("ipv4", 0x0800), ("ipv6", 0x86dd), ("lldp", 0x88cc)];

/// Protocols with a name, which is also a condition by itself.
const PROTOCOLS: [(&str, u8); 5] =
    [("tcp", headers::TCP), ("udp", headers::UDP), ("icmp", 1), ("icmpv6", 58), ("sctp", 132)];

/// Conditions with commas between them; `all` has none.
impl fmt::Display for MirrorFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = vec![];
        parts.extend(self.mac.map(|mac| format!("mac {mac}")));
        parts.extend(self.vid.map(|vid| format!("vlan {vid}")));
        parts.extend(self.ethertype.map(|of| named(&TYPES, of, format!("ethertype {of:#06x}"))));
        parts.extend(self.prefix.map(|p| format!("ip {}/{}", p.address, p.length)));
        parts.extend(self.protocol.map(|of| named(&PROTOCOLS, of, format!("protocol {of}"))));
        parts.extend(self.port.map(|port| format!("port {port}")));
        if parts.is_empty() { f.write_str("all") } else { f.write_str(&parts.join(", ")) }
    }
}

fn named<T: PartialEq>(names: &[(&str, T)], of: T, number: String) -> String {
    names.iter().find(|(_, n)| *n == of).map_or(number, |(name, _)| (*name).to_owned())
}

/// `mac 02:00:00:00:00:01`, `vlan 7`, `ethertype 0x88cc`, `arp`, `ipv4`, `ipv6`, `lldp`,
/// `ip 10.0.0.0/8` (or an address), `protocol 47`, `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`,
/// `port 80`: each kind at most once, with commas between them. `all` or an empty text: every frame.
impl FromStr for MirrorFilter {
    type Err = Error;

    fn from_str(text: &str) -> Result<MirrorFilter> {
        let mut filter = MirrorFilter::default();
        if matches!(text.trim(), "" | "all") {
            return Ok(filter);
        }
        for part in text.split(',').map(str::trim) {
            filter.read(part)?;
        }
        Ok(filter)
    }
}

impl MirrorFilter {
    /// Reads one condition.
    fn read(&mut self, part: &str) -> Result<()> {
        let wrong = |reason| Err(Error::text("condition", part, reason));
        if let Some((_, ethertype)) = TYPES.iter().find(|(name, _)| *name == part) {
            return put(&mut self.ethertype, *ethertype, part);
        }
        if let Some((_, protocol)) = PROTOCOLS.iter().find(|(name, _)| *name == part) {
            return put(&mut self.protocol, *protocol, part);
        }
        let Some((kind, value)) = part.split_once(char::is_whitespace) else {
            return wrong(KINDS);
        };
        let value = value.trim();
        match kind {
            "mac" => put(&mut self.mac, value.parse()?, part),
            "vlan" => put(&mut self.vid, value.parse()?, part),
            "ethertype" => match number(value).and_then(|n| u16::try_from(n).ok()) {
                // Below 0x600 the field is a length (IEEE 802.3).
                Some(ethertype) if ethertype >= 0x600 => put(&mut self.ethertype, ethertype, part),
                _ => wrong("not a number from 0x600 to 0xffff"),
            },
            "protocol" => match number(value).and_then(|n| u8::try_from(n).ok()) {
                Some(protocol) => put(&mut self.protocol, protocol, part),
                None => wrong("not a number from 0 to 255"),
            },
            "ip" => match prefix(value) {
                Some(prefix) => put(&mut self.prefix, prefix, part),
                None => wrong("not an address or prefix like 10.0.0.0/8"),
            },
            "port" => match number(value).and_then(|n| u16::try_from(n).ok()) {
                Some(port) if port > 0 => put(&mut self.port, port, part),
                _ => wrong("not a number from 1 to 65535"),
            },
            _ => wrong(KINDS),
        }
    }
}

const KINDS: &str = "unknown; conditions are mac, vlan, ethertype, arp, ipv4, ipv6, lldp, ip, \
                     protocol, tcp, udp, icmp, icmpv6, sctp and port";

fn put<T>(place: &mut Option<T>, value: T, part: &str) -> Result<()> {
    // There is room for one of each kind, and the first must not vanish in silence.
    if place.replace(value).is_some() {
        return Err(Error::text("condition", part, "the second of its kind"));
    }
    Ok(())
}

/// A number, in hexadecimal after `0x`.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    // `from_str_radix` alone would take a sign.
    let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    if plain { u32::from_str_radix(digits, radix).ok() } else { None }
}

fn prefix(text: &str) -> Option<Prefix> {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().ok()?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Some(whole), |l| number(l).and_then(|n| u8::try_from(n).ok()))?;
    Prefix::new(address, length)
}

/// Bits for the conditions present in the fixed form.
mod bit {
    pub(super) const MAC: u8 = 1;
    pub(super) const VID: u8 = 2;
    pub(super) const ETHERTYPE: u8 = 4;
    pub(super) const PROTOCOL: u8 = 8;
    pub(super) const V4: u8 = 16;
    pub(super) const V6: u8 = 32;
    pub(super) const PORT: u8 = 64;
}

impl MirrorFilter {
    /// Its fixed form: bits of the conditions present, protocol, MAC address, VLAN, type, port
    /// (big-endian), prefix (an IPv4 one in its first four bytes), prefix length, zero.
    pub fn to_bytes(&self) -> [u8; FILTER_BYTES] {
        let mut bytes = [0; FILTER_BYTES];
        let mut bits = 0;
        let mut write = |bit: u8, at: usize, value: &[u8]| {
            bits |= bit;
            for (place, byte) in bytes.iter_mut().skip(at).zip(value) {
                *place = *byte;
            }
        };
        self.protocol.inspect(|of| write(bit::PROTOCOL, 1, &[*of]));
        self.mac.inspect(|of| write(bit::MAC, 2, &of.0));
        self.vid.inspect(|of| write(bit::VID, 8, &of.number().to_be_bytes()));
        self.ethertype.inspect(|of| write(bit::ETHERTYPE, 10, &of.to_be_bytes()));
        self.port.inspect(|of| write(bit::PORT, 12, &of.to_be_bytes()));
        self.prefix.inspect(|of| {
            match of.address {
                IpAddr::V4(v4) => write(bit::V4, 14, &v4.octets()),
                IpAddr::V6(v6) => write(bit::V6, 14, &v6.octets()),
            }
            // Without a bit of its own: those of the two families tell that it is there.
            write(0, 30, &[of.length]);
        });
        bytes[0] = bits;
        bytes
    }

    /// Reads the fixed form; `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8; FILTER_BYTES]) -> Option<MirrorFilter> {
        let [bits, protocol, a, b, c, d, e, f, v0, v1, t0, t1, p0, p1, rest @ ..] = *bytes;
        let has = |bit| bits & bit != 0;
        let vid = match has(bit::VID) {
            // Who can write the memory may have written a number that is not a VLAN.
            true => Some(Vid::new(u16::from_be_bytes([v0, v1]))?),
            false => None,
        };
        let [address @ .., length, _] = rest;
        let [q0, q1, q2, q3, ..] = address;
        let prefix = match (has(bit::V4), has(bit::V6)) {
            (false, false) => None,
            (true, false) => Some(Prefix::new(IpAddr::from([q0, q1, q2, q3]), length)?),
            (false, true) => Some(Prefix::new(IpAddr::from(address), length)?),
            // Both families have one place: the bytes cannot be both.
            (true, true) => return None,
        };
        Some(MirrorFilter {
            mac: has(bit::MAC).then_some(Mac([a, b, c, d, e, f])),
            vid,
            ethertype: has(bit::ETHERTYPE).then_some(u16::from_be_bytes([t0, t1])),
            protocol: has(bit::PROTOCOL).then_some(protocol),
            prefix,
            port: has(bit::PORT).then_some(u16::from_be_bytes([p0, p1])),
        })
    }
}

#[cfg(test)]
mod tests;
