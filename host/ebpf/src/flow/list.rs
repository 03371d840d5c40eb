//! Lists of operations: what the pipeline did with a packet, as programs do it with others.
//!
//! Not every result becomes a list: what programs cannot do exactly stays with the pipeline. Offsets and conditions
//! are located in each frame; what the pipeline consulted (ethertype, protocol, whether there is a tag) is known.
//! Must equal core/pipeline/src/packet.rs.

use netloom_openflow::{Action, Field, Oxm, PortNumber};
use netloom_pipeline::{Effect, FlowKey};

/// Longest list: `NL_FL_LONGEST`.
pub(super) const LONGEST: usize = 256;
/// `NL_FL_PLAIN`, `NL_FL_TAGS`.
const PLAIN: u16 = 2;
const TAGS: u16 = 4;
/// `NL_FL_ALONE`.
const ALONE: u16 = 8;

const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;
const ARP: [u128; 2] = [0x0806, 0x8035];
const MPLS: [u128; 2] = [0x8847, 0x8848];
const PBB: u128 = 0x88e7;
const ICMP: u128 = 1;
const TCP: u128 = 6;
const UDP: u128 = 17;
const ICMPV6: u128 = 58;
const SCTP: u128 = 132;

/// `NL_FL_SEND` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Send = 1,
    Write = 2,
    Decrement = 3,
    Push = 4,
    Pop = 5,
    Tag = 6,
    TagAdd = 7,
    Save = 8,
    Restore = 9,
}

/// `NL_FL_ETHERNET` and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Base {
    #[default]
    Ethernet = 0,
    Network = 1,
    Transport = 2,
    Sll = 3,
    Tll = 4,
}

/// `NL_FL_IP`, `NL_FL_ARP`.
const NEEDS_IP: u32 = 1;
const NEEDS_ARP: u32 = 2;
/// `NL_FL_SUM_IP` and so on.
const SUM_IP: u8 = 1;
const SUM_TRANSPORT: u8 = 2;
const SUM_PSEUDO: u8 = 4;
const RECOMPUTE: u8 = 8;
const INSIDE: u8 = 16;

/// `struct nl_fl_op` without the number of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Op {
    kind: Kind,
    base: Base,
    length: u8,
    sums: u8,
    argument: u32,
    needs: u32,
    value: [u8; 16],
    mask: [u8; 16],
}

/// Words of `struct nl_fl_op`.
pub(super) const OP_WORDS: usize = 6;

impl Op {
    fn of(kind: Kind, argument: u32) -> Op {
        Op {
            kind,
            base: Base::Ethernet,
            length: 0,
            sums: 0,
            argument,
            needs: 0,
            value: [0; 16],
            mask: [0; 16],
        }
    }

    /// A write of whole bytes.
    fn write(base: Base, offset: u32, value: &[u8], sums: u8) -> Op {
        Op::write_masked(base, offset, value, &[0xff; 16][..value.len()], sums)
    }

    fn write_masked(base: Base, offset: u32, value: &[u8], mask: &[u8], sums: u8) -> Op {
        let mut op = Op { base, sums, ..Op::of(Kind::Write, offset) };
        op.length = u8::try_from(value.len()).unwrap_or(0);
        for (index, (byte, bits)) in value.iter().zip(mask).enumerate() {
            op.value[index] = byte & bits;
            op.mask[index] = *bits;
        }
        op
    }

    fn needing(self, needs: u32) -> Op {
        Op { needs, ..self }
    }

    /// As it stands in memory, followed by that operation.
    pub(super) fn words(&self, next: u32) -> [u64; OP_WORDS] {
        let first = u32::from_ne_bytes([self.kind as u8, self.base as u8, self.length, self.sums]);
        let word = |bytes: &[u8; 16], at: usize| {
            u64::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]))
        };
        let pair = |a, b| u64::from_ne_bytes(crate::map::pair(a, b));
        [
            pair(first, self.argument),
            pair(next, self.needs),
            word(&self.value, 0),
            word(&self.value, 8),
            word(&self.mask, 0),
            word(&self.mask, 8),
        ]
    }
}

/// A list of operations, and which frames it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub(super) ops: Vec<Op>,
    pub(super) flags: u16,
    /// Frames with a TTL up to this are left to the pipeline.
    pub(super) ttl: u16,
}

/// A copy of the packet that began.
#[derive(Default)]
struct Copy {
    /// How many operations were before it.
    at: usize,
    edited: bool,
    tags: bool,
}

impl List {
    /// What programs do for these effects on packets that agree with this key in what was consulted; `None` if they
    /// cannot. `interface` says by which interface a port sends.
    pub fn of(
        effects: &[Effect],
        key: &FlowKey,
        interface: impl Fn(PortNumber) -> Option<u32>,
    ) -> Option<List> {
        let sends = |effect: &Effect| matches!(effect, Effect::Send { .. });
        let last = effects.iter().rposition(sends);
        let mut maker = Maker { key, list: List::default(), retyped: false, copies: vec![] };
        for (index, effect) in effects.iter().enumerate() {
            match effect {
                Effect::Send { port, .. } => {
                    let to = interface(*port)?;
                    maker.list.ops.push(Op::of(Kind::Send, to));
                }
                Effect::Edit(action) => maker.edit(action)?,
                Effect::Copy => {
                    maker.copies.push(Copy { at: maker.list.ops.len(), ..Copy::default() });
                }
                Effect::CopyEnd => maker.end_copy(last.is_some_and(|last| index < last))?,
            }
        }
        maker.list.finished()
    }

    /// A list for frames of one tag at most.
    pub(super) fn one_tag() -> List {
        List { flags: ALONE, ..List::default() }
    }

    /// Takes the tag out, and pads nothing.
    pub(super) fn pop_bare(&mut self) {
        self.flags |= TAGS;
        self.ops.push(Op::of(Kind::Pop, 1));
    }

    pub(super) fn push_tag(&mut self, kind: u16) {
        self.flags |= TAGS;
        self.ops.push(Op::of(Kind::Push, u32::from(kind)));
    }

    /// Sets bits of the tag.
    pub(super) fn set_tag(&mut self, value: u16, mask: u16) {
        self.flags |= TAGS;
        let bits = u32::from(mask) << 16 | u32::from(value & mask);
        self.ops.push(Op::of(Kind::Tag, bits));
    }

    /// Sends by the interface of a port, at which it is counted.
    pub(super) fn send(&mut self, interface: u32, port: u32) {
        self.ops.push(Op::of(Kind::Send, interface).needing(port));
    }

    /// Drops what nobody sees any more.
    fn finished(mut self) -> Option<List> {
        let last = self.ops.iter().rposition(|op| op.kind == Kind::Send);
        self.ops.truncate(last.map_or(0, |last| last + 1));
        (self.ops.len() <= LONGEST).then_some(self)
    }
}

/// A list in the making.
struct Maker<'a> {
    key: &'a FlowKey,
    list: List,
    /// The type of ICMP was set: what follows is parsed differently.
    retyped: bool,
    copies: Vec<Copy>,
}

fn bytes<const N: usize>(value: u128) -> [u8; N] {
    let all = value.to_be_bytes();
    std::array::from_fn(|index| all[16 - N + index])
}

impl Maker<'_> {
    fn ethertype(&self) -> u128 {
        self.key.get(Field::EthType)
    }

    fn protocol(&self) -> u128 {
        self.key.get(Field::IpProto)
    }

    fn v4(&self) -> bool {
        self.ethertype() == IPV4
    }

    fn v6(&self) -> bool {
        self.ethertype() == IPV6
    }

    /// Undoes a copy's edits, if something is sent later.
    fn end_copy(&mut self, more: bool) -> Option<()> {
        let copy = self.copies.pop()?;
        if !copy.edited || !more {
            return Some(());
        }
        // There is one place for headers, and a tag cannot be undone.
        if copy.tags || !self.copies.is_empty() {
            return None;
        }
        self.list.ops.insert(copy.at, Op::of(Kind::Save, 0));
        self.list.ops.push(Op::of(Kind::Restore, 0));
        self.list.flags |= PLAIN;
        Some(())
    }

    fn add(&mut self, op: Op) {
        if let Some(copy) = self.copies.last_mut() {
            copy.edited = true;
            copy.tags |= !matches!(op.kind, Kind::Write | Kind::Decrement);
        }
        if op.base != Base::Ethernet || op.kind == Kind::Decrement {
            self.list.flags |= PLAIN;
        }
        if matches!(op.kind, Kind::Push | Kind::Pop | Kind::Tag | Kind::TagAdd) {
            self.list.flags |= TAGS;
        }
        self.list.ops.push(op);
    }

    fn edit(&mut self, action: &Action) -> Option<()> {
        let mpls = MPLS.contains(&self.ethertype());
        match action {
            Action::SetField(oxm) => return self.set_field(oxm),
            Action::SetVlanVid(vid) => self.set_tag(Kind::TagAdd, vid & 0xfff, 0xfff),
            Action::SetVlanPcp(pcp) => self.set_tag(Kind::TagAdd, u16::from(*pcp) << 13, 0xe000),
            Action::StripVlan | Action::PopVlan => self.add(Op::of(Kind::Pop, 0)),
            Action::PushVlan(ethertype) => self.add(Op::of(Kind::Push, u32::from(*ethertype))),
            Action::SetDlSrc(address) => self.add(Op::write(Base::Ethernet, 6, address, 0)),
            Action::SetDlDst(address) => self.add(Op::write(Base::Ethernet, 0, address, 0)),
            Action::SetNwSrc(address) => self.set_v4(12, *address),
            Action::SetNwDst(address) => self.set_v4(16, *address),
            Action::SetNwTos(tos) => self.set_class(*tos, 0xfc),
            Action::SetTpSrc(port) => return self.set_port(0, *port, &[TCP, UDP, SCTP, ICMP]),
            Action::SetTpDst(port) => return self.set_port(2, *port, &[TCP, UDP, SCTP, ICMP]),
            Action::SetNwTtl(ttl) => self.set_ttl(*ttl),
            Action::DecNwTtl => self.decrement(),
            Action::SetMplsTtl(ttl) if mpls => {
                self.add(Op::write(Base::Network, 3, &[*ttl], RECOMPUTE));
            }
            Action::PopPbb if self.ethertype() == PBB => return None,
            Action::DecMplsTtl | Action::CopyTtlOut | Action::CopyTtlIn | Action::PopMpls(_)
                if mpls =>
            {
                return None;
            }
            Action::PushMpls(_) | Action::PushPbb(_) => return None,
            // The packet lacks what they are about.
            _ => {}
        }
        Some(())
    }

    fn set_field(&mut self, oxm: &Oxm) -> Option<()> {
        let value = oxm.value;
        let low16 = u16::from_be_bytes(bytes(value));
        let [low8] = bytes(value);
        let low32 = u32::from_be_bytes(bytes(value));
        match oxm.field {
            Field::EthDst => self.add(Op::write(Base::Ethernet, 0, &bytes::<6>(value), 0)),
            Field::EthSrc => self.add(Op::write(Base::Ethernet, 6, &bytes::<6>(value), 0)),
            Field::VlanVid => self.set_tag(Kind::Tag, low16 & 0xfff, 0xfff),
            Field::VlanPcp => self.set_tag(Kind::Tag, low16 << 13, 0xe000),
            Field::IpDscp => self.set_class(low8 << 2, 0xfc),
            Field::IpEcn => self.set_class(low8, 3),
            Field::Ipv4Src => self.set_v4(12, low32),
            Field::Ipv4Dst => self.set_v4(16, low32),
            Field::Ipv6Src => self.set_v6(8, &bytes(value)),
            Field::Ipv6Dst => self.set_v6(24, &bytes(value)),
            Field::Ipv6Flabel if self.v6() => {
                let mask = 0xf_ffff_u32.to_be_bytes();
                let label = bytes::<4>(value);
                let op = Op::write_masked(Base::Network, 0, &label, &mask, RECOMPUTE);
                self.add(op.needing(NEEDS_IP));
            }
            Field::TcpSrc => return self.set_port(0, low16, &[TCP]),
            Field::TcpDst => return self.set_port(2, low16, &[TCP]),
            Field::UdpSrc => return self.set_port(0, low16, &[UDP]),
            Field::UdpDst => return self.set_port(2, low16, &[UDP]),
            Field::SctpSrc => return self.set_port(0, low16, &[SCTP]),
            Field::SctpDst => return self.set_port(2, low16, &[SCTP]),
            Field::Icmpv4Type => return self.set_icmp(ICMP, 0, &[low8, 0], &[0xff, 0]),
            Field::Icmpv4Code => return self.set_icmp(ICMP, 0, &[0, low8], &[0, 0xff]),
            Field::Icmpv6Type => {
                self.retyped = true;
                return self.set_icmp(ICMPV6, 0, &[low8, 0], &[0xff, 0]);
            }
            Field::Icmpv6Code => {
                self.retyped = true;
                return self.set_icmp(ICMPV6, 0, &[0, low8], &[0, 0xff]);
            }
            Field::Ipv6NdTarget => {
                return self.set_icmp(ICMPV6, 8, &bytes::<16>(value), &[0xff; 16]);
            }
            Field::Ipv6NdSll => return self.set_option(Base::Sll, &bytes(value)),
            Field::Ipv6NdTll => return self.set_option(Base::Tll, &bytes(value)),
            // These change what the headers are.
            Field::EthType | Field::IpProto => return None,
            _ => return self.set_other_field(oxm),
        }
        Some(())
    }

    /// Fields of packets that are not IP.
    fn set_other_field(&mut self, oxm: &Oxm) -> Option<()> {
        let value = oxm.value;
        let mpls = MPLS.contains(&self.ethertype());
        let low32 = u32::from_be_bytes(bytes(value));
        match oxm.field {
            // Without an operation, later changes would do nothing.
            Field::ArpOp if value & 0xffff == 0 => return None,
            // It changes what the headers are.
            Field::MplsBos if mpls => return None,
            Field::ArpOp => self.set_arp(6, &bytes::<2>(value)),
            Field::ArpSha => self.set_arp(8, &bytes::<6>(value)),
            Field::ArpSpa => self.set_arp(14, &bytes::<4>(value)),
            Field::ArpTha => self.set_arp(18, &bytes::<6>(value)),
            Field::ArpTpa => self.set_arp(24, &bytes::<4>(value)),
            Field::MplsLabel if mpls => self.set_label(low32 << 12, 0xffff_f000),
            Field::MplsTc if mpls => self.set_label(low32 << 9, 0xe00),
            Field::PbbIsid if self.ethertype() == PBB => {
                self.add(Op::write(Base::Network, 1, &bytes::<3>(value), RECOMPUTE));
            }
            _ => {}
        }
        Some(())
    }

    fn set_tag(&mut self, kind: Kind, value: u16, mask: u16) {
        self.add(Op::of(kind, u32::from(mask) << 16 | u32::from(value & mask)));
    }

    fn set_class(&mut self, value: u8, mask: u8) {
        // IPv4: the second byte. IPv6: four bits into the first word (RFC 8200, 3).
        let (shift, sums) = match (self.v4(), self.v6()) {
            (true, _) => (0, SUM_IP),
            (_, true) => (4, RECOMPUTE),
            _ => return,
        };
        let [value, mask] = [value, mask].map(|byte| (u16::from(byte) << shift).to_be_bytes());
        let op = Op::write_masked(Base::Network, 0, &value, &mask, sums);
        self.add(op.needing(NEEDS_IP));
    }

    fn set_v4(&mut self, offset: u32, address: u32) {
        if self.v4() {
            // ICMP has no pseudo-header.
            let pseudo = if self.protocol() == ICMP { 0 } else { SUM_PSEUDO };
            let op = Op::write(Base::Network, offset, &address.to_be_bytes(), SUM_IP | pseudo);
            self.add(op.needing(NEEDS_IP));
        }
    }

    fn set_v6(&mut self, offset: u32, address: &[u8; 16]) {
        if self.v6() {
            let op = Op::write(Base::Network, offset, address, RECOMPUTE | SUM_PSEUDO);
            self.add(op.needing(NEEDS_IP));
        }
    }

    fn set_ttl(&mut self, ttl: u8) {
        let op = match (self.v4(), self.v6()) {
            (true, _) => Op::write_masked(Base::Network, 8, &[ttl, 0], &[0xff, 0], SUM_IP),
            (_, true) => Op::write_masked(Base::Network, 6, &[0, ttl], &[0, 0xff], RECOMPUTE),
            _ => return,
        };
        self.add(op.needing(NEEDS_IP));
    }

    fn decrement(&mut self) {
        if self.v4() || self.v6() {
            self.list.ttl += 1;
            self.add(Op::of(Kind::Decrement, 0));
        }
    }

    /// SCTP's checksum covers the whole packet: not here.
    fn set_port(&mut self, offset: u32, port: u16, protocols: &[u128]) -> Option<()> {
        let protocol = self.protocol();
        if !(self.v4() || self.v6()) || !protocols.contains(&protocol) {
            return Some(());
        }
        match protocol {
            SCTP => return None,
            // 1.0: type and code of ICMP are the low bytes of the ports.
            ICMP => {
                let [_, byte] = port.to_be_bytes();
                let (value, mask) =
                    if offset == 0 { ([byte, 0], [0xff, 0]) } else { ([0, byte], [0, 0xff]) };
                return self.set_icmp(ICMP, 0, &value, &mask);
            }
            _ => {
                let op = Op::write(Base::Transport, offset, &port.to_be_bytes(), SUM_TRANSPORT);
                self.add(op.needing(NEEDS_IP));
            }
        }
        Some(())
    }

    fn set_icmp(&mut self, protocol: u128, offset: u32, value: &[u8], mask: &[u8]) -> Option<()> {
        if !(self.v4() || self.v6()) || self.protocol() != protocol {
            return Some(());
        }
        // ICMP of the other family is left to the pipeline.
        if self.v6() != (protocol == ICMPV6) {
            return None;
        }
        let sums = SUM_TRANSPORT | INSIDE;
        let op = Op::write_masked(Base::Transport, offset, value, mask, sums);
        self.add(op.needing(NEEDS_IP));
        Some(())
    }

    fn set_option(&mut self, base: Base, address: &[u8; 6]) -> Option<()> {
        if self.retyped {
            return None;
        }
        if self.v6() && self.protocol() == ICMPV6 {
            self.add(Op::write(base, 0, address, SUM_TRANSPORT).needing(NEEDS_IP));
        }
        Some(())
    }

    fn set_arp(&mut self, offset: u32, value: &[u8]) {
        if ARP.contains(&self.ethertype()) {
            self.add(Op::write(Base::Network, offset, value, RECOMPUTE).needing(NEEDS_ARP));
        }
    }

    fn set_label(&mut self, value: u32, mask: u32) {
        let [value, mask] = [value, mask].map(u32::to_be_bytes);
        self.add(Op::write_masked(Base::Network, 0, &value, &mask, RECOMPUTE));
    }
}
