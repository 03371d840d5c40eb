//! Links of Mininet: names of interfaces by port, addresses, and what shaping links do.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::at::At;
use crate::draft::{self, Draft, End, Link};
use crate::mininet::record::Record;

/// Which ports are used, and which interfaces hosts have by port.
#[derive(Default)]
struct Ports {
    used: BTreeMap<String, BTreeSet<u32>>,
}

impl Ports {
    /// The port of a node's next interface, or a given one.
    fn next(&mut self, node: &str, given: Option<u32>) -> u32 {
        let used = self.used.entry(node.to_owned()).or_default();
        let port = given.unwrap_or_else(|| used.last().map_or(0, |last| last.saturating_add(1)));
        used.insert(port);
        port
    }
}

/// Reads the links. Links of a NAT node lead to the host's network.
pub(super) fn read(root: &At<'_>, record: &Record<'_>, draft: &mut Draft) {
    let mut ports = Ports::default();
    let links = root.get("links");
    for wire in record.links() {
        let Some(at) = links.as_ref().and_then(|links| links.get(&wire.key)) else { continue };
        let mut ends = vec![];
        for (number, node) in ["1", "2"].into_iter().zip(wire.ends) {
            match end(root, &at, node, number, &mut ports, draft) {
                Some(end) => ends.push(end),
                None => break,
            }
        }
        let Ok(ends) = <[End; 2]>::try_from(ends) else {
            at.left_out("there is no such node");
            continue;
        };
        let mut link = Link { ends, ..Link::default() };
        shape(&at, &mut link);
        draft.links.push(link);
    }
}

fn end(
    root: &At<'_>,
    at: &At<'_>,
    node: &str,
    number: &str,
    ports: &mut Ports,
    draft: &Draft,
) -> Option<End> {
    let port = at.get(&format!("port{number}"));
    let name = at.get(&format!("intfName{number}"));
    let mac = at.get(&format!("addr{number}"));
    let is_switch = draft.has_switch(node);
    if is_switch {
        port.iter().for_each(|at| at.changed("ports are numbered in the order of the links"));
        name.iter().for_each(|at| at.changed("ports of switches have no names"));
        mac.iter().for_each(|at| at.changed("ports of switches have no addresses"));
        return Some(End::port(node));
    }
    let host = root.get("hosts")?.get(node)?;
    if host.text_of("cls") == Some("NAT") {
        [&port, &name, &mac].into_iter().flatten().for_each(|at| at.changed("a door"));
        return Some(End::port("internet"));
    }
    let given = port.as_ref().and_then(|at| at.text()?.parse().ok());
    let port_number = ports.next(node, given);
    let usual = format!("{node}-eth{port_number}");
    let wish = name.as_ref().and_then(At::text).unwrap_or(&usual);
    let fits = netloom_model::interface_name_problem(wish).is_none();
    let short = format!("eth{port_number}");
    let mut end = End::of(node, if fits { wish } else { &short });
    port.iter().for_each(At::carried);
    match fits {
        true => name.iter().for_each(At::carried),
        false => name.iter().for_each(|at| at.changed(format!("is called {short}"))),
    }
    if let Some(mac) = mac {
        end.mac = mac.text().map(str::to_owned);
        mac.carried();
    }
    let own = at.get(&format!("params{number}"));
    if let Some(ip) = own.as_ref().and_then(|at| at.get("ip")) {
        match ip.text().and_then(net) {
            Some(net) => {
                end.addresses.push(net);
                ip.carried();
            }
            None => ip.odd("an address"),
        }
    }
    Some(end)
}

/// An address, whose prefix is /8 if it has none.
pub(super) fn net(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| IpNet::new(text.parse().ok()?, 8).ok())
}

/// What a link does, which only those of class `TCLink` do: both ends alike, and each by its own parameters.
fn shape(at: &At<'_>, link: &mut Link) {
    let class = at.text_of("cls").unwrap_or_default();
    let shapes = class.starts_with("TC");
    for (key, at) in at.entries() {
        match key {
            "cls" if ["Link", "OVSLink", "TCLink", "TCULink"].contains(&class) => at.carried(),
            "cls" => at.changed("an ordinary link"),
            "params1" | "params2" => {
                let way = usize::from(key == "params2") + 1;
                for (key, at) in at.entries() {
                    if key != "ip" {
                        one(key, &at, shapes, &mut link.impairments[way]);
                    }
                }
                if at.is_empty() {
                    at.carried();
                }
            }
            "port1" | "port2" | "intfName1" | "intfName2" | "addr1" | "addr2" => {}
            _ => one(key, &at, shapes, &mut link.impairments[0]),
        }
    }
    let rated = |keys: &[(&str, String)]| keys.iter().any(|(key, _)| *key == "rate");
    let all = rated(&link.impairments[0]);
    for (way, keys) in link.impairments.iter_mut().enumerate() {
        let rated = rated(keys) || (way > 0 && all);
        if !rated && keys.iter().any(|(key, _)| *key == "queue") {
            keys.retain(|(key, _)| *key != "queue");
            at.get("max_queue_size")
                .iter()
                .for_each(|at| at.changed("without a rate nothing waits"));
        }
    }
}

fn one(key: &str, at: &At<'_>, shapes: bool, keys: &mut Vec<(&'static str, String)>) {
    let number = at.text().and_then(|text| text.parse::<f64>().ok()).filter(|n| *n >= 0.0);
    let text = at.text().unwrap_or_default();
    let pair = match (key, number) {
        ("bw", Some(n)) => Some(("rate", draft::rate(n * 1e6))),
        ("loss", Some(n)) if n <= 100.0 => Some(("loss", format!("{n}%"))),
        ("max_queue_size", Some(n)) => Some(("queue", format!("{n}"))),
        ("delay", _) => time(text).map(|time| ("delay", time)),
        // As netem draws it without a table.
        ("jitter", _) => time(text).map(|time| ("jitter", format!("{time} uniform"))),
        _ => None,
    };
    match (key, pair) {
        (_, Some(_)) if !shapes => at.left_out("only links of class TCLink do that"),
        (_, Some((_, value))) if ["0bit", "0%", "0us", "0us uniform"].contains(&value.as_str()) => {
            at.carried()
        }
        (_, Some(pair)) => {
            keys.push(pair);
            at.carried();
        }
        (
            "use_htb" | "use_hfsc" | "use_tbf" | "latency_ms" | "speedup" | "gro" | "txo" | "rxo",
            _,
        ) => {
            at.changed("netloom keeps rates in its own way");
        }
        ("enable_ecn" | "enable_red", _) if !at.is_true() => at.carried(),
        ("enable_ecn" | "enable_red", _) => at.left_out("netloom marks no packets"),
        ("fast", _) => at.carried(),
        _ => {}
    }
}

/// A time as `tc` takes it: without a unit it is microseconds.
fn time(text: &str) -> Option<String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim() {
        "" | "us" | "usec" | "usecs" => 1.0,
        "ms" | "msec" | "msecs" => 1e3,
        "s" | "sec" | "secs" => 1e6,
        _ => return None,
    };
    Some(draft::time(number * unit))
}
