//! Links of CORE, with addresses of both ends and options.

use ipnet::IpNet;

use crate::at::At;
use crate::core_xml::{Places, end, linked};
use crate::draft::{self, End, Link};

/// The keys of an end: of its node and of its interface, new and old ones.
pub(super) type Keys = ([&'static str; 2], [&'static str; 2]);

pub(super) const ENDS: [Keys; 2] = [
    (["@node1", "@node_one"], ["iface1", "interface_one"]),
    (["@node2", "@node_two"], ["iface2", "interface_two"]),
];

/// What an interface is called.
pub(super) fn interface_name(iface: Option<&At<'_>>) -> String {
    let name = iface.and_then(|at| at.text_of("@name")).filter(|name| !name.is_empty());
    let number = iface.and_then(|at| at.text_of("@id")).unwrap_or("0");
    name.map_or_else(|| format!("eth{number}"), str::to_owned)
}

/// Reads a link; what cannot be linked is left out. One that only gives the other direction of a link before, whose ends
/// may stand in the other order, adds to that.
pub(super) fn read(at: &At<'_>, places: &Places, known: &mut [Link]) -> Option<Link> {
    let node = |keys: [&'static str; 2]| {
        keys.into_iter().find_map(|key| at.get(key)).map(|at| (at.text().unwrap_or_default(), at))
    };
    let mut ends = vec![];
    for (keys, ifaces) in ENDS {
        let Some((id, given)) = node(keys) else {
            at.left_out("it has no two ends");
            return None;
        };
        let iface = ifaces.into_iter().find_map(|key| at.get(key)?.items().into_iter().next());
        let name = interface_name(iface.as_ref());
        let place = places.get(id).ok_or("there is no such node");
        match place.and_then(|place| end(place, Some(&name))) {
            Ok(mut end) => {
                iface.iter().for_each(|at| interface(at, &mut end));
                given.carried();
                ends.push(end);
            }
            Err(why) => {
                at.left_out(why);
                return None;
            }
        }
    }
    let ends: [End; 2] = ends.try_into().ok()?;
    let mut link = Link { item: at.item(), ..linked(ends) };
    for options in at.get("options").iter().flat_map(At::items) {
        self::options(&options, &mut link);
    }
    // CORE writes one link for both directions, or two of one direction each.
    if link.impairments[1].is_empty() && !is_one_way(at) {
        return Some(link);
    }
    let same = |a: &End, b: &End| a.at == b.at && a.iface == b.iface;
    let [a, b] = &link.ends;
    for other in known {
        let [c, d] = &other.ends;
        let way = match () {
            () if same(a, c) && same(b, d) => 1,
            () if same(a, d) && same(b, c) => 2,
            () => continue,
        };
        other.impairments[way] = std::mem::take(&mut link.impairments[1]);
        return None;
    }
    Some(link)
}

/// Whether the options of a link are those of what its first end sends alone.
fn is_one_way(at: &At<'_>) -> bool {
    let all = at.get("options").map(|at| at.items()).unwrap_or_default();
    all.iter().any(|options| options.text_of("@unidirectional") == Some("1"))
}

fn interface(at: &At<'_>, end: &mut End) {
    let node = end.iface.is_some();
    for key in ["@id", "@name"] {
        at.get(key).iter().for_each(At::carried);
    }
    if let Some(mac) = at.get("@mac") {
        match mac.text() {
            Some("") | None => mac.carried(),
            Some(text) if node => {
                end.mac = Some(text.to_owned());
                mac.carried();
            }
            Some(_) => mac.left_out("a switch's port has no address"),
        }
    }
    for (address, mask) in [("@ip4", "@ip4_mask"), ("@ip6", "@ip6_mask")] {
        let (Some(ip), mask) = (at.get(address), at.get(mask)) else { continue };
        let length = mask.as_ref().and_then(At::text).unwrap_or("32");
        let net = format!("{}/{length}", ip.text().unwrap_or_default()).parse::<IpNet>();
        let both = [Some(ip.clone()), mask];
        let both = both.iter().flatten();
        match net {
            _ if ip.is_empty() => both.for_each(At::carried),
            Ok(net) if node => {
                end.addresses.push(net);
                both.for_each(At::carried);
            }
            Ok(_) => both.for_each(|at| at.left_out("a switch's port has no address")),
            Err(_) => both.for_each(|at| at.left_out("no address with a prefix length")),
        }
    }
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "us" => draft::time(value),
        "bit" => draft::rate(value),
        unit => format!("{value}{unit}"),
    }
}

/// Delay and jitter are in microseconds, bandwidth in bits a second, loss and duplicates in percent. The options of
/// one direction only are those of what the first end sends.
fn options(at: &At<'_>, link: &mut Link) {
    let one_way = at.text_of("@unidirectional") == Some("1");
    let keys = &mut link.impairments[usize::from(one_way)];
    let number = |name: &str| at.text_of(name)?.parse::<f64>().ok().filter(|n| n.is_finite());
    for (name, key, unit) in [
        ("@delay", "delay", "us"),
        ("@jitter", "jitter", "us"),
        ("@bandwidth", "rate", "bit"),
        ("@loss", "loss", "%"),
        ("@per", "loss", "%"),
        ("@dup", "duplicate", "%"),
    ] {
        let Some(at) = at.get(name) else { continue };
        match number(name) {
            // `per` is `loss` of files before version 5.
            _ if keys.iter().any(|(known, _)| *known == key) => at.carried(),
            Some(0.0) => at.carried(),
            Some(value) if value > 0.0 => {
                let most = if unit == "%" { 100.0 } else { f64::MAX };
                keys.push((key, shown(value.min(most), unit)));
                at.carried();
            }
            _ if at.is_empty() => at.carried(),
            _ => at.odd("a number"),
        }
    }
    // As netem draws it without a table, with a correlation of 25 % (`core.nodes.interface`).
    if let Some(jitter) = keys.iter_mut().find(|(key, _)| *key == "jitter") {
        jitter.1.push_str(" uniform 25%");
    }
    keys.extend(bounds(at, number("@bandwidth"), number("@delay")));
    at.get("@unidirectional").iter().for_each(At::carried);
    at.get("@type").iter().for_each(|at| at.changed("every link is a wired one"));
    // CORE reads them, and does nothing with them.
    for name in ["@burst", "@mburst", "@key", "@mer"] {
        at.get(name).iter().for_each(At::carried);
    }
}

/// The MTU of CORE's interfaces.
const MTU: f64 = 1500.0;

/// What a link with a bandwidth holds at most: its buffer, or twice what is on its way (`core.nodes.interface.tc_cmd`).
fn bounds(at: &At<'_>, rate: Option<f64>, delay: Option<f64>) -> Vec<(&'static str, String)> {
    let buffer = at.get("@buffer");
    let given = buffer.as_ref().and_then(|at| at.text()?.parse::<u32>().ok()).filter(|n| *n > 0);
    let rate = rate.filter(|rate| *rate > 0.0);
    buffer.iter().for_each(|at| match (given, rate) {
        (Some(_), None) => at.changed("without a bandwidth CORE does nothing with it"),
        _ => at.carried(),
    });
    let delay = delay.filter(|delay| *delay > 0.0);
    let Some(rate) = rate else { return vec![] };
    let packets = given.map(f64::from).or_else(|| {
        // Bits a second and microseconds.
        Some((2.0 * rate * delay? / 1e6 / (8.0 * MTU)).ceil().max(2.0))
    });
    let Some(packets) = packets else { return vec![] };
    let mut keys = vec![("queue", format!("{packets}"))];
    // netem counts what waits and what is delayed alike.
    keys.extend(delay.map(|_| ("limit", format!("{packets}"))));
    keys
}
