//! Links of Mininet: interfaces, addresses, and what shaping links do, as the stand-in found that Mininet makes them.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::at::At;
use crate::draft::{self, Draft, End, Link};
use crate::mininet::record::{Made, Record, Wire};

/// What a parameter of a link is called among what an interface does.
const SHAPES: [(&str, &str); 5] = [
    ("bw", "rate"),
    ("delay", "delay"),
    ("jitter", "jitter"),
    ("loss", "loss"),
    ("max_queue_size", "queue"),
];

/// The delay around which there is jitter where a script gives none, in microseconds.
const LEAST_DELAY: f64 = 1.0;

/// Reads the links. Links of a NAT node lead to the host's network.
pub(super) fn read(root: &At<'_>, record: &Record<'_>, draft: &mut Draft) {
    let links = root.get("links");
    let mut numbered = vec![];
    for wire in record.links() {
        let Some(at) = links.as_ref().and_then(|links| links.get(&wire.key)) else { continue };
        let ends = wire.made.iter().map(|made| end(made, record, draft));
        let ends: Option<Vec<End>> = ends.collect();
        let Some(ends) = ends.and_then(|ends| <[End; 2]>::try_from(ends).ok()) else {
            at.left_out("there is no such node");
            continue;
        };
        let mut link = Link { ends, ..Link::default() };
        shape(&at, &wire, &mut link);
        account(&at, &wire, &link, draft);
        draft.links.push(link);
        numbered.push((at, wire.made.map(|made| made.port)));
    }
    number(numbered, draft);
}

fn end(made: &Made<'_>, record: &Record<'_>, draft: &Draft) -> Option<End> {
    if draft.has_switch(made.node) {
        return Some(End::port(made.node));
    }
    let is_door = record.kind_of_host(made.node)? == "nat";
    let mut end = if is_door { End::port("internet") } else { End::of(made.node, made.name) };
    end.addresses.extend(made.address.and_then(net));
    if !is_door {
        end.mac = made.mac.map(str::to_owned);
    }
    Some(end)
}

/// An address, whose prefix is /8 if it has none.
pub(super) fn net(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| IpNet::new(text.parse().ok()?, 8).ok())
}

/// What a link does: both ends alike, or each in its own way.
fn shape(at: &At<'_>, wire: &Wire<'_>, link: &mut Link) {
    let [first, second] = [&wire.made[0], &wire.made[1]].map(|made| impairments(at, made));
    link.impairments = match first == second {
        true => [first, vec![], vec![]],
        false => [vec![], first, second],
    };
}

/// What an interface does to what it sends, in the words of a lab file.
fn impairments(at: &At<'_>, made: &Made<'_>) -> Vec<(&'static str, String)> {
    let has = |key| made.does(key).is_some();
    let mut keys = vec![];
    if let Some(rate) = made.does("rate") {
        keys.push(("rate", draft::rate(rate)));
    }
    match (made.does("delay"), made.does("jitter")) {
        (Some(delay), _) => keys.push(("delay", draft::time(delay))),
        (None, Some(_)) => {
            let why = format!("around a delay of {LEAST_DELAY} us");
            at.get("jitter").iter().for_each(|at| at.changed(&*why));
            keys.push(("delay", draft::time(LEAST_DELAY)));
        }
        (None, None) => {}
    }
    // As netem draws it without a table.
    keys.extend(
        made.does("jitter").map(|time| ("jitter", format!("{} uniform", draft::time(time)))),
    );
    match made.does("queue") {
        Some(0.0) => keys.push(("loss", "100%".into())),
        _ => keys.extend(made.does("loss").map(|share| ("loss", format!("{share}%")))),
    }
    match made.does("queue") {
        Some(length) if has("rate") && length > 0.0 => keys.push(("queue", format!("{length}"))),
        Some(length) => {
            let why = match length > 0.0 {
                true => "without a rate nothing waits",
                false => "a queue for no packet lets none pass",
            };
            at.get("max_queue_size").iter().for_each(|at| at.changed(why));
        }
        None => {}
    }
    keys
}

/// Says of each parameter what became of it.
fn account(at: &At<'_>, wire: &Wire<'_>, link: &Link, draft: &Draft) {
    let class = at.text_of("cls").unwrap_or_default();
    let shapes = wire.made.iter().any(|made| !made.is_plain());
    for (key, at) in at.entries() {
        let number = if key.ends_with('2') { 1 } else { 0 };
        let switch = draft.has_switch(wire.made[number].node);
        let door = link.ends[number].at == "internet";
        match key {
            "cls" if shapes || ["Link", "OVSLink", "TCLink", "TCULink"].contains(&class) => {
                at.carried();
            }
            "cls" => at.changed("an ordinary link"),
            // Of switches with a controller `number` says more.
            "port1" | "port2" => at.carried(),
            _ if door && key.starts_with(['i', 'a']) => at.changed("a door"),
            "intfName1" | "intfName2" if switch => at.changed("ports of switches have no names"),
            "addr1" | "addr2" if switch => at.changed("ports of switches have no addresses"),
            "intfName1" | "intfName2" => at.carried(),
            "addr1" | "addr2" => own(&at, wire.made[number].mac),
            "params1" | "params2" => {
                let made = &wire.made[number..=number];
                at.entries().iter().for_each(|(key, own)| one(key, own, wire, made));
                if at.is_empty() {
                    at.carried();
                }
            }
            _ => one(key, &at, wire, &wire.made),
        }
    }
}

/// An address of a link's end, which the host's own one replaces.
fn own(at: &At<'_>, made: Option<&str>) {
    let same = |text: &str| made.is_some_and(|made| made.eq_ignore_ascii_case(text));
    match at.text().is_some_and(same) {
        true => at.carried(),
        false => at.changed("the host's own counts, as in Mininet"),
    }
}

fn one(key: &str, at: &At<'_>, wire: &Wire<'_>, made: &[Made<'_>]) {
    if let Some(why) = wire.note(key) {
        return at.changed(why);
    }
    let text = at.text().unwrap_or_default();
    let shape = SHAPES.iter().find(|(known, _)| *known == key).map(|(_, shape)| *shape);
    match key {
        "ip" => own(at, made[0].address),
        "mac" => own(at, made[0].mac),
        _ if shape.is_some_and(|shape| made.iter().any(|made| made.does(shape).is_some())) => {
            at.carried();
        }
        _ if shape.is_some()
            && text.trim_start_matches(['0', '.']).chars().all(char::is_alphabetic) =>
        {
            at.carried();
        }
        _ if shape.is_some() => at.left_out("only links of class TCLink do that"),
        "use_htb" | "use_hfsc" | "use_tbf" | "latency_ms" | "speedup" | "gro" | "txo" | "rxo" => {
            at.changed("netloom keeps rates in its own way");
        }
        "enable_ecn" | "enable_red" if !at.is_true() => at.carried(),
        "enable_ecn" | "enable_red" => at.left_out("netloom marks no packets"),
        "fast" | "cls1" | "cls2" | "intf" => at.carried(),
        _ => {}
    }
}

/// Puts links into an order in which ports of OpenFlow switches, which are numbered by it, have Mininet's numbers, as far
/// as there is one. What has another number is told.
fn number(links: Vec<(At<'_>, [Option<u32>; 2])>, draft: &mut Draft) {
    let openflow: Vec<String> = draft
        .switches
        .iter()
        .filter(|switch| {
            switch.keys.iter().any(|(key, value)| *key == "kind" && value == "openflow")
        })
        .map(|switch| switch.name.clone())
        .collect();
    // By switch: its ports in their order, each with its link.
    let mut ports: BTreeMap<&str, Vec<(u32, usize, usize)>> = BTreeMap::new();
    for (place, (link, (_, numbers))) in draft.links.iter().zip(&links).enumerate() {
        for (side, (end, number)) in link.ends.iter().zip(numbers).enumerate() {
            if let Some(name) = openflow.iter().find(|name| **name == end.at) {
                ports.entry(name).or_default().push((number.unwrap_or(u32::MAX), place, side));
            }
        }
    }
    let mut before: Vec<Vec<usize>> = vec![vec![]; links.len()];
    for ports in ports.values_mut() {
        ports.sort_unstable();
        for (at, (wanted, place, side)) in ports.iter().enumerate() {
            let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
            if *wanted != number {
                let key = if *side == 0 { "port1" } else { "port2" };
                let link = &links[*place].0;
                let why = format!(
                    "the switch's port {number}, not {wanted}: ports have numbers by the order of the links"
                );
                link.get(key).or_else(|| link.get("cls")).iter().for_each(|at| at.changed(&*why));
            }
        }
        before_each(ports, &mut before);
    }
    let order = order(&before);
    let mut all: Vec<Option<Link>> =
        std::mem::take(&mut draft.links).into_iter().map(Some).collect();
    draft.links = order.into_iter().filter_map(|place| all[place].take()).collect();
}

fn before_each(ports: &[(u32, usize, usize)], before: &mut [Vec<usize>]) {
    for pair in ports.windows(2) {
        if pair[0].1 != pair[1].1 {
            before[pair[1].1].push(pair[0].1);
        }
    }
}

/// The first of those before which nothing is left, again and again; in a circle the first of all.
fn order(before: &[Vec<usize>]) -> Vec<usize> {
    let mut done = vec![false; before.len()];
    let mut order = Vec::with_capacity(before.len());
    // Without an order to keep, this is a single pass.
    while order.len() < before.len() {
        let mut moved = false;
        for place in 0..before.len() {
            if !done[place] && before[place].iter().all(|other| done[*other]) {
                done[place] = true;
                order.push(place);
                moved = true;
            }
        }
        if !moved && let Some(first) = done.iter().position(|done| !done) {
            done[first] = true;
            order.push(first);
        }
    }
    order
}
