//! The forty fields of 1.3: widths, masks, prerequisites (section 7.2.3.7, tables 11 and 12).
//!
//! Values are numbers, right-aligned: a MAC address is 48 bits, an IPv6 address 128.

/// The bit of a VLAN id that says there is a tag (OFPVID_PRESENT).
pub const VID_PRESENT: u128 = 0x1000;

/// What a field needs beside it in a match, or already in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// Nothing.
    None,
    /// This field, with any value.
    Has(Field),
    /// A VLAN tag.
    Vlan,
    /// This field with one of these values.
    Is(Field, &'static [u128]),
}

macro_rules! fields {
    ($($name:ident = $number:literal, $text:literal, $bits:literal, $mask:literal, $needs:expr;)+) => {
        /// A field of a match, in the class OFPXMC_OPENFLOW_BASIC.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the names are those of the specification")]
        #[repr(u8)]
        pub enum Field { $($name = $number,)+ }

        impl Field {
            /// Every field, in the order of numbers.
            pub const ALL: &[Field] = &[$(Field::$name,)+];

            /// The field with this number.
            pub const fn from_number(number: u8) -> Option<Field> {
                match number { $($number => Some(Field::$name),)+ _ => None }
            }

            /// Its number.
            pub const fn number(self) -> u8 {
                match self { $(Field::$name => $number,)+ }
            }

            /// Its name in text, as in the specification, in lower case.
            pub const fn name(self) -> &'static str {
                match self { $(Field::$name => $text,)+ }
            }

            /// Its width in bits.
            pub const fn bits(self) -> u32 {
                match self { $(Field::$name => $bits,)+ }
            }

            /// Whether it may have a mask.
            pub const fn maskable(self) -> bool {
                match self { $(Field::$name => $mask,)+ }
            }

            /// What it needs beside it.
            pub const fn needs(self) -> Prerequisite {
                match self { $(Field::$name => $needs,)+ }
            }
        }
    };
}

use Prerequisite::{Has, Is, None as Nothing, Vlan};

const fn ethertype(types: &'static [u128]) -> Prerequisite {
    Is(Field::EthType, types)
}

const fn protocol(numbers: &'static [u128]) -> Prerequisite {
    Is(Field::IpProto, numbers)
}

const IP: Prerequisite = ethertype(&[0x0800, 0x86dd]);
const IPV4: Prerequisite = ethertype(&[0x0800]);
const IPV6: Prerequisite = ethertype(&[0x86dd]);
const ARP: Prerequisite = ethertype(&[0x0806]);
const MPLS: Prerequisite = ethertype(&[0x8847, 0x8848]);
const PBB: Prerequisite = ethertype(&[0x88e7]);
const TCP: Prerequisite = protocol(&[6]);
const UDP: Prerequisite = protocol(&[17]);
const SCTP: Prerequisite = protocol(&[132]);
const ICMPV4: Prerequisite = protocol(&[1]);
const ICMPV6: Prerequisite = protocol(&[58]);

fields! {
    InPort = 0, "in_port", 32, false, Nothing;
    InPhyPort = 1, "in_phy_port", 32, false, Has(Field::InPort);
    Metadata = 2, "metadata", 64, true, Nothing;
    EthDst = 3, "eth_dst", 48, true, Nothing;
    EthSrc = 4, "eth_src", 48, true, Nothing;
    EthType = 5, "eth_type", 16, false, Nothing;
    // The id has 12 bits; one above them says that there is a tag (OFPVID_PRESENT).
    VlanVid = 6, "vlan_vid", 13, true, Nothing;
    VlanPcp = 7, "vlan_pcp", 3, false, Vlan;
    IpDscp = 8, "ip_dscp", 6, false, IP;
    IpEcn = 9, "ip_ecn", 2, false, IP;
    IpProto = 10, "ip_proto", 8, false, IP;
    Ipv4Src = 11, "ipv4_src", 32, true, IPV4;
    Ipv4Dst = 12, "ipv4_dst", 32, true, IPV4;
    TcpSrc = 13, "tcp_src", 16, false, TCP;
    TcpDst = 14, "tcp_dst", 16, false, TCP;
    UdpSrc = 15, "udp_src", 16, false, UDP;
    UdpDst = 16, "udp_dst", 16, false, UDP;
    SctpSrc = 17, "sctp_src", 16, false, SCTP;
    SctpDst = 18, "sctp_dst", 16, false, SCTP;
    Icmpv4Type = 19, "icmpv4_type", 8, false, ICMPV4;
    Icmpv4Code = 20, "icmpv4_code", 8, false, ICMPV4;
    ArpOp = 21, "arp_op", 16, false, ARP;
    ArpSpa = 22, "arp_spa", 32, true, ARP;
    ArpTpa = 23, "arp_tpa", 32, true, ARP;
    ArpSha = 24, "arp_sha", 48, true, ARP;
    ArpTha = 25, "arp_tha", 48, true, ARP;
    Ipv6Src = 26, "ipv6_src", 128, true, IPV6;
    Ipv6Dst = 27, "ipv6_dst", 128, true, IPV6;
    Ipv6Flabel = 28, "ipv6_flabel", 20, true, IPV6;
    Icmpv6Type = 29, "icmpv6_type", 8, false, ICMPV6;
    Icmpv6Code = 30, "icmpv6_code", 8, false, ICMPV6;
    Ipv6NdTarget = 31, "ipv6_nd_target", 128, false, Is(Field::Icmpv6Type, &[135, 136]);
    Ipv6NdSll = 32, "ipv6_nd_sll", 48, false, Is(Field::Icmpv6Type, &[135]);
    Ipv6NdTll = 33, "ipv6_nd_tll", 48, false, Is(Field::Icmpv6Type, &[136]);
    MplsLabel = 34, "mpls_label", 20, false, MPLS;
    MplsTc = 35, "mpls_tc", 3, false, MPLS;
    MplsBos = 36, "mpls_bos", 1, false, MPLS;
    PbbIsid = 37, "pbb_isid", 24, true, PBB;
    TunnelId = 38, "tunnel_id", 64, true, Nothing;
    Ipv6Exthdr = 39, "ipv6_exthdr", 9, true, IPV6;
}

impl Field {
    /// Bytes of its value on the wire.
    pub const fn bytes(self) -> usize {
        match self {
            // Four bytes on the wire for twenty bits.
            Field::Ipv6Flabel | Field::MplsLabel => 4,
            // No field is wider than 128 bits.
            _ => self.bits().div_ceil(8) as usize,
        }
    }

    /// All ones.
    pub const fn full(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// The field of this name.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.iter().copied().find(|field| field.name() == name)
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
