//! What expressions and targets that translate addresses change.
//!
//! Only translations to one address and one port are told: of several the kernel chooses one.
//! Specification: `linux/netfilter/nf_tables.h`, `linux/netfilter/nf_nat.h`.

use super::super::{Change, Operand};
use super::{be32, value};

/// `NF_NAT_RANGE_MAP_IPS`
const MAPS_ADDRESSES: u32 = 1;
/// `NF_NAT_RANGE_PROTO_SPECIFIED`
const MAPS_PORTS: u32 = 2;
/// `NF_NAT_RANGE_PROTO_RANDOM`, `_PROTO_RANDOM_FULLY`, `_PROTO_OFFSET` and `_NETMAP`: the result depends on more than is read.
const OPEN: u32 = 4 | 16 | 32 | 64;

/// What an expression of nftables changes.
pub(super) fn native(name: &str, parts: &[u8]) -> Change {
    let number = |at: u16| value(parts, at).and_then(be32);
    // The kernel tells both ends of a range also where they are one.
    let one = |low: u16, high: u16| match (number(low), number(high)) {
        (None, None) => Some(None),
        (Some(low), None) => Some(Some(Operand::Register(low))),
        (Some(low), Some(high)) if low == high => Some(Some(Operand::Register(low))),
        _ => None,
    };
    let flags = |at: u16| number(at).unwrap_or(0);
    let found = match name {
        // NFTA_MASQ_FLAGS, _REG_PROTO_MIN, _REG_PROTO_MAX.
        "masq" if flags(1) & OPEN == 0 && number(2).is_none() => Some(Change::Masquerade),
        // NFTA_REDIR_REG_PROTO_MIN, _REG_PROTO_MAX, _FLAGS.
        "redir" if flags(3) & OPEN == 0 => one(1, 2).map(Change::Redirect),
        // NFTA_NAT_TYPE, _REG_ADDR_MIN and _MAX, _REG_PROTO_MIN and _MAX, _FLAGS.
        "nat" if flags(7) & OPEN == 0 => one(3, 4).zip(one(5, 6)).and_then(|(address, port)| {
            Some(match number(1)? {
                0 => Change::Source(address, port),
                1 => Change::Destination(address, port),
                _ => return None,
            })
        }),
        _ => None,
    };
    found.unwrap_or(Change::Unknown)
}

/// What a target of iptables changes, by its parameters: `struct nf_nat_ipv4_multi_range_compat`, or `struct nf_nat_range` and
/// its later form, which is longer. Integers of the kernel are in the order of this machine.
pub(super) fn target(name: &str, info: &[u8]) -> Option<Change> {
    // `XT_ALIGN` fills structures up to eight bytes.
    let compat = info.len() <= 24;
    let word = |at: usize| info.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let bytes = |at: usize, length: usize| info.get(at..at + length);
    let (flags, [low, high], ports) = match compat {
        // The number of ranges comes first.
        true if word(0)? == 1 => (word(4)?, [bytes(8, 4)?, bytes(12, 4)?], bytes(16, 4)?),
        true => return None,
        false => {
            // An address of IPv4 is the first word of the union; a rule of IPv6 has more in it.
            let all = [bytes(4, 16)?, bytes(20, 16)?];
            let is_four = all.iter().all(|one| one[4..].iter().all(|byte| *byte == 0));
            let length = if is_four { 4 } else { 16 };
            (word(0)?, all.map(|one| &one[..length]), bytes(36, 4)?)
        }
    };
    if flags & OPEN != 0 {
        return None;
    }
    let address = match flags & MAPS_ADDRESSES != 0 {
        true if low == high => Some(Operand::Bytes(low.to_vec())),
        true => return None,
        false => None,
    };
    let port = match flags & MAPS_PORTS != 0 {
        true if ports[..2] == ports[2..] => Some(Operand::Bytes(ports[..2].to_vec())),
        true => return None,
        false => None,
    };
    Some(match name {
        "MASQUERADE" if port.is_none() => Change::Masquerade,
        "REDIRECT" => Change::Redirect(port),
        "SNAT" => Change::Source(address, port),
        "DNAT" => Change::Destination(address, port),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::number;
    use super::*;

    fn compat(flags: u32, addresses: [[u8; 4]; 2], ports: [u16; 2]) -> Vec<u8> {
        let mut info = [1_u32.to_ne_bytes(), flags.to_ne_bytes()].concat();
        info.extend(addresses.concat());
        info.extend(ports.map(u16::to_be_bytes).concat());
        info.resize(24, 0);
        info
    }

    #[test]
    fn expressions_to_one_address_and_port_are_read() {
        let register = |number| Some(Operand::Register(number));
        let nat = |parts: &[Vec<u8>]| native("nat", &parts.concat());
        let both = [number(1, 1), number(3, 1), number(4, 1), number(5, 2), number(6, 2)];
        assert_eq!(nat(&both), Change::Destination(register(1), register(2)));
        assert_eq!(nat(&[number(1, 0), number(3, 1)]), Change::Source(register(1), None));
        // A range, a random port.
        assert_eq!(nat(&[number(1, 0), number(3, 1), number(4, 2)]), Change::Unknown);
        assert_eq!(nat(&[number(1, 0), number(3, 1), number(7, 4)]), Change::Unknown);
        assert_eq!(native("masq", &[]), Change::Masquerade);
        assert_eq!(native("masq", &number(1, 16)), Change::Unknown);
        assert_eq!(native("redir", &number(1, 1)), Change::Redirect(register(1)));
    }

    #[test]
    fn targets_to_one_address_and_port_are_read() {
        let (web, other) = ([10, 0, 0, 2], [10, 0, 0, 3]);
        let of = |name, info: &[u8]| target(name, info);
        let bytes = |bytes: &[u8]| Some(Operand::Bytes(bytes.to_vec()));
        let to = compat(3, [web, web], [80, 80]);
        assert_eq!(of("DNAT", &to), Some(Change::Destination(bytes(&web), bytes(&[0, 80]))));
        assert_eq!(of("SNAT", &compat(1, [web, other], [0, 0])), None, "a range");
        assert_eq!(of("MASQUERADE", &compat(0, [[0; 4]; 2], [0, 0])), Some(Change::Masquerade));
        assert_eq!(of("MASQUERADE", &compat(4, [[0; 4]; 2], [0, 0])), None, "a random port");
        let redirect = compat(2, [[0; 4]; 2], [8080, 8080]);
        assert_eq!(of("REDIRECT", &redirect), Some(Change::Redirect(bytes(&[0x1f, 0x90]))));
        // The later form, of both families.
        let six: [u8; 16] = "fd00::2".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut four = [0; 16];
        four[..4].copy_from_slice(&web);
        for (address, shown) in [(four, &web[..]), (six, &six[..])] {
            let mut info = 1_u32.to_ne_bytes().to_vec();
            info.extend([address, address].concat());
            info.resize(48, 0);
            assert_eq!(of("SNAT", &info), Some(Change::Source(bytes(shown), None)));
        }
        assert_eq!(of("DNAT", &[]), None);
    }
}
