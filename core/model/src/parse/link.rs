//! Reads a link as written: ends by name, addresses by end.

use std::collections::HashSet;

use ipnet::IpNet;
use netloom_bridge::Mac;
use netloom_config::{Kind, Node as Yaml, Path, Report, quote, read};

use super::impair::{RawImpairments, impairments};
use super::raw::{EndAddresses, RawEnd, RawLink};
use crate::file::Fields;
use crate::file::values::{At, each_or_only, family, is_ipv4, mtu, subnet, unusable};
use crate::keys::LINK;
use crate::kinds::openflow::MOST_NUMBER;
use crate::naming::{interface_name_problem, link_name_problem, node_interface_problem};

/// Reads a link in any form; `None` unless it has two ends. `known`: the names of nodes and switches.
pub(crate) fn link(
    yaml: &Yaml,
    known: &HashSet<String>,
    path: &Path<'_>,
    report: &mut Report,
) -> Option<RawLink> {
    match &yaml.kind {
        Kind::Seq(_) | Kind::Str => Some(RawLink {
            place: yaml.place,
            ends: ends(yaml, known, path, report)?,
            name: None,
            addresses: Vec::new(),
            bare: None,
            macs: Vec::new(),
            numbers: Vec::new(),
            subnets: Vec::new(),
            mtu: None,
            impairments: RawImpairments::default(),
        }),
        Kind::Map(_) => long_form(yaml, known, path, report),
        _ => {
            read::expected(yaml, path, "[A, B], A-B or a map with `ends: [A, B]`", report);
            None
        }
    }
}

fn long_form(
    yaml: &Yaml,
    known: &HashSet<String>,
    path: &Path<'_>,
    report: &mut Report,
) -> Option<RawLink> {
    let fields = Fields::open(yaml, path, &LINK, report)?;
    let name = fields.get("name").and_then(|v| name(v, &path.key("name"), report));
    let (bare, addresses) = match fields.get("addresses") {
        None => (None, Vec::new()),
        Some(value) if is_none(value) => (Some(value.place), Vec::new()),
        Some(value) => (None, addresses(value, &path.key("addresses"), report)),
    };
    let macs = fields.get("mac").map_or_else(Vec::new, |v| macs(v, &path.key("mac"), report));
    let numbers =
        fields.get("port").map_or_else(Vec::new, |v| numbers(v, &path.key("port"), report));
    let subnets =
        fields.get("subnet").map_or_else(Vec::new, |v| subnet(v, &path.key("subnet"), report));
    let mtu = fields.get("mtu").and_then(|v| {
        let value = mtu(v, &path.key("mtu"), report)?;
        Some(At { value, place: v.place })
    });
    let impairments = impairments(&fields, path, report);
    let ends = ends(fields.get("ends")?, known, &path.key("ends"), report)?;
    let place = yaml.place;
    let link =
        RawLink { place, ends, name, addresses, bare, macs, numbers, subnets, mtu, impairments };
    link.impairments.check(&link.shown(), link.place, report);
    Some(link)
}

fn name(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<At<String>> {
    let name = read::text(value, path, report)?;
    if let Some(problem) = link_name_problem(&name) {
        report.error(value.place, format!("{path}: {problem}"));
        return None;
    }
    Some(At { value: name, place: value.place })
}

fn ends(
    value: &Yaml,
    known: &HashSet<String>,
    path: &Path<'_>,
    report: &mut Report,
) -> Option<[At<RawEnd>; 2]> {
    if value.kind == Kind::Str {
        return divided(value, known, path, report);
    }
    let Some(items) = value.items() else {
        let message = format!("{path}: expected two ends like [A, B], found {}", value.describe());
        report.error(value.place, message);
        return None;
    };
    let [a, b] = items else {
        report.error(value.place, format!("{path}: a link has two ends, found {}", items.len()));
        return None;
    };
    let a = end(a, &path.index(0), report);
    let b = end(b, &path.index(1), report);
    Some([a?, b?])
}

/// The ends in a text like `h1-s1` or `h1:eth1 -- s1`, divided where both sides are ends of this file.
fn divided(
    value: &Yaml,
    known: &HashSet<String>,
    path: &Path<'_>,
    report: &mut Report,
) -> Option<[At<RawEnd>; 2]> {
    let all = divisions(&value.text);
    let is_known = |text: &str| match raw_end(text) {
        Ok(RawEnd::Named { name, .. }) => known.contains(&name),
        other => other.is_ok(),
    };
    // Names may contain the signs that separate ends.
    let fitting: Vec<_> = all.iter().filter(|ends| ends.iter().all(|end| is_known(end))).collect();
    let ends = match (&fitting[..], &all[..]) {
        // With one way to divide it, unknown names are found when names are resolved.
        ([ends], _) => **ends,
        ([], [ends]) => *ends,
        (several, _) => {
            let shown = |[a, b]: &[&str; 2]| format!("[{a}, {b}]");
            let message = match several.len() {
                0 => format!("{path}: {} is not two ends", value.describe()),
                _ => format!("{path}: {} has more than one meaning", value.describe()),
            };
            let ways: Vec<_> = several.iter().map(|ends| shown(ends)).take(3).collect();
            let ways = if ways.is_empty() { "[A, B]".to_owned() } else { ways.join(" or ") };
            report.error_with(value.place, message, Some(format!("write {ways}")));
            return None;
        }
    };
    let mut read = |text: &str| match raw_end(text) {
        Ok(end) => Some(At { value: end, place: value.place }),
        Err(problem) => {
            report.error(value.place, format!("{path}: {problem}"));
            None
        }
    };
    let (a, b) = (read(ends[0]), read(ends[1]));
    Some([a?, b?])
}

/// What separates ends in the texts of people and of other programs.
const BETWEEN: [&str; 7] = ["<-->", "<->", "--", "->", "-", ",", " "];

/// The ends in a text like `h1-s1` or `h1:eth1 -- s1`: the first way to divide it in two ends that are known. For a file without
/// errors that is the only one.
pub fn link_ends(text: &str, is_known: impl Fn(&str) -> bool) -> Option<[&str; 2]> {
    divisions(text).into_iter().find(|ends| ends.iter().all(|end| is_known(end)))
}

/// Every way to divide a text in two. A long text that nobody would write is not divided.
fn divisions(text: &str) -> Vec<[&str; 2]> {
    let mut all: Vec<[&str; 2]> = Vec::new();
    if text.len() > LONGEST_TEXT {
        return all;
    }
    let is_end = |end: &str| {
        let unclean = |c: char| c.is_whitespace() || matches!(c, ',' | '<' | '>');
        // Otherwise `a--b` could also mean `a` and `-b`.
        !end.is_empty() && !end.contains(unclean) && !end.starts_with('-') && !end.ends_with('-')
    };
    for between in BETWEEN {
        for (at, _) in text.match_indices(between) {
            let ends = [text[..at].trim(), text[at + between.len()..].trim()];
            if ends.iter().all(|end| is_end(end)) && !all.contains(&ends) {
                all.push(ends);
            }
        }
    }
    all
}

/// Two nodes' paths with interfaces and what separates them.
const LONGEST_TEXT: usize = 600;

fn end(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Option<At<RawEnd>> {
    let text = read::text(value, path, report)?;
    match raw_end(&text) {
        Ok(end) => Some(At { value: end, place: value.place }),
        Err(problem) => {
            report.error(value.place, format!("{path}: {problem}"));
            None
        }
    }
}

fn raw_end(text: &str) -> Result<RawEnd, String> {
    match text {
        "internet" => return Ok(RawEnd::Internet),
        "nowhere" => return Ok(RawEnd::Nowhere),
        _ => {}
    }
    let (name, iface) = match text.split_once(':') {
        None => (text, None),
        Some((name, iface)) => (name, Some(iface)),
    };
    let problem = match name {
        "host" => iface.and_then(interface_name_problem),
        _ => iface.and_then(node_interface_problem),
    };
    if let Some(problem) = problem {
        return Err(format!("end {}: {problem}", quote(text)));
    }
    match (name, iface) {
        ("", _) => Err(format!("end {}: the name is empty", quote(text))),
        ("internet" | "nowhere", Some(_)) => {
            Err(format!("the end `{name}` has no interface to name"))
        }
        ("host", None) => Err("the end `host` needs an interface: write host:IFACE".into()),
        ("host", Some(iface)) => Ok(RawEnd::Host(iface.to_owned())),
        _ => Ok(RawEnd::Named { name: name.to_owned(), iface: iface.map(str::to_owned) }),
    }
}

/// Hardware addresses by end.
fn macs(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<(At<String>, At<Mac>)> {
    let Some(entries) = value.entries() else {
        read::expected(value, path, "a map from ends to MAC addresses", report);
        return Vec::new();
    };
    let mut all = Vec::new();
    for entry in entries {
        let (value, path) = (&entry.value, path.key(&entry.key));
        match read::scalar(value).and_then(|text| text.parse::<Mac>().ok()) {
            Some(mac) if mac.is_station() => {
                let end = At { value: entry.key.clone(), place: entry.place };
                all.push((end, At { value: mac, place: value.place }));
            }
            Some(mac) => {
                report.error(
                    value.place,
                    format!("{path}: {mac} is the address of no single station"),
                );
            }
            None => read::expected(value, &path, "a MAC address like 02:00:00:00:00:01", report),
        }
    }
    all
}

/// Numbers of ports by end.
fn numbers(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<(At<String>, At<u32>)> {
    let Some(entries) = value.entries() else {
        read::expected(value, path, "a map from switches to port numbers", report);
        return Vec::new();
    };
    let one = |entry: &netloom_config::Entry| {
        let (value, most) = (&entry.value, i64::from(MOST_NUMBER));
        let number = read::integer(value, &path.key(&entry.key), 1..=most, report)?;
        let end = At { value: entry.key.clone(), place: entry.place };
        Some((end, At { value: u32::try_from(number).ok()?, place: value.place }))
    };
    entries.iter().filter_map(one).collect()
}

/// Whether a value means no address.
fn is_none(value: &Yaml) -> bool {
    read::scalar(value) == Some("none")
}

/// Refuses the word for addresses from a server.
fn is_dhcp(value: &Yaml, path: &Path<'_>, report: &mut Report) -> bool {
    let found = read::scalar(value).is_some_and(|word| word.to_lowercase().starts_with("dhcp"));
    if found {
        let help = "write none, and run a DHCP client in the node".into();
        let message = format!("{path}: expected an address or none, found {}", value.describe());
        report.error_with(value.place, message, Some(help));
    }
    found
}

fn addresses(value: &Yaml, path: &Path<'_>, report: &mut Report) -> Vec<EndAddresses> {
    if is_dhcp(value, path, report) {
        return Vec::new();
    }
    let Some(entries) = value.entries() else {
        read::expected(value, path, "a map from ends to addresses, or none", report);
        return Vec::new();
    };
    let mut all = Vec::new();
    for entry in entries {
        let end = At { value: entry.key.clone(), place: entry.place };
        if let Some((addresses, bare)) =
            addresses_of_end(&entry.value, &path.key(&entry.key), report)
        {
            all.push(EndAddresses { end, addresses, bare });
        }
    }
    all
}

/// The addresses of an end, and whether it is to have none.
pub(super) fn addresses_of_end(
    value: &Yaml,
    path: &Path<'_>,
    report: &mut Report,
) -> Option<(Vec<At<IpNet>>, bool)> {
    let mut found: Vec<At<IpNet>> = Vec::new();
    if is_none(value) {
        return Some((found, true));
    }
    if is_dhcp(value, path, report) {
        return None;
    }
    each_or_only(value, path, report, |item, path, report| {
        let Some(net) = read::cidr(item, path, report) else { return };
        if let Some(problem) = host_address_problem(&net) {
            return report.error(item.place, format!("{path}: {problem}"));
        }
        if found.iter().any(|f| is_ipv4(&f.value) == is_ipv4(&net)) {
            let message =
                format!("{path}: a second {} address; one of each family at most", family(&net));
            return report.error(item.place, message);
        }
        found.push(At { value: net, place: item.place });
    });
    Some((found, false))
}

/// Why no interface can have this address.
fn host_address_problem(net: &IpNet) -> Option<String> {
    let address = net.addr();
    if let Some(reason) = unusable(net) {
        return Some(format!("the address {address} {reason}"));
    }
    // A /31 and a /127 have two hosts and no other addresses (RFC 3021, RFC 6164).
    let shared = net.prefix_len() + 1 < net.max_prefix_len();
    match net {
        _ if net.prefix_len() == 0 => Some(format!("{net} leaves no room for other networks")),
        _ if net.prefix_len() == net.max_prefix_len() => {
            Some(format!("{net} leaves no room for the other end"))
        }
        _ if shared && address == net.network() => {
            Some(format!("{address} is the address of the network {} itself", net.trunc()))
        }
        IpNet::V4(v4) if shared && v4.addr() == v4.broadcast() => {
            Some(format!("{address} is the broadcast address of {}", net.trunc()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
