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

#[derive(Default)]
struct Pool {
    name: String,
    net: Option<Ipv4Net>,
    /// The length of what is taken from it; 32 for loopbacks, else 24, where nothing says so.
    length: Option<u8>,
    /// Whether interfaces have the loopback's address.
    unnumbered: Option<Unnumbered>,
    /// How addresses are given to the ends of a link.
    allocation: Option<Allocation>,
    taken: u32,
    /// How many prefixes were taken before the first node had its own.
    before_nodes: Option<u32>,
}

/// How addresses of a prefix are given to the ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allocation {
    /// By the names of two nodes.
    Pair,
    /// In the order of the ends.
    InOrder,
    /// By the numbers of nodes.
    ByNumber,
    /// The only address to the only node.
    Alone,
}

/// Which interfaces of a link without addresses have the loopback's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unnumbered {
    /// All: `ipv4: true`.
    All,
    /// Those of nodes with a loopback: `unnumbered`.
    OfLoopbacks,
}

/// Reads an `allocation`.
pub(super) fn allocation(at: &At<'_>) -> Option<Allocation> {
    let found = match at.text() {
        Some("p2p") => Some(Allocation::Pair),
        Some("sequential") => Some(Allocation::InOrder),
        Some("id_based") => Some(Allocation::ByNumber),
        _ => None,
    };
    match found {
        Some(_) => at.carried(),
        None => at.odd("p2p, sequential or id_based"),
    }
    found
}

/// What a link has from a pool.
pub(super) enum Share {
    Net(Ipv4Net, Option<Allocation>),
    Unnumbered(Unnumbered),
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
            length: Some(length),
            unnumbered: None,
            allocation: None,
            taken: 0,
            before_nodes: None,
        };
        let mut pools = Pools(USUAL.into_iter().map(usual).collect());
        let mut found = vec![];
        below(root, "", &mut found);
        // What the topology says counts more than its defaults.
        for start in ["defaults.addressing.", "addressing."] {
            for (path, at) in &found {
                if let Some(rest) = path.strip_prefix(start) {
                    pools.entry(rest, at);
                }
            }
        }
        pools
    }

    fn entry(&mut self, path: &str, at: &At<'_>) {
        match path.split_once('.') {
            Some(("mgmt", _)) => at.changed("there is no management network"),
            Some((name, key)) => self.set(name, key, at),
            None if at.is_empty() => {
                self.number(path);
                at.carried();
            }
            None => {
                // A prefix alone takes the place of all that a pool has.
                let number = self.number(path);
                if let Some(pool) = self.0.get_mut(number) {
                    *pool = Pool { name: path.to_owned(), taken: pool.taken, ..Pool::default() };
                }
                self.set(path, "ipv4", at);
            }
        }
    }

    /// The place of a pool, which is made if it is not there.
    fn number(&mut self, name: &str) -> usize {
        let known = self.0.iter().position(|pool| pool.name == name);
        known.unwrap_or_else(|| {
            self.0.push(Pool { name: name.to_owned(), ..Pool::default() });
            self.0.len() - 1
        })
    }

    fn set(&mut self, name: &str, key: &str, at: &At<'_>) {
        let number = self.number(name);
        let Some(pool) = self.0.get_mut(number) else { return };
        match (key, at.text()) {
            ("ipv4", Some("true" | "True")) => pool.unnumbered = Some(Unnumbered::All),
            ("ipv4", Some("false" | "False")) => pool.net = None,
            ("ipv4", Some(text)) => match text.parse::<Ipv4Net>() {
                Ok(net) => pool.net = Some(net.trunc()),
                Err(_) => return at.odd("a prefix like 10.0.0.0/16"),
            },
            ("prefix" | "prefix4", Some(text)) => match text.parse::<u8>() {
                Ok(length) if (1..=32).contains(&length) => pool.length = Some(length),
                _ => return at.odd("a prefix length"),
            },
            ("unnumbered", Some("true" | "True")) => {
                pool.unnumbered = Some(Unnumbered::OfLoopbacks);
            }
            ("unnumbered", Some(_)) => {
                pool.unnumbered = Some(Unnumbered::OfLoopbacks);
                return at.changed("unnumbered, as netlab takes it");
            }
            ("allocation", _) => {
                pool.allocation = allocation(at);
                return;
            }
            ("ipv6", Some("false" | "False")) => {}
            ("ipv6", _) => return at.left_out("only addresses of IPv4 are made up"),
            _ => return at.left_out(crate::ledger::UNKNOWN),
        }
        at.carried();
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|pool| pool.name == name)
    }

    /// The address of a node by its number: of a pool with longer prefixes the first of that prefix. No link gets a prefix
    /// up to that one.
    pub(super) fn of_node(&mut self, name: &str, id: u32) -> Option<Ipv4Net> {
        let pool = self.0.iter_mut().find(|pool| pool.name == name)?;
        let number = id.checked_add(*pool.before_nodes.get_or_insert(pool.taken))?;
        pool.taken = pool.taken.max(number);
        let length = pool.length();
        let place = number.checked_sub(u32::from(!pool.skips_first()))?;
        let net = pool.share(place)?;
        let address = u32::from(net.network()).checked_add(u32::from(length < 32))?;
        Ipv4Net::new(Ipv4Addr::from(address), length).ok()
    }

    /// The next prefix of a pool.
    pub(super) fn take(&mut self, name: &str) -> Share {
        let Some(pool) = self.0.iter_mut().find(|pool| pool.name == name) else {
            return Share::Nothing;
        };
        if let Some(unnumbered) = pool.unnumbered {
            return Share::Unnumbered(unnumbered);
        }
        let net = pool.share(pool.taken + u32::from(pool.skips_first()));
        pool.taken += u32::from(net.is_some());
        net.map_or(Share::Nothing, |net| Share::Net(net, pool.allocation))
    }
}

impl Pool {
    fn length(&self) -> u8 {
        self.length.unwrap_or(if self.name.contains("loopback") { 32 } else { 24 })
    }

    /// Whether the first prefix stays free: that of number 0.
    fn skips_first(&self) -> bool {
        self.name == "loopback" || self.length() == 32
    }

    /// The prefix at a place.
    fn share(&self, place: u32) -> Option<Ipv4Net> {
        let (net, length) = (self.net?, self.length());
        let start = u64::from(place) << (32 - length);
        let start = u32::try_from(u64::from(u32::from(net.network())) + start).ok()?;
        let start = Ipv4Addr::from(start);
        (net.contains(&start) && length >= net.prefix_len())
            .then(|| Ipv4Net::new(start, length).ok())?
    }
}
