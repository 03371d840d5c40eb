//! Links of GNS3, with their filters.

use crate::Fault;
use crate::at::At;
use crate::draft::{End, Link};
use crate::gns3::{Place, Places};
use crate::write::quoted;

/// Reads a link; one whose end is left out is left out, too.
pub(super) fn read(at: &At<'_>, places: &Places, fault: Option<Fault>) -> Option<Link> {
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
    let mut link = Link { ends: [a, b], item: at.item(), ..Link::default() };
    for (key, at) in at.entries() {
        match key {
            "link_id" | "link_type" => at.changed("of GNS3's own file"),
            "link_style" => at.drawing(),
            "suspend" if !at.is_true() => at.carried(),
            // `Project.open` of gns3-server 2.2.61 reads it from no file.
            "suspend" => at.changed("GNS3 does not suspend it either when it opens a project"),
            "filters" => {}
            "nodes" => ports(&at),
            _ => {}
        }
    }
    at.get("filters").iter().for_each(|at| filters(at, &mut link, fault));
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

/// Filters act on both directions: delay and jitter in milliseconds, shares in percent. GNS3 drops a filter whose first
/// value is 0 (`UDPLink.update_filters`).
fn filters(at: &At<'_>, link: &mut Link, fault: Option<Fault>) {
    if at.is_empty() {
        at.carried();
    }
    let mut keys = vec![];
    let (mut lost, mut nth) = (None, None);
    for (key, at) in at.entries() {
        let values: Vec<f64> = at.items().iter().filter_map(|at| at.text()?.parse().ok()).collect();
        // GNS3 reads whole numbers and cuts off what stands behind the point.
        let values: Vec<f64> = values.into_iter().map(f64::trunc).collect();
        let is_share = |share: &f64| (0.0..=100.0).contains(share);
        match (key, values.as_slice()) {
            ("delay" | "packet_loss" | "corrupt" | "frequency_drop", [first, rest @ ..])
                if *first == 0.0 =>
            {
                match rest.iter().any(|value| *value != 0.0) {
                    true => at.changed("its first value is 0, and so GNS3 has no such filter"),
                    false => at.carried(),
                }
            }
            ("delay", [delay, jitter @ ..]) if *delay > 0.0 => {
                keys.push(("delay", format!("{delay}ms")));
                let jitter = jitter.first().filter(|jitter| **jitter > 0.0);
                keys.extend(jitter.map(|jitter| ("jitter", format!("{jitter}ms uniform"))));
                at.carried();
            }
            ("packet_loss", [share, ..]) if is_share(share) => {
                lost = Some((*share, at.clone()));
                at.carried();
            }
            ("corrupt", [share, ..]) if is_share(share) => {
                keys.push(("corrupt", format!("{share}%")));
                at.carried();
            }
            ("frequency_drop", [n, ..]) if *n == -1.0 || (1.0..=MOST_FREQUENCY).contains(n) => {
                nth = Some((*n, at.clone()));
                at.changed("each direction counts its own frames");
            }
            ("bpf", _) if at.items().first().is_none_or(At::is_empty) => at.carried(),
            ("bpf", _) => {
                keys.extend(expression(&at, fault).map(|all| ("drop", quoted(&all))));
                at.carried();
            }
            _ => at.odd("numbers that the filter takes"),
        }
    }
    keys.extend(loss(lost, nth).map(|loss| ("loss", loss)));
    link.impairments[0].extend(keys);
}

/// Words of pcap-filter(7) that change where the rest of an expression looks.
const SHIFTS: [&str; 4] = ["vlan", "mpls", "pppoes", "geneve"];

/// What the lines of a `bpf` filter drop, each on its own (`BaseNode._build_filter_list`). As GNS3 goes on without a line
/// that libpcap does not take (`BaseNode._set_filters`), so does the import.
fn expression(at: &At<'_>, fault: Option<Fault>) -> Option<String> {
    let items = at.items();
    let lines = items.first()?.text()?.lines().map(str::trim).filter(|line| !line.is_empty());
    let shifts = |line: &str| {
        line.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| SHIFTS.contains(&word))
    };
    let (mut plain, mut shifting, mut refused) = (vec![], vec![], vec![]);
    for line in lines {
        match fault.and_then(|fault| fault(line)) {
            Some(why) => refused.push(format!("{line:?} is left out: {why}")),
            None if !shifts(line) => plain.push(line),
            None if shifting.is_empty() => shifting.push(line),
            None => refused.push(format!(
                "{line:?} is left out: behind {:?} it would look into that one's packets",
                shifting[0]
            )),
        }
    }
    // Last, where nothing comes behind it.
    plain.extend(shifting);
    if !refused.is_empty() {
        let why = refused.join("; ");
        if plain.is_empty() { at.left_out(why) } else { at.changed(why) }
    }
    match plain.as_slice() {
        [] => None,
        [only] => Some((*only).to_owned()),
        all => Some(all.iter().map(|line| format!("({line})")).collect::<Vec<_>>().join(" or ")),
    }
}

/// The largest number of frames of which GNS3 drops each last one.
const MOST_FREQUENCY: f64 = 32_767.0;

/// What `packet_loss` and `frequency_drop` lose together.
fn loss(lost: Option<(f64, At<'_>)>, nth: Option<(f64, At<'_>)>) -> Option<String> {
    match (lost, nth) {
        (None, None) => None,
        (Some((share, _)), None) => Some(format!("{share}%")),
        (_, Some((-1.0, _))) => Some("100%".into()),
        (None, Some((n, _))) => {
            let kept: String = (1..32_768).take_while(|k| f64::from(*k) < n).map(|_| '.').collect();
            Some(format!("{{pattern: \"{kept}x\"}}"))
        }
        (Some((share, at)), Some((n, other))) => {
            // One filter acts on what the other leaves.
            let both = 100.0 - (100.0 - share) * (1.0 - 1.0 / n);
            let both = format!("{}%", (both * 1e4).round() / 1e4);
            for at in [at, other] {
                at.changed(format!(
                    "frequency_drop and packet_loss together lose {both} at random"
                ));
            }
            Some(both)
        }
    }
}
