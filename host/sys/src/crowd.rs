//! Which callers count as one where they share seats: one host has one share, however many addresses it has.

use std::net::{IpAddr, Ipv6Addr};

/// The address that stands for the host with this one: of IPv6 the network of 64 bits, since a host has all of its
/// addresses.
pub fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_ipv6_is_its_network() {
        let of = |text: &str| host(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("::1"), of("::2"));
    }
}
