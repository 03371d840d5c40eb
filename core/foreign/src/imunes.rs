//! IMUNES's networks: JSON since its version 2, nested lists of Tcl before.
//!
//! Carried are hosts, PCs, routers (protocols by FRR), switches and hubs, and interfaces of the host; addresses, routes
//! by hand, default routes, and what links do to frames. Both forms become [`Net`], from which the draft is made.

mod classic;
mod json;
mod tcl;

use std::collections::HashMap;

use ipnet::IpNet;

use crate::draft::{self, Draft, End, Link, Node, Route, Switch};
use crate::frr::{self, Protocol};
use crate::{Job, Result, valid_name};

/// A network, in either form.
#[derive(Default)]
struct Net {
    nodes: Vec<Host>,
    links: Vec<Wire>,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
enum Role {
    #[default]
    Host,
    Router(Vec<Protocol>),
    Switch,
    /// An interface of the host.
    Door(String),
    Nothing(String),
}

/// A node.
#[derive(Default)]
struct Host {
    /// Its number: `n0`.
    id: String,
    name: String,
    role: Role,
    interfaces: Vec<Interface>,
    /// Destination and next hop.
    routes: Vec<(String, String)>,
    /// Whether it has a default route to a router that is near.
    finds_gateway: bool,
    /// Configuration of FRR as it stands in the file.
    config: String,
    /// Files with the commands that run them.
    scripts: Vec<(Vec<String>, String)>,
    loopback: Vec<IpNet>,
    image: Option<String>,
    /// Interfaces with the nodes that they lead to, where the file names both.
    peers: Vec<(String, String)>,
}

/// An interface.
#[derive(Default)]
struct Interface {
    name: String,
    /// The other form's own number of it: `ifc0`.
    id: String,
    addresses: Vec<IpNet>,
    mac: Option<String>,
    mtu: Option<u32>,
}

/// A link between two nodes, by number, and their interfaces by name.
#[derive(Default)]
struct Wire {
    ends: [(String, String); 2],
    impairments: Vec<(&'static str, String)>,
    /// Its item in the account.
    item: Option<crate::ledger::Id>,
}

/// Reads a network.
pub(crate) fn read(job: &Job<'_>, content: &[u8]) -> Result<Draft> {
    let is_json = content.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let net = match is_json {
        true => json::read(job, content)?,
        false => classic::read(job, content)?,
    };
    Ok(made(net))
}

fn made(net: Net) -> Draft {
    let mut draft = Draft::default();
    let mut names = HashMap::new();
    for host in &net.nodes {
        let wish = valid_name(&host.name);
        let name = draft.free_name(if wish.is_empty() { &host.id } else { &wish });
        match &host.role {
            Role::Switch => draft.switches.push(Switch::named(&name)),
            Role::Host | Role::Router(_) => {
                draft.nodes.push(Node { source: Some(host.id.clone()), ..Node::named(&name) });
            }
            Role::Door(_) | Role::Nothing(_) => {}
        }
        names.insert(host.id.clone(), name);
    }
    for wire in &net.links {
        let ends = wire.ends.clone().map(|(id, iface)| end(&net, &names, &id, &iface));
        let [Some((a, mtu)), Some((b, other))] = ends else { continue };
        let impairments = [wire.impairments.clone(), vec![], vec![]];
        let (mtu, item) = (mtu.or(other), wire.item);
        draft.links.push(Link { ends: [a, b], mtu, impairments, item });
    }
    let gateways = gateways(&net);
    for host in net.nodes {
        let name = names.get(&host.id).cloned().unwrap_or_default();
        if let Some(node) = draft.node(&name) {
            fill(host, &gateways, node);
        }
    }
    draft
}

fn end(
    net: &Net,
    names: &HashMap<String, String>,
    id: &str,
    iface: &str,
) -> Option<(End, Option<u32>)> {
    let host = net.nodes.iter().find(|host| host.id == id)?;
    match &host.role {
        Role::Switch => Some((End::port(names.get(id)?), None)),
        Role::Door(iface) => Some((End::port(format!("host:{iface}")), None)),
        Role::Nothing(_) => None,
        Role::Host | Role::Router(_) => {
            let mut end = End::of(names.get(id)?, iface);
            let found = host.interfaces.iter().find(|interface| interface.name == iface);
            if let Some(interface) = found {
                end.addresses.clone_from(&interface.addresses);
                end.mac.clone_from(&interface.mac);
            }
            Some((end, found.and_then(|interface| interface.mtu)))
        }
    }
}

/// Addresses of routers, by which hosts find theirs.
fn gateways(net: &Net) -> Vec<IpNet> {
    let routers = net.nodes.iter().filter(|host| matches!(host.role, Role::Router(_)));
    routers.flat_map(|host| &host.interfaces).flat_map(|i| i.addresses.iter().copied()).collect()
}

fn fill(host: Host, gateways: &[IpNet], node: &mut Node) {
    let interfaces: Vec<(String, Vec<IpNet>)> =
        host.interfaces.iter().map(|i| (i.name.clone(), i.addresses.clone())).collect();
    if let Role::Router(protocols) = &host.role {
        match protocols.is_empty() && !host.config.contains("router ") {
            true => node.forwarding = Some("true"),
            false => frr::run(node, protocols, &interfaces, &host.config),
        }
    }
    if !host.loopback.is_empty() {
        let nets: Vec<String> = host.loopback.iter().map(ToString::to_string).collect();
        node.key("loopback", crate::write::list(&nets));
    }
    if let Some(image) = &host.image {
        node.key("image", crate::write::scalar(image));
    }
    for (to, via) in host.routes {
        let to = if ["0.0.0.0/0", "::/0"].contains(&to.as_str()) { "default".into() } else { to };
        node.routes.push(Route { to, via: Some(via), dev: None });
    }
    if host.finds_gateway && host.role == Role::Host && node.routes.is_empty() {
        for ipv6 in [false, true] {
            let own = host.interfaces.iter().flat_map(|i| &i.addresses);
            let mut own = own.filter(|net| net.addr().is_ipv6() == ipv6);
            let near = own.find_map(|own| gateways.iter().find(|g| g.trunc() == own.trunc()));
            node.routes.extend(near.map(|gateway| Route {
                to: "default".into(),
                via: Some(gateway.addr().to_string()),
                dev: None,
            }));
        }
    }
    for (n, (command, text)) in host.scripts.into_iter().enumerate() {
        let path = format!("/run/netloom-import/config-{}", n + 1);
        let mut words = command;
        words.push(path.clone());
        node.files.push(crate::draft::File {
            path,
            content: crate::draft::Content::Text(text),
            mode: 0o755,
        });
        node.setup.push(crate::shell::forgiving(words));
    }
}

/// A node's role by its type and model, and why it is nothing.
fn role(kind: &str, name: &str, protocols: Vec<Protocol>) -> Role {
    match kind {
        "pc" | "host" => Role::Host,
        "router" | "nat64" => Role::Router(protocols),
        "lanswitch" | "hub" => Role::Switch,
        "rj45" | "extelem" => Role::Door(name.to_owned()),
        kind => Role::Nothing(format!("netloom has nothing like {kind}")),
    }
}

/// The lowest rate of a link, in bits a second.
const LEAST_RATE: f64 = netloom_impair::LEAST_RATE as f64;

/// Why a bandwidth is left out.
fn slow(text: &str) -> String {
    format!("a rate is at least {LEAST_RATE} bit/s, not {}", text.trim())
}

/// What links do: delay in microseconds, bandwidth in bits a second, loss and duplicates in percent, `ber` one wrong
/// bit in so many.
fn impairment(key: &str, text: &str) -> Option<(&'static str, String)> {
    let value: f64 = text.trim().parse().ok().filter(|value: &f64| *value > 0.0)?;
    match key {
        "delay" => Some(("delay", draft::time(value))),
        "bandwidth" if value >= LEAST_RATE => Some(("rate", draft::rate(value))),
        "loss" if value <= 100.0 => Some(("loss", format!("{value}%"))),
        "dup" | "duplicate" if value <= 100.0 => Some(("duplicate", format!("{value}%"))),
        _ => None,
    }
}
