//! A packet on its way through the tables: its bytes, what goes with it, and every change that an action makes.
//!
//! Checksums are updated by difference (RFC 1624), so that a wrong one stays wrong; that of SCTP is computed
//! again. A change of something that the packet does not have changes nothing (section 5.12).

use netloom_openflow::matching::VID_PRESENT;
use netloom_openflow::{Action, Field, Oxm, PortNumber};
use netloom_packet::checksum::{add, fold};

use crate::crc32c::crc32c;
use crate::headers::{Headers, ICMP, ICMPV6, Ip, MPLS, PBB, SCTP, TCP, UDP, be16, be32, parse};
use crate::key::{FlowKey, low};

/// A packet and what goes with it.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    bytes: Vec<u8>,
    headers: Headers,
    key: FlowKey,
    /// The queue for outputs that follow.
    pub(crate) queue: Option<u32>,
}

/// Bytes of a header of IPv4 without options.
const IPV4_HEADER: usize = 20;

/// The least bytes of an Ethernet frame without its checksum.
const MINIMUM: usize = 60;

/// The low byte of a number.
fn byte(value: u128) -> u8 {
    value.to_be_bytes()[15]
}

impl Packet {
    pub(crate) fn new(bytes: &[u8], in_port: PortNumber) -> Packet {
        let mut packet = Packet {
            bytes: bytes.to_vec(),
            headers: Headers::default(),
            key: FlowKey::default(),
            queue: None,
        };
        packet.key.set(Field::InPort, u128::from(in_port.0));
        // No port is a bundle or a tunnel, so its physical port is the port itself.
        packet.key.set(Field::InPhyPort, u128::from(in_port.0));
        packet.reparse();
        packet
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its key.
    pub(crate) fn key(&self) -> &FlowKey {
        &self.key
    }

    /// The port it came in by.
    pub(crate) fn in_port(&self) -> PortNumber {
        PortNumber(u32::try_from(self.key.get(Field::InPort)).unwrap_or(0))
    }

    /// Sets the masked bits of the metadata.
    pub(crate) fn write_metadata(&mut self, value: u64, mask: u64) {
        let old = low(self.key.get(Field::Metadata));
        self.key.set(Field::Metadata, u128::from(old & !mask | value & mask));
    }

    fn reparse(&mut self) {
        let (headers, key) = parse(&self.bytes);
        let own = [Field::InPort, Field::InPhyPort, Field::Metadata, Field::TunnelId];
        let old = std::mem::replace(&mut self.key, key);
        // These come with the packet, not from its bytes.
        for field in own {
            self.key.set(field, old.get(field));
        }
        self.headers = headers;
    }

    /// Does an action that changes the packet; returns whether its TTL was valid.
    pub(crate) fn apply(&mut self, action: &Action) -> bool {
        let mut valid = true;
        match action {
            Action::SetField(oxm) => self.set_field(oxm),
            Action::SetVlanVid(vid) => self.set_tag(u128::from(*vid) | VID_PRESENT, None),
            Action::SetVlanPcp(pcp) => self.set_tag(VID_PRESENT, Some(*pcp)),
            Action::StripVlan | Action::PopVlan => self.pop_vlan(),
            Action::SetDlSrc(address) => self.write(6, address, &[]),
            Action::SetDlDst(address) => self.write(0, address, &[]),
            Action::SetNwSrc(address) => self.set_v4(Field::Ipv4Src, *address),
            Action::SetNwDst(address) => self.set_v4(Field::Ipv4Dst, *address),
            Action::SetNwTos(tos) => self.set_ip_tos(|old| tos & 0xfc | old & 3),
            Action::SetTpSrc(port) => self.set_port(0, *port, &[TCP, UDP, SCTP, ICMP]),
            Action::SetTpDst(port) => self.set_port(2, *port, &[TCP, UDP, SCTP, ICMP]),
            Action::PushVlan(ethertype) => self.push_vlan(*ethertype),
            Action::PushMpls(ethertype) => self.push_mpls(*ethertype),
            Action::PopMpls(ethertype) => self.pop_mpls(*ethertype),
            Action::PushPbb(ethertype) => self.push_pbb(*ethertype),
            Action::PopPbb => self.pop_pbb(),
            Action::SetMplsTtl(ttl) => self.set_mpls_ttl(*ttl),
            Action::SetNwTtl(ttl) => self.set_ip_ttl(*ttl),
            Action::DecMplsTtl => valid = self.decrement(self.mpls_ttl_at()),
            Action::DecNwTtl => valid = self.decrement(self.ip_ttl_at()),
            Action::CopyTtlOut => self.copy_ttl(false),
            Action::CopyTtlIn => self.copy_ttl(true),
            Action::SetQueue(queue) => self.queue = Some(*queue),
            Action::Output { .. }
            | Action::Enqueue { .. }
            | Action::Group(_)
            | Action::Experimenter { .. } => return true,
        }
        self.reparse();
        valid
    }

    /// Writes bytes; each sum is updated.
    fn write(&mut self, at: usize, new: &[u8], sums: &[Sum]) {
        let end = at + new.len();
        if self.bytes.len() < end {
            return;
        }
        let words = |bytes: &[u8], sum: &Sum| {
            // Whole words of the checksum around the change.
            let from = at - ((at + sum.base) & 1).min(at);
            let to = (end + ((end + sum.base) & 1)).min(bytes.len());
            u64::from(fold(add(0, bytes.get(from..to).unwrap_or(&[]))))
        };
        let old: Vec<u64> = sums.iter().map(|sum| words(&self.bytes, sum)).collect();
        if let Some(place) = self.bytes.get_mut(at..end) {
            place.copy_from_slice(new);
        }
        for (sum, old) in sums.iter().zip(old) {
            let Some(field) = be16(&self.bytes, sum.field) else { continue };
            // RFC 768: zero says that the sender computed none, so there is none to update.
            if sum.udp && field == 0 {
                continue;
            }
            let new = words(&self.bytes, sum);
            // Equation 3 of RFC 1624; the simpler one of RFC 1141 can yield a wrong zero.
            let mut value = !fold(u64::from(!field) + (old ^ 0xffff) + new);
            // RFC 768: a computed zero is sent as all ones.
            if sum.udp && value == 0 {
                value = 0xffff;
            }
            if let Some(place) = self.bytes.get_mut(sum.field..sum.field + 2) {
                place.copy_from_slice(&value.to_be_bytes());
            }
        }
    }

    /// The checksum of the transport header.
    fn transport_sum(&self, ip: &Ip) -> Option<Sum> {
        let at = ip.transport?;
        // RFC 9293, 3.1; RFC 768; RFC 792; RFC 4443, 2.1.
        let offset = match ip.protocol {
            TCP => 16,
            UDP => 6,
            ICMP if !ip.v6 => 2,
            ICMPV6 if ip.v6 => 2,
            _ => return None,
        };
        let field = at + offset;
        (field + 2 <= ip.end).then_some(Sum { field, base: at, udp: ip.protocol == UDP })
    }

    /// The transport checksum, if it covers the IP addresses; `base` is that of what changes in the IP header.
    fn pseudo_sum(&self, ip: &Ip, base: usize) -> Option<Sum> {
        let sum = self.transport_sum(ip)?;
        // Of these protocols only ICMP of IPv4 has no pseudo-header in its sum (RFC 792; RFC 4443, 2.3).
        (ip.v6 || ip.protocol != ICMP).then_some(Sum { base, ..sum })
    }

    fn header_sum(&self, ip: &Ip) -> Option<Sum> {
        (!ip.v6).then_some(Sum { field: ip.start + 10, base: ip.start, udp: false })
    }

    fn set_field(&mut self, oxm: &Oxm) {
        let value = oxm.value;
        let bytes = value.to_be_bytes();
        let mac: &[u8] = &bytes[10..];
        match oxm.field {
            Field::TunnelId => self.key.set(Field::TunnelId, value),
            Field::EthDst => self.write(0, mac, &[]),
            Field::EthSrc => self.write(6, mac, &[]),
            Field::EthType => self.write(self.headers.ethertype_at, &bytes[14..], &[]),
            Field::VlanVid => self.set_present_tag(|tci| tci & 0xf000 | low16(value) & 0xfff),
            Field::VlanPcp => self.set_present_tag(|tci| tci & 0x1fff | low16(value) << 13),
            Field::IpDscp => self.set_ip_tos(|old| byte(value) << 2 | old & 3),
            Field::IpEcn => self.set_ip_tos(|old| old & 0xfc | byte(value) & 3),
            Field::IpProto => self.set_protocol(byte(value)),
            Field::Ipv4Src | Field::Ipv4Dst => self.set_v4(oxm.field, low32(value)),
            Field::Ipv6Src => self.set_v6(8, &bytes),
            Field::Ipv6Dst => self.set_v6(24, &bytes),
            Field::Ipv6Flabel => self.set_flabel(low32(value)),
            Field::TcpSrc => self.set_port(0, low16(value), &[TCP]),
            Field::TcpDst => self.set_port(2, low16(value), &[TCP]),
            Field::UdpSrc => self.set_port(0, low16(value), &[UDP]),
            Field::UdpDst => self.set_port(2, low16(value), &[UDP]),
            Field::SctpSrc => self.set_port(0, low16(value), &[SCTP]),
            Field::SctpDst => self.set_port(2, low16(value), &[SCTP]),
            Field::Icmpv4Type => self.set_icmp(ICMP, 0, &[byte(value)]),
            Field::Icmpv4Code => self.set_icmp(ICMP, 1, &[byte(value)]),
            Field::Icmpv6Type => self.set_icmp(ICMPV6, 0, &[byte(value)]),
            Field::Icmpv6Code => self.set_icmp(ICMPV6, 1, &[byte(value)]),
            Field::Ipv6NdTarget => self.set_icmp(ICMPV6, 8, &bytes),
            Field::Ipv6NdSll => self.set_nd_option(self.headers.nd_sll, mac),
            Field::Ipv6NdTll => self.set_nd_option(self.headers.nd_tll, mac),
            Field::ArpOp => self.set_arp(6, &bytes[14..]),
            Field::ArpSha => self.set_arp(8, mac),
            Field::ArpSpa => self.set_arp(14, &bytes[12..]),
            Field::ArpTha => self.set_arp(18, mac),
            Field::ArpTpa => self.set_arp(24, &bytes[12..]),
            Field::MplsLabel => self.set_label(|old| old & 0xfff | low32(value) << 12),
            Field::MplsTc => self.set_label(|old| old & !0xe00 | low32(value) << 9 & 0xe00),
            Field::MplsBos => self.set_label(|old| old & !0x100 | low32(value) << 8 & 0x100),
            Field::PbbIsid if self.headers.ethertype == PBB => {
                self.write(self.headers.network + 1, &bytes[13..], &[]);
            }
            Field::PbbIsid
            | Field::InPort
            | Field::InPhyPort
            | Field::Metadata
            | Field::Ipv6Exthdr => {}
        }
    }

    fn tci(&self) -> Option<u16> {
        if self.headers.tags == 0 { None } else { be16(&self.bytes, 14) }
    }

    fn set_present_tag(&mut self, change: impl Fn(u16) -> u16) {
        if let Some(tci) = self.tci() {
            self.write(14, &change(tci).to_be_bytes(), &[]);
        }
    }

    /// As 1.0 sets a tag: adds one if there is none. A priority alone leaves the id.
    fn set_tag(&mut self, vid: u128, pcp: Option<u8>) {
        if self.tci().is_none() {
            self.insert(12, &[0x81, 0, 0, 0]);
        }
        self.reparse();
        self.set_present_tag(|tci| match pcp {
            Some(pcp) => tci & 0x1fff | u16::from(pcp) << 13,
            None => tci & 0xf000 | low16(vid) & 0xfff,
        });
    }

    fn insert(&mut self, at: usize, new: &[u8]) {
        if at <= self.bytes.len() {
            self.bytes.splice(at..at, new.iter().copied());
        }
    }

    /// Removes bytes; a frame of Ethernet's minimum stays one.
    fn remove(&mut self, at: usize, count: usize) {
        let before = self.bytes.len();
        if at + count <= before {
            self.bytes.drain(at..at + count);
            let least = if before >= MINIMUM { MINIMUM } else { 0 };
            self.bytes.resize(self.bytes.len().max(least), 0);
        }
    }

    /// A new outermost tag has id and priority of the old one (section 5.12.1).
    fn push_vlan(&mut self, ethertype: u16) {
        let [e0, e1] = ethertype.to_be_bytes();
        let [t0, t1] = self.tci().unwrap_or(0).to_be_bytes();
        self.insert(12, &[e0, e1, t0, t1]);
    }

    fn pop_vlan(&mut self) {
        if self.headers.tags > 0 {
            self.remove(12, 4);
        }
    }

    fn is_mpls(&self) -> bool {
        MPLS.contains(&self.headers.ethertype)
    }

    /// A new label has label, class and TTL of the old one, or of a packet without labels label 0 and the IP TTL.
    fn push_mpls(&mut self, ethertype: u16) {
        let at = self.headers.network;
        let entry = if self.is_mpls() {
            be32(&self.bytes, at).unwrap_or(0) & !0x100
        } else {
            let ttl = self.ip_ttl_at().and_then(|at| self.bytes.get(at)).copied().unwrap_or(0);
            0x100 | u32::from(ttl)
        };
        self.insert(at, &entry.to_be_bytes());
        self.write(self.headers.ethertype_at, &ethertype.to_be_bytes(), &[]);
    }

    fn pop_mpls(&mut self, ethertype: u16) {
        if self.is_mpls() && self.bytes.len() >= self.headers.network + 4 {
            self.remove(self.headers.network, 4);
            self.write(self.headers.ethertype_at, &ethertype.to_be_bytes(), &[]);
        }
    }

    /// The whole frame becomes the content of a new one with its addresses, and the service id of an old service tag.
    fn push_pbb(&mut self, ethertype: u16) {
        let Some(addresses) = self.bytes.first_chunk::<12>().copied() else { return };
        let isid = low32(self.key.get(Field::PbbIsid));
        // The priority of the service tag comes from the VLAN tag, as the table of default values says.
        let pcp = low32(self.key.get(Field::VlanPcp)) << 29;
        let mut head = addresses.to_vec();
        head.extend(ethertype.to_be_bytes());
        head.extend((pcp | isid).to_be_bytes());
        self.insert(0, &head);
    }

    /// Everything up to the end of the service tag goes, with the backbone's addresses and VLAN tag.
    fn pop_pbb(&mut self) {
        // What is left must begin with an Ethernet header, or it is not a frame.
        if self.headers.ethertype == PBB && self.bytes.len() >= self.headers.network + 4 + 14 {
            self.remove(0, self.headers.network + 4);
        }
    }

    fn set_label(&mut self, change: impl Fn(u32) -> u32) {
        if let Some(old) = be32(&self.bytes, self.headers.network).filter(|_| self.is_mpls()) {
            self.write(self.headers.network, &change(old).to_be_bytes(), &[]);
        }
    }

    fn mpls_ttl_at(&self) -> Option<usize> {
        let at = self.headers.network + 3;
        (self.is_mpls() && at < self.bytes.len()).then_some(at)
    }

    fn ip_ttl_at(&self) -> Option<usize> {
        let ip = self.headers.ip?;
        Some(ip.start + if ip.v6 { 7 } else { 8 })
    }

    /// Sets a TTL by its place: an MPLS one has no checksum.
    fn set_ttl(&mut self, at: usize, ttl: u8, ip_header: Option<usize>) {
        let sum = ip_header.map(|start| Sum { field: start + 10, base: start, udp: false });
        self.write(at, &[ttl], sum.as_slice());
    }

    fn set_mpls_ttl(&mut self, ttl: u8) {
        if let Some(at) = self.mpls_ttl_at() {
            self.set_ttl(at, ttl, None);
        }
    }

    fn set_ip_ttl(&mut self, ttl: u8) {
        let (Some(at), Some(ip)) = (self.ip_ttl_at(), self.headers.ip) else { return };
        self.set_ttl(at, ttl, (!ip.v6).then_some(ip.start));
    }

    /// Whether it is an IP packet that a router answers or drops, or that has options of IPv4; an MTU of 0 bounds nothing.
    pub(crate) fn is_for_stack(&self, mtu: u16) -> bool {
        let Some(ip) = self.headers.ip else { return false };
        let expired =
            self.ip_ttl_at().and_then(|at| self.bytes.get(at)).is_none_or(|ttl| *ttl <= 1);
        let options = !ip.v6 && self.bytes.get(ip.start).is_none_or(|first| first & 15 != 5);
        let header = self.bytes.get(ip.start..ip.start + IPV4_HEADER);
        let damaged = !ip.v6 && header.is_none_or(|header| fold(add(0, header)) != 0xffff);
        expired || options || damaged || mtu > 0 && ip.end - ip.start > usize::from(mtu)
    }

    /// Decrements the TTL at a place; returns whether it was valid: above 1.
    fn decrement(&mut self, at: Option<usize>) -> bool {
        let Some(at) = at else { return true };
        let Some(ttl) = self.bytes.get(at).copied() else { return true };
        if ttl <= 1 {
            return false;
        }
        let header = self.headers.ip.filter(|ip| !ip.v6).map(|ip| ip.start);
        self.set_ttl(at, ttl - 1, header);
        true
    }

    /// Copies between the two outermost headers with a TTL: MPLS and MPLS, or MPLS and IP.
    fn copy_ttl(&mut self, inwards: bool) {
        let Some(outer) = self.mpls_ttl_at() else { return };
        let inner_start = self.headers.network + 4;
        let bottom = self.key.get(Field::MplsBos) == 1;
        let (inner, ip_header) = match self.bytes.get(inner_start).map(|first| first >> 4) {
            _ if !bottom => (inner_start + 3, None),
            Some(4) => (inner_start + 8, Some(inner_start)),
            Some(6) => (inner_start + 7, None),
            _ => return,
        };
        let (Some(outer_ttl), Some(inner_ttl)) =
            (self.bytes.get(outer).copied(), self.bytes.get(inner).copied())
        else {
            return;
        };
        if inwards {
            self.set_ttl(inner, outer_ttl, ip_header);
        } else {
            self.set_ttl(outer, inner_ttl, None);
        }
    }

    fn set_ip_tos(&mut self, change: impl Fn(u8) -> u8) {
        let Some(ip) = self.headers.ip else { return };
        if !ip.v6 {
            let old = self.bytes.get(ip.start + 1).copied().unwrap_or(0);
            let sum = self.header_sum(&ip);
            self.write(ip.start + 1, &[change(old)], sum.as_slice());
            return;
        }
        let word = be32(&self.bytes, ip.start).unwrap_or(0);
        let old = byte(u128::from(word >> 20));
        let word = word & !0x0ff0_0000 | u32::from(change(old)) << 20;
        self.write(ip.start, &word.to_be_bytes(), &[]);
    }

    /// Raises the drop precedence of an assured forwarding class (RFC 2597), as a meter's band does.
    pub(crate) fn raise_drop_precedence(&mut self, by: u8) {
        self.set_ip_tos(|old| {
            let dscp = old >> 2;
            let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
            // AFxy is class x in the upper bits, then precedence y, then a zero (RFC 2597, section 6); others
            // have none.
            if !(1..=4).contains(&class) || precedence == 0 || dscp & 1 == 1 {
                return old;
            }
            let raised = precedence.saturating_add(by).min(3);
            (class << 3 | raised << 1) << 2 | old & 3
        });
        self.reparse();
    }

    fn set_v4(&mut self, field: Field, address: u32) {
        let Some(ip) = self.headers.ip.filter(|ip| !ip.v6) else { return };
        let at = ip.start + if field == Field::Ipv4Src { 12 } else { 16 };
        let sums: Vec<Sum> =
            self.header_sum(&ip).into_iter().chain(self.pseudo_sum(&ip, ip.start)).collect();
        self.write(at, &address.to_be_bytes(), &sums);
    }

    fn set_v6(&mut self, offset: usize, address: &[u8]) {
        let Some(ip) = self.headers.ip.filter(|ip| ip.v6) else { return };
        // The final destination is in the routing header.
        let counted = !(ip.routed && offset == 24);
        let sum = self.pseudo_sum(&ip, ip.start).filter(|_| counted);
        self.write(ip.start + offset, address, sum.as_slice());
    }

    fn set_flabel(&mut self, label: u32) {
        let Some(ip) = self.headers.ip.filter(|ip| ip.v6) else { return };
        let word = be32(&self.bytes, ip.start).unwrap_or(0);
        self.write(ip.start, &(word & !0xf_ffff | label & 0xf_ffff).to_be_bytes(), &[]);
    }

    /// The protocol is also in the pseudo-header, as the low byte of a word; in an IPv4 header it is one, too.
    fn set_protocol(&mut self, protocol: u8) {
        let Some(ip) = self.headers.ip else { return };
        let pseudo = self.pseudo_sum(&ip, ip.protocol_at + 1);
        let sums: Vec<Sum> = self.header_sum(&ip).into_iter().chain(pseudo).collect();
        self.write(ip.protocol_at, &[protocol], &sums);
    }

    /// Sets a port of a transport header of one of these protocols.
    fn set_port(&mut self, offset: usize, port: u16, protocols: &[u8]) {
        let Some(ip) = self.headers.ip.filter(|ip| protocols.contains(&ip.protocol)) else {
            return;
        };
        let Some(at) = ip.transport else { return };
        match ip.protocol {
            SCTP => self.set_sctp(&ip, at, offset, port),
            // 1.0: type and code of ICMP are the low bytes of the ports.
            ICMP => self.set_icmp(ICMP, offset / 2, &[byte(u128::from(port))]),
            _ => {
                let sum = self.transport_sum(&ip);
                self.write(at + offset, &port.to_be_bytes(), sum.as_slice());
            }
        }
    }

    fn set_sctp(&mut self, ip: &Ip, at: usize, offset: usize, port: u16) {
        self.write(at + offset, &port.to_be_bytes(), &[]);
        // The CRC covers the whole packet, of which a fragment has only a part: it stays, and is wrong at the
        // receiver.
        if ip.fragment || ip.end < at + 12 {
            return;
        }
        // RFC 9260, 6.8: the field counts as zero.
        self.write(at + 8, &[0; 4], &[]);
        let sum = crc32c(self.bytes.get(at..ip.end).unwrap_or(&[]));
        self.write(at + 8, &sum.to_le_bytes(), &[]);
    }

    fn set_icmp(&mut self, protocol: u8, offset: usize, new: &[u8]) {
        let Some(ip) = self.headers.ip.filter(|ip| ip.protocol == protocol) else { return };
        let Some(at) = ip.transport else { return };
        if at + offset + new.len() <= ip.end {
            let sum = self.transport_sum(&ip);
            self.write(at + offset, new, sum.as_slice());
        }
    }

    fn set_nd_option(&mut self, at: Option<usize>, address: &[u8]) {
        let (Some(at), Some(ip)) = (at, self.headers.ip) else { return };
        let sum = self.transport_sum(&ip);
        self.write(at, address, sum.as_slice());
    }

    fn set_arp(&mut self, offset: usize, new: &[u8]) {
        // The operation is in the key only if the whole ARP packet was there, so no length is checked again.
        if self.key.get(Field::ArpOp) != 0 && self.headers.ip.is_none() {
            self.write(self.headers.network + offset, new, &[]);
        }
    }

    /// Whether it is a fragment of an IP packet.
    pub(crate) fn is_fragment(&self) -> bool {
        self.headers.ip.is_some_and(|ip| ip.fragment)
    }
}

/// A checksum to update with a change.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// Where it is.
    field: usize,
    /// Where a 16-bit word of the sum begins, for evenness.
    base: usize,
    /// Zero means that there is none.
    udp: bool,
}

fn low16(value: u128) -> u16 {
    u16::try_from(value & 0xffff).unwrap_or(0)
}

fn low32(value: u128) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(0)
}
