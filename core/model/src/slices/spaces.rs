//! Spaces of the file as spaces of source and destination, which proofs are about.
//!
//! A space of the file names the ends of conversations: each end may be source or destination, so there is a space of
//! `netloom-slicing` for each direction, and for each choice from the lists. A prefix of IPv4 is about ARP, too, unless a
//! protocol, ports or an ethertype say otherwise.

use ipnet::IpNet;
use netloom_openflow::PortNumber;
use netloom_slicing::{MacMask, Prefix4, Prefix6, Space, Vlan};

use super::{MOST_SPACES, Ports, SliceSpace, SpaceEnd, Vlans};

const ARP: u16 = 0x0806;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Transport ports of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transport {
    protocol: u8,
    ports: Ports,
}

/// One choice from the lists of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    mac: Option<[u8; 6]>,
    prefix: Option<IpNet>,
    transport: Option<Transport>,
}

/// The items of a list; without any, one choice that says nothing.
fn choices<T: Copy>(list: &[T]) -> Vec<Option<T>> {
    if list.is_empty() { vec![None] } else { list.iter().copied().map(Some).collect() }
}

impl SpaceEnd {
    fn sides(&self) -> Vec<Side> {
        let with = |protocol: u8| move |ports: &Ports| Transport { protocol, ports: *ports };
        let transports: Vec<Transport> =
            self.tcp.iter().map(with(TCP)).chain(self.udp.iter().map(with(UDP))).collect();
        let mut sides = vec![];
        for mac in choices(&self.macs) {
            for prefix in choices(&self.prefixes) {
                for transport in choices(&transports) {
                    sides.push(Side { mac, prefix, transport });
                }
            }
        }
        sides
    }

    fn count(&self) -> usize {
        let transports = self.tcp.len() + self.udp.len();
        self.macs.len().max(1) * self.prefixes.len().max(1) * transports.max(1)
    }
}

impl SliceSpace {
    /// The spaces that it stands for; `number` is that of a port by its name.
    ///
    /// # Errors
    /// In words: there are too many, or what it says of its ends contradicts itself.
    pub fn spaces(
        &self,
        mut number: impl FnMut(&str) -> Option<u32>,
    ) -> Result<Vec<Space>, String> {
        // Counted before any is made: lists multiply. Two directions, each with ARP, are the four.
        if self.end.count().saturating_mul(self.peer.count()) > MOST_SPACES / 4 {
            return Err(format!("its lists stand for more than {MOST_SPACES} spaces"));
        }
        let ports = self.ports.as_ref().map(|ports| {
            ports.iter().filter_map(|port| number(port)).map(PortNumber).collect::<Vec<_>>()
        });
        let base = Space {
            ports,
            vlans: self.vlans(),
            ethertype: self.ethertype,
            protocol: self.protocol,
            ..Space::default()
        };
        let mut all: Vec<Space> = vec![];
        for one in self.end.sides() {
            for other in self.peer.sides() {
                for (source, destination) in [(one, other), (other, one)] {
                    for space in between(&base, source, destination)? {
                        // Equal ends give the same space for both directions.
                        if !all.contains(&space) {
                            all.push(space);
                        }
                    }
                }
            }
        }
        if all.is_empty() {
            return Err("IPv4 at one end and IPv6 at the other".to_owned());
        }
        Ok(all)
    }

    fn vlans(&self) -> Option<Vec<Vlan>> {
        let vlan = |vlans: &Vlans| match *vlans {
            Vlans::Untagged => vec![Vlan::Untagged],
            Vlans::Range { from, to } => (from..=to).map(Vlan::Id).collect(),
        };
        (!self.vlans.is_empty()).then(|| self.vlans.iter().flat_map(vlan).collect())
    }
}

/// The spaces with this source and this destination: none where one is IPv4 and the other IPv6.
fn between(base: &Space, source: Side, destination: Side) -> Result<Vec<Space>, String> {
    let mut space = base.clone();
    let mac = |address: [u8; 6]| MacMask { address, mask: [0xff; 6] };
    space.mac_source = source.mac.map(mac);
    space.mac_destination = destination.mac.map(mac);
    for transport in [source.transport, destination.transport].into_iter().flatten() {
        match space.protocol.replace(transport.protocol) {
            Some(other) if other != transport.protocol => {
                // TCP here and UDP there is no conversation.
                return if base.protocol.is_some() {
                    Err("`tcp` and `udp` say another protocol than `protocol`".to_owned())
                } else {
                    Ok(vec![])
                };
            }
            _ => {}
        }
    }
    let ports =
        |side: Side| side.transport.map(|transport| transport.ports.from..=transport.ports.to);
    (space.port_source, space.port_destination) = (ports(source), ports(destination));
    let sides = [source.prefix, destination.prefix];
    let v4 = |prefix: Option<IpNet>| match prefix {
        Some(IpNet::V4(net)) => {
            Some(Prefix4 { address: net.addr().octets(), length: net.prefix_len() })
        }
        _ => None,
    };
    let v6 = |prefix: Option<IpNet>| match prefix {
        Some(IpNet::V6(net)) => {
            Some(Prefix6 { address: net.addr().octets(), length: net.prefix_len() })
        }
        _ => None,
    };
    [space.ipv4_source, space.ipv4_destination] = sides.map(v4);
    [space.ipv6_source, space.ipv6_destination] = sides.map(v6);
    let is_v4 = space.ipv4_source.is_some() || space.ipv4_destination.is_some();
    let is_v6 = space.ipv6_source.is_some() || space.ipv6_destination.is_some();
    if is_v4 && is_v6 {
        return Ok(vec![]);
    }
    if is_v4 && space.ethertype.is_none() && space.protocol.is_none() {
        let arp = Space { ethertype: Some(ARP), ..space.clone() };
        return Ok(vec![space, arp]);
    }
    Ok(vec![space])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(text: &str) -> SliceSpace {
        let text = format!("switches: {{s: {{}}}}\nslices: {{a: {{switches: {{s: {text}}}}}}}\n");
        let file = crate::slices::policy("f", text.as_bytes()).expect("a file");
        file.slices[0].switches["s"][0].clone()
    }

    fn spaces(text: &str) -> Vec<Space> {
        space(text).spaces(|port| port.parse().ok()).expect("spaces")
    }

    #[test]
    fn an_end_is_source_or_destination() {
        let both = spaces("{tcp: 80}");
        assert_eq!(both.len(), 2);
        assert!(both.iter().all(|space| space.protocol == Some(TCP)));
        assert_eq!(both[0].port_source, Some(80..=80));
        assert_eq!(both[1].port_destination, Some(80..=80));
        assert_eq!(spaces("{ports: [1, 2], vlan: [untagged, 7..8]}").len(), 1);
        // The same for both ends is one space, and IPv4 has ARP beside it.
        let within = spaces("{within: 10.0.0.0/8}");
        assert_eq!(within.len(), 2);
        assert_eq!(within[1].ethertype, Some(ARP));
        assert_eq!(within[0].ipv4_source, within[0].ipv4_destination);
        assert_eq!(spaces("{within: 'fd00::/8'}").len(), 1);
    }

    #[test]
    fn lists_are_spread_and_families_do_not_mix() {
        let all = spaces(
            "{prefix: [10.1.0.0/16, 'fd01::/16'], peer: {prefix: [10.2.0.0/16, 'fd02::/16']}}",
        );
        // Two directions; IPv4 with ARP.
        assert_eq!(all.len(), 6);
        assert_eq!(spaces("{tcp: [80, 443], peer: {udp: 53, tcp: 1024..65535}}").len(), 4);
        let mixed = space("{ethertype: arp}");
        let mixed = SliceSpace {
            end: space("{prefix: 10.0.0.0/8}").end,
            peer: space("{prefix: 'fd00::/8'}").end,
            ..mixed
        };
        assert!(mixed.spaces(|_| None).is_err());
    }
}
