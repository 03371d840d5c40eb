//! A smaller graph of the same form: vertices that hang together become one.

use std::collections::HashMap;

use netloom_digest::splitmix::SplitMix64;

use crate::graph::Graph;

/// A smaller graph, and by vertex of the larger one its vertex there.
pub(crate) struct Coarse {
    pub(crate) graph: Graph,
    pub(crate) fixed: Vec<Option<usize>>,
    pub(crate) of: Vec<usize>,
}

/// Joins vertices; those that are fixed to different sides, or of which only one is fixed, stay apart. `rest` is how
/// many vertices are wanted at last: none is heavier than its part of the whole, so that sides can still be balanced.
pub(crate) fn coarsen(graph: &Graph, fixed: &[Option<usize>], rest: usize) -> Coarse {
    let count = graph.len();
    let parts = |number: usize| u64::try_from(number.max(1)).unwrap_or(u64::MAX);
    // Little by little: what is joined early is never looked at as two again.
    let average = graph.total() / parts(count) + 1;
    let most = graph.largest().max((graph.total() / parts(rest) + 1).min(4 * average));
    let mut clusters = Clusters {
        of: (0..count).collect(),
        weight: (0..count).map(|vertex| graph.weight(vertex)).collect(),
        size: vec![1; count],
    };
    for vertex in shuffled(count) {
        // It has been joined by another.
        if clusters.of[vertex] != vertex || clusters.size[vertex] > 1 {
            continue;
        }
        let room = most.saturating_sub(graph.weight(vertex));
        if let Some(best) = clusters.nearest(graph, fixed, vertex, room) {
            clusters.join(vertex, best, graph.weight(vertex));
        }
    }
    clusters.pack_siblings(graph, fixed, most);
    clusters.pack_lonely(graph, fixed, most);
    clusters.coarse(graph, fixed)
}

/// Every vertex once, in an order without a pattern, always the same.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = SplitMix64::new(46);
    for at in (1..count).rev() {
        order.swap(at, random.index(at + 1));
    }
    order
}

struct Clusters {
    /// By vertex: the vertex whose cluster it is in.
    of: Vec<usize>,
    /// By such a vertex: the weight of all, and their number.
    weight: Vec<u64>,
    size: Vec<usize>,
}

impl Clusters {
    /// The cluster that a vertex has the heaviest edges to, of those with room for it; the lightest of equals.
    fn nearest(
        &self,
        graph: &Graph,
        fixed: &[Option<usize>],
        vertex: usize,
        room: u64,
    ) -> Option<usize> {
        let mut near: Vec<(usize, u64)> = Vec::new();
        for (to, weight) in graph.edges(vertex) {
            let cluster = self.of[*to];
            if fixed[cluster] == fixed[vertex] && self.weight[cluster] <= room {
                near.push((cluster, *weight));
            }
        }
        near.sort_unstable();
        let mut best: Option<(u64, u64, usize)> = None;
        let mut at = 0;
        while let Some((cluster, _)) = near.get(at).copied() {
            let end = at + near[at..].partition_point(|(other, _)| *other == cluster);
            let sum: u64 = near[at..end].iter().map(|(_, weight)| weight).sum();
            let better = best.is_none_or(|(most, weight, _)| {
                sum > most || sum == most && self.weight[cluster] < weight
            });
            if better {
                best = Some((sum, self.weight[cluster], cluster));
            }
            at = end;
        }
        best.map(|(_, _, cluster)| cluster)
    }

    fn join(&mut self, vertex: usize, cluster: usize, weight: u64) {
        self.of[vertex] = cluster;
        self.weight[cluster] += weight;
        self.size[cluster] += 1;
    }

    /// Joins what is left alone with others that are linked to the same: hosts of a switch whose cluster has no room.
    fn pack_siblings(&mut self, graph: &Graph, fixed: &[Option<usize>], most: u64) {
        let mut open: HashMap<(Option<usize>, usize), usize> = HashMap::new();
        for (vertex, fixed) in fixed.iter().enumerate() {
            let is_alone = self.of[vertex] == vertex && self.size[vertex] == 1;
            let heaviest = graph.edges(vertex).iter().max_by_key(|(to, weight)| (*weight, *to));
            let Some((near, _)) = heaviest.filter(|_| is_alone) else { continue };
            let weight = graph.weight(vertex);
            match open.get(&(*fixed, self.of[*near])).copied() {
                Some(cluster) if self.weight[cluster] + weight <= most => {
                    self.join(vertex, cluster, weight);
                }
                _ => _ = open.insert((*fixed, self.of[*near]), vertex),
            }
        }
    }

    /// Joins vertices without edges with each other, in their order, which is that of the file.
    fn pack_lonely(&mut self, graph: &Graph, fixed: &[Option<usize>], most: u64) {
        let mut open: Vec<(Option<usize>, usize)> = Vec::new();
        for vertex in (0..graph.len()).filter(|vertex| graph.edges(*vertex).is_empty()) {
            let weight = graph.weight(vertex);
            let of = open.iter_mut().find(|(side, _)| *side == fixed[vertex]);
            match of {
                Some((_, cluster)) if self.weight[*cluster] + weight <= most => {
                    let cluster = *cluster;
                    self.join(vertex, cluster, weight);
                }
                Some((_, cluster)) => *cluster = vertex,
                None => open.push((fixed[vertex], vertex)),
            }
        }
    }

    fn coarse(&self, graph: &Graph, fixed: &[Option<usize>]) -> Coarse {
        let mut number = vec![usize::MAX; graph.len()];
        let (mut weights, mut sides) = (Vec::new(), Vec::new());
        for vertex in (0..graph.len()).filter(|vertex| self.of[*vertex] == *vertex) {
            number[vertex] = weights.len();
            weights.push(self.weight[vertex]);
            sides.push(fixed[vertex]);
        }
        let of: Vec<usize> = self.of.iter().map(|cluster| number[*cluster]).collect();
        let pairs = graph.all_edges().filter(|(a, b, _)| a < b);
        let graph = Graph::new(weights, pairs.map(|(a, b, weight)| (of[a], of[b], weight)));
        Coarse { graph, fixed: sides, of }
    }
}
