//! Matches of one version in the form of the other.
//!
//! From 1.0 to 1.3 nothing is lost but values that no packet can be compared with (a source port without TCP, UDP or
//! ICMP, which 1.0 ignores by its section 3.4). From 1.3 to 1.0 what 1.0 cannot say is left out, so that the result may match
//! more: [`Match::to_10`] says whether it does.

use super::{Field, Match, Match10, Oxm, VID_PRESENT, VLAN_NONE, Wildcards};
use crate::port::PortNumber;

fn mac(bytes: [u8; 6]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn to_mac(number: u128) -> [u8; 6] {
    let mut bytes = [0; 6];
    let all = number.to_be_bytes();
    bytes.copy_from_slice(&all[10..]);
    bytes
}

impl Match {
    /// In the form of 1.3.
    pub fn to_oxm(&self) -> Vec<Oxm> {
        match self {
            Match::Oxm(fields) => fields.clone(),
            Match::V10(fields) => from_10(fields),
        }
    }

    /// In the form of 1.0, and whether that says the same.
    pub fn to_10(&self) -> (Match10, bool) {
        match self {
            Match::V10(fields) => (*fields, true),
            Match::Oxm(fields) => to_10(fields),
        }
    }
}

fn from_10(m: &Match10) -> Vec<Oxm> {
    let counts = |flag| !m.wildcards.has(flag);
    let mut fields = vec![];
    let mut put = |field, value: u128| fields.push(Oxm::exact(field, value));
    if counts(Wildcards::IN_PORT) {
        put(Field::InPort, u128::from(m.in_port.0));
    }
    if counts(Wildcards::DL_SRC) {
        put(Field::EthSrc, mac(m.dl_src));
    }
    if counts(Wildcards::DL_DST) {
        put(Field::EthDst, mac(m.dl_dst));
    }
    if counts(Wildcards::DL_TYPE) {
        put(Field::EthType, u128::from(m.dl_type));
    }
    vlan_from_10(m, &mut fields);
    if counts(Wildcards::DL_TYPE) {
        match m.dl_type {
            0x0800 => {
                address(Field::Ipv4Src, m.nw_src, m.wildcards.source_mask(), &mut fields);
                address(Field::Ipv4Dst, m.nw_dst, m.wildcards.destination_mask(), &mut fields);
                ip_from_10(m, &mut fields);
            }
            // 1.0 says nothing of IPv6; what both have is compared, as other switches do.
            0x86dd => ip_from_10(m, &mut fields),
            0x0806 | 0x8035 => arp_from_10(m, &mut fields),
            // 1.0 ignores fields of a network layer that the ethertype does not have (section 3.4).
            _ => {}
        }
    }
    fields
}

fn vlan_from_10(m: &Match10, fields: &mut Vec<Oxm>) {
    let vid = !m.wildcards.has(Wildcards::DL_VLAN);
    let pcp = !m.wildcards.has(Wildcards::DL_VLAN_PCP);
    // A frame without a tag has no priority to compare.
    if vid && m.dl_vlan == VLAN_NONE {
        fields.push(Oxm::exact(Field::VlanVid, 0));
        return;
    }
    match (vid, pcp) {
        (true, _) => {
            let value = VID_PRESENT | u128::from(m.dl_vlan & 0xfff);
            fields.push(Oxm::exact(Field::VlanVid, value));
        }
        // A priority needs a tag of any id (prerequisite of OXM_OF_VLAN_PCP).
        (false, true) => fields.push(Oxm::masked(Field::VlanVid, VID_PRESENT, VID_PRESENT)),
        (false, false) => {}
    }
    if pcp {
        fields.push(Oxm::exact(Field::VlanPcp, u128::from(m.dl_vlan_pcp & 7)));
    }
}

/// An address with a mask, unless the mask is empty.
fn address(field: Field, value: u32, mask: u32, fields: &mut Vec<Oxm>) {
    // 1.3 refuses a value outside its mask (OFPBMC_BAD_WILDCARDS), 1.0 ignores it.
    let (value, mask) = (u128::from(value & mask), u128::from(mask));
    match mask {
        0 => {}
        _ if mask == field.full() => fields.push(Oxm::exact(field, value)),
        _ => fields.push(Oxm::masked(field, value, mask)),
    }
}

fn ip_from_10(m: &Match10, fields: &mut Vec<Oxm>) {
    let counts = |flag| !m.wildcards.has(flag);
    if counts(Wildcards::NW_TOS) {
        fields.push(Oxm::exact(Field::IpDscp, u128::from(m.nw_tos >> 2)));
    }
    if !counts(Wildcards::NW_PROTO) {
        return;
    }
    fields.push(Oxm::exact(Field::IpProto, u128::from(m.nw_proto)));
    let (source, destination) = match m.nw_proto {
        1 if m.dl_type == 0x0800 => (Field::Icmpv4Type, Field::Icmpv4Code),
        58 if m.dl_type == 0x86dd => (Field::Icmpv6Type, Field::Icmpv6Code),
        6 => (Field::TcpSrc, Field::TcpDst),
        17 => (Field::UdpSrc, Field::UdpDst),
        132 => (Field::SctpSrc, Field::SctpDst),
        _ => return,
    };
    if counts(Wildcards::TP_SRC) {
        // 1.0 keeps the type and code of ICMP in 16 bits, too.
        fields.push(Oxm::exact(source, u128::from(m.tp_src) & source.full()));
    }
    if counts(Wildcards::TP_DST) {
        fields.push(Oxm::exact(destination, u128::from(m.tp_dst) & destination.full()));
    }
}

fn arp_from_10(m: &Match10, fields: &mut Vec<Oxm>) {
    if !m.wildcards.has(Wildcards::NW_PROTO) {
        fields.push(Oxm::exact(Field::ArpOp, u128::from(m.nw_proto)));
    }
    address(Field::ArpSpa, m.nw_src, m.wildcards.source_mask(), fields);
    address(Field::ArpTpa, m.nw_dst, m.wildcards.destination_mask(), fields);
}

/// The low bits of a number; conversions here are of fields at most that wide.
fn low16(value: u128) -> u16 {
    u16::try_from(value & 0xffff).unwrap_or(0)
}

fn low8(value: u128) -> u8 {
    u8::try_from(value & 0xff).unwrap_or(0)
}

fn low32(value: u128) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(0)
}

fn to_10(fields: &[Oxm]) -> (Match10, bool) {
    let mut m = Match10::default();
    let mut prefixes = (0, 0);
    let mut same = true;
    for oxm in fields {
        same &= field_to_10(oxm, &mut m, &mut prefixes);
    }
    m.wildcards = m.wildcards.with_prefixes(prefixes.0, prefixes.1);
    (m, same)
}

/// Adds a field; returns whether 1.0 can say it.
fn field_to_10(oxm: &Oxm, m: &mut Match10, prefixes: &mut (u32, u32)) -> bool {
    let value = oxm.value;
    let prefix = low32(oxm.bits()).leading_ones();
    // 1.0 says masks by a number of ignored low bits: only prefixes can be said.
    let is_prefix = low32(oxm.bits()).count_ones() == prefix;
    let counts = match oxm.field {
        Field::Ipv4Src | Field::ArpSpa if is_prefix => {
            (m.nw_src, prefixes.0) = (low32(value), prefix);
            return true;
        }
        Field::Ipv4Dst | Field::ArpTpa if is_prefix => {
            (m.nw_dst, prefixes.1) = (low32(value), prefix);
            return true;
        }
        // Any tag: said by the priority that follows it.
        Field::VlanVid if oxm.bits() == VID_PRESENT && value == VID_PRESENT => return false,
        _ if !oxm.is_exact() => return false,
        Field::InPort => {
            let port = PortNumber(low32(value));
            // Numbers above 0xff00 are reserved in 1.0, and have 16 bits.
            if port.to_10().is_none() {
                return false;
            }
            m.in_port = port;
            Wildcards::IN_PORT
        }
        Field::EthSrc => {
            m.dl_src = to_mac(value);
            Wildcards::DL_SRC
        }
        Field::EthDst => {
            m.dl_dst = to_mac(value);
            Wildcards::DL_DST
        }
        Field::EthType => {
            m.dl_type = low16(value);
            Wildcards::DL_TYPE
        }
        Field::VlanVid => {
            m.dl_vlan = if value == 0 { VLAN_NONE } else { low16(value & 0xfff) };
            Wildcards::DL_VLAN
        }
        Field::VlanPcp => {
            m.dl_vlan_pcp = low8(value);
            Wildcards::DL_VLAN_PCP
        }
        Field::IpDscp => {
            // The upper six bits of the byte, as the header has them.
            m.nw_tos = low8(value) << 2;
            Wildcards::NW_TOS
        }
        // 1.0 has eight bits for both: the protocol, or the lower half of ARP's operation.
        Field::IpProto | Field::ArpOp if value < 256 => {
            m.nw_proto = low8(value);
            Wildcards::NW_PROTO
        }
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc | Field::Icmpv4Type | Field::Icmpv6Type => {
            m.tp_src = low16(value);
            Wildcards::TP_SRC
        }
        Field::TcpDst | Field::UdpDst | Field::SctpDst | Field::Icmpv4Code | Field::Icmpv6Code => {
            m.tp_dst = low16(value);
            Wildcards::TP_DST
        }
        _ => return false,
    };
    m.wildcards = m.wildcards.without(counts);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let wildcards = Wildcards(0).with_prefixes(24, 32);
        for (dl_type, nw_proto) in [(0x0800, 6), (0x0800, 17), (0x0800, 132), (0x0800, 1)] {
            let m = Match10 {
                wildcards,
                in_port: PortNumber::LOCAL,
                dl_src: [1, 2, 3, 4, 5, 6],
                dl_dst: [6, 5, 4, 3, 2, 1],
                dl_vlan: 100,
                dl_vlan_pcp: 3,
                dl_type,
                nw_tos: 0xb8,
                nw_proto,
                nw_src: 0x0a00_0100,
                nw_dst: 0x0a00_0201,
                tp_src: 8,
                tp_dst: 0,
            };
            let fields = Match::V10(m).to_oxm();
            assert_eq!(super::super::check(&fields), Ok(()));
            assert_eq!(Match::Oxm(fields).to_10(), (m, true));
        }
    }

    #[test]
    fn what_1_0_cannot_say_is_left_out_and_told() {
        let fields = vec![Oxm::exact(Field::EthType, 0x86dd), Oxm::exact(Field::Ipv6Src, 1)];
        let (m, same) = Match::Oxm(fields).to_10();
        assert!(!same);
        assert_eq!(Match::V10(m).to_oxm(), [Oxm::exact(Field::EthType, 0x86dd)]);
    }

    #[test]
    fn no_vlan_and_any_vlan() {
        let none = Match10 {
            wildcards: Wildcards::ALL.without(Wildcards::DL_VLAN),
            dl_vlan: VLAN_NONE,
            ..Match10::default()
        };
        assert_eq!(Match::V10(none).to_oxm(), [Oxm::exact(Field::VlanVid, 0)]);
        let priority = Match10 {
            wildcards: Wildcards::ALL.without(Wildcards::DL_VLAN_PCP),
            dl_vlan_pcp: 5,
            ..Match10::default()
        };
        let expected = [Oxm::masked(Field::VlanVid, 0x1000, 0x1000), Oxm::exact(Field::VlanPcp, 5)];
        assert_eq!(Match::V10(priority).to_oxm(), expected);
    }
}
