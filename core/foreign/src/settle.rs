//! What a lab file does not take of other programs' labs is given in another way before the text is written.
//!
//! Addresses, hardware addresses and routes that the kernel may take, but the planner does not, become commands of the
//! node. Loops of switches are allowed, and bridges in them block. Each is reported at its line of the source. What is
//! refused nevertheless is taken out by [`crate::refused`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::closed;
use crate::draft::{Draft, End, Link, Node, Switch};
use crate::ledger::{Id, Ledger, Verdict};
use crate::shell::forgiving;

/// The range of MTUs that an interface of a lab may have.
const MTUS: std::ops::RangeInclusive<u32> = 68..=65_535;

/// The least MTU at which the kernel has IPv6.
const LEAST_IPV6: u32 = 1280;

/// Makes of a draft what a lab file takes.
pub(crate) fn settle(draft: &mut Draft, file: &str, ledger: &Ledger) {
    let teller = Teller { file, ledger, names: source_names(draft) };
    let mut commands = Commands::default();
    files(draft, &teller);
    selves(draft, &teller);
    // Before addresses: which links stay decides what the segments are.
    loops(draft, &teller);
    mtus(draft, &teller);
    macs(draft, &teller, &mut commands);
    let by_command = addresses(draft, &teller, &mut commands);
    routes(draft, &by_command, &teller, &mut commands);
    commands.into_nodes(draft);
}

/// Files that an ordinary user's nodes cannot have in their place are copied there by a command, before others run.
fn files(draft: &mut Draft, teller: &Teller<'_>) {
    for node in &mut draft.nodes {
        for mut file in std::mem::take(&mut node.files) {
            let path = file.path.clone();
            if closed::waits(node, &mut file) {
                teller.changed(None, &node.name, &path, closed::WHY);
                if !node.setup.contains(&closed::command()) {
                    node.setup.insert(0, closed::command());
                }
            }
            node.files.push(file);
        }
    }
}

/// A link between two interfaces of one node goes through a switch.
fn selves(draft: &mut Draft, teller: &Teller<'_>) {
    let all = std::mem::take(&mut draft.links);
    for mut link in all {
        let [a, b] = &link.ends;
        if a.at != b.at || a.iface.is_none() || b.iface.is_none() {
            draft.links.push(link);
            continue;
        }
        let why = "through a switch, since a link of a lab file joins two nodes";
        teller.link(&link, Verdict::Changed(why.into()));
        let mut switch = Switch::named(draft.free_name(&format!("{}-self", a.at)));
        switch.keys.extend(link.mtu.take().map(|mtu| ("mtu", mtu.to_string())));
        let [both, first, second] = std::mem::take(&mut link.impairments);
        for (end, way) in link.ends.into_iter().zip([first, second]) {
            let way = both.iter().cloned().chain(way).collect();
            draft.links.push(Link {
                ends: [end, End::port(&switch.name)],
                impairments: [vec![], way, vec![]],
                item: link.item,
                ..Link::default()
            });
        }
        draft.switches.push(switch);
    }
}

/// What nodes are called in the source, where that is another name.
pub(crate) fn source_names(draft: &Draft) -> HashMap<String, String> {
    let name = |node: &Node| Some((node.name.clone(), node.source.clone()?));
    draft.nodes.iter().filter_map(name).collect()
}

/// Tells at the line of the source.
struct Teller<'a> {
    file: &'a str,
    ledger: &'a Ledger,
    names: HashMap<String, String>,
}

impl Teller<'_> {
    /// The item of what stands in the source, of `node`, and if `after` is known, not before that item.
    fn find(&self, after: Option<Id>, node: &str, value: &str) -> Option<Id> {
        self.ledger.find(after, self.names.get(node).map_or(node, String::as_str), value)
    }

    fn say(&self, after: Option<Id>, node: &str, value: &str, verdict: Verdict) {
        let found = self.find(after, node, value);
        let id =
            found.unwrap_or_else(|| self.ledger.enter(self.file, 0, format!("{node} {value}")));
        self.ledger.say(id, verdict);
    }

    fn changed(&self, after: Option<Id>, node: &str, value: &str, why: impl Into<String>) {
        self.say(after, node, value, Verdict::Changed(why.into()));
    }

    fn left_out(&self, after: Option<Id>, node: &str, value: &str, why: impl Into<String>) {
        self.say(after, node, value, Verdict::LeftOut(why.into()));
    }

    fn link(&self, link: &Link, verdict: Verdict) {
        let [a, b] = [&link.ends[0].at, &link.ends[1].at];
        let name = format!("{a}--{b}");
        match link.item {
            Some(id) => self.ledger.say(id, verdict),
            None => self.say(None, a, &name, verdict),
        }
    }
}

/// Commands that nodes run before their own, in order.
#[derive(Default)]
struct Commands(BTreeMap<String, Vec<Vec<String>>>);

impl Commands {
    fn push(&mut self, node: &str, words: &[&str], may_fail: bool) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let words = if may_fail { forgiving(words) } else { words };
        self.0.entry(node.to_owned()).or_default().push(words);
    }

    fn into_nodes(mut self, draft: &mut Draft) {
        for node in &mut draft.nodes {
            let own = self.0.remove(&node.name).unwrap_or_default();
            // Before the node's own commands, which expect the network of the other program.
            node.setup.splice(0..0, own);
        }
    }
}

/// Sets of switches that are joined.
#[derive(Default)]
struct Sets<'a> {
    parents: HashMap<&'a str, &'a str>,
    sizes: HashMap<&'a str, usize>,
}

impl<'a> Sets<'a> {
    fn root(&self, mut name: &'a str) -> &'a str {
        while let Some(next) = self.parents.get(name) {
            name = next;
        }
        name
    }

    /// Whether they were apart. The smaller set goes below the larger, so that no way to a root is long.
    fn join(&mut self, a: &'a str, b: &'a str) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return false;
        }
        let size = |name| self.sizes.get(name).copied().unwrap_or(1);
        let (all, small, large) = match size(a) <= size(b) {
            true => (size(a) + size(b), a, b),
            false => (size(a) + size(b), b, a),
        };
        self.parents.insert(small, large);
        self.sizes.insert(large, all);
        true
    }
}

fn is(switch: &Switch, key: &str, value: &str) -> bool {
    switch.keys.iter().any(|(known, given)| *known == key && given == value)
}

fn is_bridge(switch: &Switch) -> bool {
    switch.keys.iter().all(|(key, value)| *key != "kind" || value == "kernel")
}

/// Whether a frame may go round in a loop of such switches: who runs no spanning tree and has no controller.
fn goes_round(switch: &Switch) -> bool {
    let alone = switch.keys.iter().all(|(key, _)| *key != "controllers");
    match () {
        () if is_bridge(switch) => !is(switch, "stp", "true"),
        () if is(switch, "kind", "openflow") => alone && !is(switch, "fail", "secure"),
        () => true,
    }
}

/// Bridges in loops run the spanning tree; a link that closes a loop of others is left out.
fn loops(draft: &mut Draft, teller: &Teller<'_>) {
    let names: HashSet<String> = draft.switches.iter().map(|switch| switch.name.clone()).collect();
    let between = |link: &Link| link.ends.iter().all(|end| names.contains(&end.at));
    let mut sets = Sets::default();
    let mut closing: Vec<&Link> = vec![];
    for link in draft.links.iter().filter(|link| between(link)) {
        if !sets.join(&link.ends[0].at, &link.ends[1].at) {
            closing.push(link);
        }
    }
    if closing.is_empty() {
        return;
    }
    let roots: BTreeSet<&str> = closing.iter().map(|link| sets.root(&link.ends[0].at)).collect();
    let mut blocking: HashSet<String> = HashSet::new();
    for switch in draft.switches.iter().filter(|switch| is_bridge(switch) && goes_round(switch)) {
        if roots.contains(sets.root(&switch.name)) {
            blocking.insert(switch.name.clone());
        }
    }
    for link in closing.iter().filter(|link| link.ends.iter().any(|e| blocking.contains(&e.at))) {
        let why = "closes a loop of switches, one of whose ports is blocked (`stp: true`)";
        teller.link(link, Verdict::Changed(why.into()));
    }
    draft.loops = true;
    for switch in draft.switches.iter_mut().filter(|switch| blocking.contains(&switch.name)) {
        switch.keys.push(("stp", "true".into()));
    }
    let open = draft.switches.iter().filter(|switch| goes_round(switch));
    let open: HashSet<String> = open.map(|switch| switch.name.clone()).collect();
    let mut sets = Sets::default();
    let all = std::mem::take(&mut draft.links);
    let mut stays = Vec::with_capacity(all.len());
    for link in &all {
        let inside = link.ends.iter().all(|end| open.contains(&end.at));
        let stay = !inside || sets.join(&link.ends[0].at, &link.ends[1].at);
        if !stay {
            let why =
                "closes a loop of switches that block nothing; frames would go round for ever";
            teller.link(link, Verdict::LeftOut(why.into()));
        }
        stays.push(stay);
    }
    draft.links = all.into_iter().zip(stays).filter(|(_, stay)| *stay).map(|(l, _)| l).collect();
}

fn mtus(draft: &mut Draft, teller: &Teller<'_>) {
    for link in &mut draft.links {
        if let Some(mtu) = link.mtu.filter(|mtu| !MTUS.contains(mtu)) {
            let why = format!("an MTU is from {} to {}", MTUS.start(), MTUS.end());
            teller.left_out(link.item, &link.ends[0].at, &mtu.to_string(), why);
            link.mtu = None;
        }
    }
}

/// A hardware address.
fn mac(text: &str) -> Option<[u8; 6]> {
    let parts: Vec<u8> = text
        .split([':', '-'])
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2))
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}

/// Each hardware address is that of one end; others who have it, too, get it by a command.
fn macs(draft: &mut Draft, teller: &Teller<'_>, commands: &mut Commands) {
    let mut taken: HashMap<[u8; 6], String> = HashMap::new();
    for link in &mut draft.links {
        let item = link.item;
        for end in &mut link.ends {
            let Some(text) = end.mac.take() else { continue };
            let Some(iface) = &end.iface else {
                teller.left_out(
                    item,
                    &end.at,
                    &text,
                    "only a node's end has an address of its own",
                );
                continue;
            };
            let Some(address) = mac(&text) else {
                teller.left_out(item, &end.at, &text, "no hardware address");
                continue;
            };
            // The lowest bit of the first byte marks a group
            // (IEEE 802); the kernel says EADDRNOTAVAIL.
            if address[0] & 1 == 1 || address == [0; 6] {
                let why = "the kernel gives no interface the address of a group";
                teller.left_out(item, &end.at, &text, why);
                continue;
            }
            let shown = address.map(|byte| format!("{byte:02x}")).join(":");
            match taken.get(&address) {
                None => {
                    // The first end with an address keeps it.
                    teller.find(item, &end.at, &text);
                    taken.insert(address, format!("{}:{iface}", end.at));
                    end.mac = Some(shown);
                }
                Some(first) => {
                    let why = format!("by a command of the node; {first} has it, too");
                    teller.changed(item, &end.at, &text, why);
                    let words = ["ip", "link", "set", "dev", iface, "address", &shown];
                    commands.push(&end.at, &words, false);
                }
            }
        }
    }
}

/// Why an interface has no such address in a lab file; `None` if it may have.
fn no_host(net: &IpNet) -> Option<&'static str> {
    let address = net.addr();
    // In a /31 or a /127 all addresses are hosts' (RFC 3021, RFC 6164).
    let shared = net.prefix_len() + 1 < net.max_prefix_len();
    let reserved =
        |a: IpAddr| matches!(a, IpAddr::V4(a) if a.octets()[0] == 0 || a.octets()[0] >= 240);
    match net {
        _ if address.is_multicast() || address.is_loopback() || address.is_unspecified() => {
            Some("it is not a host's address")
        }
        _ if reserved(address) => Some("it is not a host's address"),
        _ if net.prefix_len() == 0 => Some("its prefix is everything"),
        _ if net.prefix_len() == net.max_prefix_len() => Some("its prefix is that address alone"),
        _ if shared && address == net.network() => Some("it is the network's own"),
        IpNet::V4(v4) if shared && v4.addr() == v4.broadcast() => {
            Some("it is the broadcast address")
        }
        _ => None,
    }
}

/// Segments with what their ends have so far.
#[derive(Default)]
struct Taken {
    /// The prefix of each segment and family (whether it is IPv6).
    prefixes: HashMap<(usize, bool), IpNet>,
    /// Which segments have a prefix, by the prefix.
    segments: BTreeMap<(bool, IpAddr, u8), usize>,
    addresses: HashMap<(usize, IpAddr), String>,
}

impl Taken {
    /// Why an end cannot have this address as a link gives it.
    fn refuses(&self, net: &IpNet, segment: usize) -> Option<String> {
        if let Some(why) = no_host(net) {
            return Some(why.to_owned());
        }
        if let Some(first) = self.addresses.get(&(segment, net.addr())) {
            return Some(format!("{first} has it, too"));
        }
        let own = net.trunc();
        match self.prefixes.get(&(segment, net.addr().is_ipv6())) {
            Some(prefix) if *prefix == own => None,
            Some(prefix) => Some(format!("its segment has {prefix}")),
            None => self.overlaps(&own).then(|| format!("another segment has {own}, too")),
        }
    }

    /// Whether a prefix of a segment has an address in common with this one. Prefixes here never overlap, so one that
    /// contains this is the last that starts no later.
    fn overlaps(&self, own: &IpNet) -> bool {
        let key = (own.addr().is_ipv6(), own.network(), own.prefix_len());
        let net = |(_, addr, len): &(bool, IpAddr, u8)| IpNet::new(*addr, *len).ok();
        let before = self.segments.range(..=key).next_back().and_then(|(key, _)| net(key));
        let after = self.segments.range(key..).next().and_then(|(key, _)| net(key));
        before.is_some_and(|net| net.contains(own)) || after.is_some_and(|net| own.contains(&net))
    }

    fn take(&mut self, net: &IpNet, segment: usize, name: String) {
        let own = net.trunc();
        self.prefixes.entry((segment, net.addr().is_ipv6())).or_insert(own);
        self.segments.insert((own.addr().is_ipv6(), own.network(), own.prefix_len()), segment);
        self.addresses.insert((segment, net.addr()), name);
    }
}

/// Gives addresses that a link of a lab file does not take by commands; returns them by node.
fn addresses(
    draft: &mut Draft,
    teller: &Teller<'_>,
    commands: &mut Commands,
) -> HashMap<String, Vec<IpNet>> {
    let segments = segments(draft);
    let mut taken = Taken::default();
    let mut given: HashMap<String, Vec<IpNet>> = HashMap::new();
    // No command gives the host's end of a door its address: others' make way.
    for (link, segment) in draft.links.iter().zip(&segments) {
        for end in link.ends.iter().filter(|end| end.iface.is_none()) {
            for net in &end.addresses {
                if taken.refuses(net, *segment).is_none() {
                    taken.take(net, *segment, end.at.clone());
                }
            }
        }
    }
    for (link, segment) in draft.links.iter_mut().zip(segments) {
        let (item, small) = (link.item, link.mtu.is_some_and(|mtu| mtu < LEAST_IPV6));
        for end in &mut link.ends {
            let Some(iface) = end.iface.clone() else { continue };
            let mut seen = [false; 2];
            let mut stays = vec![];
            for net in std::mem::take(&mut end.addresses) {
                let ipv6 = net.addr().is_ipv6();
                // The first address of each family goes to the link, further ones by commands: a
                // lab file has one.
                let why = match taken.refuses(&net, segment) {
                    _ if small && ipv6 => Some("its MTU is below that of IPv6".to_owned()),
                    _ if std::mem::replace(&mut seen[usize::from(ipv6)], true) => {
                        Some(String::new())
                    }
                    why => why,
                };
                let Some(why) = why else {
                    // Nothing is said of it, but its place in the source counts as found: the next
                    // one takes another.
                    teller.find(item, &end.at, &net.to_string());
                    taken.take(&net, segment, format!("{}:{iface}", end.at));
                    stays.push(net);
                    continue;
                };
                let shown = net.to_string();
                let words = ["ip", "address", "add", &shown, "dev", &iface];
                commands.push(&end.at, &words, (small && ipv6) || no_host(&net).is_some());
                if !why.is_empty() {
                    let why = format!("by a command of the node, since {why}");
                    teller.changed(item, &end.at, &shown, why);
                }
                given.entry(end.at.clone()).or_default().push(net);
            }
            end.addresses = stays;
        }
    }
    given
}

/// What a node's interfaces have: their addresses, and of each its name and whether it has none.
type Own<'a> = (Vec<IpNet>, Vec<(&'a str, bool)>);

/// Routes that the planner does not take are commands of the node, which may fail there as in the other program.
fn routes(
    draft: &mut Draft,
    by_command: &HashMap<String, Vec<IpNet>>,
    teller: &Teller<'_>,
    commands: &mut Commands,
) {
    let mut own: HashMap<&str, Own<'_>> = HashMap::new();
    for end in draft.links.iter().flat_map(|link| &link.ends) {
        if let Some(iface) = &end.iface {
            let known = own.entry(&end.at).or_default();
            known.0.extend(&end.addresses);
            known.1.push((iface, end.addresses.is_empty()));
        }
    }
    let none = (vec![], vec![]);
    for node in &mut draft.nodes {
        let (nets, ifaces) = own.get(node.name.as_str()).unwrap_or(&none);
        let added = by_command.get(&node.name).map_or(&[][..], Vec::as_slice);
        let mut stays = vec![];
        for route in std::mem::take(&mut node.routes) {
            let via = route.via.as_ref().map(|via| via.parse::<IpAddr>());
            let on = |nets: &[IpNet], via: &IpAddr| nets.iter().any(|net| net.contains(via));
            let dev = route.dev.as_deref();
            let dev = dev.map(|dev| ifaces.iter().find(|(iface, _)| *iface == dev));
            let is_bare = matches!(dev, Some(Some((_, true))));
            let (why, may_fail) = match &via {
                _ if matches!(dev, Some(None)) => ("the node has no such interface", true),
                Some(Ok(via)) if route.dev.is_none() && !on(nets, via) => match on(added, via) {
                    true => ("its next hop is known by an address that a command gives", false),
                    false => ("no segment of the node has its next hop", true),
                },
                None if route.dev.is_none() => ("it has no next hop", true),
                // A default route over an interface is of the families that it has addresses of.
                None if route.to == "default" && is_bare => match added.is_empty() {
                    true => ("the interface has no address", true),
                    false => ("a command gives the interface its address", false),
                },
                _ => {
                    stays.push(route);
                    continue;
                }
            };
            let six = matches!(&via, Some(Ok(IpAddr::V6(_)))) || route.to.contains(':');
            let mut words =
                vec!["ip", if six { "-6" } else { "-4" }, "route", "replace", &route.to];
            for (word, value) in [("via", &route.via), ("dev", &route.dev)] {
                words.extend(value.iter().flat_map(|value| [word, value.as_str()]));
            }
            commands.push(&node.name, &words, may_fail);
            let value = route.via.as_deref().or(route.dev.as_deref()).unwrap_or(&route.to);
            teller.changed(
                None,
                &node.name,
                value,
                format!("by a command of the node, since {why}"),
            );
        }
        node.routes = stays;
    }
}

/// The segment of each link, by a number: links that meet at switches are of one.
fn segments(draft: &Draft) -> Vec<usize> {
    let names: HashSet<&str> = draft.switches.iter().map(|switch| switch.name.as_str()).collect();
    let mut sets = Sets::default();
    for link in &draft.links {
        if link.ends.iter().all(|end| names.contains(end.at.as_str())) {
            sets.join(&link.ends[0].at, &link.ends[1].at);
        }
    }
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut segments = Vec::with_capacity(draft.links.len());
    for (number, link) in draft.links.iter().enumerate() {
        let switch = link.ends.iter().find(|end| names.contains(end.at.as_str()));
        segments.push(match switch {
            Some(end) => *numbers.entry(sets.root(&end.at)).or_insert(number),
            None => number,
        });
    }
    segments
}
