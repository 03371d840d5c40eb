//! Ports of this machine that a test has to itself, also beside tests of other users.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::ops::{Range, RangeInclusive};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, PoisonError};

/// Where they are chosen.
const PORTS: Range<u16> = 10_000..32_000;

/// What keeps them from other tests.
static TAKEN: Mutex<Vec<UnixDatagram>> = Mutex::new(vec![]);

/// A port of TCP and UDP that nobody has now, that the kernel gives nobody who asks for any, and that no other test gets from
/// here while this process lives.
///
/// For each stands an abstract name: like the port it belongs to the network namespace and to no user, and it goes with its
/// process.
///
/// # Panics
/// None is left.
pub fn free_port() -> u16 {
    let given = given();
    let outside: Vec<u16> = PORTS.filter(|port| !given.contains(port)).collect();
    // On a machine that gives away all of them one is as good as another.
    let all = if outside.is_empty() { PORTS.collect() } else { outside };
    // Tests that run side by side begin apart, and seldom try what another has.
    let first = std::process::id() as usize * 131 % all.len();
    let (before, after) = all.split_at(first);
    after.iter().chain(before).copied().find(|port| take(*port)).expect("a port that nobody has")
}

/// Ports that the kernel gives to those who name none; ip(7), `ip_local_port_range`.
fn given() -> RangeInclusive<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = text.split_whitespace().map_while(|word| word.parse().ok());
    ends.next().unwrap_or(32_768)..=ends.next().unwrap_or(60_999)
}

fn take(port: u16) -> bool {
    let name = format!("netloom-test-port-{port}");
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    let Ok(own) = UnixDatagram::bind_addr(&name) else { return false };
    let at = (Ipv4Addr::UNSPECIFIED, port);
    // Without IPv6 that is refused for another reason.
    let six = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).map(drop).map_err(|e| e.kind());
    let is_free = TcpListener::bind(at).is_ok()
        && UdpSocket::bind(at).is_ok()
        && !matches!(six, Err(ErrorKind::AddrInUse));
    if is_free {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(own);
    }
    is_free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_and_taken_by_whom_it_is_for() {
        let (first, second) = (free_port(), free_port());
        assert_ne!(first, second);
        assert!(!take(first) && !take(second));
        for port in [first, second] {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
            UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
