//! Links of netlab: strings, lists of nodes, maps by node, maps with `interfaces`, and groups of links.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use super::keys::{Layers, reasons};
use super::nodes::LeftOut;
use super::pools::{Pools, Share};
use super::{Interface, Nodes, as_net, traffic};
use crate::at::At;
use crate::draft::{Draft, End, Link, Switch};

/// An end as it is written: the node, and its attributes on the link.
struct Tie<'a> {
    node: usize,
    at: Option<At<'a>>,
}

/// The reader of all links.
struct Reader<'a, 'b> {
    nodes: &'b mut Nodes<'a>,
    left_out: &'b LeftOut,
    pools: &'b mut Pools,
    draft: &'b mut Draft,
    /// Switches so far.
    switches: u32,
}

/// Reads all links.
pub(super) fn read<'a>(
    root: &At<'a>,
    (nodes, left_out): (&mut Nodes<'a>, &LeftOut),
    pools: &mut Pools,
    draft: &mut Draft,
) {
    let mut reader = Reader { nodes, left_out, pools, draft, switches: 0 };
    let Some(links) = root.get("links") else { return };
    if links.is_empty() {
        links.carried();
    }
    for at in links.items() {
        match at.get("group").and_then(|_| at.get("members")) {
            Some(members) => {
                at.get("group").iter().for_each(|at| at.changed("its links one by one"));
                members.items().iter().for_each(|item| reader.link(item, Some(&at)));
                reasons(&at, REASONS);
            }
            None => reader.link(&at, None),
        }
    }
}

/// Attributes that mean something only to netlab.
const REASONS: &[(&str, bool, &str)] = &[
    ("name", true, "links are known by their ends"),
    ("bridge", true, "a switch of the lab, not a bridge of the host"),
    ("linkindex", true, "links are known by their ends"),
    ("graph", true, "only matters to its drawing"),
    ("role", true, "routers see by the nodes on a link what it is for"),
    ("vlan", false, "no configuration is made for this module"),
    ("vrf", false, "no configuration is made for this module"),
    ("dhcp", false, "no configuration is made for this module"),
];

impl<'a> Reader<'a, '_> {
    fn link(&mut self, at: &At<'a>, group: Option<&At<'a>>) {
        let ties = match self.ties(at) {
            Ok(ties) => ties,
            Err(why) => return at.left_out(why),
        };
        let shared: Vec<At<'a>> = [Some(at).filter(|at| !at.entries().is_empty()), group]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let layers = Layers(shared, None);
        if layers.nearest("type").is_some_and(|at| at.text() == Some("loopback")) {
            return at.left_out("write `loopback` of the node");
        }
        self.make(&ties, &layers);
        ties.iter().filter_map(|tie| tie.at.as_ref()).for_each(|at| {
            if at.is_empty() || at.text().is_some() {
                at.carried();
            }
            at.get("node").iter().for_each(At::carried);
        });
        if at.text().is_some() {
            at.carried();
        }
        layers.0.iter().for_each(|at| reasons(at, REASONS));
    }

    /// The ends of a link.
    fn ties(&self, at: &At<'a>) -> Result<Vec<Tie<'a>>, String> {
        let mut ties = vec![];
        let list = at.get("interfaces").map_or_else(|| at.items(), |at| at.items());
        if let Some(text) = at.text() {
            for word in text.split('-') {
                ties.push(Tie { node: self.node(word.trim())?, at: None });
            }
        } else if !list.is_empty() {
            for item in list {
                let name = item.text().or_else(|| item.text_of("node")).unwrap_or_default();
                ties.push(Tie { node: self.node(name)?, at: Some(item.clone()) });
            }
        } else {
            for (key, at) in at.entries() {
                let known = self.left_out.iter().any(|(name, _)| name == key);
                if known || self.nodes.iter().any(|node| node.name == key) {
                    ties.push(Tie { node: self.node(key)?, at: Some(at) });
                }
            }
        }
        match ties.is_empty() {
            true => Err("no node of the topology is on it".to_owned()),
            false => Ok(ties),
        }
    }

    fn node(&self, name: &str) -> Result<usize, String> {
        if let Some((_, why)) = self.left_out.iter().find(|(left_out, _)| left_out == name) {
            return Err(match why == crate::NOT_CHOSEN {
                true => why.clone(),
                false => format!("{name} is left out: {why}"),
            });
        }
        let found = self.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| format!("there is no node {name:?}"))
    }

    fn make(&mut self, ties: &[Tie<'a>], layers: &Layers<'a>) {
        let hosts = ties.iter().filter(|tie| self.nodes[tie.node].is_host).count();
        let kind = match layers.text("type") {
            Some(kind) => kind,
            None if hosts == 0 && ties.len() == 2 => "p2p",
            None => "lan",
        };
        let is_pair = kind == "p2p" && ties.len() == 2;
        let (share, is_unnumbered) = self.share(layers, if is_pair { "p2p" } else { "lan" });
        let addresses: Vec<Option<Ipv4Net>> =
            ties.iter().map(|tie| self.address(tie, ties, share, is_pair)).collect();
        let ends: Vec<End> = ties
            .iter()
            .zip(&addresses)
            .map(|(tie, address)| {
                let node = &self.nodes[tie.node];
                let name = format!("eth{}", node.interfaces.len() + 1);
                let addresses = address.iter().map(|net| as_net(*net)).collect();
                End { addresses, ..End::of(&node.new, name) }
            })
            .collect();
        for (number, tie) in ties.iter().enumerate() {
            let peers = ties.iter().zip(&addresses).enumerate();
            let peers = peers.filter(|(other, _)| *other != number);
            let peers = peers.map(|(_, (tie, net))| (tie.node, net.map(|net| net.addr())));
            let own = tie.at.iter().filter(|at| at.text().is_none()).chain(&layers.0).cloned();
            let interface = Interface {
                name: ends[number].iface.clone().unwrap_or_default(),
                address: addresses[number],
                is_unnumbered: is_unnumbered && !self.nodes[tie.node].is_host,
                is_pair,
                is_stub: ties.len() == 1 || hosts == ties.len() - 1,
                peers: peers.collect(),
                layers: Layers(own.collect(), None),
            };
            self.nodes[tie.node].interfaces.push(interface);
        }
        self.wire(ends, ties, layers);
    }

    /// The prefix of a link, and whether its interfaces have none of their own.
    fn share(&mut self, layers: &Layers<'a>, usual: &str) -> (Option<Ipv4Net>, bool) {
        if layers.nearest("unnumbered").is_some_and(|at| at.is_true()) {
            layers.is("unnumbered", false);
            return (None, true);
        }
        for path in ["prefix.ipv4", "prefix"] {
            let Some(at) = layers.nearest(path).filter(|at| at.entries().is_empty()) else {
                continue;
            };
            match at.text().map(|text| (text, text.parse::<Ipv4Net>())) {
                Some((_, Ok(net))) => {
                    at.carried();
                    return (Some(net.trunc()), false);
                }
                Some(("false" | "False", _)) => {
                    at.carried();
                    return (None, false);
                }
                Some(("true" | "True", _)) => {
                    at.carried();
                    return (None, true);
                }
                _ => at.odd("a prefix of IPv4"),
            }
        }
        let chosen =
            layers.text("pool").or_else(|| layers.nearest("role").and_then(|at| at.text()));
        let pool = chosen.filter(|name| self.pools.has(name)).unwrap_or(usual);
        match self.pools.take(pool) {
            Share::Net(net) => (Some(net), false),
            Share::Unnumbered => (None, true),
            Share::Nothing => (None, false),
        }
    }

    /// The address of an end: its own, or in the link's prefix by name (of two) or number.
    fn address(
        &self,
        tie: &Tie<'a>,
        ties: &[Tie<'a>],
        share: Option<Ipv4Net>,
        is_pair: bool,
    ) -> Option<Ipv4Net> {
        let node = &self.nodes[tie.node];
        let given = tie.at.as_ref().and_then(|at| at.get("ipv4"));
        let host = |n: u32| {
            let net = share?;
            let address = Ipv4Addr::from(u32::from(net.network()).checked_add(n)?);
            net.contains(&address).then(|| Ipv4Net::new(address, net.prefix_len()).ok())?
        };
        if let Some(at) = given {
            let text = at.text().unwrap_or_default();
            if text.eq_ignore_ascii_case("false") {
                at.carried();
                return None;
            }
            let length = share.map_or(32, |net| net.prefix_len());
            let address = text.parse::<Ipv4Net>().ok();
            let address = address.or_else(|| Ipv4Net::new(text.parse().ok()?, length).ok());
            match address.or_else(|| host(text.parse().ok()?)) {
                Some(net) => {
                    at.carried();
                    return Some(net);
                }
                None => at.odd("an address of IPv4, or a number in the link's prefix"),
            }
        }
        let net = share?;
        if is_pair {
            let first = ties.iter().map(|tie| &self.nodes[tie.node].name).min()?;
            let is_first = match ties {
                [a, b] if a.node == b.node => std::ptr::eq(tie, a),
                _ => node.name == *first,
            };
            let start = if net.prefix_len() == 31 { 0 } else { 1 };
            return host(start + u32::from(!is_first));
        }
        host(node.id)
    }

    /// One wire, one that leads nowhere, or a switch with a wire for each end.
    fn wire(&mut self, ends: Vec<End>, ties: &[Tie<'a>], layers: &Layers<'a>) {
        let is_mtu = |text: &str| text.parse::<u32>().ok().filter(|mtu| (68..=65535).contains(mtu));
        let mtu = layers.parsed("mtu", "a number from 68 to 65535", is_mtu);
        let shaped = |tie: &Tie<'a>| {
            let own = tie.at.iter().filter(|at| at.text().is_none());
            traffic(&Layers(own.chain(&layers.0).cloned().collect(), None))
        };
        match <[End; 2]>::try_from(ends) {
            Ok(ends) => {
                let impairments = [vec![], shaped(&ties[0]), shaped(&ties[1])];
                self.draft.links.push(Link { ends, mtu, impairments });
            }
            Err(ends) if ends.len() == 1 => {
                let ends = ends.into_iter().chain([End::port("nowhere")]);
                if let Ok(ends) = <[End; 2]>::try_from(ends.collect::<Vec<_>>()) {
                    self.draft.links.push(Link { ends, mtu, ..Link::default() });
                }
            }
            Err(ends) => {
                self.switches += 1;
                let bridge = layers.0.iter().find_map(|at| at.text_of("bridge"));
                let wish = bridge.map(crate::valid_name).filter(|name| !name.is_empty());
                let wish = wish.unwrap_or_else(|| format!("lan{}", self.switches));
                let name = self.draft.free_name(&wish);
                let keys = mtu.map(|mtu| ("mtu", mtu.to_string())).into_iter().collect();
                self.draft.switches.push(Switch { name: name.clone(), keys });
                for (end, tie) in ends.into_iter().zip(ties) {
                    let impairments = [vec![], shaped(tie), vec![]];
                    let ends = [end, End::port(&name)];
                    self.draft.links.push(Link { ends, impairments, ..Link::default() });
                }
            }
        }
    }
}

/// The prefix that an interface is in.
pub(super) fn prefix(interface: &Interface<'_>) -> Option<IpNet> {
    interface.address.map(|net| as_net(net.trunc()))
}
