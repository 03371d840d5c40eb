//! IPv4 and IPv6 treated alike: addresses as 128-bit numbers, prefixes as ranges of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::forwarding::Forwarding;
use crate::lab::Node;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Family; 2] = [Family::V4, Family::V6];

    pub(crate) fn of(addr: IpAddr) -> Family {
        if addr.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    pub(crate) fn of_net(net: &IpNet) -> Family {
        Family::of(net.addr())
    }

    /// Whether a node forwards packets of this family.
    pub(crate) fn forwards(self, node: &Node) -> bool {
        self.is_in(node.forwarding)
    }

    /// Whether packets of this family are forwarded.
    pub(crate) fn is_in(self, forwarding: Forwarding) -> bool {
        match self {
            Family::V4 => forwarding.ipv4(),
            Family::V6 => forwarding.ipv6(),
        }
    }

    /// Those of these that are of this family.
    pub(crate) fn of_all(self, nets: &[IpNet]) -> impl Iterator<Item = &IpNet> {
        nets.iter().filter(move |net| Family::of_net(net) == self)
    }

    /// Bits of an address.
    pub(crate) fn width(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The address of a number; bits beyond the family's are ignored.
    pub(crate) fn address(self, number: u128) -> IpAddr {
        match self {
            Family::V4 => {
                let [.., a, b, c, d] = number.to_be_bytes();
                Ipv4Addr::new(a, b, c, d).into()
            }
            Family::V6 => Ipv6Addr::from_bits(number).into(),
        }
    }

    /// An address with a prefix length, which is clamped to the family's.
    pub(crate) fn net(self, number: u128, len: u8) -> IpNet {
        let len = len.min(self.width());
        match self.address(number) {
            IpAddr::V4(a) => Ipv4Net::new_assert(a, len).into(),
            IpAddr::V6(a) => Ipv6Net::new_assert(a, len).into(),
        }
    }

    /// `0.0.0.0/0` or `::/0`.
    pub(crate) fn everything(self) -> IpNet {
        self.net(0, 0)
    }
}

/// An address as a number.
pub(crate) fn number(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// The first and last number of a prefix.
pub(crate) fn range(net: &IpNet) -> (u128, u128) {
    (number(net.network()), number(net.broadcast()))
}

/// Whether two prefixes have an address in common.
pub(crate) fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}

/// The range of numbers in a prefix that a host may have: without the network and
/// broadcast addresses (IPv4) or the routers' anycast address (IPv6, RFC 4291 2.6.1); all
/// of them if the prefix is too long for that (RFC 3021, RFC 6164).
pub(crate) fn host_numbers(net: &IpNet) -> (u128, u128) {
    let (first, last) = range(net);
    let size = last - first;
    match Family::of_net(net) {
        _ if size <= 1 => (0, size),
        Family::V4 => (1, size - 1),
        Family::V6 => (1, size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn host_numbers_leave_out_what_is_no_host() {
        assert_eq!(host_numbers(&net("10.0.0.0/24")), (1, 254));
        assert_eq!(host_numbers(&net("10.0.0.0/30")), (1, 2));
        assert_eq!(host_numbers(&net("10.0.0.0/31")), (0, 1));
        assert_eq!(host_numbers(&net("10.0.0.9/32")), (0, 0));
        assert_eq!(host_numbers(&net("fd00::/64")), (1, u128::from(u64::MAX)));
        assert_eq!(host_numbers(&net("fd00::/127")), (0, 1));
    }

    #[test]
    fn numbers_are_addresses_and_back() {
        for text in ["10.1.2.3", "fd00::12:3"] {
            let addr: IpAddr = text.parse().unwrap();
            assert_eq!(Family::of(addr).address(number(addr)), addr);
        }
        assert!(overlap(&net("10.0.0.0/8"), &net("10.9.0.0/24")));
        assert!(overlap(&net("10.9.0.0/24"), &net("10.0.0.0/8")));
        assert!(!overlap(&net("10.9.0.0/24"), &net("10.9.1.0/24")));
    }
}
