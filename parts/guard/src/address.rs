//! Socket addresses as programs pass them: bytes, read once, to what a policy knows.
//!
//! The bytes that are judged are those that the kernel gets. Lengths follow the kernel's checks: net/socket.c
//! `move_addr_to_kernel`, and those of each family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address by its family (linux/socket.h).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// AF_UNSPEC: dissolves a connection; as a destination of UDP it is one of IPv4, which stands here.
    Unspecified(Option<(Ipv4Addr, u16)>),
    /// AF_INET or AF_INET6.
    Ip(IpAddr, u16),
    /// AF_UNIX at a path, which may be relative to the caller's directory.
    Path(Vec<u8>),
    /// AF_UNIX in the abstract name space.
    Abstract(Vec<u8>),
    /// AF_UNIX without a name: bind(2) chooses one.
    Unnamed,
    /// AF_NETLINK, to a process (0: the kernel) and groups.
    Netlink {
        /// The receiver's port.
        port: u32,
        /// The groups.
        groups: u32,
    },
    /// AF_VSOCK.
    Vsock {
        /// The context id.
        cid: u32,
        /// The port.
        port: u32,
    },
    /// Another family, or one that is too short.
    Other(u16),
}

/// Longest address that the kernel takes: `sizeof(struct sockaddr_storage)`.
pub const LONGEST: usize = 128;

const UNSPEC: u16 = 0;
const UNIX: u16 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;
const NETLINK: u16 = 16;
const VSOCK: u16 = 40;

impl Address {
    /// Reads an address; `None` without a family.
    pub fn read(bytes: &[u8]) -> Option<Address> {
        let family = u16::from_ne_bytes(part(bytes, 0)?);
        let read = match family {
            UNSPEC => Some(Address::Unspecified(inet(bytes))),
            INET => inet(bytes).map(|(address, port)| Address::Ip(address.into(), port)),
            INET6 => inet6(bytes),
            UNIX => Some(unix(bytes)),
            NETLINK => netlink(bytes),
            VSOCK => vsock(bytes),
            _ => None,
        };
        Some(read.unwrap_or(Address::Other(family)))
    }
}

/// Puts `to` in the place of the address in `bytes`, which is one of IP and has been read.
pub fn lead_to(bytes: &mut [u8], to: IpAddr) {
    let is_ip6 = part(bytes, 0).map(u16::from_ne_bytes) == Some(INET6);
    match (to, is_ip6) {
        (IpAddr::V4(v4), false) => put(bytes, 4, &v4.octets()),
        (IpAddr::V4(v4), true) => put(bytes, 8, &v4.to_ipv6_mapped().octets()),
        (IpAddr::V6(v6), true) => put(bytes, 8, &v6.octets()),
        // No address of IPv4 leads there.
        (IpAddr::V6(_), false) => {}
    }
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + part.len()) {
        place.copy_from_slice(part);
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn inet(bytes: &[u8]) -> Option<(Ipv4Addr, u16)> {
    // The kernel asks for all 16 bytes, the last 8 of which mean nothing.
    part::<16>(bytes, 0)?;
    Some((Ipv4Addr::from(part::<4>(bytes, 4)?), u16::from_be_bytes(part(bytes, 2)?)))
}

/// One of IPv6, whatever its family says.
pub fn inet6(bytes: &[u8]) -> Option<Address> {
    // 24 bytes suffice (SIN6_LEN_RFC2133): the scope came later.
    let address = Ipv6Addr::from(part::<16>(bytes, 8)?);
    Some(Address::Ip(address.into(), u16::from_be_bytes(part(bytes, 2)?)))
}

/// A path ends at its first NUL; an abstract name has all bytes, NULs as well.
fn unix(bytes: &[u8]) -> Address {
    match bytes.get(2..) {
        None | Some([]) => Address::Unnamed,
        Some([0, name @ ..]) => Address::Abstract(name.to_vec()),
        Some(path) => Address::Path(path.iter().copied().take_while(|byte| *byte != 0).collect()),
    }
}

fn netlink(bytes: &[u8]) -> Option<Address> {
    // `struct sockaddr_nl`: family, padding, port, groups, in the byte order of the machine
    // (netlink(7)).
    let groups = u32::from_ne_bytes(part(bytes, 8)?);
    Some(Address::Netlink { port: u32::from_ne_bytes(part(bytes, 4)?), groups })
}

fn vsock(bytes: &[u8]) -> Option<Address> {
    part::<16>(bytes, 0)?;
    // `struct sockaddr_vm` has the port before the context id (vsock(7)).
    let port = u32::from_ne_bytes(part(bytes, 4)?);
    Some(Address::Vsock { cid: u32::from_ne_bytes(part(bytes, 8)?), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(family: u16, rest: &[u8]) -> Vec<u8> {
        [&family.to_ne_bytes()[..], rest].concat()
    }

    #[test]
    fn addresses_of_ip_are_read_with_their_port() {
        let v4 = with(INET, &[0, 80, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Address::read(&v4), Some(Address::Ip("10.0.0.1".parse().unwrap(), 80)));
        assert_eq!(Address::read(&v4[..15]), Some(Address::Other(INET)));
        let mut v6 = with(INET6, &[1, 187, 0, 0, 0, 0]);
        v6.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(Address::read(&v6), Some(Address::Ip("fd00::1".parse().unwrap(), 443)));
        assert_eq!(Address::read(&v6[..23]), Some(Address::Other(INET6)));
    }

    #[test]
    fn an_address_without_a_family_of_its_own_is_one_of_ipv4() {
        let bytes = with(UNSPEC, &[0, 53, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let inet = Some(("10.0.0.1".parse().unwrap(), 53));
        assert_eq!(Address::read(&bytes), Some(Address::Unspecified(inet)));
        assert_eq!(Address::read(&bytes[..2]), Some(Address::Unspecified(None)));
        assert_eq!(Address::read(&bytes[..1]), None);
        assert_eq!(Address::read(&[]), None);
    }

    #[test]
    fn an_address_leads_elsewhere_when_told() {
        let mut v4 = with(INET, &[0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        lead_to(&mut v4, Ipv4Addr::LOCALHOST.into());
        assert_eq!(Address::read(&v4), Some(Address::Ip(Ipv4Addr::LOCALHOST.into(), 80)));
        let mut v6 = with(INET6, &[1, 187, 0, 0, 0, 0]);
        v6.extend([0; 16]);
        lead_to(&mut v6, Ipv6Addr::LOCALHOST.into());
        assert_eq!(Address::read(&v6), Some(Address::Ip(Ipv6Addr::LOCALHOST.into(), 443)));
        lead_to(&mut v6, Ipv4Addr::LOCALHOST.into());
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(Address::read(&v6), Some(Address::Ip(mapped.into(), 443)));
    }

    #[test]
    fn names_of_unix_sockets_are_paths_abstract_or_none() {
        let read = |rest: &[u8]| Address::read(&with(UNIX, rest)).unwrap();
        assert_eq!(read(b"/run/x\0rest"), Address::Path(b"/run/x".to_vec()));
        assert_eq!(read(b"/run/x"), Address::Path(b"/run/x".to_vec()));
        assert_eq!(read(b"\0a\0b"), Address::Abstract(b"a\0b".to_vec()));
        assert_eq!(read(b""), Address::Unnamed);
        assert_eq!(read(b"\0"), Address::Abstract(vec![]));
    }

    #[test]
    fn other_families_are_known_by_number() {
        let netlink = with(NETLINK, &[0, 0, 7, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(Address::read(&netlink), Some(Address::Netlink { port: 7, groups: 1 }));
        let vsock = with(VSOCK, &[0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Address::read(&vsock), Some(Address::Vsock { cid: 2, port: 9 }));
        assert_eq!(Address::read(&with(29, &[0; 14])), Some(Address::Other(29)));
    }
}
