//! The flow key: everything of a packet that OpenFlow compares, in sixteen words of fixed layout.
//!
//! A cache outside (a BPF map) can use the same bytes: a word is a native `u64`, a field has the bits below.
//! Fields whose prerequisites exclude each other share bits. What a packet lacks is zero.
//!
//! | word | bits, from the highest |
//! |---|---|
//! | 0 | in_port 32, in_phy_port 32 |
//! | 1 | metadata 64 |
//! | 2 | tunnel_id 64 |
//! | 3 | eth_dst 48, eth_type 16 |
//! | 4 | eth_src 48, vlan_pcp 3, vlan_vid 13 (with its presence bit) |
//! | 5 | pbb_isid 24, mpls_label 20, mpls_tc 3, mpls_bos 1, ip_dscp 6, ip_ecn 2, ip_proto 8 |
//! | 6 | ipv4_src or arp_spa 32, ipv4_dst or arp_tpa 32 |
//! | 7 | source port or ICMP type 16, destination port or ICMP code 16, ipv6_flabel 20, none 3, ipv6_exthdr 9 |
//! | 8, 9 | ipv6_src |
//! | 10, 11 | ipv6_dst |
//! | 12, 13 | ipv6_nd_target |
//! | 14 | ipv6_nd_sll or arp_sha 48, arp_op 16 |
//! | 15 | ipv6_nd_tll or arp_tha 48, none 16 |

use netloom_openflow::matching::Prerequisite;
use netloom_openflow::{Field, Match, Oxm};

/// Words of a key.
pub const WORDS: usize = 16;

/// Values of all fields of a packet, or a mask over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct FlowKey(pub [u64; WORDS]);

impl std::hash::Hash for FlowKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for word in self.0 {
            state.write_u64(word);
        }
    }
}

/// Where a field is: its word and the place of its lowest bit; fields of 128 bits also have the word after it.
pub const fn place(field: Field) -> (usize, u32) {
    match field {
        Field::InPort => (0, 32),
        Field::InPhyPort => (0, 0),
        Field::Metadata => (1, 0),
        Field::TunnelId => (2, 0),
        Field::EthDst => (3, 16),
        Field::EthType => (3, 0),
        Field::EthSrc => (4, 16),
        Field::VlanPcp => (4, 13),
        Field::VlanVid => (4, 0),
        Field::PbbIsid => (5, 40),
        Field::MplsLabel => (5, 20),
        Field::MplsTc => (5, 17),
        Field::MplsBos => (5, 16),
        Field::IpDscp => (5, 10),
        Field::IpEcn => (5, 8),
        Field::IpProto => (5, 0),
        Field::Ipv4Src | Field::ArpSpa => (6, 32),
        Field::Ipv4Dst | Field::ArpTpa => (6, 0),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc | Field::Icmpv4Type | Field::Icmpv6Type => {
            (7, 48)
        }
        Field::TcpDst | Field::UdpDst | Field::SctpDst | Field::Icmpv4Code | Field::Icmpv6Code => {
            (7, 32)
        }
        Field::Ipv6Flabel => (7, 12),
        Field::Ipv6Exthdr => (7, 0),
        Field::Ipv6Src => (8, 0),
        Field::Ipv6Dst => (10, 0),
        Field::Ipv6NdTarget => (12, 0),
        Field::Ipv6NdSll | Field::ArpSha => (14, 16),
        Field::ArpOp => (14, 0),
        Field::Ipv6NdTll | Field::ArpTha => (15, 16),
    }
}

/// The low 64 bits of a number.
pub(crate) fn low(number: u128) -> u64 {
    u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0)
}

impl FlowKey {
    /// The fields that are not zero and that a packet with these protocols has, as exact matches.
    pub fn fields(&self) -> Vec<Oxm> {
        let all = Field::ALL.iter().copied();
        let all = all.filter(|field| self.get(*field) != 0 && self.may_have(*field));
        all.map(|field| Oxm::exact(field, self.get(field))).collect()
    }

    /// Whether a packet with these protocols can have a field.
    pub fn may_have(&self, field: Field) -> bool {
        match field.needs() {
            Prerequisite::Is(of, values) => values.contains(&self.get(of)),
            _ => true,
        }
    }

    /// The value of a field.
    pub fn get(&self, field: Field) -> u128 {
        let (word, shift) = place(field);
        if field.bits() == 128 {
            return u128::from(self.0[word]) << 64 | u128::from(self.0[word + 1]);
        }
        u128::from(self.0[word] >> shift) & field.full()
    }

    /// Sets a field to the low bits of a value.
    pub fn set(&mut self, field: Field, value: u128) {
        let (word, shift) = place(field);
        if field.bits() == 128 {
            self.0[word] = low(value >> 64);
            self.0[word + 1] = low(value);
            return;
        }
        let mask = low(field.full()) << shift;
        self.0[word] = self.0[word] & !mask | low(value) << shift & mask;
    }

    /// Adds bits to a field of a mask.
    pub fn include(&mut self, field: Field, bits: u128) {
        self.set(field, self.get(field) | bits);
    }

    /// Both masks together.
    pub fn unite(&mut self, other: &FlowKey) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    /// The bits that are in the mask.
    #[must_use]
    #[inline]
    pub fn masked(&self, mask: &FlowKey) -> FlowKey {
        let mut key = *self;
        for (word, bits) in key.0.iter_mut().zip(mask.0) {
            *word &= bits;
        }
        key
    }

    /// Whether all bits of the other mask are in this one.
    pub fn covers(&self, other: &FlowKey) -> bool {
        self.0.iter().zip(other.0).all(|(word, bits)| word & bits == bits)
    }

    /// Whether no bit is set.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// What packets must be like: their key, masked, has this value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The value; zero outside the mask.
    pub value: FlowKey,
    /// The bits that count.
    pub mask: FlowKey,
}

impl Pattern {
    /// From the fields of a match.
    pub fn new(fields: &[Oxm]) -> Pattern {
        let mut pattern = Pattern::default();
        for oxm in fields {
            pattern.mask.include(oxm.field, oxm.bits());
            // Bits outside the mask are cleared, or equal matches would have different values and not be
            // found as equal.
            let value = pattern.value.get(oxm.field) | oxm.value & oxm.bits();
            pattern.value.set(oxm.field, value);
        }
        pattern
    }

    /// From a match.
    pub fn of(matching: &Match) -> Pattern {
        match matching {
            Match::Oxm(fields) => Pattern::new(fields),
            Match::V10(_) => Pattern::new(&matching.to_oxm()),
        }
    }

    /// Whether a packet with this key matches.
    pub fn matches(&self, key: &FlowKey) -> bool {
        key.masked(&self.mask) == self.value
    }

    /// Whether everything that matches `other` matches this (section 6.4: non-strict).
    pub fn is_wider(&self, other: &Pattern) -> bool {
        other.mask.covers(&self.mask) && other.value.masked(&self.mask) == self.value
    }

    /// Whether some packet can match both.
    pub fn overlaps(&self, other: &Pattern) -> bool {
        let both = self.mask.masked(&other.mask);
        self.value.masked(&both) == other.value.masked(&both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields that can be in a packet together have bits of their own.
    #[test]
    fn fields_that_occur_together_share_no_bits() {
        let group = |field: Field| match field.needs() {
            Prerequisite::Is(Field::EthType, types) => types.to_vec(),
            Prerequisite::Is(Field::IpProto, protocols) => protocols.to_vec(),
            Prerequisite::Is(_, types) => types.to_vec(),
            _ => vec![],
        };
        for a in Field::ALL {
            for b in Field::ALL {
                let (mut one, mut two) = (FlowKey::default(), FlowKey::default());
                one.set(*a, u128::MAX);
                two.set(*b, u128::MAX);
                let apart = a != b && one.masked(&two).is_zero();
                let exclusive = !group(*a).is_empty()
                    && !group(*b).is_empty()
                    && !group(*a).iter().any(|value| group(*b).contains(value));
                assert!(a == b || apart || exclusive, "{a} {b}");
                assert_eq!(one.get(*a), a.full());
            }
        }
    }

    #[test]
    fn wider_and_overlapping() {
        let net = |value, mask| {
            Pattern::new(&[
                Oxm::exact(Field::EthType, 0x800),
                Oxm::masked(Field::Ipv4Dst, value, mask),
            ])
        };
        let (wide, narrow) = (net(0x0a00_0000, 0xff00_0000), net(0x0a01_0000, 0xffff_0000));
        assert!(wide.is_wider(&narrow) && !narrow.is_wider(&wide) && wide.is_wider(&wide));
        assert!(wide.overlaps(&narrow) && narrow.overlaps(&wide));
        assert!(!net(0x0a01_0000, 0xffff_0000).overlaps(&net(0x0a02_0000, 0xffff_0000)));
        assert!(Pattern::default().is_wider(&narrow) && Pattern::default().overlaps(&narrow));
        let (mut key, other) = (narrow.value, net(0x0b00_0000, 0xff00_0000).value);
        assert!(wide.matches(&key) && !wide.matches(&other));
        key.set(Field::EthSrc, 5);
        assert!(wide.matches(&key));
    }
}
