//! A frame that has given fields: what an explanation is asked about by its fields alone.
//!
//! Headers that the fields need are there; what is not given is zero, but lengths, checksums and TTLs (64), which are right.

use netloom_openflow::matching::VID_PRESENT;
use netloom_openflow::{Action, Field, Oxm, PortNumber};
use netloom_packet::{VnetHeader, checksum};

use crate::headers::{ICMP, ICMPV6, IPV4, IPV6, MPLS, PBB, SCTP, TCP, UDP};
use crate::packet::Packet;

/// An Ethernet type for experiments (IEEE 802), where none is given.
const OTHER: u16 = 0x88b5;
const ARP: [u16; 2] = [0x0806, 0x8035];
const MINIMUM: usize = 60;
const TTL: u8 = 64;

/// The frame. Masked fields have their value.
pub fn frame(fields: &[Oxm]) -> Vec<u8> {
    let value = |field| fields.iter().find(|oxm| oxm.field == field).map(|oxm| oxm.value);
    let short = |field| value(field).and_then(|value| u16::try_from(value).ok());
    let byte = |field| value(field).and_then(|value| u8::try_from(value).ok());
    let ethertype = short(Field::EthType).unwrap_or(OTHER);
    let mut bytes = vec![0; 12];
    if value(Field::VlanVid).is_some_and(|vid| vid & VID_PRESENT != 0) {
        bytes.extend([0x81, 0, 0, 0]);
    }
    bytes.extend(ethertype.to_be_bytes());
    let protocol = byte(Field::IpProto).unwrap_or(0);
    match ethertype {
        IPV4 | IPV6 => {
            let body = transport(protocol, byte(Field::Icmpv6Type).unwrap_or(0));
            ip(&mut bytes, ethertype == IPV6, protocol, &body);
        }
        // The service tag, and the Ethernet header within.
        PBB => bytes.extend([0; 4 + 14]),
        kind if ARP.contains(&kind) => {
            // A request for an IPv4 address over Ethernet (RFC 826).
            bytes.extend([0, 1, 8, 0, 6, 4, 0, 1]);
            bytes.extend([0; 20]);
        }
        // Bottom of the stack (RFC 3032, 2.1).
        kind if MPLS.contains(&kind) => bytes.extend([0, 0, 1, TTL]),
        _ => {}
    }
    bytes.resize(bytes.len().max(MINIMUM), 0);
    let mut packet = Packet::new(&bytes, PortNumber(0));
    for oxm in fields {
        if !matches!(oxm.field, Field::EthType | Field::IpProto) {
            packet.apply(&Action::SetField(*oxm));
        }
    }
    packet.bytes().to_vec()
}

/// A transport header of a protocol; of neighbour discovery with its option.
fn transport(protocol: u8, kind: u8) -> Vec<u8> {
    match protocol {
        TCP => {
            let mut header = vec![0; 20];
            // Its length: five words of four bytes (RFC 9293, 3.1).
            header[12] = 0x50;
            header
        }
        UDP => vec![0, 0, 0, 0, 0, 8, 0, 0],
        SCTP => vec![0; 12],
        ICMP => vec![0; 8],
        ICMPV6 if kind == 135 || kind == 136 => {
            let mut header = vec![0; 32];
            // Source or target link-layer address, one unit of eight bytes.
            [header[0], header[24], header[25]] = [kind, kind - 134, 1];
            header
        }
        ICMPV6 => vec![0; 8],
        _ => vec![],
    }
}

/// An IP header before a body, whose checksum is made right.
fn ip(bytes: &mut Vec<u8>, v6: bool, protocol: u8, body: &[u8]) {
    let start = bytes.len();
    let length = u8::try_from(body.len()).unwrap_or(0);
    if v6 {
        bytes.extend([0x60, 0, 0, 0, 0, length, protocol, TTL]);
        bytes.extend([0; 32]);
    } else {
        bytes.extend([0x45, 0, 0, 20 + length, 0, 0, 0, 0, TTL, protocol, 0, 0]);
        bytes.extend([0; 8]);
        let sum = checksum::checksum(bytes.get(start..).unwrap_or(&[]));
        if let Some(place) = bytes.get_mut(start + 10..start + 12) {
            place.copy_from_slice(&sum.to_be_bytes());
        }
    }
    let at = bytes.len();
    bytes.extend(body);
    let (place, pseudo) = match protocol {
        TCP => (16, true),
        UDP => (6, true),
        ICMP => (2, false),
        ICMPV6 => (2, true),
        _ => return,
    };
    // The addresses are zero.
    let pseudo = if pseudo { u16::from(protocol) + u16::from(length) } else { 0 };
    if let Some(place) = bytes.get_mut(at + place..at + place + 2) {
        place.copy_from_slice(&pseudo.to_be_bytes());
    }
    let header = VnetHeader {
        needs_csum: true,
        csum_start: u16::try_from(at).unwrap_or(0),
        csum_offset: u16::try_from(place).unwrap_or(0),
        ..VnetHeader::default()
    };
    // The place is within the body.
    let _ = checksum::finish(&header, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::parse;
    use crate::key::Pattern;
    use netloom_openflow::flow::FlowCommand;
    use netloom_openflow::{Version, text};

    #[test]
    fn a_frame_has_the_fields_that_were_given() {
        for said in [
            "dl_dst=01:02:03:04:05:06,dl_src=0a:00:00:00:00:01",
            "dl_vlan=5,dl_vlan_pcp=3",
            "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=9,tp_dst=80",
            "udp,dl_vlan=7,nw_dst=10.0.0.0/8,tp_dst=53,nw_ecn=1",
            "sctp,tp_dst=5",
            "icmp,icmp_type=8,icmp_code=1",
            "arp,arp_op=2,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_sha=02:00:00:00:00:01",
            "tcp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_dst=443,ipv6_label=5",
            "udp6,ipv6_dst=fd00::/16,tp_src=1",
            "icmp6,icmp_type=135,nd_target=fd00::9,nd_sll=02:00:00:00:00:01",
            "icmp6,icmp_type=136,nd_target=fd00::9,nd_tll=02:00:00:00:00:01",
            "icmp6,icmp_type=128",
            "mpls,mpls_label=77,mpls_tc=3,mpls_bos=1",
            "dl_type=0x88e7,pbb_isid=9",
            "dl_type=0x1234",
        ] {
            let change = text::flow(FlowCommand::Delete, said, Version::V13).unwrap();
            let fields = change.matching.to_oxm();
            let bytes = frame(&fields);
            let (headers, key) = parse(&bytes);
            assert!(Pattern::new(&fields).matches(&key), "{said}: {key:?}");
            if let Ok(view) = netloom_packet::Headers::parse(&bytes)
                && let Some(ip) = view.ip
                && [TCP, UDP].contains(&ip.protocol)
            {
                assert!(checksum::verifies(&bytes, headers.network, &ip), "{said}");
            }
        }
    }
}
