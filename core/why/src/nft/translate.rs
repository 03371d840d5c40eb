//! What a translation of addresses makes of a packet.

use std::net::IpAddr;

use super::registers::Registers;
use super::{Change, Nat, Operand};

/// What a packet gets by a translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum New {
    /// The source address of the interface by which it leaves.
    Masqueraded,
    /// An address of this machine as its destination, and this port.
    Redirected(Option<u16>),
    /// Source address and port.
    Source(Option<IpAddr>, Option<u16>),
    /// Destination address and port.
    Destination(Option<IpAddr>, Option<u16>),
}

/// What a translation makes of a packet of IPv4, or else of IPv6; `None` where that is not known.
pub(super) fn new(nat: &Nat, registers: &Registers, ipv4: bool) -> Option<New> {
    let bytes = |operand: &Operand, length: usize| match operand {
        Operand::Register(register) => registers.get(*register, length),
        Operand::Bytes(bytes) => Some(bytes.clone()),
    };
    // What is given and not known makes all unknown.
    let port = |operand: &Option<Operand>| match operand {
        None => Some(None),
        Some(operand) => port(&bytes(operand, 2)?).map(Some),
    };
    let length = if ipv4 { 4 } else { 16 };
    let address = |operand: &Option<Operand>| match operand {
        None => Some(None),
        Some(operand) => {
            address(&bytes(operand, length)?).filter(|address| address.is_ipv4() == ipv4).map(Some)
        }
    };
    Some(match &nat.change {
        Change::Masquerade => New::Masqueraded,
        Change::Redirect(to) => New::Redirected(port(to)?),
        Change::Source(to, at) => New::Source(address(to)?, port(at)?),
        Change::Destination(to, at) => New::Destination(address(to)?, port(at)?),
        Change::Unknown => return None,
    })
}

/// A port, in network byte order.
pub(super) fn port(bytes: &[u8]) -> Option<u16> {
    bytes.try_into().ok().map(u16::from_be_bytes)
}

/// An address of either family, by its length.
pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}
