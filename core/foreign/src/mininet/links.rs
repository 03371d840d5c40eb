//! Links of Mininet: interfaces, addresses, and what shaping links do, as the stand-in found that Mininet makes them.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::at::At;
use crate::draft::{self, Draft, End, Link};
use crate::mininet::Names;
use crate::mininet::record::{Made, Record, Wire};

/// What a parameter of a link is called among what an interface does.
const SHAPES: [(&str, &str); 5] = [
    ("bw", "rate"),
    ("delay", "delay"),
    ("jitter", "jitter"),
    ("loss", "loss"),
    ("max_queue_size", "queue"),
];

/// Numbers that ports of OpenFlow switches can have.
const NUMBERS: std::ops::RangeInclusive<u32> = 1..=0xfeff;

/// Reads the links. Links of a NAT node lead to the host's network.
pub(super) fn read(root: &At<'_>, record: &Record<'_>, names: &Names, draft: &mut Draft) {
    let links = root.get("links");
    let mut numbered = vec![];
    for wire in record.links() {
        let Some(at) = links.as_ref().and_then(|links| links.get(&wire.key)) else { continue };
        let ends = wire.made.iter().map(|made| end(made, record, names, draft));
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

fn end(made: &Made<'_>, record: &Record<'_>, names: &Names, draft: &Draft) -> Option<End> {
    let is_door = record.kind_of_host(made.node) == Some("nat");
    let mut end = match names.get(made.node) {
        _ if is_door => End::port("internet"),
        Some(name) if draft.has_switch(name) => return Some(End::port(name)),
        Some(name) => End::of(name, made.name),
        None => return None,
    };
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
    keys.extend(made.does("delay").map(|time| ("delay", draft::time(time))));
    // As netem draws it without a table.
    keys.extend(
        made.does("jitter").map(|time| ("jitter", format!("{} uniform", draft::time(time)))),
    );
    match made.does("queue") {
        // netem with `limit 0` drops every packet.
        Some(0.0) => keys.push(("loss", "100%".into())),
        _ => keys.extend(made.does("loss").map(|share| ("loss", format!("{share}%")))),
    }
    // netem's limit counts what waits for the rate and what is delayed alike.
    let is_delayed = has("delay") || has("jitter");
    let bounds = [("queue", has("rate")), ("limit", is_delayed)].into_iter().filter(|(_, is)| *is);
    match made.does("queue") {
        Some(length) if length > 0.0 && (has("rate") || is_delayed) => {
            keys.extend(bounds.map(|(key, _)| (key, format!("{length}"))));
        }
        Some(length) => {
            let why = match length > 0.0 {
                true => "without a rate and a delay nothing waits",
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
        // Mininet tells the two ends of a link apart by the last letter of its parameters.
        let number = if key.ends_with('2') { 1 } else { 0 };
        let switch = draft.has_switch(&link.ends[number].at);
        let door = link.ends[number].at == "internet";
        match key {
            "cls" if shapes || ["Link", "OVSLink", "TCLink", "TCULink"].contains(&class) => {
                at.carried();
            }
            "cls" => at.changed("an ordinary link"),
            // Of switches with a controller `number` says more.
            "port1" | "port2" => at.carried(),
            // `intfName`, `ip` and `addr`.
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
            // Zero, with a unit or without: it shapes nothing.
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

/// Gives ports of OpenFlow switches Mininet's numbers, at switches where the order of the links gives others. What cannot
/// be a number, or is another port's, is told.
fn number(links: Vec<(At<'_>, [Option<u32>; 2])>, draft: &mut Draft) {
    let is_openflow = |(key, value): &(&str, String)| *key == "kind" && value == "openflow";
    let openflow = draft.switches.iter().filter(|switch| switch.keys.iter().any(is_openflow));
    let mut ports: BTreeMap<String, Vec<(usize, usize, u32)>> =
        openflow.map(|switch| (switch.name.clone(), vec![])).collect();
    for (place, (link, (at, numbers))) in draft.links.iter().zip(&links).enumerate() {
        for (side, (end, number)) in link.ends.iter().zip(numbers).enumerate() {
            let Some(ports) = ports.get_mut(&end.at) else { continue };
            let number = number.unwrap_or_default();
            if ports.iter().all(|(.., known)| *known != number) && NUMBERS.contains(&number) {
                ports.push((place, side, number));
                continue;
            }
            let key = if side == 0 { "port1" } else { "port2" };
            let why = format!("port number {number} is not free or out of range; it has another");
            at.get(key).or_else(|| at.get("cls")).iter().for_each(|at| at.changed(&*why));
            // It stays in the list, so that the count below sees that a port has another number.
            ports.push((place, side, 0));
        }
    }
    for ports in ports.values() {
        // The lab file gives the same numbers by itself.
        if ports.iter().zip(1..).all(|((.., number), count)| *number == count) {
            continue;
        }
        for (place, side, number) in ports.iter().filter(|(.., number)| *number > 0) {
            draft.links[*place].ends[*side].number = Some(*number);
        }
    }
}
