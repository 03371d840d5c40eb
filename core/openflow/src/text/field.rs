//! Fields of matches as text.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Result, number, port, unknown, wrong};
use crate::matching::VID_PRESENT;
use crate::{Field, Match, Oxm};

/// Words that stand for a protocol: ethertype and IP protocol.
/// Of two that mean the same, the first is printed.
const PROTOCOLS: [(&str, u128, Option<u128>); 15] = [
    ("ip", 0x0800, None),
    ("ipv4", 0x0800, None),
    ("icmp", 0x0800, Some(1)),
    ("tcp", 0x0800, Some(6)),
    ("udp", 0x0800, Some(17)),
    ("sctp", 0x0800, Some(132)),
    ("ipv6", 0x86dd, None),
    ("icmp6", 0x86dd, Some(58)),
    ("tcp6", 0x86dd, Some(6)),
    ("udp6", 0x86dd, Some(17)),
    ("sctp6", 0x86dd, Some(132)),
    ("arp", 0x0806, None),
    ("rarp", 0x8035, None),
    ("mpls", 0x8847, None),
    ("mplsm", 0x8848, None),
];

/// Other names of fields.
const NAMES: [(&str, Field); 24] = [
    ("dl_src", Field::EthSrc),
    ("dl_dst", Field::EthDst),
    ("dl_type", Field::EthType),
    ("dl_vlan_pcp", Field::VlanPcp),
    ("nw_src", Field::Ipv4Src),
    ("nw_dst", Field::Ipv4Dst),
    ("ip_src", Field::Ipv4Src),
    ("ip_dst", Field::Ipv4Dst),
    ("nw_proto", Field::IpProto),
    ("nw_ecn", Field::IpEcn),
    ("ipv6_label", Field::Ipv6Flabel),
    ("nd_target", Field::Ipv6NdTarget),
    ("nd_sll", Field::Ipv6NdSll),
    ("nd_tll", Field::Ipv6NdTll),
    ("tun_id", Field::TunnelId),
    ("icmp6_type", Field::Icmpv6Type),
    ("icmp6_code", Field::Icmpv6Code),
    ("tcp6_src", Field::TcpSrc),
    ("tcp6_dst", Field::TcpDst),
    ("udp6_src", Field::UdpSrc),
    ("udp6_dst", Field::UdpDst),
    ("sctp6_src", Field::SctpSrc),
    ("sctp6_dst", Field::SctpDst),
    ("in_port_oxm", Field::InPort),
];

/// The field of a name.
pub(super) fn named(name: &str) -> Option<Field> {
    let other = NAMES.iter().find(|(other, _)| *other == name).map(|(_, field)| *field);
    Field::from_name(name).or(other)
}

/// How a field's values are written.
fn is_mac(field: Field) -> bool {
    field.bits() == 48
}

fn is_v4(field: Field) -> bool {
    matches!(field, Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa)
}

fn is_v6(field: Field) -> bool {
    field.bits() == 128
}

/// A value in the way of its field.
pub(super) fn value(field: Field, key: &str, text: &str) -> Result<u128> {
    if is_mac(field) {
        return mac(text).map_or_else(|| wrong(key, text, "MAC address"), Ok);
    }
    if is_v4(field) {
        let address = text.parse::<Ipv4Addr>().map(|address| u128::from(u32::from(address)));
        return address.or_else(|_| wrong(key, text, "IPv4 address"));
    }
    if is_v6(field) {
        let address = text.parse::<Ipv6Addr>().map(u128::from);
        return address.or_else(|_| wrong(key, text, "IPv6 address"));
    }
    if field == Field::InPort {
        return Ok(u128::from(port(key, text)?.0));
    }
    let value: u128 = number(key, text)?;
    if value > field.full() { wrong(key, text, "number of its size") } else { Ok(value) }
}

pub(super) fn mac(text: &str) -> Option<u128> {
    let bytes: Vec<&str> = text.split(':').collect();
    if bytes.len() != 6 {
        return None;
    }
    bytes.iter().try_fold(0, |number, byte| {
        (1..=2).contains(&byte.len()).then_some(())?;
        Some(number << 8 | u128::from(u8::from_str_radix(byte, 16).ok()?))
    })
}

/// `value` or `value/mask`; a mask of an address may be a length.
fn masked(field: Field, key: &str, text: &str) -> Result<Option<Oxm>> {
    let Some((text, mask)) = text.split_once('/') else {
        return Ok(Some(Oxm::exact(field, value(field, key, text)?)));
    };
    let value = value(field, key, text)?;
    let length = mask.parse::<u32>().ok().filter(|_| is_v4(field) || is_v6(field));
    let mask = match length {
        Some(length) if length <= field.bits() => {
            // A length of 128 overflows the shift; nothing is left to clear.
            field.full() & !(field.full().checked_shr(length).unwrap_or(0))
        }
        Some(_) => return wrong(key, mask, "length of a prefix"),
        None => self::value(field, key, mask)?,
    };
    if !field.maskable() && mask != field.full() {
        return wrong(key, text, "value without a mask");
    }
    Ok(match mask {
        0 => None,
        _ if mask == field.full() => Some(Oxm::exact(field, value)),
        _ => Some(Oxm::masked(field, value & mask, mask)),
    })
}

/// Fields as they are read, whatever their order.
#[derive(Debug, Default)]
pub(super) struct Fields {
    all: BTreeMap<Field, Oxm>,
    /// Source and destination port, or ICMP type and code, of whatever protocol it is.
    ports: [Option<u16>; 2],
}

impl Fields {
    fn put(&mut self, oxm: Oxm) {
        self.all.insert(oxm.field, oxm);
    }

    pub(super) fn protocol(&self) -> Option<u128> {
        self.all.get(&Field::IpProto).map(|oxm| oxm.value)
    }

    fn is_v6(&self) -> bool {
        self.all.get(&Field::EthType).is_some_and(|oxm| oxm.value == 0x86dd)
    }

    /// A word without a value; returns whether it is known.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let Some((_, ethertype, protocol)) = PROTOCOLS.iter().find(|(name, ..)| *name == word)
        else {
            return false;
        };
        self.put(Oxm::exact(Field::EthType, *ethertype));
        if let Some(protocol) = protocol {
            self.put(Oxm::exact(Field::IpProto, *protocol));
        }
        true
    }

    /// A word with a value.
    pub(super) fn pair(&mut self, key: &str, text: &str) -> Result<()> {
        match key {
            "tp_src" | "icmp_type" => self.ports[0] = Some(number(key, text)?),
            "tp_dst" | "icmp_code" => self.ports[1] = Some(number(key, text)?),
            "nw_tos" => {
                let tos: u8 = number(key, text)?;
                self.put(Oxm::exact(Field::IpDscp, u128::from(tos >> 2)));
            }
            "dl_vlan" => {
                let vid: u16 = number(key, text)?;
                self.put(match vid {
                    // OFP_VLAN_NONE of 1.0: no tag.
                    0xffff => Oxm::exact(Field::VlanVid, 0),
                    vid if vid < 0x1000 => {
                        Oxm::exact(Field::VlanVid, u128::from(vid) | VID_PRESENT)
                    }
                    _ => return wrong(key, text, "VLAN id"),
                });
            }
            "vlan_tci" => self.tci(key, text)?,
            _ => match named(key) {
                Some(field) => {
                    if let Some(oxm) = masked(field, key, text)? {
                        self.put(oxm);
                    }
                }
                None => return unknown(key),
            },
        }
        Ok(())
    }

    /// The whole tag: presence, id and priority, as Open vSwitch has it.
    fn tci(&mut self, key: &str, text: &str) -> Result<()> {
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xffff"));
        let (value, mask): (u16, u16) = (number(key, value)?, number(key, mask)?);
        // The CFI's bit says that there is a tag (`ovs-fields(7)`), as it does in the id of 1.3.
        let (vid, bits) = (u128::from(value & 0x1fff), u128::from(mask & 0x1fff));
        if bits == Field::VlanVid.full() {
            self.put(Oxm::exact(Field::VlanVid, vid));
        } else if bits != 0 {
            self.put(Oxm::masked(Field::VlanVid, vid & bits, bits));
        }
        // A priority needs a tag.
        if mask >> 13 == 7 && vid != 0 {
            self.put(Oxm::exact(Field::VlanPcp, u128::from(value >> 13)));
        }
        Ok(())
    }

    /// All fields, each after what it needs.
    pub(super) fn finish(mut self) -> Result<Vec<Oxm>> {
        let fields = match (self.protocol(), self.is_v6()) {
            (Some(6), _) => Some([Field::TcpSrc, Field::TcpDst]),
            (Some(17), _) => Some([Field::UdpSrc, Field::UdpDst]),
            (Some(132), _) => Some([Field::SctpSrc, Field::SctpDst]),
            (Some(1), false) => Some([Field::Icmpv4Type, Field::Icmpv4Code]),
            (Some(58), true) => Some([Field::Icmpv6Type, Field::Icmpv6Code]),
            _ => None,
        };
        for (index, port) in std::mem::take(&mut self.ports).into_iter().enumerate() {
            let Some(port) = port else { continue };
            let Some(field) = fields.and_then(|fields| fields.get(index).copied()) else {
                return unknown(if index == 0 { "tp_src" } else { "tp_dst" });
            };
            if u128::from(port) > field.full() {
                return wrong(field.name(), &port.to_string(), "number of its size");
            }
            self.put(Oxm::exact(field, u128::from(port)));
        }
        // In 1.0 the addresses of ARP have the names of those of IPv4.
        if self.all.get(&Field::EthType).is_some_and(|oxm| matches!(oxm.value, 0x0806 | 0x8035)) {
            self.rename(Field::Ipv4Src, Field::ArpSpa);
            self.rename(Field::Ipv4Dst, Field::ArpTpa);
            self.rename(Field::IpProto, Field::ArpOp);
        }
        // In order of numbers: a field's prerequisites have lower ones.
        let fields: Vec<Oxm> = self.all.into_values().collect();
        match crate::matching::check(&fields) {
            Ok(()) => Ok(fields),
            Err(_) => Err(super::TextError::Missing { what: "protocol of a field" }),
        }
    }

    fn rename(&mut self, from: Field, to: Field) {
        if let Some(oxm) = self.all.remove(&from) {
            self.put(Oxm { field: to, ..oxm });
        }
    }
}

/// A value in the way of its field.
pub(super) fn print_value(field: Field, value: u128) -> String {
    let bytes = value.to_be_bytes();
    if is_mac(field) {
        let parts: Vec<String> = bytes.iter().skip(10).map(|byte| format!("{byte:02x}")).collect();
        return parts.join(":");
    }
    if is_v4(field) {
        let [.., a, b, c, d] = bytes;
        return Ipv4Addr::new(a, b, c, d).to_string();
    }
    if is_v6(field) {
        return Ipv6Addr::from(value).to_string();
    }
    match field {
        Field::Metadata | Field::TunnelId | Field::EthType | Field::VlanVid => {
            format!("{value:#x}")
        }
        Field::InPort => match u32::try_from(value) {
            Ok(number) => crate::PortNumber(number).to_string(),
            Err(_) => value.to_string(),
        },
        _ => value.to_string(),
    }
}

fn print_field(oxm: &Oxm) -> String {
    let (field, bits) = (oxm.field, oxm.bits());
    let value = print_value(field, oxm.value);
    if oxm.is_exact() {
        return format!("{field}={value}");
    }
    let length = bits.count_ones();
    let prefix = bits == field.full() & !(field.full().checked_shr(length).unwrap_or(0));
    if prefix && (is_v4(field) || is_v6(field)) {
        return format!("{field}={value}/{length}");
    }
    format!("{field}={value}/{}", print_value(field, bits))
}

/// A match as text; empty if it is of everything.
pub fn print_match(matching: &Match) -> String {
    let mut fields = matching.to_oxm();
    fields.sort_by_key(|oxm| oxm.field);
    let exact = |field| fields.iter().find(|oxm| oxm.field == field).map(|oxm| oxm.value);
    let (ethertype, protocol) = (exact(Field::EthType), exact(Field::IpProto));
    let word = |wanted: Option<u128>| {
        PROTOCOLS.iter().find(|(_, e, p)| Some(*e) == ethertype && *p == wanted)
    };
    let known = word(protocol).or_else(|| word(None));
    let mut all = vec![];
    if let Some((name, ..)) = known {
        all.push((*name).to_owned());
    }
    let said = |oxm: &Oxm| match (oxm.field, known) {
        (Field::EthType, Some(_)) => true,
        (Field::IpProto, Some((_, _, protocol))) => protocol.is_some(),
        _ => false,
    };
    all.extend(fields.iter().filter(|oxm| !said(oxm)).map(print_field));
    all.join(",")
}
