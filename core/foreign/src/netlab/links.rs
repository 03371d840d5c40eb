//! Links of netlab: strings, lists of nodes, maps by node, maps with `interfaces`, and groups of links.

mod bridges;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use super::keys::{Layers, reasons};
use super::nodes::Others;
use super::pools::{Allocation, Pools, Share, Unnumbered, allocation};
use super::{Interface, Nodes, as_net, traffic};
use crate::at::At;
use crate::draft::{Draft, End, Link, Switch};

use bridges::{Joined, Lan};

/// An end as it is written: the node, and its attributes on the link.
struct Tie<'a> {
    node: usize,
    at: Option<At<'a>>,
}

/// The reader of all links.
struct Reader<'a, 'b> {
    nodes: &'b mut Nodes<'a>,
    others: &'b Others,
    pools: &'b mut Pools,
    named: &'b Named,
    draft: &'b mut Draft,
    /// Switches so far.
    switches: u32,
    /// The networks of bridges.
    lans: Vec<Lan<'a>>,
    /// Links that a bridge joins, by their places among all links.
    joined: BTreeMap<usize, Joined>,
}

/// The address of an end, and whether it has the loopback's.
type Address = (Option<Ipv4Net>, bool);

/// What a link is for.
#[derive(Clone, Copy)]
struct Purpose<'a> {
    role: Option<&'a str>,
    /// Whether it is a link of one router.
    is_single: bool,
    /// Whether a bridge joins it.
    is_bridged: bool,
}

/// The name of a link's end, with its attributes.
type Called<'a> = (&'a str, Option<At<'a>>);

/// A link as it is written, and the group that it is in.
type Written<'a> = (At<'a>, Option<At<'a>>);

/// Reads all links, and gives nodes their loopbacks.
pub(super) fn read<'a>(
    root: &At<'a>,
    (nodes, others): (&mut Nodes<'a>, &Others),
    (pools, named): (&mut Pools, &Named),
    draft: &mut Draft,
) {
    let lans = others.bridges.iter().map(|_| Lan::default()).collect();
    let joined = BTreeMap::new();
    let mut reader = Reader { nodes, others, pools, named, draft, switches: 0, lans, joined };
    let all = written(root);
    // netlab gives networks of bridges their prefixes first, which decides those of loopbacks and of all other links.
    reader.networks(&all);
    super::nodes::loopbacks(reader.nodes, reader.pools, reader.draft);
    let all = || all.iter().enumerate();
    for (_, link) in
        all().filter(|(place, _)| !reader.joined.contains_key(place)).collect::<Vec<_>>()
    {
        reader.link(link, None);
    }
    // Networks that a bridge joins come last.
    for (place, link) in all() {
        if let Some(joined) = reader.joined.get(&place).copied() {
            reader.link(link, Some(joined));
        }
    }
}

/// All links, those of groups one by one.
fn written<'a>(root: &At<'a>) -> Vec<Written<'a>> {
    let mut all = vec![];
    let Some(links) = root.get("links") else { return all };
    if links.is_empty() {
        links.carried();
    }
    let lists = links.entries().into_iter().flat_map(|(_, at)| at.one_or_items());
    for at in links.items().into_iter().chain(lists) {
        match at.get("group").and_then(|_| at.get("members")) {
            Some(members) => {
                at.get("group").iter().for_each(|at| at.changed("its links one by one"));
                all.extend(members.items().into_iter().map(|item| (item, Some(at.clone()))));
                reasons(&at, REASONS);
            }
            None => all.push((at, None)),
        }
    }
    all
}

/// What holds for all ends of a link.
fn shared<'a>((at, group): &Written<'a>) -> Layers<'a> {
    let own = Some(at).filter(|at| !at.entries().is_empty());
    Layers([own, group.as_ref()].into_iter().flatten().cloned().collect(), None)
}

/// Whether a link is not there.
fn is_disabled(at: &At<'_>) -> bool {
    at.get("disable").is_some_and(|at| at.is_true())
}

/// Prefixes with names.
pub(super) type Named = BTreeMap<String, Prefix>;

/// The prefix of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prefix {
    net: Option<Ipv4Net>,
    /// Whether interfaces have the loopback's address.
    unnumbered: Option<Unnumbered>,
    allocation: Option<Allocation>,
}

impl Prefix {
    fn of(share: &Share) -> Prefix {
        match share {
            Share::Net(net, allocation) => {
                Prefix { net: Some(*net), allocation: *allocation, ..Prefix::default() }
            }
            Share::Unnumbered(which) => Prefix { unnumbered: Some(*which), ..Prefix::default() },
            Share::Nothing => Prefix::default(),
        }
    }
}

/// Reads `prefix`: prefixes with names, which those of pools take before links do.
pub(super) fn named(root: &At<'_>, pools: &mut Pools) -> Named {
    let mut named = Named::new();
    for (name, at) in root.get("prefix").iter().flat_map(At::entries) {
        let mut prefix = Prefix::default();
        if let Some(at) = at.get("pool") {
            at.carried();
            prefix = Prefix::of(&pools.take(at.text().unwrap_or_default()));
        }
        if let Some(at) = at.get("ipv4") {
            family(&at, &mut prefix);
        }
        prefix.allocation =
            at.get("allocation").as_ref().and_then(allocation).or(prefix.allocation);
        named.insert(name.to_owned(), prefix);
    }
    named
}

/// The prefix of IPv4 that a value says.
fn family(at: &At<'_>, prefix: &mut Prefix) {
    match at.text().map(|text| (text, text.parse::<Ipv4Net>())) {
        Some((_, Ok(net))) => prefix.net = Some(net.trunc()),
        Some(("false" | "False", _)) => prefix.net = None,
        Some(("true" | "True", _)) => {
            (prefix.net, prefix.unnumbered) = (None, Some(Unnumbered::All));
        }
        _ => return at.odd("a prefix of IPv4"),
    }
    at.carried();
}

/// Attributes that mean something only to netlab.
const REASONS: &[(&str, bool, &str)] = &[
    ("name", true, "links are known by their ends"),
    ("bridge", true, "a switch of the lab, not a bridge of the host"),
    ("linkindex", true, "links are known by their ends"),
    ("linkid", true, "links are known by their ends"),
    ("bandwidth", true, "what routers reckon with, no rate; `tc.rate` is one"),
    ("graph", true, "only matters to its drawing"),
    ("role", true, "routers see by the nodes on a link what it is for"),
    ("vlan", false, "no configuration is made for this module"),
    ("vrf", false, "no configuration is made for this module"),
    ("dhcp", false, "no configuration is made for this module"),
];

impl<'a> Reader<'a, '_> {
    fn link(&mut self, link: &Written<'a>, joined: Option<Joined>) {
        let at = &link.0;
        let bridge = self.to_bridge(at);
        let ties = match &bridge {
            Some((_, _, (name, at))) => {
                self.node(name).map(|node| vec![Tie { node, at: at.clone() }])
            }
            None => self.ties(at),
        };
        let ties = match ties {
            Ok(ties) => ties,
            Err(why) => return at.left_out(why),
        };
        let layers = shared(link);
        if is_disabled(at) {
            return at.changed("a link that is not there");
        }
        if layers.nearest("type").is_some_and(|at| at.text() == Some("loopback")) {
            // Its prefix is taken all the same: later links get the addresses that netlab gives
            // them.
            self.prefix(&layers, "lan");
            return at.left_out("write `loopback` of the node");
        }
        if let Some((number, ..)) = &bridge {
            self.port(*number, &layers);
            self.ends(at).into_iter().filter_map(|(_, at)| at).for_each(|at| said(&at));
        } else if !self.make(&ties, &layers, joined) {
            at.changed("without addresses: the prefix has too few, which netlab refuses");
        }
        ties.iter().filter_map(|tie| tie.at.as_ref()).for_each(said);
        if at.text().is_some() {
            at.carried();
        }
        layers.0.iter().for_each(|at| reasons(at, REASONS));
    }

    /// The ends of a link.
    fn ties(&self, at: &At<'a>) -> Result<Vec<Tie<'a>>, String> {
        let ends = self.ends(at);
        let tie = |(name, at)| Ok(Tie { node: self.node(name)?, at });
        match ends.is_empty() {
            true => Err("no node of the topology is on it".to_owned()),
            false => ends.into_iter().map(tie).collect(),
        }
    }

    /// The names of a link's ends, with their attributes.
    fn ends(&self, at: &At<'a>) -> Vec<Called<'a>> {
        let list = at.get("interfaces").map_or_else(|| at.items(), |at| at.items());
        if let Some(text) = at.text() {
            return text.split('-').map(|word| (word.trim(), None)).collect();
        }
        if !list.is_empty() {
            let name = |item: &At<'a>| item.text().or_else(|| item.text_of("node"));
            let end = |item: At<'a>| (name(&item).unwrap_or_default(), Some(item));
            return list.into_iter().map(end).collect();
        }
        let Others { left_out, bridges } = self.others;
        let known = |key: &str| {
            left_out.iter().chain(bridges).any(|(name, _)| name == key)
                || self.nodes.iter().any(|node| node.name == key)
        };
        let ends = at.entries().into_iter().filter(|(key, _)| known(key));
        ends.map(|(key, at)| (key, Some(at))).collect()
    }

    fn node(&self, name: &str) -> Result<usize, String> {
        if self.others.bridges.iter().any(|(bridge, _)| bridge == name) {
            return Err(format!(
                "{name} is a bridge: a link of it leads to one node; a network has `bridge: {name}`"
            ));
        }
        if let Some((_, why)) = self.others.left_out.iter().find(|(left_out, _)| left_out == name) {
            return Err(match why == crate::NOT_CHOSEN {
                true => why.clone(),
                false => format!("{name} is left out: {why}"),
            });
        }
        let found = self.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| format!("there is no node {name:?}"))
    }

    /// Makes a link; `false` if its prefix has no addresses for it.
    fn make(&mut self, ties: &[Tie<'a>], layers: &Layers<'a>, joined: Option<Joined>) -> bool {
        let (addresses, purpose, fits) = match joined {
            Some(joined) => self.joined_addresses(ties, layers, joined),
            None => self.addresses(ties, layers),
        };
        let mut ends: Vec<End> = vec![];
        for number in 0..ties.len() {
            ends.push(self.interface(number, (ties, &addresses), purpose, layers));
        }
        let shaped: Vec<_> = ties
            .iter()
            .map(|tie| match joined {
                // Of a network's attributes netlab gives the links of a bridge only the MTU.
                Some(_) => shaped(tie, &Layers::default()),
                None => shaped(tie, layers),
            })
            .collect();
        if joined.is_some() {
            let why = "netlab gives links of a bridge no `tc` of their network";
            layers.0.iter().for_each(|at| reasons(at, &[("tc", false, why)]));
        }
        self.wire(ends, ties, layers, shaped);
        fits
    }

    /// The addresses of a link's ends, what it is for, and whether its prefix has addresses for it.
    fn addresses(
        &mut self,
        ties: &[Tie<'a>],
        layers: &Layers<'a>,
    ) -> (Vec<Address>, Purpose<'a>, bool) {
        let hosts = ties.iter().filter(|tie| self.nodes[tie.node].is_host).count();
        let usual = match ties.len() {
            1 if hosts == 0 => "stub",
            2 if hosts == 0 => "p2p",
            _ => "lan",
        };
        let kind = layers.text("type").unwrap_or(usual);
        let role = layers.nearest("role").and_then(|at| at.text());
        let role = role.or_else(|| self.usual_role(ties, ties.len() - hosts));
        let pool = role.filter(|name| self.pools.has(name)).unwrap_or(usual);
        let prefix = self.prefix(layers, pool);
        let way = prefix.net.map(|net| self.way(&prefix, net, kind, ties));
        let name = |number: usize| &self.nodes[ties[number].node].name;
        let place = |number: usize| match way.flatten() {
            Some(Allocation::Pair) => {
                let before = |other: &usize| (name(*other), *other) < (name(number), number);
                (0..ties.len()).filter(before).count()
            }
            _ => number,
        };
        let address = |n: usize| self.address(&ties[n], place(n), &prefix, way.flatten());
        let addresses = (0..ties.len()).map(address).collect();
        (
            addresses,
            Purpose { role, is_single: kind == "stub", is_bridged: false },
            way != Some(None),
        )
    }

    /// Makes the interface of an end.
    fn interface(
        &mut self,
        number: usize,
        (ties, addresses): (&[Tie<'a>], &[Address]),
        Purpose { role, is_single, is_bridged }: Purpose<'a>,
        layers: &Layers<'a>,
    ) -> End {
        let tie = &ties[number];
        let peers = ties.iter().zip(addresses).enumerate();
        let peers = peers.filter(|(other, _)| *other != number);
        let peers = peers.map(|(_, (tie, (net, _)))| (tie.node, net.map(|net| net.addr())));
        // Behind a bridge a node is one neighbour whatever the number of its links, and not its own.
        let mut known = BTreeSet::from([tie.node]);
        let peers = peers.filter(|(peer, _)| !is_bridged || known.insert(*peer)).collect();
        let own = tie.at.iter().filter(|at| at.text().is_none()).chain(&layers.0).cloned();
        let (index, name) = self.interface_name(tie);
        let (address, is_unnumbered) = addresses[number];
        let node = &mut self.nodes[tie.node];
        // A link has no room for an address that is alone in its prefix; a command gives it.
        let alone = address.filter(|net| net.prefix_len() == 32);
        if let Some((net, made)) = alone.zip(self.draft.node(&node.new)) {
            let words = ["ip", "address", "add", &net.to_string(), "dev", &name];
            made.setup.push(words.map(str::to_owned).to_vec());
        }
        let nets = address.iter().filter(|_| alone.is_none()).map(|net| as_net(*net)).collect();
        let end = End { addresses: nets, ..End::of(&node.new, &name) };
        node.interfaces.push(Interface {
            name,
            index,
            address,
            is_unnumbered,
            role,
            is_single,
            is_bridged,
            peers,
            layers: Layers(own.collect(), None),
        });
        end
    }

    /// What a link is for where nothing says so: to another system, or with one router at most.
    fn usual_role(&self, ties: &[Tie<'a>], routers: usize) -> Option<&'static str> {
        let systems = ties.iter().map(|tie| &self.nodes[tie.node]);
        let mut systems = systems.filter(|node| node.runs("bgp")).filter_map(|node| node.asn);
        let first = systems.next();
        match systems.any(|asn| Some(asn) != first) {
            true => Some("external"),
            false => (routers <= 1).then_some("stub"),
        }
    }

    /// The number and the name of a node's next interface: the lowest number that is free, unless the link says another.
    fn interface_name(&self, tie: &Tie<'a>) -> (u32, String) {
        let taken = &self.nodes[tie.node].interfaces;
        let own = Layers(tie.at.iter().filter(|at| at.text().is_none()).cloned().collect(), None);
        let index = own.number("ifindex").or_else(|| {
            (1..).find(|number| taken.iter().all(|interface| interface.index != *number))
        });
        let index = index.unwrap_or(0);
        let free = |name: &str| taken.iter().all(|interface| interface.name != name);
        let valid = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            (1..=15).contains(&name.len())
                && name.chars().all(plain)
                && !["lo", ".", ".."].contains(&name)
        };
        let what = "a name of up to 15 letters that no other interface of the node has";
        let given = own.parsed("ifname", what, |name| Some(name).filter(|n| valid(n) && free(n)));
        let usual = std::iter::once(format!("eth{index}"))
            .chain((1..).map(|number| format!("eth{number}")))
            .find(|name| free(name));
        (index, given.map(str::to_owned).or(usual).unwrap_or_default())
    }

    /// The prefix of a link.
    fn prefix(&mut self, layers: &Layers<'a>, usual: &str) -> Prefix {
        let mut own = Prefix::default();
        if let Some(at) = layers.nearest("prefix") {
            match at.text() {
                Some("false" | "False") => {
                    at.carried();
                    return own;
                }
                Some(name) if self.named.contains_key(name) => {
                    at.carried();
                    return self.named[name];
                }
                Some(_) => {
                    family(&at, &mut own);
                    return own;
                }
                None => {}
            }
        }
        own.allocation = layers.nearest("prefix.allocation").as_ref().and_then(allocation);
        if let Some(at) = layers.nearest("prefix.ipv4") {
            family(&at, &mut own);
            return own;
        }
        if let Some(at) = layers.nearest("unnumbered") {
            match at.is_true() {
                true => at.carried(),
                false => at.changed("unnumbered: netlab takes it as such whatever it says"),
            }
            let unnumbered = Some(Unnumbered::OfLoopbacks);
            return Prefix { unnumbered, ..Prefix::default() };
        }
        let chosen = layers.text("pool").filter(|name| self.pools.has(name)).unwrap_or(usual);
        let chosen = if self.pools.has(chosen) { chosen } else { "lan" };
        let prefix = Prefix::of(&self.pools.take(chosen));
        Prefix { allocation: own.allocation.or(prefix.allocation), ..prefix }
    }

    /// How the ends of a link get their addresses; `None` where there are too few of them.
    fn way(
        &self,
        prefix: &Prefix,
        net: Ipv4Net,
        kind: &str,
        ties: &[Tie<'a>],
    ) -> Option<Allocation> {
        if prefix.allocation.is_some() {
            return prefix.allocation;
        }
        let all = 1_u64 << (32 - net.prefix_len());
        let usable = if all > 2 { all - 2 } else { all };
        let most = ties.iter().map(|tie| u64::from(self.nodes[tie.node].id)).max().unwrap_or(0);
        match ties.len() as u64 {
            _ if kind == "p2p" => (all > 1).then_some(Allocation::Pair),
            2 if all == 2 => Some(Allocation::Pair),
            1 if all == 1 => Some(Allocation::Alone),
            _ if all > 1 && most <= usable => Some(Allocation::ByNumber),
            count if all > 1 && count <= usable => Some(Allocation::InOrder),
            _ => None,
        }
    }

    /// The address of an end, its own or that of the link's prefix at its place among the ends, and whether it has the
    /// loopback's.
    fn address(
        &self,
        tie: &Tie<'a>,
        place: usize,
        prefix: &Prefix,
        way: Option<Allocation>,
    ) -> Address {
        let node = &self.nodes[tie.node];
        // A negative number counts from the end.
        let host = |n: i64| {
            let net = prefix.net?;
            let start = if n < 0 {
                u64::from(u32::from(net.broadcast())) + 1
            } else {
                u64::from(u32::from(net.network()))
            };
            let address = Ipv4Addr::from(u32::try_from(start.checked_add_signed(n)?).ok()?);
            net.contains(&address).then(|| Ipv4Net::new(address, net.prefix_len()).ok())?
        };
        let own = tie.at.as_ref().and_then(|at| at.get("ipv4"));
        if way == Some(Allocation::Alone) {
            let why = "the node has the only address of the prefix, whatever this says";
            own.iter().for_each(|at| at.changed(why));
            return (prefix.net, false);
        }
        if let Some(at) = own {
            let text = at.text().unwrap_or_default();
            if ["true", "false"].contains(&text.to_ascii_lowercase().as_str()) {
                at.carried();
                return (None, text.eq_ignore_ascii_case("true"));
            }
            let length = prefix.net.map_or(32, |net| net.prefix_len());
            let address = text.parse::<Ipv4Net>().ok();
            let address = address.or_else(|| Ipv4Net::new(text.parse().ok()?, length).ok());
            match address.or_else(|| host(text.parse().ok()?)) {
                Some(net) => {
                    at.carried();
                    return (Some(net), false);
                }
                None => at.odd("an address of IPv4, or a number in the link's prefix"),
            }
        }
        // Of a /31 both addresses are hosts' (RFC 3021); else the first is the network's.
        let start = i64::from(prefix.net.is_some_and(|net| net.prefix_len() < 31));
        let address = match way {
            Some(Allocation::ByNumber) => host(i64::from(node.id)),
            Some(Allocation::InOrder | Allocation::Pair) => {
                i64::try_from(place).ok().and_then(|place| host(start + place))
            }
            Some(Allocation::Alone) | None => None,
        };
        let is_unnumbered = match prefix.unnumbered {
            Some(Unnumbered::All) => true,
            Some(Unnumbered::OfLoopbacks) => node.loopback.is_some(),
            None => false,
        };
        (address, is_unnumbered)
    }

    /// The MTU of each end, and that of the link. Ends that have less set it by a command.
    fn mtus(&mut self, ends: &[End], ties: &[Tie<'a>], layers: &Layers<'a>) -> Option<u32> {
        let is_mtu = |text: &str| text.parse::<u32>().ok().filter(|mtu| (68..=65535).contains(mtu));
        let mut all = vec![];
        for tie in ties {
            let own = tie.at.iter().filter(|at| at.text().is_none());
            let own = Layers(own.chain(&layers.0).cloned().collect(), None);
            let given = own.parsed("mtu", "a number from 68 to 65535", is_mtu);
            all.push(given.unwrap_or(self.nodes[tie.node].mtu));
        }
        let most = all.iter().copied().max().unwrap_or(1500);
        // A link of a lab has one MTU. The largest holds for it, and smaller ends are set
        // afterwards.
        for (end, mtu) in ends.iter().zip(&all).filter(|(_, mtu)| **mtu < most) {
            let iface = end.iface.clone().unwrap_or_default();
            let words = ["ip", "link", "set", &iface, "mtu", &mtu.to_string()];
            if let Some(node) = self.draft.node(&end.at) {
                node.setup.push(words.map(str::to_owned).to_vec());
            }
        }
        (most != 1500).then_some(most)
    }

    /// One wire, one that leads nowhere, or a switch with a wire for each end.
    fn wire(
        &mut self,
        ends: Vec<End>,
        ties: &[Tie<'a>],
        layers: &Layers<'a>,
        mut shaped: Vec<Keys>,
    ) {
        let mtu = self.mtus(&ends, ties, layers);
        match <[End; 2]>::try_from(ends) {
            Ok(ends) => {
                let second = shaped.pop().unwrap_or_default();
                let impairments = [vec![], shaped.pop().unwrap_or_default(), second];
                self.draft.links.push(Link { ends, mtu, impairments, ..Link::default() });
            }
            Err(ends) if ends.len() == 1 => {
                let own = ties[0].at.iter().filter(|at| at.text().is_none()).chain(&layers.0);
                own.filter_map(|at| at.get("tc"))
                    .for_each(|at| at.changed("the link leads nowhere"));
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
                for (end, shaped) in ends.into_iter().zip(shaped) {
                    let impairments = [vec![], shaped, vec![]];
                    let ends = [end, End::port(&name)];
                    self.draft.links.push(Link { ends, impairments, ..Link::default() });
                }
            }
        }
    }
}

/// Keys of an impairment.
type Keys = Vec<(&'static str, String)>;

/// What an end does to what it sends.
fn shaped(tie: &Tie<'_>, layers: &Layers<'_>) -> Keys {
    let own = tie.at.iter().filter(|at| at.text().is_none());
    traffic(&Layers(own.chain(&layers.0).cloned().collect(), None))
}

/// Says of an end's own item that it was read.
fn said(at: &At<'_>) {
    if at.is_empty() || at.text().is_some() {
        at.carried();
    }
    at.get("node").iter().for_each(At::carried);
}

/// The prefix that an interface is in.
pub(super) fn prefix(interface: &Interface<'_>) -> Option<IpNet> {
    interface.address.map(|net| as_net(net.trunc()))
}
