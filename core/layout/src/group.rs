//! Boxes inside of others: they stand beside the outer one, in a frame.

use crate::geometry::{Point, Rect, minus, plus};
use crate::piece::Piece;
use crate::{Graph, Vertex};

/// Room between boxes of a group.
const GAP: f64 = 14.0;

/// Room between a frame and what is in it.
const PADDING: f64 = 12.0;

/// Which boxes are inside of which.
pub(crate) struct Groups {
    /// Those directly inside of each box.
    children: Vec<Vec<usize>>,
    /// The outermost box around each; the box itself if there is none.
    outermost: Vec<usize>,
    /// The size of each box with all inside of it.
    sizes: Vec<Point>,
    /// The centre of each box itself, relative to that of it with all inside.
    own: Vec<Point>,
    /// The centre of each box with all inside, relative to that of the box around it.
    offsets: Vec<Point>,
}

impl Groups {
    pub(crate) fn of(graph: &Graph) -> Groups {
        let count = graph.vertices.len();
        let mut groups = Groups {
            children: vec![vec![]; count],
            outermost: (0..count).collect(),
            sizes: graph.vertices.iter().map(|v| v.size).collect(),
            own: vec![[0.0, 0.0]; count],
            offsets: vec![[0.0, 0.0]; count],
        };
        for (v, vertex) in graph.vertices.iter().enumerate() {
            if let Some(parent) = vertex.parent.filter(|parent| *parent < v) {
                groups.children[parent].push(v);
                groups.outermost[v] = groups.outermost[parent];
            }
        }
        // Outer boxes come before those inside.
        (0..count)
            .rev()
            .filter(|v| !groups.children[*v].is_empty())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|v| groups.arrange(v, &graph.vertices[v]));
        groups
    }

    /// The box on the left, those inside of it in rows on the right.
    fn arrange(&mut self, v: usize, vertex: &Vertex) {
        let children = &self.children[v];
        let columns =
            if children.len() <= 3 { children.len() } else { ceil_root(children.len() + 1) };
        let mut areas = Vec::with_capacity(children.len());
        let mut y = 0.0;
        for row in children.chunks(columns) {
            let mut x = vertex.size[0] + GAP;
            let mut height: f64 = 0.0;
            for &child in row {
                let size = self.sizes[child];
                areas.push(Rect { min: [x, y], max: [x + size[0], y + size[1]] });
                x += size[0] + GAP;
                height = height.max(size[1]);
            }
            y += height + GAP;
        }
        let below = (y - GAP).max(vertex.size[1]);
        let own = Rect {
            min: [0.0, (below - vertex.size[1]) / 2.0],
            max: [vertex.size[0], f64::midpoint(below, vertex.size[1])],
        };
        let all = areas.iter().copied().fold(own, Rect::with).grown(PADDING);
        for (&child, area) in children.iter().zip(&areas) {
            self.offsets[child] = minus(area.centre(), all.centre());
        }
        self.own[v] = minus(own.centre(), all.centre());
        self.sizes[v] = [all.width(), all.height()];
    }

    /// The graph with each outermost box as large as its group, and links that end there.
    pub(crate) fn outer(&self, graph: &Graph) -> Graph {
        let mut outer = graph.clone();
        for (v, vertex) in outer.vertices.iter_mut().enumerate() {
            vertex.size = self.sizes[v];
            vertex.parent = vertex.parent.filter(|parent| *parent < v);
        }
        outer.edges.iter_mut().flatten().for_each(|end| *end = self.outermost[*end]);
        outer
    }

    /// Places the boxes of each group.
    pub(crate) fn open(&self, whole: &mut Piece, count: usize) {
        let mut centres = whole.centres(count);
        for v in 0..count {
            for &child in &self.children[v] {
                centres[child] = plus(centres[v], self.offsets[child]);
            }
        }
        whole.places = (0..count).map(|v| (v, plus(centres[v], self.own[v]))).collect();
    }

    /// Where the box stands as its group has it, relative to the box around it.
    pub(crate) fn beside(&self, v: usize, parent: usize) -> Point {
        minus(plus(self.offsets[v], self.own[v]), self.own[parent])
    }

    /// A frame around each box with others inside; outer ones first.
    pub(crate) fn frames(&self, graph: &Graph, centres: &[Point]) -> Vec<(usize, Rect)> {
        let mut areas: Vec<Rect> =
            graph.vertices.iter().zip(centres).map(|(v, at)| Rect::around(*at, v.size)).collect();
        let mut frames = Vec::new();
        for v in (0..areas.len()).rev().filter(|v| !self.children[*v].is_empty()) {
            let inside = self.children[v].iter().map(|child| areas[*child]);
            areas[v] = inside.fold(areas[v], Rect::with).grown(PADDING);
            frames.push((v, areas[v]));
        }
        frames.reverse();
        frames
    }
}

/// The smallest number whose square is not below.
fn ceil_root(count: usize) -> usize {
    let root = count.isqrt();
    if root * root < count { root + 1 } else { root }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_rounded_up() {
        let roots: Vec<usize> = [1, 2, 4, 5, 9, 10].map(ceil_root).to_vec();
        assert_eq!(roots, [1, 2, 2, 3, 3, 4]);
    }
}
