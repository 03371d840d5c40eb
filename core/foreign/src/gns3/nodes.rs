//! Nodes of GNS3 by their type.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::at::At;
use crate::draft::{Draft, Node, Route, Switch};
use crate::gns3::vlans::Ports;
use crate::gns3::{Place, Places, nat};
use crate::{Job, Verdict, shell, source, valid_name};

/// Keys that only matter to GNS3's window and its consoles.
const WINDOW: &[&str] = &[
    "x",
    "y",
    "z",
    "height",
    "width",
    "symbol",
    "label",
    "locked",
    "console",
    "console_type",
    "console_auto_start",
    "aux",
    "aux_type",
    "custom_adapters",
    "first_port_name",
    "port_name_format",
    "port_segment_size",
    "template_id",
    "compute_id",
];

/// Reads a node; returns the ports of an Ethernet switch.
pub(super) fn read<'a>(
    job: &Job<'_>,
    at: &At<'a>,
    places: &mut Places,
    draft: &mut Draft,
) -> Option<Ports<'a>> {
    let id = at.text_of("node_id").unwrap_or_default().to_owned();
    let wish = valid_name(at.text_of("name").unwrap_or_default());
    let name = draft.free_name(if wish.is_empty() { "node" } else { &wish });
    let kind = at.text_of("node_type").unwrap_or_default();
    let mut ports = None;
    let place = match kind {
        "vpcs" | "docker" | "traceng" => {
            draft.nodes.push(Node { source: Some(id.clone()), ..Node::named(&name) });
            Place::Node(name.clone())
        }
        "ethernet_switch" | "ethernet_hub" => {
            draft.switches.push(Switch::named(&name));
            Place::Switch(name.clone())
        }
        "nat" => Place::Internet,
        "cloud" => Place::Cloud(cloud(at)),
        _ => Place::Nothing(format!("netloom runs no {kind}")),
    };
    if let Place::Nothing(why) = &place {
        at.left_out(why);
    } else {
        known(at, kind, &name);
        match &place {
            Place::Node(name) => host(job, at, kind, draft.node(name)),
            Place::Switch(_) if kind == "ethernet_switch" => {
                ports = Some(Ports::of(&id, &name, at));
            }
            Place::Switch(_) => hub(at),
            Place::Cloud(_) => at
                .get("properties")
                .iter()
                .for_each(|at| at.changed("doors to interfaces of the host")),
            _ => at
                .get("properties")
                .iter()
                .for_each(|at| at.changed("one way to the host's network")),
        }
    }
    places.insert(id, place);
    ports
}

/// The interfaces of the host that a cloud has, by port.
fn cloud(at: &At<'_>) -> Vec<(u32, String)> {
    let ports = at.get("properties").and_then(|at| at.get("ports_mapping"));
    let port = |at: &At<'_>| {
        let number = at.text_of("port_number")?.parse().ok()?;
        let is_ethernet = at.text_of("type").is_none_or(|kind| kind == "ethernet");
        is_ethernet.then(|| Some((number, at.text_of("interface")?.to_owned())))?
    };
    ports.iter().flat_map(At::items).filter_map(|at| port(&at)).collect()
}

/// Keys that every node has.
fn known(at: &At<'_>, kind: &str, name: &str) {
    for (key, at) in at.entries() {
        match key {
            "node_id" => at.carried(),
            "node_type" => match kind {
                "ethernet_hub" => at.changed("a switch, which learns where stations are"),
                "docker" => at.carried(),
                _ => at.carried(),
            },
            "name" if kind == "nat" => at.changed("the end `internet`"),
            "name" if kind == "cloud" => at.changed("ends `host:IFACE`"),
            "name" if at.text() == Some(name) => at.carried(),
            "name" => at.changed(format!("is called {name}")),
            "properties" if at.is_empty() => at.carried(),
            key if WINDOW.contains(&key) => at.drawing(),
            _ => {}
        }
    }
}

fn host(job: &Job<'_>, at: &At<'_>, kind: &str, node: Option<&mut Node>) {
    let (Some(properties), Some(node)) = (at.get("properties"), node) else { return };
    for (key, at) in properties.entries() {
        match key {
            "image" if job.options.host_programs => {
                at.left_out("the node runs the host's programs");
            }
            "image" => match at.text() {
                Some(image) => {
                    node.key("image", crate::write::scalar(image));
                    at.carried();
                }
                None => at.odd("the name of an image"),
            },
            "environment" => environment(&at, node),
            "start_command" if at.is_empty() => at.carried(),
            "start_command" => match at.text().and_then(shell::split) {
                Some(command) if !command.is_empty() => {
                    node.run.push(crate::draft::Program { command, keys: vec![] });
                    at.carried();
                }
                _ => at.odd("a command"),
            },
            "adapters" => at.changed("a node has the interfaces that its links give it"),
            // Given to the ends of its links.
            "mac_address" => at.carried(),
            "container_id" | "usage" | "base_mac_address" | "console_http_path"
            | "console_http_port" | "console_resolution" | "aux" => at.drawing(),
            "extra_hosts" | "extra_volumes" | "cpus" | "memory" if at.is_empty() => at.carried(),
            "cpus" | "memory" if at.text() == Some("0") => at.carried(),
            "startup_script" | "startup_script_path" if at.is_empty() => at.carried(),
            "startup_script_path" if kind == "vpcs" => at.changed("read from the project's folder"),
            _ => {}
        }
    }
}

/// Gives containers' interfaces their hardware addresses: the first one's is the node's own, others count from there, and
/// an adapter may have one of its own.
pub(super) fn macs(places: &Places, topology: &At<'_>, draft: &mut Draft) {
    for at in topology.get("nodes").iter().flat_map(At::items) {
        let id = at.text_of("node_id").unwrap_or_default();
        let (Some(Place::Node(name)), Some("docker")) = (places.get(id), at.text_of("node_type"))
        else {
            continue;
        };
        let base = at.get("properties").and_then(|p| number_of(p.text_of("mac_address")?));
        let mut own = std::collections::HashMap::new();
        for adapter in at.get("custom_adapters").iter().flat_map(At::items) {
            let number =
                adapter.text_of("adapter_number").and_then(|text| text.parse::<u64>().ok());
            own.extend(number.zip(adapter.text_of("mac_address").and_then(number_of)));
        }
        let ends = draft.links.iter_mut().flat_map(|link| &mut link.ends);
        for end in ends.filter(|end| end.at == *name) {
            let number = end.iface.as_deref().and_then(|iface| iface.strip_prefix("eth"));
            let Some(number) = number.and_then(|text| text.parse::<u64>().ok()) else { continue };
            let mac = own.get(&number).copied().or_else(|| base.map(|base| base + number));
            end.mac = mac.map(|mac| {
                let [_, _, bytes @ ..] = mac.to_be_bytes();
                bytes.map(|byte| format!("{byte:02x}")).join(":")
            });
        }
    }
}

/// The number that a hardware address is.
fn number_of(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    (digits.len() == 12).then(|| u64::from_str_radix(&digits, 16).ok())?
}

fn environment(at: &At<'_>, node: &mut Node) {
    for line in at.text().unwrap_or_default().lines() {
        if let Some((name, value)) = line.split_once('=') {
            node.env.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    at.carried();
}

fn hub(at: &At<'_>) {
    let ports = at.get("properties").and_then(|at| at.get("ports_mapping"));
    ports.iter().for_each(|at| at.changed("a switch has the ports that its links give it"));
}

/// Startup files of VPCS: addresses and gateways.
pub(super) fn addresses(job: &Job<'_>, places: &Places, topology: &At<'_>, draft: &mut Draft) {
    for at in topology.get("nodes").iter().flat_map(At::items) {
        let id = at.text_of("node_id").unwrap_or_default();
        let Some(Place::Node(name)) = places.get(id) else { continue };
        let folder = job.file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = source::join(folder, &format!("project-files/vpcs/{id}/startup.vpc"));
        let inline = at.get("properties").and_then(|p| p.get("startup_script"));
        let text = source::text_or_tell(job, &path, "a startup file");
        let inline_text = inline.as_ref().and_then(At::text).unwrap_or_default();
        match &text {
            Some(text) => vpcs(job, (&path, 1), text, name, draft),
            None if !inline_text.is_empty() => {
                let line = inline.as_ref().map_or(1, |at| at.place.line);
                vpcs(job, (job.file, line), inline_text, name, draft);
                inline.iter().for_each(At::carried);
            }
            None => {}
        }
    }
}

/// Commands of a VPCS host, beginning in a line of a file.
fn vpcs(job: &Job<'_>, (file, first): (&str, u32), text: &str, name: &str, draft: &mut Draft) {
    for (number, line) in (first..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let id = job.ledger.enter(file, number, line.trim());
        let verdict = match words.as_slice() {
            ["set", "pcname", _] => Verdict::Changed(format!("the node is called {name}")),
            ["set", "dump" | "echo" | "lport" | "rport" | "rhost", ..] | ["save" | "echo", ..] => {
                Verdict::Changed("of VPCS's own console".into())
            }
            ["ip" | "ip4", "dhcp" | "-r", ..] | ["dhcp", ..] => match nat::lease(name, draft) {
                true => Verdict::Changed("an address of the NAT's network, given once".into()),
                false => Verdict::LeftOut("write a DHCP client in `run`".into()),
            },
            ["ip" | "ip4" | "ip6", rest @ ..] => match address(rest) {
                Some((net, gateway)) => {
                    give(name, net, gateway, draft);
                    Verdict::Carried
                }
                None => Verdict::LeftOut("no address that is understood".into()),
            },
            _ => Verdict::LeftOut(crate::ledger::UNKNOWN.into()),
        };
        job.ledger.say(id, verdict);
    }
}

/// `ADDRESS[/LENGTH] [MASK|LENGTH] [GATEWAY] [LENGTH]`, as VPCS takes it.
fn address(words: &[&str]) -> Option<(IpNet, Option<IpAddr>)> {
    let (first, rest) = words.split_first()?;
    let (address, length) = first.split_once('/').map_or((*first, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().ok()?;
    let mut length: Option<u8> = length.map(str::parse).transpose().ok()?;
    let mut gateway = None;
    for word in rest {
        match (word.parse::<u8>(), word.parse::<IpAddr>()) {
            (Ok(n), _) => length = Some(n),
            (_, Ok(mask)) if word.starts_with("255.") => {
                length = ipnet::ip_mask_to_prefix(mask).ok()
            }
            (_, Ok(address)) => gateway = Some(address),
            _ => return None,
        }
    }
    // VPCS's own defaults.
    let usual = if address.is_ipv4() { 24 } else { 64 };
    Some((IpNet::new(address, length.unwrap_or(usual)).ok()?, gateway))
}

fn give(name: &str, net: IpNet, gateway: Option<IpAddr>, draft: &mut Draft) {
    let ends = draft.links.iter_mut().flat_map(|link| link.ends.iter_mut());
    if let Some(end) = ends.into_iter().find(|end| end.at == name && end.iface.is_some()) {
        end.addresses.push(net);
    }
    if let (Some(gateway), Some(node)) = (gateway, draft.node(name)) {
        let (to, via) = ("default".to_owned(), Some(gateway.to_string()));
        node.routes.push(Route { to, via, dev: None });
    }
}
