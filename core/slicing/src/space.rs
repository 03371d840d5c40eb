//! A space: packets by port of arrival, VLAN, addresses, protocol and ports; and the cubes that it is made of.
//!
//! Fields that are not given match anything. All given ones must hold, so each list is a choice and several spaces of a
//! slice are a union. Ranges of transport ports become prefixes, so that a space is a finite union of cubes.

use std::ops::RangeInclusive;

use netloom_openflow::matching::VID_PRESENT;
use netloom_openflow::{Field, PortNumber};

use crate::cube::Cube;

/// A MAC address and the bits of it that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacMask {
    /// The address.
    pub address: [u8; 6],
    /// The bits that count.
    pub mask: [u8; 6],
}

/// An IPv4 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix4 {
    /// An address in it.
    pub address: [u8; 4],
    /// Its length, 0 to 32.
    pub length: u8,
}

/// An IPv6 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix6 {
    /// An address in it.
    pub address: [u8; 16],
    /// Its length, 0 to 128.
    pub length: u8,
}

/// The outermost VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vlan {
    /// No tag.
    Untagged,
    /// A tag with this id, 0 to 4095.
    Id(u16),
}

/// Packets of a slice.
///
/// Fields of a header imply that header: an IPv4 prefix says that packets are IPv4, or ARP if that is the ethertype
/// given (then of the sender's and target's protocol addresses). Transport ports need an IP protocol of TCP (6), UDP
/// (17) or SCTP (132).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Ports of the real switch; `None`: any. An empty list is not a packet.
    pub ports: Option<Vec<PortNumber>>,
    /// Any of these tags; `None`: any packet. An empty list is not a packet.
    pub vlans: Option<Vec<Vlan>>,
    /// The source MAC address.
    pub mac_source: Option<MacMask>,
    /// The destination MAC address.
    pub mac_destination: Option<MacMask>,
    /// The ethertype after all tags.
    pub ethertype: Option<u16>,
    /// The IPv4 source, or the sender's address of ARP.
    pub ipv4_source: Option<Prefix4>,
    /// The IPv4 destination, or the target's address of ARP.
    pub ipv4_destination: Option<Prefix4>,
    /// The IPv6 source.
    pub ipv6_source: Option<Prefix6>,
    /// The IPv6 destination.
    pub ipv6_destination: Option<Prefix6>,
    /// The IP protocol; with neither address nor ethertype, of IPv4 and of IPv6.
    pub protocol: Option<u8>,
    /// Source ports of TCP, UDP or SCTP.
    pub port_source: Option<RangeInclusive<u16>>,
    /// Destination ports of TCP, UDP or SCTP.
    pub port_destination: Option<RangeInclusive<u16>>,
}

/// Cubes of a slice at most.
pub(crate) const MOST_CUBES: usize = 4096;

/// Why something cannot be a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It contradicts itself.
    Contradiction(&'static str),
    /// It has more cubes than a slice may have.
    TooFine,
}

use Unusable::Contradiction;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn prefix_mask(bits: u32, length: u8) -> u128 {
    let full = u128::MAX >> (128 - bits);
    // Of 128 bits a shift by 128 is none, and every bit counts.
    full & !(full.checked_shr(u32::from(length)).unwrap_or(0))
}

/// The prefixes that make up a range: at most 30 of 16 bits.
pub(crate) fn prefixes(range: &RangeInclusive<u16>) -> Vec<(u128, u128)> {
    let (mut from, to) = (u32::from(*range.start()), u32::from(*range.end()));
    let mut all = vec![];
    while from <= to {
        // Zero has 32 trailing zeros, but a block has 16 bits at most.
        let aligned = if from == 0 { 16 } else { from.trailing_zeros().min(16) };
        // The greatest block that begins here and ends in the range.
        let fits = (to - from + 1).ilog2();
        let block = aligned.min(fits);
        let size = 1u32 << block;
        all.push((u128::from(from), u128::from(0xffff & !(size - 1))));
        from += size;
    }
    all
}

impl Space {
    /// The ethertypes that packets of it have, `[None]` for any.
    fn ethertypes(&self) -> Result<Vec<Option<u16>>, Unusable> {
        let v4 = self.ipv4_source.is_some() || self.ipv4_destination.is_some();
        let v6 = self.ipv6_source.is_some() || self.ipv6_destination.is_some();
        let ip = self.protocol.is_some();
        match (self.ethertype, v4, v6) {
            (_, true, true) => Err(Contradiction("both IPv4 and IPv6 addresses")),
            (Some(IPV4), _, false) | (Some(IPV6), false, _) => Ok(vec![self.ethertype]),
            (Some(ARP), _, false) if !ip => Ok(vec![self.ethertype]),
            (Some(_), false, false) if !ip => Ok(vec![self.ethertype]),
            (Some(_), _, _) => Err(Contradiction("fields that its ethertype does not have")),
            (None, true, false) => Ok(vec![Some(IPV4)]),
            (None, false, true) => Ok(vec![Some(IPV6)]),
            (None, false, false) if ip => Ok(vec![Some(IPV4), Some(IPV6)]),
            (None, false, false) => Ok(vec![None]),
        }
    }

    fn transport(&self) -> Result<Option<(Field, Field)>, Unusable> {
        if self.port_source.is_none() && self.port_destination.is_none() {
            return Ok(None);
        }
        for range in [&self.port_source, &self.port_destination].into_iter().flatten() {
            if range.is_empty() {
                return Err(Contradiction("a range of ports that ends before it begins"));
            }
        }
        match self.protocol {
            Some(6) => Ok(Some((Field::TcpSrc, Field::TcpDst))),
            Some(17) => Ok(Some((Field::UdpSrc, Field::UdpDst))),
            Some(132) => Ok(Some((Field::SctpSrc, Field::SctpDst))),
            _ => Err(Contradiction("ports without a protocol of TCP, UDP or SCTP")),
        }
    }

    fn check(&self) -> Result<(), Unusable> {
        let v4 = [self.ipv4_source, self.ipv4_destination];
        let v6 = [self.ipv6_source, self.ipv6_destination];
        if v4.iter().flatten().any(|prefix| prefix.length > 32)
            || v6.iter().flatten().any(|prefix| prefix.length > 128)
        {
            return Err(Contradiction("a prefix longer than its address"));
        }
        let wide = |vlan: &Vlan| matches!(vlan, Vlan::Id(id) if *id > 0xfff);
        if self.vlans.iter().flatten().any(wide) {
            return Err(Contradiction("a VLAN id above 4095"));
        }
        let reserved =
            |port: &PortNumber| port.0 == 0 || port.is_reserved() && *port != PortNumber::LOCAL;
        if self.ports.iter().flatten().any(reserved) {
            return Err(Contradiction("a port number that no port has"));
        }
        Ok(())
    }

    /// The cubes of it.
    pub(crate) fn cubes(&self) -> Result<Vec<Cube>, Unusable> {
        self.check()?;
        let transport = self.transport()?;
        let mut cubes = vec![];
        for ethertype in self.ethertypes()? {
            cubes.push(self.headers(ethertype));
        }
        if let Some((source, destination)) = transport {
            cubes = spread(cubes, source, self.port_source.as_ref().map(prefixes))?;
            cubes = spread(cubes, destination, self.port_destination.as_ref().map(prefixes))?;
        }
        let vlan = |vlan: &Vlan| match vlan {
            Vlan::Untagged => (0, Field::VlanVid.full()),
            Vlan::Id(id) => (VID_PRESENT | u128::from(*id), Field::VlanVid.full()),
        };
        let vlans = self.vlans.as_ref().map(|all| all.iter().map(vlan).collect());
        cubes = spread(cubes, Field::VlanVid, vlans)?;
        let port = |port: &PortNumber| (u128::from(port.0), Field::InPort.full());
        let ports = self.ports.as_ref().map(|all| all.iter().map(port).collect());
        spread(cubes, Field::InPort, ports)
    }

    /// Everything but what is a choice.
    fn headers(&self, ethertype: Option<u16>) -> Cube {
        let mut cube = Cube::default();
        for (field, mac) in
            [(Field::EthSrc, self.mac_source), (Field::EthDst, self.mac_destination)]
        {
            if let Some(mac) = mac {
                cube.restrict(field, number(&mac.address), number(&mac.mask));
            }
        }
        if let Some(ethertype) = ethertype {
            cube.restrict(Field::EthType, u128::from(ethertype), u128::MAX);
        }
        if let Some(protocol) = self.protocol {
            cube.restrict(Field::IpProto, u128::from(protocol), u128::MAX);
        }
        let [source, destination] = match ethertype {
            Some(ARP) => [Field::ArpSpa, Field::ArpTpa],
            _ => [Field::Ipv4Src, Field::Ipv4Dst],
        };
        for (field, prefix) in [(source, self.ipv4_source), (destination, self.ipv4_destination)] {
            if let Some(prefix) = prefix {
                cube.restrict(field, number(&prefix.address), prefix_mask(32, prefix.length));
            }
        }
        for (field, prefix) in
            [(Field::Ipv6Src, self.ipv6_source), (Field::Ipv6Dst, self.ipv6_destination)]
        {
            if let Some(prefix) = prefix {
                cube.restrict(field, number(&prefix.address), prefix_mask(128, prefix.length));
            }
        }
        cube
    }
}

/// Each cube with each of the choices.
fn spread(
    cubes: Vec<Cube>,
    field: Field,
    choices: Option<Vec<(u128, u128)>>,
) -> Result<Vec<Cube>, Unusable> {
    let Some(mut choices) = choices else { return Ok(cubes) };
    choices.sort_unstable();
    choices.dedup();
    // Before any is made: products grow fast.
    if cubes.len().saturating_mul(choices.len()) > MOST_CUBES {
        return Err(Unusable::TooFine);
    }
    let mut all = vec![];
    for cube in cubes {
        for (value, mask) in &choices {
            let mut one = cube.clone();
            if one.restrict(field, *value, *mask) {
                all.push(one);
            }
        }
    }
    Ok(all)
}
