//! `breathe`: sends a datagram to all neighbours on every interface of this network namespace, once a second, each time of another
//! size. So counters of all links go on, and no two seconds are alike. It ends with its node.

use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::net::netdevice::name_to_index;

/// All nodes of a link (RFC 4291, section 2.7.1), and the port of what is discarded (RFC 863).
const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const DISCARD: u16 = 9;

pub(super) fn breathe() -> Result<()> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).context("open a socket")?;
    let own = std::process::id();
    // A thousand programs that were started together do not send together.
    std::thread::sleep(Duration::from_millis(u64::from(own.wrapping_mul(37) % 1000)));
    let bytes = [0_u8; 512];
    for turn in 0_u32.. {
        let length = 16 + turn.wrapping_add(own).wrapping_mul(61) % 480;
        let text =
            std::fs::read_to_string("/proc/thread-self/net/dev").context("read interfaces")?;
        for name in interfaces(&text) {
            // An interface may go meanwhile, and has no address before it is up: the next turn comes soon.
            let Ok(index) = name_to_index(&socket, name) else { continue };
            let to = SocketAddrV6::new(ALL, DISCARD, 0, index);
            let _ = socket.send_to(&bytes[..length as usize], to);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// The names in /proc/net/dev, but for the loopback.
fn interfaces(text: &str) -> impl Iterator<Item = &str> {
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names.filter(|name| *name != "lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_interfaces_but_the_loopback_are_used() {
        let text =
            "Inter-|   Receive\n face |bytes packets\n    lo: 5 6 0\n  eth0: 70 8 0\n eth1: 1 2\n";
        assert_eq!(interfaces(text).collect::<Vec<_>>(), ["eth0", "eth1"]);
    }
}
