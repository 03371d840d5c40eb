//! Divides a graph among hosts with few edges between them: halves of halves, each by a multilevel bisection.
//!
//! The graph is made smaller step by step ([`coarsen`]), the smallest is divided from several starts, and on the way back
//! each division is improved by moves of single vertices (Fiduccia, Mattheyses: A linear-time heuristic for improving
//! network partitions, DAC 1982; levels as in Karypis, Kumar: A fast and high quality multilevel scheme, 1998).

use std::collections::BTreeSet;

use netloom_digest::splitmix::SplitMix64;

use crate::cluster::coarsen;
use crate::graph::Graph;

/// A graph of at most this many vertices is divided as it is.
const SMALL: usize = 48;

/// How many starts the division of the smallest graph has.
const STARTS: usize = 16;

/// Hosts to divide among.
pub(crate) struct Hosts<'h> {
    /// By host, its share, of any unit.
    pub(crate) shares: &'h [u64],
    /// By vertex: the hosts that it may be on, any if absent.
    pub(crate) allowed: &'h [Option<Vec<usize>>],
}

/// By vertex, its host. Weights are only roughly in proportion to shares.
pub(crate) fn divide(graph: &Graph, hosts: &Hosts<'_>) -> Vec<usize> {
    let mut part = vec![0; graph.len()];
    let all: Vec<usize> = (0..graph.len()).collect();
    halve(graph, &all, hosts, 0, hosts.shares.len(), &mut part);
    part
}

/// Divides these vertices among the hosts from `low` to before `high`.
fn halve(
    graph: &Graph,
    vertices: &[usize],
    hosts: &Hosts<'_>,
    low: usize,
    high: usize,
    part: &mut [usize],
) {
    if high - low <= 1 || vertices.is_empty() {
        vertices.iter().for_each(|vertex| part[*vertex] = low);
        return;
    }
    let middle = low + (high - low) / 2;
    let inner = graph.of(vertices);
    let fixed: Vec<Option<usize>> = vertices
        .iter()
        .map(|vertex| {
            let allowed = hosts.allowed[*vertex].as_ref()?;
            let on = |from: usize, to: usize| allowed.iter().any(|host| (from..to).contains(host));
            match (on(low, middle), on(middle, high)) {
                (true, false) => Some(0),
                (false, true) => Some(1),
                _ => None,
            }
        })
        .collect();
    let share = |from: usize, to: usize| hosts.shares[from..to].iter().sum::<u64>();
    let (first, both) = (share(low, middle), share(low, high).max(1));
    let target = u128::from(inner.total()) * u128::from(first) / u128::from(both);
    let target = u64::try_from(target).unwrap_or(u64::MAX);
    let sides = bisect(&inner, &fixed, target);
    let of = |side: usize| -> Vec<usize> {
        let chosen = vertices.iter().zip(&sides).filter(|(_, of)| **of == side);
        chosen.map(|(vertex, _)| *vertex).collect()
    };
    halve(graph, &of(0), hosts, low, middle, part);
    halve(graph, &of(1), hosts, middle, high, part);
}

/// By vertex, its side; those of side 0 weigh about `target`.
fn bisect(graph: &Graph, fixed: &[Option<usize>], target: u64) -> Vec<usize> {
    if graph.len() > SMALL {
        let coarse = coarsen(graph, fixed, SMALL / 2);
        // What barely gets smaller would never end.
        if coarse.graph.len() * 20 <= graph.len() * 19 {
            let sides = bisect(&coarse.graph, &coarse.fixed, target);
            let sides = coarse.of.iter().map(|of| sides[*of]).collect();
            let mut moves = Moves::new(graph, fixed, target, sides);
            moves.improve();
            return moves.side;
        }
    }
    let mut random = SplitMix64::new(46);
    let starts = if graph.len() > 32 * SMALL { 2 } else { STARTS };
    let tries = (0..starts).map(|_| {
        let seed = random.index(graph.len());
        let mut moves = Moves::new(graph, fixed, target, grown(graph, fixed, target, seed));
        moves.improve();
        (moves.score(), moves.side)
    });
    // The first of equals: the order of starts is always the same.
    tries.min_by_key(|(score, _)| *score).map(|(_, side)| side).unwrap_or_default()
}

/// Side 0 grown from a vertex: always by the neighbour that adds least to the cut; without neighbours, by the first vertex left.
fn grown(graph: &Graph, fixed: &[Option<usize>], target: u64, seed: usize) -> Vec<usize> {
    let mut side: Vec<usize> = fixed.iter().map(|fixed| fixed.unwrap_or(1)).collect();
    let first = (0..graph.len()).filter(|vertex| side[*vertex] == 0);
    let mut weight: u64 = first.map(|vertex| graph.weight(vertex)).sum();
    // What moving a vertex takes from the cut.
    let mut gain: Vec<i64> = (0..graph.len()).map(|vertex| gain_of(graph, &side, vertex)).collect();
    let mut rest: BTreeSet<usize> =
        (0..graph.len()).filter(|vertex| fixed[*vertex].is_none()).collect();
    // Without it, vertices of few edges would be taken from everywhere before any of many.
    let mut frontier: BTreeSet<(i64, usize)> = BTreeSet::new();
    for vertex in rest.clone() {
        if graph.edges(vertex).iter().any(|(to, _)| side[*to] == 0) {
            rest.remove(&vertex);
            frontier.insert((gain[vertex], vertex));
        }
    }
    let mut next = rest.contains(&seed).then_some(seed);
    while weight < target {
        let near = frontier.last().map(|(_, vertex)| *vertex);
        let Some(vertex) = next.take().or(near).or_else(|| rest.first().copied()) else { break };
        rest.remove(&vertex);
        frontier.remove(&(gain[vertex], vertex));
        let after = weight + graph.weight(vertex);
        // The last one only if that comes closer.
        if after > target && after - target > target - weight {
            continue;
        }
        side[vertex] = 0;
        weight = after;
        for (to, edge) in graph.edges(vertex) {
            let was = rest.remove(to) || frontier.remove(&(gain[*to], *to));
            gain[*to] += 2 * signed(*edge);
            if was {
                frontier.insert((gain[*to], *to));
            }
        }
    }
    side
}

fn signed(weight: u64) -> i64 {
    i64::try_from(weight).unwrap_or(i64::MAX / 4)
}

/// How much moving a vertex to the other side takes from the cut.
fn gain_of(graph: &Graph, side: &[usize], vertex: usize) -> i64 {
    let edges = graph.edges(vertex).iter();
    edges.map(|(to, w)| if side[*to] == side[vertex] { -signed(*w) } else { signed(*w) }).sum()
}

/// A division while single vertices move.
struct Moves<'g> {
    graph: &'g Graph,
    fixed: &'g [Option<usize>],
    target: u64,
    /// By how much side 0 may differ from its target.
    slack: u64,
    side: Vec<usize>,
    /// The weight of side 0.
    weight: u64,
    cut: i64,
}

impl<'g> Moves<'g> {
    fn new(
        graph: &'g Graph,
        fixed: &'g [Option<usize>],
        target: u64,
        side: Vec<usize>,
    ) -> Moves<'g> {
        let slack = graph.largest().max(graph.total() / 100);
        let first = (0..graph.len()).filter(|vertex| side[*vertex] == 0);
        let weight = first.map(|vertex| graph.weight(vertex)).sum();
        let cut = signed(graph.cut(&side));
        Moves { graph, fixed, target, slack, side, weight, cut }
    }

    /// Less is better: first how far it is beyond the slack, then the cut, then how far it is from the target.
    fn score(&self) -> (u64, i64, u64) {
        let distance = self.weight.abs_diff(self.target);
        (distance.saturating_sub(self.slack), self.cut, distance)
    }

    fn improve(&mut self) {
        // Passes get better or end; the bound is for the worst case alone.
        for _ in 0..12 {
            if !self.pass() {
                break;
            }
        }
    }

    /// Moves each vertex at most once, the best first, also where the cut grows for a while; keeps the best state.
    fn pass(&mut self) -> bool {
        let before = self.score();
        let mut gain: Vec<i64> =
            (0..self.graph.len()).map(|vertex| gain_of(self.graph, &self.side, vertex)).collect();
        let mut free: [BTreeSet<(i64, usize)>; 2] = Default::default();
        for vertex in (0..self.graph.len()).filter(|vertex| self.fixed[*vertex].is_none()) {
            free[self.side[vertex]].insert((gain[vertex], vertex));
        }
        let (mut best, mut kept) = (before, 0);
        let mut moved: Vec<usize> = Vec::new();
        let patience = 64.max(self.graph.len() / 16);
        while moved.len() - kept < patience {
            let Some(vertex) = self.next(&free) else { break };
            free[self.side[vertex]].remove(&(gain[vertex], vertex));
            self.flip(vertex, gain[vertex]);
            moved.push(vertex);
            for (to, edge) in self.graph.edges(vertex) {
                let change = 2 * signed(*edge);
                let nearer = self.side[*to] == self.side[vertex];
                let was = free[self.side[*to]].remove(&(gain[*to], *to));
                gain[*to] += if nearer { -change } else { change };
                if was {
                    free[self.side[*to]].insert((gain[*to], *to));
                }
            }
            if self.score() < best {
                (best, kept) = (self.score(), moved.len());
            }
        }
        for vertex in moved.split_off(kept).into_iter().rev() {
            let gain = gain_of(self.graph, &self.side, vertex);
            self.flip(vertex, gain);
        }
        best < before
    }

    /// The free vertex to move next: the one with the greatest gain whose move keeps the balance or betters it.
    fn next(&self, free: &[BTreeSet<(i64, usize)>; 2]) -> Option<usize> {
        let distance = self.weight.abs_diff(self.target);
        let fits = |side: usize| {
            let all = free[side].iter().rev().take(32);
            let mut fitting = all.filter(move |(_, vertex)| {
                let weight = self.graph.weight(*vertex);
                let after = match side {
                    0 => self.weight - weight,
                    _ => self.weight + weight,
                };
                let after = after.abs_diff(self.target);
                after <= self.slack || after < distance
            });
            fitting.next().copied()
        };
        let (first, second) = (fits(0), fits(1));
        // Of equal gains, the one that betters the balance.
        let prefers_first = self.weight > self.target;
        match (first, second) {
            (Some((a, vertex)), Some((b, _))) if a > b || a == b && prefers_first => Some(vertex),
            (_, Some((_, vertex))) | (Some((_, vertex)), None) => Some(vertex),
            (None, None) => None,
        }
    }

    fn flip(&mut self, vertex: usize, gain: i64) {
        match self.side[vertex] {
            0 => self.weight -= self.graph.weight(vertex),
            _ => self.weight += self.graph.weight(vertex),
        }
        self.side[vertex] = 1 - self.side[vertex];
        self.cut -= gain;
    }
}
