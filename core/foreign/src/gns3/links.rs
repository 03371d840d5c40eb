//! Links of GNS3, with their filters.

use crate::at::At;
use crate::draft::{End, Link};
use crate::gns3::{Place, Places};

/// Reads a link; one whose end is left out is left out, too.
pub(super) fn read(at: &At<'_>, places: &Places) -> Option<Link> {
    let nodes = at.get("nodes").map(|at| at.items()).unwrap_or_default();
    let [a, b] = nodes.as_slice() else {
        at.left_out("it has no two ends");
        return None;
    };
    let ends = [a, b].map(|at| end(at, places));
    let [Ok(a), Ok(b)] = ends else {
        let why = ends.into_iter().find_map(Result::err).unwrap_or_default();
        at.left_out(why);
        return None;
    };
    if a.at == "internet" && b.at == "internet" {
        at.left_out("both its ends are the host's network");
        return None;
    }
    let mut link = Link { ends: [a, b], ..Link::default() };
    for (key, at) in at.entries() {
        match key {
            "link_id" | "link_type" => at.changed("of GNS3's own file"),
            "link_style" => at.drawing(),
            "suspend" if !at.is_true() => at.carried(),
            "suspend" => {
                link.impairments[0].push(("loss", "100%".into()));
                at.changed("every frame is lost; `netloom link set LINK --loss none` ends that");
            }
            "filters" => filters(&at, &mut link),
            "nodes" => ports(&at),
            _ => {}
        }
    }
    Some(link)
}

fn ports(at: &At<'_>) {
    for at in at.items() {
        for (key, at) in at.entries() {
            match key {
                "adapter_number" | "port_number" | "node_id" => at.carried(),
                "label" => at.drawing(),
                _ => {}
            }
        }
    }
}

fn end(at: &At<'_>, places: &Places) -> Result<End, String> {
    let number = |key| at.text_of(key).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    match places.get(at.text_of("node_id").unwrap_or_default()) {
        // Hosts have one port an adapter.
        Some(Place::Node(name)) => {
            let number = number("adapter_number").max(number("port_number"));
            Ok(End::of(name, format!("eth{number}")))
        }
        Some(Place::Switch(name)) => Ok(End::port(name)),
        Some(Place::Internet) => Ok(End::port("internet")),
        Some(Place::Cloud(ports)) => {
            let port = ports.iter().find(|(port, _)| *port == number("port_number"));
            let iface = port.map(|(_, iface)| End::port(format!("host:{iface}")));
            iface.ok_or_else(|| "the cloud has no interface of the host there".to_owned())
        }
        Some(Place::Nothing(why)) => Err(why.clone()),
        None => Err("there is no such node".into()),
    }
}

/// Filters act on both directions: delay and jitter in milliseconds, shares in percent.
fn filters(at: &At<'_>, link: &mut Link) {
    if at.is_empty() {
        at.carried();
    }
    let keys = &mut link.impairments[0];
    for (key, at) in at.entries() {
        let values: Vec<f64> = at.items().iter().filter_map(|at| at.text()?.parse().ok()).collect();
        let ok = !values.is_empty() && values.iter().all(|v| *v >= 0.0 && v.is_finite());
        match (key, values.as_slice()) {
            ("delay", [delay, jitter @ ..]) if ok => {
                keys.push(("delay", format!("{delay}ms")));
                let jitter = jitter.first().filter(|jitter| **jitter > 0.0);
                keys.extend(jitter.map(|jitter| ("jitter", format!("{jitter}ms uniform"))));
                at.carried();
            }
            ("packet_loss", [share, ..]) if ok => {
                keys.push(("loss", format!("{share}%")));
                at.carried();
            }
            ("corrupt", [share, ..]) if ok => {
                keys.push(("corrupt", format!("{share}%")));
                at.carried();
            }
            ("frequency_drop", [n, ..]) if ok && *n >= 1.0 && *n <= 64.0 => {
                let kept: String =
                    (1..64).take_while(|k| f64::from(*k) < *n).map(|_| '.').collect();
                keys.push(("loss", format!("{{pattern: \"{kept}x\"}}")));
                at.carried();
            }
            ("bpf", _) => at.left_out("no impairment chooses packets by an expression"),
            _ => at.odd("numbers"),
        }
    }
    let mut seen = std::collections::HashSet::new();
    keys.retain(|(key, _)| seen.insert(*key));
}
