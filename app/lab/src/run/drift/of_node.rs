//! What differs in a node, and the requests that put it right.
//!
//! Of planned interfaces, addresses, routes and sysctls everything counts. Of what was added there counts:
//!
//! * an address of a planned interface or of `lo` without a lifetime and without an origin that a program names;
//! * a route of the main table with the origin `boot` or `static`, by planned interfaces alone, or that drops packets;
//! * a rule of policy routing with such an origin, or without any, for whatever packets;
//! * a queueing discipline, and a bridge that the interface is a port of.
//!
//! Where the node runs programs, an interface without planned addresses is theirs, and so are addresses for one host, such
//! as those that VRRP moves, and rules without an origin. Interfaces that the plan does not have are the node's own.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netloom_model::merging::KeyChange;
use netloom_model::plan::form::LinkForm;
use netloom_model::plan::{Interface, PlannedNode, Slot};
use netloom_netlink::{
    Address, AddressInfo, Batch, Change, DeleteAddress, DeleteDiscipline, DeleteRoute, DeleteRule,
    Family, ForwardingNeighbour, KernelRule, LinkInfo, Neighbour, Route, RouteInfo, RouteKind,
    RuleInfo,
};

use super::disciplines::is_of_kernel;
use super::seen::Seen;
use super::{is_untouched, of_core};
use crate::build::configure::{self, InstalledRoute};
use crate::stage::absent::{is_away, is_cut_here};
use crate::stage::spaces::LOOPBACK;
use crate::store::state::State;

/// Origins of routes that people add (`linux/rtnetlink.h`, `RTPROT_BOOT` and `RTPROT_STATIC`).
const BY_PEOPLE: [u8; 2] = [3, 4];

/// The origin of what names none (`RTPROT_UNSPEC`).
const UNNAMED: u8 = 0;

/// The metric of a route without one, by family, and that of IPv6 prefixes.
const METRIC_V6: u32 = 1024;
const METRIC_V6_PREFIX: u32 = 256;

/// What differs in a node.
#[derive(Default)]
pub(in crate::run) struct Compared {
    /// Places of planned interfaces that are not there.
    pub(in crate::run) missing: Vec<usize>,
    /// Places of interfaces of links whose wire should be here and is not.
    pub(in crate::run) wires: Vec<usize>,
    /// In the order in which they are put right.
    pub(in crate::run) differences: Vec<Difference>,
}

/// One difference: what is planned, and what was found.
pub(in crate::run) enum Difference {
    Name { own: Interface, found: String },
    Mac { own: Interface, found: Option<[u8; 6]> },
    Mtu { own: Interface, found: u32 },
    Bridge { own: Interface },
    Discipline { own: Interface, found: String },
    Down { index: u32, name: String },
    Setting { path: String, value: String, found: String },
    Extra { index: u32, name: String, address: IpNet },
    Lacking { index: u32, name: String, address: IpNet },
    Added { route: RouteInfo, words: String },
    Prefix { to: IpNet, index: u32, name: String },
    Route { route: InstalledRoute, planned: String, found: String },
    Neighbour { fixed: Neighbour, name: String, found: String },
    AddedRule(RuleInfo),
    LackingRule(KernelRule),
}

impl Difference {
    /// In words, with the key of the file that comes closest.
    pub(in crate::run) fn change(&self) -> KeyChange {
        let (key, words) = match self {
            Difference::Name { own, found } => {
                ("name", format!("interface {} by that name, was {found:?}", own.name))
            }
            Difference::Mac { own, found } => {
                let (mac, was) = (mac_text(own.mac), found.map_or("none".into(), mac_text));
                ("mac", format!("{} mac {mac}, was {was}", own.name))
            }
            Difference::Mtu { own, found } => {
                ("mtu", format!("{} mtu {}, was {found}", own.name, own.mtu))
            }
            Difference::Bridge { own } => {
                ("ends", format!("{} in no bridge, was in one", own.name))
            }
            Difference::Discipline { own, found } => {
                ("impairments", format!("{} without queueing discipline, was {found}", own.name))
            }
            Difference::Down { name, .. } => ("up", format!("{name} up, was down")),
            Difference::Setting { path, value, found } => {
                ("sysctls", format!("{} {value}, was {found}", dotted(path)))
            }
            Difference::Extra { name, address, .. } => {
                ("addresses", format!("{name} without address {address}"))
            }
            Difference::Lacking { name, address, .. } => {
                ("addresses", format!("{name} address {address}, was none"))
            }
            Difference::Added { words, .. } => ("routes", format!("no route {words}")),
            Difference::Prefix { to, name, .. } => {
                ("routes", format!("route {to} dev {name}, was none"))
            }
            Difference::Route { planned, found, .. } => {
                ("routes", format!("route {planned}, was {found}"))
            }
            Difference::Neighbour { fixed, name, found } => {
                let (address, mac) = (fixed.address, mac_text(fixed.mac));
                ("neighbours", format!("{name} neighbour {address} is {mac} for good, was {found}"))
            }
            Difference::AddedRule(rule) => {
                let family = if rule.is_ipv6() { "IPv6 " } else { "" };
                ("routes", format!("no {family}rule {}", rule.words))
            }
            Difference::LackingRule(rule) => ("routes", format!("{}, was none", rule.words())),
        };
        KeyChange { key: key.to_owned(), words }
    }

    /// The requests that put it right; settings are files.
    pub(in crate::run) fn push(&self, batch: &mut Batch, object: &Arc<str>) {
        let object = || Arc::clone(object);
        match self {
            Difference::Name { own, .. } => {
                batch.push(object(), &Change::of(own.index).down());
                batch.push(object(), &Change::rename(own.index, &own.name));
                batch.push(object(), &Change::of(own.index).up());
            }
            Difference::Mac { own, .. } => {
                batch.push(object(), &Change::of(own.index).mac(own.mac))
            }
            Difference::Mtu { own, .. } => {
                batch.push(object(), &Change::of(own.index).mtu(own.mtu))
            }
            Difference::Bridge { own } => batch.push(object(), &Change::of(own.index).release()),
            Difference::Discipline { own, .. } => {
                batch.push_tolerant(object(), &DeleteDiscipline(own.index));
            }
            Difference::Down { index, .. } => batch.push(object(), &Change::of(*index).up()),
            Difference::Setting { .. } => {}
            Difference::Extra { index, address, .. } => {
                let gone = DeleteAddress { link: *index, address: *address };
                batch.push_tolerant(object(), &gone);
            }
            Difference::Lacking { index, address, .. } => {
                let new = Address { replace: true, ..Address::new(*index, *address) };
                batch.push(object(), &new);
            }
            Difference::Added { route, .. } => push_removals(batch, object(), route),
            Difference::Prefix { to, index, .. } => {
                let metric = to.addr().is_ipv6().then_some(METRIC_V6_PREFIX);
                let new = Route { replace: true, metric, ..Route::new(*to, None, *index) };
                batch.push(object(), &new);
            }
            Difference::Route { route, .. } => route.push(batch, &object(), true),
            Difference::Neighbour { fixed, .. } => batch.push(object(), fixed),
            Difference::AddedRule(rule) => batch.push_tolerant(object(), &DeleteRule(rule)),
            Difference::LackingRule(rule) => batch.push_tolerant(object(), rule),
        }
    }
}

/// A route of several paths goes path by path.
fn push_removals(batch: &mut Batch, object: Arc<str>, route: &RouteInfo) {
    let gone = DeleteRoute {
        metric: (route.metric > 0).then_some(route.metric),
        kind: Some(route.kind),
        ..DeleteRoute::new(route.to)
    };
    match route.paths().as_slice() {
        _ if route.kind != RouteKind::Unicast => batch.push_tolerant(object, &gone),
        [(via, link)] => {
            batch.push_tolerant(object, &DeleteRoute { via: *via, link: Some(*link), ..gone });
        }
        _ => batch.push_tolerant(object, &gone),
    }
}

/// Compares a node with its plan.
pub(in crate::run) fn compare(state: &State, slot: Slot, seen: &Seen) -> Compared {
    let node = &state.plan.nodes[slot];
    let mut compared = Compared { wires: lacking_wires(state, node, seen), ..Compared::default() };
    let mut present: Vec<(&Interface, &LinkInfo)> = Vec::new();
    for (at, own) in node.interfaces.iter().enumerate() {
        let Some(link) = state.plan.link_at(own.link) else { continue };
        if is_away(state, slot, at)
            || is_cut_here(state, slot, at)
            || !is_untouched(state, link)
            || state.form(link) == LinkForm::Guest
        {
            continue;
        }
        let is_it =
            |l: &&LinkInfo| l.index == own.index && (l.name == own.name || l.mac == Some(own.mac));
        match seen.links.iter().find(is_it) {
            Some(found) => present.push((own, found)),
            None => compared.missing.push(at),
        }
    }
    let mut all = Vec::new();
    for (own, found) in &present {
        let form = state.plan.link_at(own.link).map(|link| state.form(link));
        let of_host = matches!(form, Some(LinkForm::Bridged | LinkForm::Card));
        of_interface(&mut all, own, found, of_host);
    }
    let lo = seen.links.iter().find(|link| link.index == LOOPBACK);
    if lo.is_some_and(|lo| !lo.up) {
        all.push(Difference::Down { index: LOOPBACK, name: "lo".to_owned() });
    }
    of_settings(&mut all, node, seen, &present);
    of_addresses(&mut all, node, seen, &present);
    of_routes(&mut all, state, slot, seen, &present);
    of_neighbours(&mut all, state, slot, seen, &present);
    of_rules(&mut all, node, &seen.rules);
    compared.differences = all;
    compared
}

/// Places of interfaces of links whose taps, which carry impaired frames, should be here and are not.
fn lacking_wires(state: &State, node: &PlannedNode, seen: &Seen) -> Vec<usize> {
    let lacks = |own: &Interface| {
        let link = state.plan.link_at(own.link).filter(|link| is_untouched(state, link));
        let taps = link.map_or_else(Vec::new, |link| of_core::taps_of(state, link));
        let mut here = taps.into_iter().filter(|(space, _)| *space == node.id);
        here.any(|(_, index)| !seen.links.iter().any(|l| l.index == index && l.up))
    };
    let places = node.interfaces.iter().enumerate();
    places.filter(|(_, own)| lacks(own)).map(|(at, _)| at).collect()
}

fn of_interface(all: &mut Vec<Difference>, own: &Interface, found: &LinkInfo, of_host: bool) {
    if found.name != own.name {
        all.push(Difference::Name { own: own.clone(), found: found.name.clone() });
    }
    // A card of the host keeps what it has.
    if found.mac != Some(own.mac) && !of_host {
        all.push(Difference::Mac { own: own.clone(), found: found.mac });
    }
    if found.mtu != own.mtu && !of_host {
        all.push(Difference::Mtu { own: own.clone(), found: found.mtu });
    }
    if found.master.is_some() {
        all.push(Difference::Bridge { own: own.clone() });
    }
    // One that is down has none.
    if !is_of_kernel(found) && found.up && !found.discipline.is_empty() && !of_host {
        let found = found.discipline.clone();
        all.push(Difference::Discipline { own: own.clone(), found });
    }
    if !found.up {
        all.push(Difference::Down { index: own.index, name: own.name.clone() });
    }
}

/// The values that a setting may have, by its path: several where the kernel may not know the last.
pub(in crate::run) fn wanted_settings(node: &PlannedNode) -> BTreeMap<&str, Vec<&str>> {
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, value) in &node.sysctls {
        match path.strip_prefix('-') {
            Some(path) => wanted.entry(path).or_default().push(value),
            None => drop(wanted.insert(path, vec![value])),
        }
    }
    wanted
}

fn of_settings(
    all: &mut Vec<Difference>,
    node: &PlannedNode,
    seen: &Seen,
    present: &[(&Interface, &LinkInfo)],
) {
    let wanted = wanted_settings(node);
    for (path, values) in &wanted {
        let Some((_, found)) = seen.settings.iter().find(|(known, _)| known == path) else {
            continue;
        };
        let same = |value: &&str| value.split_whitespace().eq(found.split_whitespace());
        if let Some(value) = values.last().filter(|_| !values.iter().any(same)) {
            let (path, value) = ((*path).to_owned(), (*value).to_owned());
            all.push(Difference::Setting { path, value, found: found.clone() });
        }
    }
    // An interface got its settings from those for all or for new ones.
    for (own, found) in present {
        for (family, word) in [(Family::V4, "ipv4"), (Family::V6, "ipv6")] {
            for (name, has) in found.settings.of(family) {
                let path = |of: &str| format!("net/{word}/conf/{of}/{name}");
                let own_path = path(&own.name);
                let of_all = family == Family::V6 && ["forwarding", "disable_ipv6"].contains(&name);
                let source = path(if of_all { "all" } else { "default" });
                let value = wanted.get(source.as_str()).and_then(|values| values.last());
                let Some(value) = value.filter(|_| !wanted.contains_key(own_path.as_str())) else {
                    continue;
                };
                if value.parse::<u32>().is_ok_and(|value| value != has) {
                    let (value, found) = ((*value).to_owned(), has.to_string());
                    all.push(Difference::Setting { path: own_path, value, found });
                }
            }
        }
    }
}

/// Whether the node runs programs, which may configure interfaces that the plan leaves to them.
fn runs(node: &PlannedNode) -> bool {
    !node.run.is_empty() || node.kind.as_router().is_some()
}

fn of_addresses(
    all: &mut Vec<Difference>,
    node: &PlannedNode,
    seen: &Seen,
    present: &[(&Interface, &LinkInfo)],
) {
    let lo = (LOOPBACK, "lo", &node.loopback);
    let planned = present.iter().map(|(own, _)| (own.index, own.name.as_str(), &own.addresses));
    let (mut extra, mut lacking) = (Vec::new(), Vec::new());
    for (index, name, wanted) in std::iter::once(lo).chain(planned) {
        let here = || seen.addresses.iter().filter(|a| a.link == index);
        for found in here().filter(|a| a.given && !a.address.addr().is_loopback()) {
            let address = found.address;
            let of_one_host = address.prefix_len() == address.max_prefix_len();
            let left = runs(node) && (of_one_host || (wanted.is_empty() && index != LOOPBACK));
            if !wanted.contains(&address) && !left {
                extra.push(Difference::Extra { index, name: name.to_owned(), address });
            }
        }
        for address in wanted.iter().filter(|a| !here().any(|found| found.address == **a)) {
            lacking.push(Difference::Lacking { index, name: name.to_owned(), address: *address });
        }
    }
    // An added first address takes those of its prefix along when it goes.
    all.extend(extra);
    all.extend(lacking);
}

fn of_routes(
    all: &mut Vec<Difference>,
    state: &State,
    slot: Slot,
    seen: &Seen,
    present: &[(&Interface, &LinkInfo)],
) {
    let node = &state.plan.nodes[slot];
    let there = |at: usize| !is_away(state, slot, at) && !is_cut_here(state, slot, at);
    let mut by_destination: HashMap<IpNet, Vec<usize>> = HashMap::new();
    for (at, route) in seen.routes.iter().enumerate() {
        by_destination.entry(route.to).or_default().push(at);
    }
    let to = |to: &IpNet| by_destination.get(to).map_or(&[][..], Vec::as_slice);
    let mut used = vec![false; seen.routes.len()];
    let mut lacking = Vec::new();
    for route in node.routes.iter().filter_map(|r| InstalledRoute::of(node, r, there)) {
        let metric = if route.to.addr().is_ipv6() { METRIC_V6 } else { 0 };
        let places = || {
            let all = to(&route.to.trunc()).iter().copied();
            all.filter(|at| seen.routes[*at].metric == metric)
        };
        let hops = sorted(route.hops().to_vec());
        let same = |at: &usize| {
            let found = &seen.routes[*at];
            found.kind == RouteKind::Unicast && sorted(found.paths()) == hops
        };
        if let Some(at) = places().find(same) {
            used[at] = true;
            continue;
        }
        let found = match places().next() {
            Some(at) => {
                used[at] = true;
                path_words(node, &seen.routes[at]).trim_start().to_owned()
            }
            None => "none".to_owned(),
        };
        let planned = format!("{}{}", route.to, hop_words(node, route.hops()));
        lacking.push(Difference::Route { route, planned, found });
    }
    let has = |prefix: &IpNet, index: u32| {
        to(prefix).iter().any(|at| seen.routes[*at].links.contains(&index))
    };
    let of_prefixes = lacking_prefixes(seen, present, has);
    let own = |index: &u32| {
        let own = present.iter().find(|(own, _)| own.index == *index);
        own.is_some_and(|(own, _)| !(runs(node) && own.addresses.is_empty()))
    };
    let added = seen.routes.iter().zip(used).filter(|(route, used)| {
        let drops = route.kind != RouteKind::Unicast;
        let here = drops || (!route.links.is_empty() && route.links.iter().all(own));
        !used && here && BY_PEOPLE.contains(&route.origin) && !is_of_prefix(route, present)
    });
    all.extend(added.map(|(route, _)| {
        let words = format!("{}{}", route.to, path_words(node, route));
        Difference::Added { route: route.clone(), words }
    }));
    all.extend(of_prefixes);
    all.extend(lacking);
}

/// The routes of the prefixes of planned addresses, which the kernel makes with them.
fn lacking_prefixes(
    seen: &Seen,
    present: &[(&Interface, &LinkInfo)],
    has: impl Fn(&IpNet, u32) -> bool,
) -> Vec<Difference> {
    let mut lacking = Vec::new();
    for (own, _) in present.iter().filter(|(_, found)| found.up && found.master.is_none()) {
        for address in &own.addresses {
            let of_one_host = address.prefix_len() == address.max_prefix_len();
            let is_it = |a: &AddressInfo| a.link == own.index && a.address == *address;
            let to = address.trunc();
            if !of_one_host && !has(&to, own.index) && seen.addresses.iter().any(is_it) {
                let (index, name) = (own.index, own.name.clone());
                lacking.push(Difference::Prefix { to, index, name });
            }
        }
    }
    lacking
}

/// Neighbours that netloom fixed. What was added is a matter of the node, as are those that it learns.
fn of_neighbours(
    all: &mut Vec<Difference>,
    state: &State,
    slot: Slot,
    seen: &Seen,
    present: &[(&Interface, &LinkInfo)],
) {
    let Some(neighbours) = seen.neighbours.as_ref().filter(|_| state.plan.fixes_neighbours())
    else {
        return;
    };
    let by_place: HashMap<(u32, IpAddr), &ForwardingNeighbour> =
        neighbours.iter().map(|found| ((found.link, found.address), found)).collect();
    for (at, own) in state.plan.nodes[slot].interfaces.iter().enumerate() {
        let is_here = present.iter().any(|(here, found)| here.index == own.index && found.up);
        let Some(peer) = configure::opposite(&state.plan, slot, at).filter(|_| is_here) else {
            continue;
        };
        for address in &peer.addresses {
            let fixed = Neighbour { link: own.index, address: address.addr(), mac: peer.mac };
            let found = match by_place.get(&(fixed.link, fixed.address)) {
                Some(found) if found.permanent && found.mac == Some(fixed.mac) => continue,
                Some(found) => match (found.mac, found.permanent) {
                    (Some(mac), true) => mac_text(mac),
                    (Some(mac), false) => format!("{} for a while", mac_text(mac)),
                    (None, _) => "not known".to_owned(),
                },
                None => "none".to_owned(),
            };
            all.push(Difference::Neighbour { fixed, name: own.name.clone(), found });
        }
    }
}

/// Rules that people added, and the kernel's own that are gone; a kernel without policy routing has none.
fn of_rules(all: &mut Vec<Difference>, node: &PlannedNode, rules: &[RuleInfo]) {
    for own in KernelRule::ALL {
        let mut of_family = rules.iter().filter(|rule| rule.is_ipv6() == own.is_ipv6()).peekable();
        if of_family.peek().is_some() && !of_family.any(|rule| own.is(rule)) {
            all.push(Difference::LackingRule(own));
        }
    }
    // `ip rule` gives no origin, and few programs do.
    let by_people = |origin: u8| BY_PEOPLE.contains(&origin) || (origin == UNNAMED && !runs(node));
    let is_added = |rule: &&RuleInfo| {
        by_people(rule.origin) && !KernelRule::ALL.iter().any(|own| own.is(rule))
    };
    all.extend(rules.iter().filter(is_added).cloned().map(Difference::AddedRule));
}

/// Whether it is the route of a planned prefix, of whatever origin.
fn is_of_prefix(route: &RouteInfo, present: &[(&Interface, &LinkInfo)]) -> bool {
    let direct =
        matches!(route.paths().as_slice(), [(None, _)]) && route.kind == RouteKind::Unicast;
    direct
        && present.iter().any(|(own, _)| {
            let its = own.addresses.iter().any(|address| address.trunc() == route.to);
            its && route.links.contains(&own.index)
        })
}

fn sorted(mut hops: Vec<(Option<IpAddr>, u32)>) -> Vec<(Option<IpAddr>, u32)> {
    hops.sort_unstable();
    hops
}

/// What a found route does, after its destination.
fn path_words(node: &PlannedNode, route: &RouteInfo) -> String {
    let metric = match (route.metric, route.to.addr().is_ipv6()) {
        (0, _) | (METRIC_V6, true) => String::new(),
        (metric, _) => format!(" metric {metric}"),
    };
    let path = match route.kind {
        RouteKind::Unicast => hop_words(node, &route.paths()),
        RouteKind::Blackhole => " blackhole".to_owned(),
        RouteKind::Unreachable => " unreachable".to_owned(),
        RouteKind::Prohibit => " prohibit".to_owned(),
    };
    format!("{path}{metric}")
}

fn hop_words(node: &PlannedNode, hops: &[(Option<IpAddr>, u32)]) -> String {
    let name = |index: u32| {
        let own = node.interfaces.iter().find(|own| own.index == index);
        own.map_or_else(|| format!("interface {index}"), |own| own.name.clone())
    };
    let hop = |(via, index): &(Option<IpAddr>, u32)| match via {
        Some(via) => format!(" via {via} dev {}", name(*index)),
        None => format!(" dev {}", name(*index)),
    };
    hops.iter().map(hop).collect()
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// A sysctl by its usual name; as a path where an interface's name has a dot.
fn dotted(path: &str) -> String {
    if path.contains('.') { path.to_owned() } else { path.replace('/', ".") }
}
