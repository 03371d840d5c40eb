//! Chooses a host for each atom.

use std::collections::VecDeque;

use netloom_config::quote;
use netloom_model::Pin;
use netloom_model::hosts::Hosts;
use netloom_model::plan::{Placement, Plan, PlannedEnd};

use crate::atoms::{Atoms, vertex_name};
use crate::bisect::{self, divide};
use crate::demand::Demand;
use crate::earlier::Earlier;
use crate::error::Error;
use crate::graph::Graph;
use crate::spread::{Capacity, Spread, capacities, shares, targets};

/// By how many percent a host may pass its share, or by its heaviest node if that is more.
pub const BALANCE_PERCENT: u64 = 3;

/// The same where an earlier placement is kept: to move a node costs more than a host that is fuller.
pub const STICKY_PERCENT: u64 = 25;

/// No host, for atoms that have none yet.
const NONE: usize = usize::MAX;

/// Chooses which host makes what. Pins hold; with an earlier placement, what it has stays where it was as long as pins, capacities
/// and [`STICKY_PERCENT`] allow.
///
/// # Errors
/// All pins that cannot hold; or the object that no host has room for.
pub fn place(
    plan: &Plan,
    pins: &[Pin],
    hosts: &Hosts,
    earlier: Option<&Earlier>,
) -> Result<Placement, Vec<Error>> {
    let atoms = Atoms::new(plan, pins, hosts)?;
    let weights = atoms.list.iter().map(|atom| atom.weight).collect();
    let graph = Graph::new(weights, atoms.links.iter().map(|(a, b)| (*a, *b, 1)));
    let shares = shares(hosts);
    let chooser = Chooser {
        plan,
        hosts,
        atoms: &atoms,
        graph: &graph,
        capacity: &capacities(hosts),
        target: &targets(&shares, graph.total()),
        shares: &shares,
    };
    let chosen = match earlier {
        Some(earlier) => chooser.kept(earlier),
        None => chooser.fresh(),
    };
    let chosen = chosen.map_err(|error| vec![error])?;
    placement(plan, hosts, &atoms, &chosen).map_err(|misfit| vec![Error::Misfit(misfit)])
}

struct Chooser<'a> {
    plan: &'a Plan,
    hosts: &'a Hosts,
    atoms: &'a Atoms,
    graph: &'a Graph,
    capacity: &'a [Capacity],
    target: &'a [u64],
    shares: &'a [u64],
}

impl<'a> Chooser<'a> {
    fn spread(&self, percent: u64, host: Vec<usize>) -> Spread<'a> {
        Spread::new(self.graph, self.atoms, self.capacity, self.target, percent, host)
    }

    /// The better of two: a division by few links, and the order of the file, in which people write together what belongs
    /// together.
    fn fresh(&self) -> Result<Vec<usize>, Error> {
        let allowed: Vec<Option<Vec<usize>>> =
            self.atoms.list.iter().map(|atom| atom.allowed.clone()).collect();
        let among = bisect::Hosts { shares: self.shares, allowed: &allowed };
        let divided = self.bettered(divide(self.graph, &among))?;
        let in_order = self.bettered(self.in_order())?;
        let cut = |host: &[usize]| self.graph.cut(host);
        Ok(if cut(&in_order) < cut(&divided) { in_order } else { divided })
    }

    fn bettered(&self, host: Vec<usize>) -> Result<Vec<usize>, Error> {
        let mut spread = self.spread(BALANCE_PERCENT, self.within_pins(host));
        let any = |_: usize| false;
        spread.fit(&any);
        self.packed(&mut spread)?;
        // Last, since what makes room may pass a bound: the next call with this placement as the earlier one would move it.
        spread.settle(&any);
        spread.refine(&|_| true);
        spread.settle(&any);
        Ok(spread.host)
    }

    /// Moves what a division has put beyond a pin of several hosts.
    fn within_pins(&self, mut host: Vec<usize>) -> Vec<usize> {
        for (atom, host) in self.atoms.list.iter().zip(&mut host) {
            if let Some(allowed) = &atom.allowed
                && !allowed.contains(host)
            {
                *host = allowed.first().copied().unwrap_or_default();
            }
        }
        host
    }

    /// Hosts one after the other, each filled up to its share; a switch goes where most of its links are.
    fn in_order(&self) -> Vec<usize> {
        let mut host = vec![NONE; self.graph.len()];
        let (mut at, mut load) = (0, 0);
        for (atom, host) in host.iter_mut().enumerate() {
            let weight = self.graph.weight(atom);
            if weight == 0 {
                continue;
            }
            // More than half of it beyond the share: the next host.
            if at + 1 < self.target.len() && load + weight / 2 >= self.target[at] {
                (at, load) = (at + 1, 0);
            }
            *host = at;
            load += weight;
        }
        let mut spread = self.spread(BALANCE_PERCENT, host);
        for atom in (0..self.graph.len()).filter(|atom| self.graph.weight(*atom) == 0) {
            let best = spread.best_for_new(atom).unwrap_or_default();
            spread.put(atom, best);
        }
        spread.host
    }

    /// What was there stays; what is new goes to its neighbours.
    fn kept(&self, earlier: &Earlier) -> Result<Vec<usize>, Error> {
        let known = |atom: usize| {
            let members = self.atoms.list[atom].members.iter();
            let mut hosts =
                members.filter_map(|vertex| earlier.hosts.get(vertex_name(self.plan, *vertex)));
            let host = hosts.find_map(|name| self.hosts.find(name))?;
            let allowed = &self.atoms.list[atom].allowed;
            allowed.as_ref().is_none_or(|allowed| allowed.contains(&host)).then_some(host)
        };
        let host: Vec<usize> =
            (0..self.graph.len()).map(|atom| known(atom).unwrap_or(NONE)).collect();
        let new: Vec<bool> = host.iter().map(|host| *host == NONE).collect();
        let is_new = |atom: usize| new[atom];
        let mut spread = self.spread(STICKY_PERCENT, host);
        for atom in self.by_nearness(&new) {
            // Where no room is left, some is made below.
            let allowed = self.atoms.list[atom].allowed.as_ref();
            let any = allowed.and_then(|hosts| hosts.first()).copied().unwrap_or_default();
            let to = spread.best_for_new(atom).unwrap_or(any);
            spread.put(atom, to);
        }
        spread.fit(&is_new);
        self.packed(&mut spread)?;
        spread.refine(&is_new);
        spread.settle(&is_new);
        Ok(spread.host)
    }

    /// New atoms, neighbours of placed ones first, and theirs after them.
    fn by_nearness(&self, new: &[bool]) -> Vec<usize> {
        let mut seen: Vec<bool> = new.iter().map(|new| !new).collect();
        let old = (0..new.len()).filter(|atom| !new[*atom]);
        let mut queue: VecDeque<usize> = old.collect();
        let mut order = Vec::new();
        for start in 0..=new.len() {
            while let Some(atom) = queue.pop_front() {
                if new[atom] {
                    order.push(atom);
                }
                for (to, _) in self.graph.edges(atom) {
                    if !std::mem::replace(&mut seen[*to], true) {
                        queue.push_back(*to);
                    }
                }
            }
            if start < new.len() && !std::mem::replace(&mut seen[start], true) {
                queue.push_back(start);
            }
        }
        order
    }

    /// If capacities are passed, everything is packed again.
    fn packed(&self, spread: &mut Spread<'_>) -> Result<(), Error> {
        if spread.fits() {
            return Ok(());
        }
        spread.pack().map_err(|atom| self.no_room(spread, atom))
    }

    fn no_room(&self, spread: &Spread<'_>, atom: usize) -> Error {
        let of = &self.atoms.list[atom];
        let name = |vertex: usize| quote(vertex_name(self.plan, vertex));
        let what = match of.members.as_slice() {
            [one] => format!("node {}", name(*one)),
            [first, rest @ ..] => {
                format!("node {} with the {} that it must be with", name(*first), rest.len())
            }
            [] => String::new(),
        };
        let hosts = (0..self.capacity.len()).filter(|host| spread.is_allowed(atom, *host));
        let roomiest = hosts.max_by_key(|host| {
            let left = spread.left(*host);
            (left.memory.min(of.demand.memory), left.cpu_milli.min(of.demand.cpu_milli))
        });
        let left = roomiest.map_or_else(String::new, |host| {
            let left = in_words(spread.left(host), self.capacity[host], size_down);
            let name = quote(&self.hosts.list[host].name);
            match &of.allowed {
                Some(_) => format!("host {name}, to which it is pinned, has {left} left"),
                None => format!("no host has room: {name} has {left} left, the others less"),
            }
        });
        let left = format!(
            "{left}; add a host, give the hosts more `capacity`, or lower the node's `limits`"
        );
        let needs = in_words(of.demand, Capacity { memory: 0, cpu_milli: 0 }, size_up);
        Error::NoRoom { what, needs, left }
    }
}

/// `512.0 MiB of memory and 1.500 CPUs` of what a host bounds.
fn in_words(demand: Demand, of: Capacity, size: fn(u64) -> String) -> String {
    let mut words = Vec::new();
    if of.memory < u64::MAX && demand.memory < u64::MAX {
        words.push(format!("{} of memory", size(demand.memory)));
    }
    if of.cpu_milli < u64::MAX && (of.cpu_milli > 0 || demand.cpu_milli > 0) {
        let (whole, rest) = (demand.cpu_milli / 1000, demand.cpu_milli % 1000);
        words.push(format!("{whole}.{rest:03} CPUs"));
    }
    words.join(" and ")
}

/// Bytes in MiB, with a digit, rounded up: what is needed.
pub(crate) fn size_up(bytes: u64) -> String {
    tenths((u128::from(bytes) * 10).div_ceil(1 << 20))
}

/// The same rounded down: what is left.
fn size_down(bytes: u64) -> String {
    tenths(u128::from(bytes) * 10 / (1 << 20))
}

fn tenths(tenths: u128) -> String {
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn placement(
    plan: &Plan,
    hosts: &Hosts,
    atoms: &Atoms,
    chosen: &[usize],
) -> Result<Placement, &'static str> {
    let at = |vertex: usize| atoms.of[vertex].map_or(0, |atom| chosen[atom]);
    let nodes: Vec<usize> = (0..plan.nodes.len()).map(at).collect();
    let mut switches: Vec<Vec<usize>> =
        (0..plan.switches.len()).map(|switch| vec![at(plan.nodes.len() + switch)]).collect();
    for (switch, pieces) in pieces(plan, atoms, chosen).into_iter().enumerate() {
        if let Some(pieces) = pieces {
            switches[switch] = pieces;
        }
    }
    let names = hosts.list.iter().map(|host| host.name.clone()).collect();
    Placement::new(plan, names, nodes, switches)
}

/// By switch: the hosts of its pieces if it is split, the one with most ports first.
fn pieces(plan: &Plan, atoms: &Atoms, chosen: &[usize]) -> Vec<Option<Vec<usize>>> {
    let mut ports: Vec<Vec<(usize, usize)>> = vec![Vec::new(); plan.switches.len()];
    for link in &plan.links {
        for side in [0, 1] {
            let PlannedEnd::Port { switch, .. } = &link.ends[side] else { continue };
            let Some(Some(wanted)) = atoms.split.get(switch.get()) else { continue };
            let other = atoms.of_end(plan, &link.ends[1 - side]).map(|atom| chosen[atom]);
            let Some(host) = other.filter(|host| wanted.is_empty() || wanted.contains(host)) else {
                continue;
            };
            let ports = &mut ports[switch.get()];
            match ports.iter_mut().find(|(known, _)| *known == host) {
                Some((_, count)) => *count += 1,
                None => ports.push((host, 1)),
            }
        }
    }
    let of = |(wanted, mut ports): (&Option<Vec<usize>>, Vec<(usize, usize)>)| {
        let wanted = wanted.as_ref()?;
        ports.sort_by_key(|(host, count)| (std::cmp::Reverse(*count), *host));
        let hosts: Vec<usize> = ports.into_iter().map(|(host, _)| host).collect();
        // Nobody is linked to it where it may be.
        Some(if hosts.is_empty() {
            vec![wanted.first().copied().unwrap_or_default()]
        } else {
            hosts
        })
    };
    atoms.split.iter().zip(ports).map(of).collect()
}
