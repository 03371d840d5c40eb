//! Atoms on hosts while they move: loads, what is left of capacities, and moves that better one or the other.
//!
//! A host's *bound* is by how much more than its share it may have: some percent, or its heaviest atom, without which no
//! division would be possible. Capacities are never passed by a move.

use netloom_model::hosts::Hosts;

use crate::atoms::Atoms;
use crate::demand::Demand;
use crate::graph::Graph;

/// What a host may be given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) memory: u64,
    pub(crate) cpu_milli: u64,
}

/// Of the atoms, by host, what they are together.
pub(crate) struct Spread<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) atoms: &'a Atoms,
    pub(crate) capacity: &'a [Capacity],
    /// By host: the weight that is its share.
    pub(crate) target: &'a [u64],
    /// By how much a host may pass it.
    percent: u64,
    /// By atom.
    pub(crate) host: Vec<usize>,
    load: Vec<u64>,
    used: Vec<Demand>,
}

/// The capacities of hosts; those that a file leaves open are endless.
pub(crate) fn capacities(hosts: &Hosts) -> Vec<Capacity> {
    let of = |host: &netloom_model::Host| Capacity {
        memory: host.memory.unwrap_or(u64::MAX),
        cpu_milli: host.cpu_milli.map_or(u64::MAX, u64::from),
    };
    hosts.list.iter().map(of).collect()
}

/// By host its share of a weight: by CPUs if all hosts say how many they have, else equal.
pub(crate) fn shares(hosts: &Hosts) -> Vec<u64> {
    let all: Option<Vec<u64>> =
        hosts.list.iter().map(|host| host.cpu_milli.map(u64::from)).collect();
    all.unwrap_or_else(|| vec![1; hosts.list.len()])
}

/// Shares of a weight, rounded up.
pub(crate) fn targets(shares: &[u64], total: u64) -> Vec<u64> {
    let all: u128 = shares.iter().copied().map(u128::from).sum::<u128>().max(1);
    let of = |share: &u64| (u128::from(total) * u128::from(*share)).div_ceil(all);
    shares.iter().map(|share| u64::try_from(of(share)).unwrap_or(u64::MAX)).collect()
}

impl<'a> Spread<'a> {
    pub(crate) fn new(
        graph: &'a Graph,
        atoms: &'a Atoms,
        capacity: &'a [Capacity],
        target: &'a [u64],
        percent: u64,
        host: Vec<usize>,
    ) -> Spread<'a> {
        let (load, used) = (vec![0; capacity.len()], vec![Demand::default(); capacity.len()]);
        let mut spread = Spread { graph, atoms, capacity, target, percent, host, load, used };
        for atom in 0..spread.host.len() {
            spread.count(atom);
        }
        spread
    }

    /// Adds an atom to its host's account; `usize::MAX` stands for none.
    fn count(&mut self, atom: usize) {
        let host = self.host[atom];
        if host < self.load.len() {
            self.load[host] += self.graph.weight(atom);
            self.used[host] = self.used[host] + self.atoms.list[atom].demand;
        }
    }

    pub(crate) fn put(&mut self, atom: usize, to: usize) {
        let from = self.host[atom];
        if from < self.load.len() {
            self.load[from] -= self.graph.weight(atom);
            let demand = self.atoms.list[atom].demand;
            self.used[from].memory -= demand.memory;
            self.used[from].cpu_milli -= demand.cpu_milli;
        }
        self.host[atom] = to;
        self.count(atom);
    }

    /// The weight that a host may have.
    fn bound(&self, host: usize) -> u64 {
        let target = self.target[host];
        let more = u128::from(target) * u128::from(self.percent) / 100;
        target + u64::try_from(more).unwrap_or(u64::MAX).max(self.graph.largest())
    }

    pub(crate) fn is_allowed(&self, atom: usize, host: usize) -> bool {
        self.atoms.list[atom].allowed.as_ref().is_none_or(|hosts| hosts.contains(&host))
    }

    /// Whether a host's capacities have room for an atom that is not on it.
    pub(crate) fn has_room(&self, atom: usize, host: usize) -> bool {
        let (used, demand) = (self.used[host], self.atoms.list[atom].demand);
        let capacity = self.capacity[host];
        let sum = used + demand;
        let fits = |used: u64, demand: u64, most: u64| demand == 0 || used <= most;
        fits(sum.memory, demand.memory, capacity.memory)
            && fits(sum.cpu_milli, demand.cpu_milli, capacity.cpu_milli)
    }

    /// What is left of a host's capacities.
    pub(crate) fn left(&self, host: usize) -> Demand {
        let (used, capacity) = (self.used[host], self.capacity[host]);
        Demand {
            memory: capacity.memory.saturating_sub(used.memory),
            cpu_milli: capacity.cpu_milli.saturating_sub(used.cpu_milli),
        }
    }

    fn is_overfull(&self, host: usize) -> bool {
        let (used, capacity) = (self.used[host], self.capacity[host]);
        used.memory > capacity.memory || used.cpu_milli > capacity.cpu_milli
    }

    /// Whether each host's capacities hold.
    pub(crate) fn fits(&self) -> bool {
        (0..self.capacity.len()).all(|host| !self.is_overfull(host))
    }

    fn stays_balanced(&self, atom: usize, host: usize) -> bool {
        let weight = self.graph.weight(atom);
        weight == 0 || self.load[host] + weight <= self.bound(host)
    }

    /// How full a host is, in parts of its share, so that hosts of different shares compare.
    fn fullness(&self, load: u64, host: usize) -> u128 {
        (u128::from(load) << 32) / u128::from(self.target[host].max(1))
    }

    /// By host, the weight of an atom's edges to it, in order of hosts.
    fn near(&self, atom: usize) -> Vec<(usize, u64)> {
        let mut near: Vec<(usize, u64)> = Vec::new();
        for (to, weight) in self.graph.edges(atom) {
            let host = self.host[*to];
            match near.iter_mut().find(|(known, _)| *known == host) {
                Some((_, sum)) => *sum += weight,
                None => near.push((host, *weight)),
            }
        }
        near.retain(|(host, _)| *host < self.load.len());
        near.sort_unstable();
        near
    }

    /// The best host for an atom that has none yet: where most of its neighbours are, within bounds and capacities; else the
    /// emptiest with room; `None` if no host has room.
    pub(crate) fn best_for_new(&self, atom: usize) -> Option<usize> {
        let near = self.near(atom);
        let open = |host: &usize| self.is_allowed(atom, *host) && self.has_room(atom, *host);
        let nearest =
            near.iter().filter(|(host, _)| open(host) && self.stays_balanced(atom, *host));
        let nearest = nearest.max_by_key(|(host, weight)| {
            (
                *weight,
                std::cmp::Reverse(self.fullness(self.load[*host], *host)),
                std::cmp::Reverse(*host),
            )
        });
        nearest.map(|(host, _)| *host).or_else(|| {
            let all = (0..self.load.len()).filter(open);
            all.min_by_key(|host| self.fullness(self.load[*host], *host))
        })
    }

    /// Moves single atoms where fewer links are across then, or as many and the balance is better.
    pub(crate) fn refine(&mut self, may_move: &dyn Fn(usize) -> bool) {
        // Each pass lowers the cut or the imbalance; the bound is for the worst case alone.
        for _ in 0..16 {
            let mut moved = false;
            for atom in (0..self.host.len()).filter(|atom| may_move(*atom)) {
                moved |= self.refine_one(atom);
            }
            if !moved {
                break;
            }
        }
    }

    fn refine_one(&mut self, atom: usize) -> bool {
        let from = self.host[atom];
        let near = self.near(atom);
        let inner = near.iter().find(|(host, _)| *host == from).map_or(0, |(_, weight)| *weight);
        let weight = self.graph.weight(atom);
        let fullness = self.fullness(self.load[from], from);
        let better = near.iter().filter(|(host, outer)| {
            *host != from
                && self.is_allowed(atom, *host)
                && self.stays_balanced(atom, *host)
                && self.has_room(atom, *host)
                && (*outer > inner
                    || *outer == inner
                        && weight > 0
                        && self.fullness(self.load[*host] + weight, *host) < fullness)
        });
        let best = better.max_by_key(|(host, outer)| (*outer, std::cmp::Reverse(*host)));
        match best.map(|(host, _)| *host) {
            Some(to) => {
                self.put(atom, to);
                true
            }
            None => false,
        }
    }

    /// Moves atoms from hosts that are beyond their bounds, those first that add least to the cut, those of `rather` before
    /// others.
    pub(crate) fn settle(&mut self, rather: &dyn Fn(usize) -> bool) {
        // A move takes weight from a host beyond its bound and brings none beyond: there are at most as many as atoms.
        for _ in 0..self.host.len() {
            let over = (0..self.load.len()).filter(|host| self.load[*host] > self.bound(*host));
            let mut over: Vec<usize> = over.collect();
            over.sort_by_key(|host| std::cmp::Reverse(self.fullness(self.load[*host], *host)));
            let moved = over.into_iter().any(|from| {
                let fits = |atom: usize, to: usize| {
                    self.graph.weight(atom) > 0
                        && self.stays_balanced(atom, to)
                        && self.has_room(atom, to)
                };
                let best = self.cheapest(from, rather, &fits);
                best.map(|(atom, to)| self.put(atom, to)).is_some()
            });
            if !moved {
                break;
            }
        }
    }

    /// Moves atoms from hosts whose capacities are passed to others with room, balanced or not.
    pub(crate) fn fit(&mut self, rather: &dyn Fn(usize) -> bool) {
        for _ in 0..self.host.len() {
            let over = (0..self.load.len()).find(|host| self.is_overfull(*host));
            let Some(from) = over else { break };
            let scarce = |demand: Demand| {
                self.used[from].memory > self.capacity[from].memory && demand.memory > 0
                    || self.used[from].cpu_milli > self.capacity[from].cpu_milli
                        && demand.cpu_milli > 0
            };
            let fits = |atom: usize, to: usize| {
                scarce(self.atoms.list[atom].demand) && self.has_room(atom, to)
            };
            let Some((atom, to)) = self.cheapest(from, rather, &fits) else { break };
            self.put(atom, to);
        }
    }

    /// The move from a host that adds least to the cut.
    fn cheapest(
        &self,
        from: usize,
        rather: &dyn Fn(usize) -> bool,
        fits: &dyn Fn(usize, usize) -> bool,
    ) -> Option<(usize, usize)> {
        let mut best: Option<((bool, i128), usize, usize)> = None;
        for atom in (0..self.host.len()).filter(|atom| self.host[*atom] == from) {
            let near = self.near(atom);
            let edges = |host: usize| {
                near.iter().find(|(known, _)| *known == host).map_or(0, |(_, w)| i128::from(*w))
            };
            for to in (0..self.load.len()).filter(|to| *to != from) {
                if !self.is_allowed(atom, to) || !fits(atom, to) {
                    continue;
                }
                let score = (rather(atom), edges(to) - edges(from));
                if best.is_none_or(|(known, _, _)| score > known) {
                    best = Some((score, atom, to));
                }
            }
        }
        best.map(|(_, atom, to)| (atom, to))
    }

    /// All atoms again, those with the fewest hosts and then the largest first, wherever there is most room: the surest way to fit,
    /// whatever it cuts.
    ///
    /// # Errors
    /// The atom that has no room.
    pub(crate) fn pack(&mut self) -> Result<(), usize> {
        let mut order: Vec<usize> = (0..self.host.len()).collect();
        order.iter().for_each(|atom| self.put(*atom, usize::MAX));
        let choices =
            |atom: usize| self.atoms.list[atom].allowed.as_ref().map_or(usize::MAX, Vec::len);
        order.sort_by_key(|atom| {
            let demand = self.atoms.list[*atom].demand;
            (choices(*atom), std::cmp::Reverse((demand.memory, demand.cpu_milli)), *atom)
        });
        for atom in order {
            let all = 0..self.load.len();
            let open =
                all.filter(|host| self.is_allowed(atom, *host) && self.has_room(atom, *host));
            let roomy = |host: &usize| {
                let left = self.left(*host);
                (left.memory, left.cpu_milli, std::cmp::Reverse(*host))
            };
            let best = open.max_by_key(roomy).ok_or(atom)?;
            self.put(atom, best);
        }
        Ok(())
    }
}
