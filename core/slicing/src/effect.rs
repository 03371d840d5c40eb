//! What actions make of a cube: every packet of it is afterwards in the result.
//!
//! Where a packet may lack what an action changes (a fragment has no ports, a cut header no addresses), or an action
//! uncovers what was hidden behind a header, the field is open afterwards. The result may have more than the packets
//! that come out, never less.

use netloom_openflow::matching::VID_PRESENT;
use netloom_openflow::{Action, Field, Oxm};
use netloom_pipeline::headers::{MPLS, PBB, VLAN};

use crate::cube::Cube;
use crate::fault::{self, Fault};
use crate::fields::Fields;

/// Fields outside of headers, which stay whatever happens to those.
const BESIDE: [Field; 4] = [Field::InPort, Field::InPhyPort, Field::Metadata, Field::TunnelId];
const ETHERNET: [Field; 8] = [
    Field::InPort,
    Field::InPhyPort,
    Field::Metadata,
    Field::TunnelId,
    Field::EthDst,
    Field::EthSrc,
    Field::VlanVid,
    Field::VlanPcp,
];
const IP: [Field; 7] = [
    Field::IpDscp,
    Field::IpEcn,
    Field::IpProto,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
];
const ARP: [Field; 5] = [Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha];
const TRANSPORT: [Field; 6] =
    [Field::TcpSrc, Field::TcpDst, Field::UdpSrc, Field::UdpDst, Field::SctpSrc, Field::SctpDst];
const BEHIND_IP: [Field; 13] = [
    Field::TcpSrc,
    Field::TcpDst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::SctpSrc,
    Field::SctpDst,
    Field::Icmpv4Type,
    Field::Icmpv4Code,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::Ipv6NdTarget,
    Field::Ipv6NdSll,
    Field::Ipv6NdTll,
];
/// IPv6 extension headers: what follows one is the protocol.
const EXTENSIONS: [u128; 7] = [0, 43, 44, 50, 51, 59, 60];

/// Packets on their way through a rule.
#[derive(Clone, Debug)]
pub(crate) struct Packets {
    /// As they are now.
    pub(crate) now: Cube,
    /// Fields that may have changed since they came in.
    pub(crate) written: Fields,
    /// Whether they were not all of the slice as they came in.
    pub(crate) strange: bool,
}

impl Packets {
    pub(crate) fn new(origin: &Cube) -> Packets {
        let mut now = origin.clone();
        // Metadata never leaves the switch, and no space looks at it.
        now.free(Field::Metadata);
        Packets { now, written: Fields::default(), strange: false }
    }

    /// Which of those that came in, `origin`, become these.
    pub(crate) fn before(&self, origin: &Cube, part: &Cube) -> Cube {
        let mut unchanged = part.clone();
        // The part may have the port by which they would leave.
        for field in self.written.iter().chain([Field::InPort]) {
            unchanged.free(field);
        }
        origin.and(&unchanged).unwrap_or_else(|| origin.clone())
    }

    fn note(&mut self, field: Field) {
        self.written.add(field);
    }

    /// The field may have any value now.
    fn open(&mut self, field: Field) {
        self.now.free(field);
        self.note(field);
    }

    /// All fields but these may have any value now.
    fn open_but(&mut self, keep: &[Field]) {
        self.now.keep(keep);
        for field in Field::ALL.iter().filter(|field| !keep.contains(field)) {
            self.note(*field);
        }
    }

    /// Writes a field of a header that is there for sure, if `certain`.
    fn write(&mut self, field: Field, value: u128, certain: bool) {
        if certain || fault::is(Fault::Certain) {
            self.now.assign(field, value);
        } else {
            self.now.free(field);
        }
        self.note(field);
    }

    /// Whether all of them have the header of a field: one of its fields has a value that is not zero.
    fn has_header(&self, field: Field) -> bool {
        let any = |fields: &[Field]| fields.iter().any(|field| self.now.get(*field).0 != 0);
        match field {
            Field::EthDst | Field::EthSrc => true,
            Field::IpDscp
            | Field::IpEcn
            | Field::IpProto
            | Field::Ipv4Src
            | Field::Ipv4Dst
            | Field::Ipv6Src
            | Field::Ipv6Dst => self.now.exact(Field::EthType).is_some() && any(&IP),
            Field::ArpOp | Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha => {
                self.now.exact(Field::EthType).is_some() && any(&ARP)
            }
            _ if TRANSPORT.contains(&field) => {
                self.now.exact(Field::IpProto).is_some() && any(&TRANSPORT)
            }
            _ => false,
        }
    }

    /// Whether they have a tag, if that is known of all.
    fn tagged(&self) -> Option<bool> {
        let (value, mask) = self.now.get(Field::VlanVid);
        (mask & VID_PRESENT != 0).then_some(value & VID_PRESENT != 0)
    }

    /// Does an action that changes headers; others change nothing.
    pub(crate) fn apply(&mut self, action: &Action) {
        match action {
            Action::SetVlanVid(vid) => {
                // 1.0 adds a tag where there is none.
                if self.tagged() != Some(true) {
                    self.new_tag();
                }
                self.write(Field::VlanVid, VID_PRESENT | u128::from(vid & 0xfff), true);
            }
            Action::SetVlanPcp(pcp) => {
                if self.tagged() != Some(true) {
                    self.new_tag();
                }
                self.write(Field::VlanPcp, u128::from(*pcp), true);
            }
            Action::StripVlan | Action::PopVlan => self.pop_vlan(),
            Action::PushVlan(_) => self.new_tag(),
            Action::SetDlSrc(address) => self.set(Field::EthSrc, number(address)),
            Action::SetDlDst(address) => self.set(Field::EthDst, number(address)),
            Action::SetNwSrc(address) => self.set(Field::Ipv4Src, u128::from(*address)),
            Action::SetNwDst(address) => self.set(Field::Ipv4Dst, u128::from(*address)),
            Action::SetNwTos(tos) => self.set(Field::IpDscp, u128::from(tos >> 2)),
            Action::SetTpSrc(port) => self.set_transport(0, *port),
            Action::SetTpDst(port) => self.set_transport(1, *port),
            // The old headers are behind the label now, where a switch does not look.
            Action::PushMpls(ethertype) => self.uncover(*ethertype),
            Action::PopMpls(ethertype) if self.may_be(&MPLS) => {
                let known = self.now.exact(Field::EthType).is_some();
                self.uncover(*ethertype);
                if !known {
                    // Of those without a label nothing changed.
                    self.open(Field::EthType);
                }
            }
            Action::PushPbb(_) => self.open_but(&BESIDE),
            Action::PopPbb if self.may_be(&[PBB]) => self.open_but(&BESIDE),
            Action::SetField(oxm) => self.set_field(oxm),
            _ => {}
        }
    }

    fn may_be(&self, ethertypes: &[u16]) -> bool {
        let (value, mask) = self.now.get(Field::EthType);
        ethertypes.iter().any(|ethertype| u128::from(*ethertype) & mask == value)
    }

    /// A tag more. A switch may not see headers behind many tags.
    fn new_tag(&mut self) {
        let untagged = self.tagged() == Some(false);
        if !untagged {
            self.open_but(&ETHERNET);
        }
        let (value, mask) = self.now.get(Field::VlanVid);
        // A new tag copies the values of the one behind it (section 5.12.1).
        self.now.free(Field::VlanVid);
        self.now.restrict(Field::VlanVid, value | VID_PRESENT, mask | VID_PRESENT);
        self.note(Field::VlanVid);
        if self.now.get(Field::VlanPcp).1 == 0 && !untagged {
            self.note(Field::VlanPcp);
        }
    }

    fn pop_vlan(&mut self) {
        if self.tagged() == Some(false) {
            return;
        }
        // There may be another tag behind it.
        self.open(Field::VlanVid);
        self.open(Field::VlanPcp);
        if fault::is(Fault::Pop) {
            self.now.assign(Field::VlanVid, 0);
        }
    }

    /// The ethertype becomes this, and what follows it is read again.
    fn uncover(&mut self, ethertype: u16) {
        // Behind a tag's ethertype are tags, behind a length is a SNAP header.
        if VLAN.contains(&ethertype) || ethertype < 0x600 {
            self.open_but(&ETHERNET);
            self.open(Field::VlanVid);
            self.open(Field::VlanPcp);
        } else {
            self.open_but(&ETHERNET);
            self.write(Field::EthType, u128::from(ethertype), true);
        }
    }

    fn set(&mut self, field: Field, value: u128) {
        let certain = self.has_header(field) && self.fulfils(field);
        self.write(field, value, certain);
    }

    /// Whether a field is of the protocols that these packets have.
    fn fulfils(&self, field: Field) -> bool {
        use netloom_openflow::matching::Prerequisite;
        match field.needs() {
            Prerequisite::Is(of, values) => {
                self.now.exact(of).is_some_and(|value| values.contains(&value))
            }
            _ => true,
        }
    }

    fn set_transport(&mut self, which: usize, port: u16) {
        let pairs = [
            (6, [Field::TcpSrc, Field::TcpDst]),
            (17, [Field::UdpSrc, Field::UdpDst]),
            (132, [Field::SctpSrc, Field::SctpDst]),
            // 1.0 has them in the fields of ports.
            (1, [Field::Icmpv4Type, Field::Icmpv4Code]),
        ];
        // 1.0 sets the port of the protocol that the packet has, which the cube may leave open: all that fit.
        for (protocol, fields) in pairs {
            let (value, mask) = self.now.get(Field::IpProto);
            if protocol & mask == value
                && let Some(field) = fields.get(which)
            {
                self.set(*field, u128::from(port));
            }
        }
    }

    fn set_field(&mut self, oxm: &Oxm) {
        match oxm.field {
            Field::VlanVid | Field::VlanPcp => {
                let certain = self.tagged() == Some(true);
                if self.tagged() != Some(false) {
                    self.write(oxm.field, oxm.value, certain);
                }
            }
            Field::EthType => self.uncover(u16::try_from(oxm.value).unwrap_or(0)),
            Field::IpProto => {
                for field in BEHIND_IP {
                    self.open(field);
                }
                // With the number of an extension header of IPv6, the bytes
                // behind are read as one, and the protocol is found in it.
                let v4 = self.now.exact(Field::EthType) == Some(0x0800);
                let plain = v4 || !EXTENSIONS.contains(&oxm.value);
                let certain = plain && self.has_header(Field::IpProto);
                self.write(Field::IpProto, oxm.value, certain);
            }
            Field::Icmpv6Type => {
                // The type itself, and what only some types have.
                for field in BEHIND_IP.iter().skip(8) {
                    self.open(*field);
                }
            }
            // It lies beside the packet, so every packet has it.
            Field::TunnelId => self.write(Field::TunnelId, oxm.value, true),
            field => self.set(field, oxm.value),
        }
    }
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}
