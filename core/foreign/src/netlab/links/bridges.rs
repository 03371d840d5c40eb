//! Networks that bridges join: links to a bridge, which are one network, and links with `bridge`, each a network of its own.
//!
//! netlab makes a VLAN of each such network, and of its ends links of two: the bridge and a node. So an address depends on
//! the place in such a pair, and a bridge is a neighbour like any other.

use super::{Address, At, Called, Purpose, Reader, Tie, Written, is_disabled, shaped, shared};
use super::{Allocation, Layers, Prefix, Unnumbered};
use crate::draft::{End, Link};

/// The network of a bridge.
#[derive(Default)]
pub(super) struct Lan<'a> {
    /// The other ends of its links, with their addresses.
    ties: Vec<Tie<'a>>,
    addresses: Vec<Address>,
    /// How many of them have their interface.
    made: usize,
}

/// A link that a bridge joins.
#[derive(Clone, Copy)]
pub(super) struct Joined {
    bridge: usize,
    prefix: Prefix,
}

/// What a network with routers that a bridge joins is for: neither the end of a network nor another system.
const BRIDGED: &str = "bridged";

impl<'a> Reader<'a, '_> {
    /// Gives the networks of bridges their prefixes, before any link has one: of each bridge that of its links, and then
    /// those that it joins.
    pub(super) fn networks(&mut self, all: &[Written<'a>]) {
        for bridge in 0..self.lans.len() {
            // A bridge without links takes a prefix, too.
            let own = self.bridged_prefix(&Layers::default());
            self.ports(all, bridge, &own);
            for (place, link) in all.iter().enumerate() {
                let layers = shared(link);
                let name = layers.0.iter().find_map(|at| at.text_of("bridge"));
                if name == Some(self.others.bridges[bridge].0.as_str()) && !is_disabled(&link.0) {
                    let prefix = self.bridged_prefix(&layers);
                    self.joined.insert(place, Joined { bridge, prefix });
                }
            }
        }
    }

    /// Gives the ends of a bridge's links their addresses.
    fn ports(&mut self, all: &[Written<'a>], bridge: usize, prefix: &Prefix) {
        for (at, _) in all.iter().filter(|(at, _)| !is_disabled(at)) {
            let Some((number, place, (name, at))) = self.to_bridge(at) else { continue };
            let (Ok(node), true) = (self.node(name), number == bridge) else { continue };
            let tie = Tie { node, at };
            let address = self.beside(bridge, &tie, place, prefix);
            self.lans[bridge].addresses.push(address);
            self.lans[bridge].ties.push(tie);
        }
    }

    /// The bridge of a link of two ends, and the other end with its place.
    pub(super) fn to_bridge(&self, at: &At<'a>) -> Option<(usize, usize, Called<'a>)> {
        let bridge = |name: &str| self.others.bridges.iter().position(|(known, _)| known == name);
        let [one, two] = <[_; 2]>::try_from(self.ends(at)).ok()?;
        match (bridge(one.0), bridge(two.0)) {
            (Some(number), None) => Some((number, 1, two)),
            (None, Some(number)) => Some((number, 0, one)),
            _ => None,
        }
    }

    /// The prefix of a network that a bridge joins.
    fn bridged_prefix(&mut self, layers: &Layers<'a>) -> Prefix {
        let role = layers.nearest("role").and_then(|at| at.text());
        let usual = if self.pools.has("vlan") { "vlan" } else { "lan" };
        let usual = role.filter(|name| self.pools.has(name)).unwrap_or(usual);
        let mut prefix = self.prefix(layers, usual);
        // A VLAN of netlab knows nothing else of that kind.
        prefix.unnumbered = prefix.unnumbered.filter(|which| *which == Unnumbered::All);
        prefix
    }

    /// The address of an end beside a bridge.
    fn beside(&self, bridge: usize, tie: &Tie<'a>, place: usize, prefix: &Prefix) -> Address {
        let way = prefix.net.map(|_| prefix.allocation.unwrap_or(Allocation::ByNumber));
        let place = match way {
            Some(Allocation::Pair) => {
                usize::from(self.others.bridges[bridge].0 < self.nodes[tie.node].name)
            }
            _ => place,
        };
        self.address(tie, place, prefix, way)
    }

    /// The addresses of a joined link's ends, what it is for, and whether its prefix has addresses for it.
    pub(super) fn joined_addresses(
        &mut self,
        ties: &[Tie<'a>],
        layers: &Layers<'a>,
        Joined { bridge, prefix }: Joined,
    ) -> (Vec<Address>, Purpose<'a>, bool) {
        let has_own = prefix.net.is_some() || prefix.unnumbered.is_some();
        let mut addresses: Vec<Address> = vec![];
        let mut fits = true;
        for tie in ties {
            let prefix = if has_own { prefix } else { self.pair(tie, &prefix) };
            // The bridge is the first of each pair.
            let address = self.beside(bridge, tie, 1, &prefix);
            let says = tie.at.as_ref().is_some_and(|at| at.get("ipv4").is_some());
            fits &= prefix.net.is_none() || address.0.is_some() || says;
            addresses.push(address);
        }
        let is_single = layers.text("type") == Some("stub");
        (addresses, Purpose { is_single, ..self.bridged(ties) }, fits)
    }

    /// The prefix of the pair of a bridge and a node where their network has none: as that of a link of these two.
    fn pair(&mut self, tie: &Tie<'a>, network: &Prefix) -> Prefix {
        let is_host = self.nodes[tie.node].is_host;
        let pool = if is_host || !self.pools.has("p2p") { "lan" } else { "p2p" };
        let way = network.allocation.unwrap_or(Allocation::ByNumber);
        Prefix { allocation: Some(way), ..Prefix::of(&self.pools.take(pool)) }
    }

    /// What a network with these ends is for.
    fn bridged(&self, ties: &[Tie<'a>]) -> Purpose<'a> {
        let are_hosts = ties.iter().all(|tie| self.nodes[tie.node].is_host);
        let role = Some(if are_hosts { "stub" } else { BRIDGED });
        Purpose { role, is_single: false, is_bridged: true }
    }

    /// Makes the next link of a bridge.
    pub(super) fn port(&mut self, number: usize, layers: &Layers<'a>) {
        let mut lan = std::mem::take(&mut self.lans[number]);
        let (at, switch) = (lan.made, self.others.bridges[number].1.clone());
        lan.made += 1;
        let purpose = self.bridged(&lan.ties);
        let end = self.interface(at, (&lan.ties, &lan.addresses), purpose, layers);
        let tie = &lan.ties[at..=at];
        let mtu = self.mtus(std::slice::from_ref(&end), tie, layers);
        let impairments = [vec![], shaped(&tie[0], layers), vec![]];
        let ends = [end, End::port(switch)];
        self.draft.links.push(Link { ends, mtu, impairments, ..Link::default() });
        self.lans[number] = lan;
    }
}
