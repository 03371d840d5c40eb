//! An undirected graph with weights of vertices and edges; no edge of a vertex to itself, one between two at most.

/// A graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    weights: Vec<u64>,
    /// By vertex, the start of its edges; the end is the next one's start.
    starts: Vec<usize>,
    edges: Vec<(usize, u64)>,
}

impl Graph {
    /// Edges between the same two vertices are added up.
    pub(crate) fn new(
        weights: Vec<u64>,
        pairs: impl IntoIterator<Item = (usize, usize, u64)>,
    ) -> Graph {
        let mut both: Vec<(usize, usize, u64)> = Vec::new();
        for (a, b, weight) in pairs {
            if a != b && a < weights.len() && b < weights.len() {
                both.push((a, b, weight));
                both.push((b, a, weight));
            }
        }
        both.sort_unstable();
        let mut starts = vec![0; weights.len() + 1];
        let mut edges: Vec<(usize, u64)> = Vec::with_capacity(both.len());
        let mut last = None;
        for (a, b, weight) in both {
            match edges.last_mut() {
                Some(edge) if last == Some((a, b)) => edge.1 += weight,
                _ => {
                    edges.push((b, weight));
                    starts[a + 1] = edges.len();
                }
            }
            last = Some((a, b));
        }
        // Vertices without edges start where the one before ends.
        for at in 1..starts.len() {
            starts[at] = starts[at].max(starts[at - 1]);
        }
        Graph { weights, starts, edges }
    }

    pub(crate) fn len(&self) -> usize {
        self.weights.len()
    }

    pub(crate) fn weight(&self, vertex: usize) -> u64 {
        self.weights[vertex]
    }

    pub(crate) fn total(&self) -> u64 {
        self.weights.iter().sum()
    }

    /// The greatest weight of a vertex.
    pub(crate) fn largest(&self) -> u64 {
        self.weights.iter().copied().max().unwrap_or_default()
    }

    /// Its neighbours, with the weights of the edges.
    pub(crate) fn edges(&self, vertex: usize) -> &[(usize, u64)] {
        &self.edges[self.starts[vertex]..self.starts[vertex + 1]]
    }

    /// Every edge twice, once from each end.
    pub(crate) fn all_edges(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        (0..self.len()).flat_map(|from| self.edges(from).iter().map(move |(to, w)| (from, *to, *w)))
    }

    /// The weight of edges between parts.
    pub(crate) fn cut(&self, part: &[usize]) -> u64 {
        let across = self.all_edges().filter(|(a, b, _)| a < b && part[*a] != part[*b]);
        across.map(|(_, _, weight)| weight).sum()
    }

    /// The graph of only these vertices, which it numbers in this order.
    pub(crate) fn of(&self, vertices: &[usize]) -> Graph {
        let mut place = vec![usize::MAX; self.len()];
        vertices.iter().enumerate().for_each(|(at, vertex)| place[*vertex] = at);
        let weights = vertices.iter().map(|vertex| self.weights[*vertex]).collect();
        let pairs = vertices.iter().enumerate().flat_map(|(at, vertex)| {
            let place = &place;
            let inner = self.edges(*vertex).iter().map(move |(to, w)| (at, place[*to], *w));
            inner.filter(|(a, b, _)| *b != usize::MAX && a < b)
        });
        Graph::new(weights, pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_edges_are_added_and_loops_left_out() {
        let graph = Graph::new(vec![1, 2, 3, 4], [(0, 1, 1), (1, 0, 2), (1, 1, 9), (3, 1, 1)]);
        let edges: Vec<_> = (0..4).map(|vertex| graph.edges(vertex)).collect();
        assert_eq!(edges, [&[(1, 3)][..], &[(0, 3), (3, 1)], &[], &[(1, 1)]]);
        assert_eq!((graph.total(), graph.largest(), graph.cut(&[0, 1, 1, 1])), (10, 4, 3));
        let part = graph.of(&[3, 1]);
        assert_eq!(
            (part.weight(0), part.edges(0), part.edges(1)),
            (4, &[(1, 1)][..], &[(0, 1)][..])
        );
    }
}
