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
        Some(operand) => {
            let number: [u8; 2] = bytes(operand, 2)?.try_into().ok()?;
            Some(Some(u16::from_be_bytes(number)))
        }
    };
    let address = |operand: &Option<Operand>| match operand {
        None => Some(None),
        Some(operand) if ipv4 => {
            let address: [u8; 4] = bytes(operand, 4)?.try_into().ok()?;
            Some(Some(IpAddr::from(address)))
        }
        Some(operand) => {
            let address: [u8; 16] = bytes(operand, 16)?.try_into().ok()?;
            Some(Some(IpAddr::from(address)))
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
