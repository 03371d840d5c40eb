//! IMUNES's files since version 2: JSON.

use ipnet::IpNet;

use crate::at::At;
use crate::frr::Protocol;
use crate::imunes::{Host, Interface, Net, Role, Wire, impairment, role, slow};
use crate::{Job, Result, shell};

/// Reads a file.
pub(super) fn read(job: &Job<'_>, content: &[u8]) -> Result<Net> {
    let tree = job.tree(job.file, content)?;
    let root = At::root(job.file, &tree, job.ledger);
    let mut net = Net::default();
    for (key, at) in root.entries() {
        match key {
            "nodes" => net.nodes = at.entries().iter().map(|(id, at)| node(job, id, at)).collect(),
            "links" | "options" | "gui" | "canvases" | "annotations" | "images" => {}
            _ => {}
        }
        match key {
            "gui" | "canvases" | "annotations" | "images" => at.drawing(),
            "options" => at.changed("of IMUNES's own window"),
            "nodes" | "links" if at.is_empty() => at.carried(),
            _ => {}
        }
    }
    // After all nodes: a link names its ends by the nodes' ids, and the file may have them in any
    // order.
    for (_, at) in root.get("links").iter().flat_map(At::entries) {
        if let Some(wire) = link(&at, &net) {
            net.links.push(wire);
        }
    }
    Ok(net)
}

fn node(job: &Job<'_>, id: &str, at: &At<'_>) -> Host {
    let name = at.text_of("name").unwrap_or(id).to_owned();
    let kind = at.text_of("type").unwrap_or_default();
    let protocols = protocols(at);
    let role = role(kind, &name, protocols);
    let mut host = Host { id: id.to_owned(), name, role, ..Host::default() };
    if let Role::Nothing(why) = &host.role {
        at.left_out(why);
        return host;
    }
    for (key, at) in at.entries() {
        match key {
            "type" if kind == "hub" => at.changed("a switch, which learns where stations are"),
            "type" if kind == "nat64" => at.changed("a router, without its translation"),
            "type" | "name" => at.carried(),
            "model" => model(&at),
            "ifaces" => interfaces(&at, &mut host),
            "croutes4" | "croutes6" => routes(&at, &mut host),
            "auto_default_routes" => {
                host.finds_gateway = at.text() == Some("enabled");
                at.carried();
            }
            "custom_configs" => custom(&at, &mut host),
            "custom_enabled" | "custom_selected" => at.carried(),
            "docker_image" if job.options.host_programs => {
                at.left_out("the node runs the host's programs");
            }
            "docker_image" => {
                host.image = at.text().filter(|text| !text.is_empty()).map(str::to_owned);
                at.carried();
            }
            "services" => at.left_out("write a service as a program of `run`"),
            "events" => at.left_out("`netloom link set` changes a running lab"),
            "canvas" | "iconcoords" | "labelcoords" | "label" | "icon" => at.drawing(),
            _ if at.is_empty() => at.carried(),
            _ => {}
        }
    }
    let enabled = at.text_of("custom_enabled").is_some_and(|word| word == "true" || word == "1");
    if !enabled {
        host.scripts.clear();
        at.get("custom_configs").iter().for_each(|at| at.changed("not enabled"));
    }
    host
}

fn model(at: &At<'_>) {
    match at.text() {
        Some("frr" | "static") => at.carried(),
        Some("quagga") => at.changed("FRR, which reads what Quagga does"),
        _ => at.left_out("not known; FRR routes"),
    }
}

fn protocols(at: &At<'_>) -> Vec<Protocol> {
    let mut found = vec![];
    let Some(config) = at.get("router_config") else { return found };
    let mut unknown = vec![];
    for line in config.text().unwrap_or_default().lines() {
        let mut words = line.split_whitespace();
        let (Some(word), on) = (words.next(), words.next() == Some("1")) else { continue };
        match (word, on) {
            ("rip", true) => found.push(Protocol::Rip),
            ("ripng", true) => found.push(Protocol::Ripng),
            ("ospf", true) => found.push(Protocol::Ospf),
            ("ospf6", true) => found.push(Protocol::Ospf6),
            (word, true) => unknown.push(word.to_owned()),
            (_, false) => {}
        }
    }
    match unknown.is_empty() {
        true => config.carried(),
        false => config.left_out(format!("no configuration is made for {}", unknown.join(", "))),
    }
    found
}

fn addresses(at: &At<'_>) -> Vec<IpNet> {
    let mut nets = vec![];
    for item in at.one_or_items() {
        match item.text().map(str::parse::<IpNet>) {
            Some(Ok(net)) => {
                nets.push(net);
                item.carried();
            }
            _ if item.is_empty() => item.carried(),
            _ => item.odd("an address with its prefix length"),
        }
    }
    nets
}

fn interfaces(at: &At<'_>, host: &mut Host) {
    for (id, at) in at.entries() {
        let mut interface = Interface { id: id.to_owned(), ..Interface::default() };
        let kind = at.text_of("type").unwrap_or("phys").to_owned();
        for (key, at) in at.entries() {
            match key {
                "name" => {
                    interface.name = at.text().unwrap_or_default().to_owned();
                    at.carried();
                }
                "ipv4_addrs" | "ipv6_addrs" => interface.addresses.extend(addresses(&at)),
                "mac" => {
                    interface.mac = at.text().filter(|text| !text.is_empty()).map(str::to_owned);
                    at.carried();
                }
                "mtu" => {
                    interface.mtu = at.text().and_then(|text| text.parse().ok());
                    at.carried();
                }
                "link" => at.carried(),
                "type" if ["phys", "lo"].contains(&kind.as_str()) => at.carried(),
                "type" => at.left_out("the interface is a plain one"),
                "oper_state" if at.text() != Some("down") => at.carried(),
                "nat_state" if at.text() != Some("on") => at.carried(),
                _ if at.is_empty() => at.carried(),
                _ => {}
            }
        }
        match kind.as_str() {
            "lo" => host
                .loopback
                .extend(interface.addresses.into_iter().filter(|net| !net.addr().is_loopback())),
            _ => host.interfaces.push(interface),
        }
    }
}

fn routes(at: &At<'_>, host: &mut Host) {
    for item in at.one_or_items() {
        for line in item.text().unwrap_or_default().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [to, via] | [to, via, _]
                    if to.parse::<IpNet>().is_ok() && via.parse::<std::net::IpAddr>().is_ok() =>
                {
                    host.routes.push(((*to).to_owned(), (*via).to_owned()));
                    item.carried();
                }
                _ => item.odd("PREFIX ADDRESS"),
            }
        }
        if item.is_empty() {
            item.carried();
        }
    }
}

/// Scripts of a node's own, at any depth: maps with a command and a text.
fn custom(at: &At<'_>, host: &mut Host) {
    let config = at.get("custom_config");
    let Some(config) = config else {
        at.entries().iter().for_each(|(_, at)| custom(at, host));
        return;
    };
    let lines: Vec<String> = match config.text() {
        Some(text) => vec![text.to_owned()],
        None => config.items().iter().filter_map(At::text).map(str::to_owned).collect(),
    };
    let command = at.text_of("custom_command").unwrap_or("/bin/sh");
    match shell::split(command).filter(|words| !words.is_empty()) {
        Some(command) => {
            host.scripts.push((command, lines.join("\n") + "\n"));
            at.get("custom_command").iter().for_each(At::carried);
            config.carried();
        }
        None => config.left_out("its command has a quote that is not closed"),
    }
}

fn link(at: &At<'_>, net: &Net) -> Option<Wire> {
    let words = |key: &str| -> Vec<String> {
        let text = at.text_of(key).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let (peers, ifaces) = (words("peers"), words("peers_ifaces"));
    let ([a, b], [x, y]) = (peers.as_slice(), ifaces.as_slice()) else {
        at.left_out("it has no two ends");
        return None;
    };
    let mut wire = Wire::default();
    for (place, (id, iface)) in wire.ends.iter_mut().zip([(a, x), (b, y)]) {
        let host = net.nodes.iter().find(|host| host.id == *id);
        match host.map(|host| (&host.role, host)) {
            Some((Role::Nothing(why), _)) => {
                at.left_out(why);
                return None;
            }
            Some((_, host)) => {
                let found = host.interfaces.iter().find(|i| i.id == *iface);
                *place = (id.clone(), found.map(|i| i.name.clone()).unwrap_or_default());
            }
            None => {
                at.left_out("there is no such node");
                return None;
            }
        }
    }
    wire.item = at.item();
    for (key, at) in at.entries() {
        match key {
            "peers" | "peers_ifaces" => at.carried(),
            "color" | "width" | "canvas" | "label" => at.drawing(),
            "mirror" if at.is_empty() => at.carried(),
            _ => match impairment(key, at.text().unwrap_or_default()) {
                Some(pair) => {
                    wire.impairments.push(pair);
                    at.carried();
                }
                None if at.is_empty() || at.text() == Some("0") => at.carried(),
                None if key == "bandwidth" => at.left_out(slow(at.text().unwrap_or_default())),
                None if key == "ber" => at.left_out("write `corrupt` as a share of packets"),
                None if key == "events" => at.left_out("`netloom link set` changes a running lab"),
                None => {}
            },
        }
    }
    Some(wire)
}
