//! Where a program of the node may listen, in the order of trying.
//!
//! A program that listens on all addresses or on loopback is found at the first; one that has bound an address of an
//! interface, at that address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The places of a port: loopback of both families, then the node's own addresses.
pub(crate) fn places(to: u16, addresses: &[IpAddr]) -> Vec<SocketAddr> {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let all = loopback.into_iter().chain(addresses.iter().copied());
    all.map(|address| SocketAddr::new(address, to)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_comes_first() {
        let own: IpAddr = "10.0.0.1".parse().unwrap();
        let all: Vec<String> = places(80, &[own]).iter().map(ToString::to_string).collect();
        assert_eq!(all, ["127.0.0.1:80", "[::1]:80", "10.0.0.1:80"]);
    }
}
