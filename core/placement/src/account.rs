//! A placement for people and programs: what each host makes, which links are across, and what that costs.

use std::collections::BTreeMap;

use netloom_config::quote;
use netloom_model::Pin;
use netloom_model::hosts::Hosts;
use netloom_model::plan::{Crossing, Placement, Plan, PlannedEnd};
use serde::{Deserialize, Serialize};

use crate::demand::{Demand, PAIR_BYTES, demand};
use crate::needs::needs;
use crate::underlay::{Carried, carried};

/// A placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The lab's name.
    pub lab: String,
    /// In the order of the hosts file.
    pub hosts: Vec<HostAccount>,
    /// By node: its host.
    pub nodes: BTreeMap<String, String>,
    /// By switch: its host; if it is split, those of its pieces, the others linked to the first.
    pub switches: BTreeMap<String, Vec<String>>,
    /// Links across, in the order of the plan.
    pub across: Vec<Crossed>,
    /// What it costs, line by line; see [`costs`](crate::costs()).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// What is probably not meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What a host makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAccount {
    /// Its name.
    pub name: String,
    /// Where ssh(1) reaches it.
    pub ssh: String,
    /// Its address on the underlay.
    pub underlay: String,
    /// The underlay's MTU there.
    pub underlay_mtu: u32,
    /// How many nodes.
    pub nodes: usize,
    /// How many switches and pieces of switches.
    pub switches: usize,
    /// How many links that stay on it.
    pub links: usize,
    /// How many halves of links across.
    pub across: usize,
    /// Bytes of memory: limits, guests, and what netloom itself takes for nodes and links.
    pub memory: u64,
    /// Bytes of memory that its nodes may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_capacity: Option<u64>,
    /// Thousandths of CPUs: limits, and processors of guests.
    pub cpu_milli: u64,
    /// Thousandths of CPUs that its nodes may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_milli_capacity: Option<u64>,
    /// What it must have.
    pub needs: Vec<String>,
}

/// A link across.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossed {
    /// The link's name; between pieces of a switch `SWITCH@HOST--SWITCH@HOST`.
    pub link: String,
    /// Its number, the same on both hosts: a VNI.
    pub number: u32,
    /// The hosts of its ends, in the link's order.
    pub hosts: [String; 2],
    /// The link's MTU.
    pub mtu: u32,
    /// The underlay's MTU between the two.
    pub underlay_mtu: u32,
    /// How many packets of the underlay one of the link's whole MTU takes.
    pub packets: u32,
    /// Bytes of these.
    pub bytes: u64,
    /// The underlay's MTU that needs no fragments.
    pub fitting_mtu: u32,
}

/// A line of costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// What costs: `memory of east`.
    pub what: String,
    /// How much.
    pub value: u64,
    /// Of what: `bytes`, `CPU/1000`, `messages`, `numbers`.
    pub unit: String,
    /// How it is reckoned, with this lab's numbers.
    pub formula: String,
    /// Where the formula is from.
    pub source: String,
}

/// What a placement comes to, without costs.
pub fn account(plan: &Plan, pins: &[Pin], hosts: &Hosts, placement: &Placement) -> Account {
    let name = |host: usize| placement.hosts().get(host).cloned().unwrap_or_default();
    let nodes = plan.slots().zip(&plan.nodes).map(|(slot, node)| {
        (node.name.clone(), placement.of_node(slot).map(name).unwrap_or_default())
    });
    let switches = plan.switch_slots().zip(&plan.switches).map(|(slot, switch)| {
        let pieces = placement.of_switch(slot).iter().copied().map(name);
        (switch.name.clone(), pieces.collect())
    });
    let crossings = plan.crossings(placement);
    let across: Vec<Crossed> =
        crossings.iter().map(|crossing| crossed(crossing, hosts, placement)).collect();
    let needs_of = demand(plan);
    let mut all = Vec::with_capacity(hosts.list.len());
    for (at, host) in hosts.list.iter().enumerate() {
        let part = plan.part(placement, at);
        let here = plan.slots().filter(|slot| placement.of_node(*slot) == Some(at));
        let nodes = here.fold(Demand::default(), |sum, slot| sum + needs_of[slot.get()]);
        let pairs = part.plan.links.len() + part.halves.len();
        all.push(HostAccount {
            name: host.name.clone(),
            ssh: host.ssh.to_string(),
            underlay: host.underlay.to_string(),
            underlay_mtu: host.mtu,
            nodes: part.plan.nodes.len(),
            switches: part.plan.switches.len(),
            links: part.plan.links.len(),
            across: part.halves.len(),
            memory: nodes.memory + PAIR_BYTES * number(pairs),
            memory_capacity: host.memory,
            cpu_milli: nodes.cpu_milli,
            cpu_milli_capacity: host.cpu_milli.map(u64::from),
            needs: needs(&part),
        });
    }
    let mut account = Account {
        lab: plan.lab.clone(),
        hosts: all,
        nodes: nodes.collect(),
        switches: switches.collect(),
        across,
        costs: vec![],
        warnings: vec![],
    };
    account.warnings = warnings(plan, pins, hosts, placement, &account);
    account
}

pub(crate) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn crossed(crossing: &Crossing, hosts: &Hosts, placement: &Placement) -> Crossed {
    let mtus = crossing.hosts.map(|host| hosts.list.get(host).map_or(0, |host| host.mtu));
    let underlay_mtu = mtus[0].min(mtus[1]);
    let Carried { packets, bytes, fitting_mtu, .. } =
        carried(crossing.mtu, underlay_mtu, is_ipv6(hosts));
    Crossed {
        link: crossing.name.clone(),
        number: crossing.number,
        hosts: crossing.hosts.map(|host| placement.hosts().get(host).cloned().unwrap_or_default()),
        mtu: crossing.mtu,
        underlay_mtu,
        packets,
        bytes,
        fitting_mtu,
    }
}

/// All addresses of the underlay are of one family.
pub(crate) fn is_ipv6(hosts: &Hosts) -> bool {
    hosts.list.first().is_some_and(|host| host.underlay.is_ipv6())
}

fn warnings(
    plan: &Plan,
    pins: &[Pin],
    hosts: &Hosts,
    placement: &Placement,
    account: &Account,
) -> Vec<String> {
    let mut all = fragments(hosts, account);
    for link in &plan.links {
        for (near, far) in [(0, 1), (1, 0)] {
            let PlannedEnd::Host { iface } = &link.ends[far] else { continue };
            let of = outermost(plan, &link.ends[near]);
            let Some((name, host)) = of.and_then(|of| placed(plan, placement, of)) else {
                continue;
            };
            let is_pinned = Pin::of(pins, name).is_some_and(|pin| pin.hosts.len() == 1);
            if !is_pinned && hosts.list.len() > 1 {
                all.push(format!(
                    "link {}: host:{iface} is of the host that {} is on, {host} in this placement; pin it: place: {{{name}: HOST}}",
                    quote(&link.name),
                    quote(name)
                ));
            }
        }
    }
    for host in &account.hosts {
        if host.nodes == 0 && host.switches == 0 {
            all.push(format!("host {} makes nothing", quote(&host.name)));
        }
        if host.memory_capacity.is_some_and(|most| host.memory > most) {
            all.push(format!(
                "host {}: with its links it needs {} of memory, more than its capacity of {}",
                quote(&host.name),
                crate::choose::size_up(host.memory),
                crate::choose::size_up(host.memory_capacity.unwrap_or_default())
            ));
        }
    }
    all
}

/// A line for each pair of MTUs that needs fragments.
fn fragments(hosts: &Hosts, account: &Account) -> Vec<String> {
    let mut groups: BTreeMap<(u32, u32), Vec<&Crossed>> = BTreeMap::new();
    for link in account.across.iter().filter(|link| link.packets > 1) {
        groups.entry((link.mtu, link.underlay_mtu)).or_default().push(link);
    }
    let line = |((mtu, underlay_mtu), links): ((u32, u32), Vec<&Crossed>)| {
        let first = links[0];
        let which = match links.len() {
            1 => format!("link {}", quote(&first.link)),
            count => format!("{count} links across, link {} first", quote(&first.link)),
        };
        let fitting = carried(mtu, underlay_mtu, is_ipv6(hosts));
        format!(
            "{which}: a packet of {mtu} bytes goes in {} fragments between {} and {}, whose underlay has an MTU of {underlay_mtu}; \
             an underlay MTU of {} avoids them, or links with mtu: {}",
            fitting.packets,
            quote(&first.hosts[0]),
            quote(&first.hosts[1]),
            fitting.fitting_mtu,
            fitting.fitting_link
        )
    };
    groups.into_iter().map(line).collect()
}

/// An end of a link, as `place` has it: a node without those in it, or a switch.
fn outermost(plan: &Plan, end: &PlannedEnd) -> Option<PlannedEnd> {
    let mut end = end.clone();
    if let PlannedEnd::Node { node, .. } = &mut end {
        while let Some(parent) = plan.node_at(*node)?.parent {
            *node = parent;
        }
    }
    Some(end)
}

fn placed<'p>(
    plan: &'p Plan,
    placement: &'p Placement,
    end: PlannedEnd,
) -> Option<(&'p str, &'p str)> {
    let (name, host) = match end {
        PlannedEnd::Node { node, .. } => (&plan.node_at(node)?.name, placement.of_node(node)?),
        PlannedEnd::Port { switch, .. } => {
            (&plan.switch_at(switch)?.name, placement.of_switch(switch).first().copied()?)
        }
        _ => return None,
    };
    Some((name, placement.hosts().get(host)?))
}
