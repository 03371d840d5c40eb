//! The socket tables in proc, for kinds that the kernel's socket monitoring lacks.
//!
//! Parsed as text of the calling thread's network namespace. Malformed lines are skipped; no input
//! panics. Specification: proc(5), `net/ipv4/raw.c`, `net/packet/af_packet.c`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netloom_sys::Failure;

use super::{AF_INET6, Protocol, SocketInfo, State, packet, peers};
use crate::error::{Error, Result};

/// The sockets of one table; none if the kernel has no such table.
pub(super) fn read(protocol: Protocol, family: u8) -> Result<Vec<SocketInfo>> {
    let six = if family == AF_INET6 { "6" } else { "" };
    match text(&format!("/proc/thread-self/net/{}{six}", protocol.name())) {
        Ok(text) if protocol == Protocol::Packet => Ok(parse_packet(&text)),
        Ok(text) => Ok(parse_inet(protocol, &text)),
        Err(Error::Failed(failure)) if failure.raw_os_error() == Some(libc::ENOENT) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

pub(super) fn text(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Failure::path(path, "read", e).into())
}

/// `sl local remote st tx:rx tr:when retrnsmt uid timeout inode …`, below a header line.
pub(super) fn parse_inet(protocol: Protocol, text: &str) -> Vec<SocketInfo> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some(SocketInfo {
            protocol,
            local: Some(endpoint(fields.get(1)?)?),
            remote: Some(endpoint(fields.get(2)?)?).filter(peers),
            state: State::from_kernel(u8::from_str_radix(fields.get(3)?, 16).ok()?),
            interface: None,
            inode: fields.get(9)?.parse().ok()?,
            queue: None,
            six_only: false,
            room: None,
        })
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// `sk RefCnt Type Proto Iface R Rmem User Inode`, below a header line.
pub(super) fn parse_packet(text: &str) -> Vec<SocketInfo> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some(packet(fields.get(4)?.parse().ok()?, fields.get(8)?.parse().ok()?))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// Hexadecimal words in the machine's byte order, a colon, the port.
fn endpoint(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = address.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}
