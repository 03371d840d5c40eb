//! Pools of addresses (`addressing`): of loopbacks, networks with several nodes, links of two.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::keys::below;
use crate::at::At;

/// Netlab's own pools: name, prefix, length of what is taken from it.
const USUAL: [(&str, [u8; 4], u8, u8); 4] = [
    ("loopback", [10, 0, 0, 0], 24, 32),
    ("router_id", [10, 0, 0, 0], 24, 32),
    ("lan", [172, 16, 0, 0], 16, 24),
    ("p2p", [10, 1, 0, 0], 16, 30),
];

struct Pool {
    name: String,
    net: Option<Ipv4Net>,
    length: u8,
    /// Whether interfaces have the loopback's address.
    is_unnumbered: bool,
    taken: u32,
}

/// What a link has from a pool.
pub(super) enum Share {
    Net(Ipv4Net),
    Unnumbered,
    /// Nothing is left, or nothing was there.
    Nothing,
}

/// All pools.
pub(super) struct Pools(Vec<Pool>);

impl Pools {
    /// Reads `addressing`.
    pub(super) fn read(root: &At<'_>) -> Pools {
        let usual = |(name, net, size, length): (&str, [u8; 4], u8, u8)| Pool {
            name: name.to_owned(),
            net: Ipv4Net::new(Ipv4Addr::from(net), size).ok(),
            length,
            is_unnumbered: false,
            taken: 0,
        };
        let mut pools = Pools(USUAL.into_iter().map(usual).collect());
        let mut found = vec![];
        below(root, "", &mut found);
        for (path, at) in found {
            if let Some(rest) = path.strip_prefix("addressing.") {
                match rest.split_once('.') {
                    Some(("mgmt", _)) => at.changed("there is no management network"),
                    Some((name, key)) => pools.set(name, key, &at),
                    None if at.is_empty() => at.carried(),
                    None => at.odd("a map"),
                }
            }
        }
        pools
    }

    fn set(&mut self, name: &str, key: &str, at: &At<'_>) {
        let known = self.0.iter().position(|pool| pool.name == name);
        let number = known.unwrap_or_else(|| {
            let name = name.to_owned();
            self.0.push(Pool { name, net: None, length: 24, is_unnumbered: false, taken: 0 });
            self.0.len() - 1
        });
        let Some(pool) = self.0.get_mut(number) else { return };
        match (key, at.text()) {
            ("ipv4", Some("true" | "True")) => pool.is_unnumbered = true,
            ("ipv4", Some("false" | "False")) => pool.net = None,
            ("ipv4", Some(text)) => match text.parse::<Ipv4Net>() {
                Ok(net) => pool.net = Some(net.trunc()),
                Err(_) => return at.odd("a prefix like 10.0.0.0/16"),
            },
            ("prefix" | "prefix4", Some(text)) => match text.parse::<u8>() {
                Ok(length) if length <= 32 => pool.length = length,
                _ => return at.odd("a prefix length"),
            },
            ("unnumbered", Some(text)) => pool.is_unnumbered = text.eq_ignore_ascii_case("true"),
            ("ipv6", Some("false" | "False")) => {}
            ("ipv6", _) => return at.left_out("only addresses of IPv4 are made up"),
            _ => return at.left_out(crate::ledger::UNKNOWN),
        }
        at.carried();
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|pool| pool.name == name)
    }

    /// The address of a node by its number.
    pub(super) fn of_node(&self, name: &str, id: u32) -> Option<Ipv4Net> {
        let pool = self.0.iter().find(|pool| pool.name == name)?;
        let address = Ipv4Addr::from(u32::from(pool.net?.network()).checked_add(id)?);
        pool.net?.contains(&address).then(|| Ipv4Net::new(address, pool.length).ok())?
    }

    /// The next prefix of a pool.
    pub(super) fn take(&mut self, name: &str) -> Share {
        let Some(pool) = self.0.iter_mut().find(|pool| pool.name == name) else {
            return Share::Nothing;
        };
        if pool.is_unnumbered {
            return Share::Unnumbered;
        }
        let Some(net) = pool.net else { return Share::Nothing };
        let size = 1_u32.checked_shl(u32::from(32 - pool.length)).unwrap_or(u32::MAX);
        let start = pool.taken.checked_mul(size);
        let start = start.and_then(|start| u32::from(net.network()).checked_add(start));
        let Some(start) = start.map(Ipv4Addr::from).filter(|start| net.contains(start)) else {
            return Share::Nothing;
        };
        pool.taken += 1;
        Ipv4Net::new(start, pool.length).map_or(Share::Nothing, Share::Net)
    }
}
