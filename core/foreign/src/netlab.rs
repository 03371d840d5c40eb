//! Topologies of netlab (netsim-tools): `topology.yml`, whose addresses and configurations netlab makes up.
//!
//! Read is what needs no vendor: nodes of the devices `linux` and `frr`, links in all their forms, pools of IPv4 addresses,
//! and the modules `ospf` and `bgp` with the plug-in `bgp.policy`. Addresses are those that netlab gives: loopbacks by a
//! node's number, links in their order, the ends of a point-to-point link by name, others by number. FRR's
//! configuration is written here. What else a topology says is left out, with a reason where one is known.

mod bgp;
mod groups;
mod keys;
mod links;
mod nodes;
mod ospf;
mod pools;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use crate::at::At;
use crate::draft::{self, Draft, Route};
use crate::{Job, Result, frr, lab_name, shell};

use keys::Layers;
use pools::Pools;

/// A node of the topology.
struct Node<'a> {
    name: String,
    /// Its name in the lab file.
    new: String,
    /// Its number, from which addresses come.
    id: u32,
    is_host: bool,
    mtu: u32,
    layers: Layers<'a>,
    modules: Vec<String>,
    loopback: Option<Ipv4Net>,
    router_id: Option<Ipv4Addr>,
    asn: Option<u32>,
    is_reflector: bool,
    interfaces: Vec<Interface<'a>>,
    /// Configuration of its own, as it is in templates.
    more: String,
}

impl Node<'_> {
    fn runs(&self, module: &str) -> bool {
        self.modules.iter().any(|known| known == module)
    }
}

/// An interface of a node.
struct Interface<'a> {
    name: String,
    /// Its number, by which it is called where nothing says otherwise.
    index: u32,
    address: Option<Ipv4Net>,
    /// Whether it has the loopback's address.
    is_unnumbered: bool,
    /// What the link is for.
    role: Option<&'a str>,
    /// Whether it is a link of one router.
    is_single: bool,
    /// Whether a bridge joins the link.
    is_bridged: bool,
    /// The other nodes on the link, with their addresses there.
    peers: Vec<(usize, Option<Ipv4Addr>)>,
    layers: Layers<'a>,
}

/// Nodes in their order.
type Nodes<'a> = Vec<Node<'a>>;

/// Reads a topology.
pub(crate) fn read(job: &Job<'_>, content: &[u8]) -> Result<Draft> {
    let tree = job.tree(job.file, content)?;
    let root = At::root(job.file, &tree, job.ledger);
    let mut draft = Draft::default();
    head(job, &root, &mut draft);
    let mut pools = Pools::read(&root);
    // Before all others: these take their prefixes first.
    let named = links::named(&root, &mut pools);
    let (mut nodes, others) = nodes::read(job, &root, &mut draft)?;
    // Before links: whether a link leads to another system decides its role, and by that its pool.
    bgp::systems(&root, &mut nodes);
    links::read(&root, (&mut nodes, &others), (&mut pools, &named), &mut draft);
    // After all links, which give interfaces their addresses and neighbours.
    routers(&nodes, &mut draft);
    gateways(&nodes, &mut draft);
    Ok(draft)
}

fn head(job: &Job<'_>, root: &At<'_>, draft: &mut Draft) {
    for (key, at) in root.entries() {
        match key {
            "name" => {
                draft.name = lab_name(at.text().unwrap_or_default());
                match at.text() == Some(draft.name.as_str()) {
                    true => at.carried(),
                    false => at.changed(format!("the lab is called {}", draft.name)),
                }
            }
            "message" => at.changed("only for people"),
            "version" => at.changed("of netlab itself"),
            "provider" => at.changed("netloom itself runs the nodes"),
            "tools" => at.left_out("netloom starts no tools beside a lab"),
            "validate" => at.left_out("write such tests as `expect`"),
            "plugin" => at.one_or_items().iter().for_each(|at| match at.text() {
                Some("bgp.policy") => at.carried(),
                _ => at.left_out("netloom has no such plug-in"),
            }),
            _ => {}
        }
    }
    if job.files.look("topology-defaults.yml").is_some() {
        let id = job.ledger.enter("topology-defaults.yml", 0, "defaults beside the topology");
        job.ledger
            .say(id, crate::Verdict::LeftOut("write them as `defaults` in the topology".into()));
    }
}

/// Gives routers their daemons and configuration.
fn routers(nodes: &Nodes<'_>, draft: &mut Draft) {
    for (number, node) in nodes.iter().enumerate() {
        let Some(made) = draft.node(&node.new) else { continue };
        if !node.is_host {
            made.forwarding = Some("true");
        }
        let mut daemons = vec![];
        let mut text = String::from("frr defaults datacenter\n!\n");
        let mut interfaces: BTreeMap<String, String> = BTreeMap::new();
        if node.runs("ospf") && ospf::is_used(nodes, node) {
            daemons.push("ospfd");
            ospf::configure(nodes, node, &mut interfaces, &mut text);
        }
        if node.runs("bgp") && node.asn.is_some() {
            daemons.push("bgpd");
            bgp::configure(nodes, number, &mut text);
        }
        if daemons.is_empty() && node.more.is_empty() {
            unnumbered(node, made);
            continue;
        }
        for interface in node.interfaces.iter().filter(|interface| interface.is_unnumbered) {
            let address = node.loopback.map(|net| format!(" ip address {net}\n"));
            interfaces.entry(interface.name.clone()).or_default().extend(address);
        }
        for (name, lines) in interfaces {
            text.push_str(&format!("interface {name}\n{lines}!\n"));
        }
        text.push_str(&node.more);
        frr::put(made, &daemons, text);
        if node.is_host {
            made.forwarding = None;
        }
    }
}

/// Gives interfaces the address of the loopback where no FRR does.
fn unnumbered(node: &Node<'_>, made: &mut draft::Node) {
    let Some(net) = node.loopback.map(|net| net.to_string()) else { return };
    for interface in node.interfaces.iter().filter(|interface| interface.is_unnumbered) {
        let words = ["ip", "address", "add", &net, "dev", &interface.name];
        made.setup.push(words.map(str::to_owned).to_vec());
    }
}

/// Default routes of hosts: to the first router with an address, on the first link that has one.
fn gateways(nodes: &Nodes<'_>, draft: &mut Draft) {
    for node in nodes.iter().filter(|node| node.is_host) {
        if node.interfaces.iter().all(|interface| interface.address.is_none()) {
            continue;
        }
        let peers = node.interfaces.iter().flat_map(|own| own.peers.iter().map(move |p| (own, p)));
        let mut routers = peers.filter(|(_, (peer, _))| !nodes[*peer].is_host);
        let Some((own, via)) = routers.find_map(|(own, (_, via))| Some((own, (*via)?))) else {
            continue;
        };
        let Some(made) = draft.node(&node.new) else { continue };
        match own.address.is_some_and(|net| net.contains(&via)) {
            true => {
                let via = Some(via.to_string());
                made.routes.push(Route { to: "default".into(), via, dev: None });
            }
            // The kernel refuses it, there and here.
            false => {
                let words = ["ip", "route", "add", "default", "via", &via.to_string()];
                made.setup.push(shell::forgiving(words.map(str::to_owned).to_vec()));
            }
        }
    }
}

/// Whether nobody else on a link matters: its role is a stub's, and `others` are none of its nodes.
fn is_stub(interface: &Interface<'_>, others: impl Fn(usize) -> bool) -> bool {
    interface.role == Some("stub") && !interface.peers.iter().any(|(peer, _)| others(*peer))
}

/// Whether a link leads to another autonomous system.
fn is_external(nodes: &Nodes<'_>, node: &Node<'_>, interface: &Interface<'_>) -> bool {
    let system = |node: &Node<'_>| node.asn.filter(|_| node.runs("bgp"));
    let others = interface.peers.iter().filter_map(|(peer, _)| system(&nodes[*peer]));
    system(node).is_some_and(|own| others.into_iter().any(|other| other != own))
}

/// `tc` of a link: times in milliseconds, shares in percent, a rate in kilobits a second.
fn traffic(layers: &Layers<'_>) -> Vec<(&'static str, String)> {
    let mut keys: Vec<(&'static str, String)> = vec![];
    for (name, key) in [
        ("delay", "delay"),
        ("jitter", "jitter"),
        ("loss", "loss"),
        ("corrupt", "corrupt"),
        ("duplicate", "duplicate"),
        ("reorder", "reorder"),
        ("rate", "rate"),
    ] {
        let Some(at) = layers.nearest(&format!("tc.{name}")) else { continue };
        let number = at.text().and_then(|text| match text.strip_suffix("ms") {
            Some(ms) => ms.parse::<f64>().ok().map(f64::trunc),
            None if name == "delay" || name == "jitter" => match text.strip_suffix('s') {
                Some(s) => s.parse::<f64>().ok().map(|s| (s * 1e3).trunc()),
                None => text.parse().ok(),
            },
            None => text.parse().ok(),
        });
        let Some(number) = number.filter(|number| *number >= 0.0 && number.is_finite()) else {
            at.odd("a number");
            continue;
        };
        let value = match name {
            "delay" => draft::time(number * 1e3),
            // As netem draws it without a table.
            "jitter" => format!("{} uniform", draft::time(number * 1e3)),
            "rate" => draft::rate(number * 1e3),
            _ => format!("{number}%"),
        };
        let delayed = keys.iter().any(|(key, _)| *key == "delay");
        match number {
            0.0 => at.carried(),
            _ if name == "jitter" && !delayed => {
                at.left_out("jitter is around a delay, and there is none");
            }
            _ if name == "reorder" && !delayed => {
                at.left_out("packets overtake others by not being delayed, and there is no delay");
            }
            _ => {
                keys.push((key, value));
                at.carried();
            }
        }
    }
    keys
}

fn as_net(net: Ipv4Net) -> IpNet {
    IpNet::V4(net)
}
