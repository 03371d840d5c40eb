//! Boxes by their neighbours: parts that hang together, what is left without everything that hangs, cycles.

use std::collections::VecDeque;

use crate::{Graph, Point, Role};

/// Boxes with their neighbours, each once and in order of their indices.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) sizes: Vec<Point>,
    pub(crate) roles: Vec<Role>,
    /// Not drawn by themselves: they are inside of others.
    pub(crate) inside: Vec<bool>,
    pub(crate) near: Vec<Vec<usize>>,
    pub(crate) link: f64,
}

impl Net {
    /// The net of a graph in which each box inside of another has become part of it.
    pub(crate) fn of(graph: &Graph) -> Net {
        let mut near = vec![Vec::new(); graph.vertices.len()];
        for &[a, b] in graph.edges.iter().filter(|[a, b]| a != b) {
            near[a].push(b);
            near[b].push(a);
        }
        for list in &mut near {
            list.sort_unstable();
            list.dedup();
        }
        Net {
            sizes: graph.vertices.iter().map(|v| v.size).collect(),
            roles: graph.vertices.iter().map(|v| v.role).collect(),
            inside: graph.vertices.iter().map(|v| v.parent.is_some()).collect(),
            near,
            link: graph.link,
        }
    }

    /// The boxes that hang together, in order; the parts in the order of their first boxes.
    pub(crate) fn components(&self) -> Vec<Vec<usize>> {
        let mut seen = self.inside.clone();
        let mut all = Vec::new();
        for first in 0..seen.len() {
            if std::mem::replace(&mut seen[first], true) {
                continue;
            }
            let mut part = vec![first];
            let mut at = 0;
            while at < part.len() {
                for &next in &self.near[part[at]] {
                    if !std::mem::replace(&mut seen[next], true) {
                        part.push(next);
                    }
                }
                at += 1;
            }
            part.sort_unstable();
            all.push(part);
        }
        all
    }

    /// What is left of a part when boxes with one neighbour are taken away until there are none; in order. Nothing if it is
    /// a tree.
    pub(crate) fn core(&self, part: &[usize]) -> Vec<usize> {
        let mut degree: Vec<usize> = self.near.iter().map(Vec::len).collect();
        let mut gone = vec![false; self.near.len()];
        let mut queue: Vec<usize> = part.iter().copied().filter(|v| degree[*v] <= 1).collect();
        while let Some(v) = queue.pop() {
            if std::mem::replace(&mut gone[v], true) {
                continue;
            }
            for &w in &self.near[v] {
                degree[w] = degree[w].saturating_sub(1);
                if degree[w] <= 1 && !gone[w] {
                    queue.push(w);
                }
            }
        }
        part.iter().copied().filter(|v| !gone[*v]).collect()
    }

    /// Neighbours that belong to a set, given by a mark for each box.
    pub(crate) fn near_in<'n>(
        &'n self,
        v: usize,
        of: &'n [bool],
    ) -> impl Iterator<Item = usize> + 'n {
        self.near[v].iter().copied().filter(|w| of[*w])
    }

    /// A mark for each box of a set.
    pub(crate) fn marks(&self, set: &[usize]) -> Vec<bool> {
        let mut marks = vec![false; self.near.len()];
        set.iter().for_each(|v| marks[*v] = true);
        marks
    }

    /// The core in the order of a cycle, if it is one: from its first box to the nearer one of its neighbours in the file.
    pub(crate) fn cycle(&self, core: &[usize]) -> Option<Vec<usize>> {
        let inside = self.marks(core);
        if core.len() < 3 || core.iter().any(|v| self.near_in(*v, &inside).count() != 2) {
            return None;
        }
        let mut cycle = vec![core[0]];
        let mut next = self.near_in(core[0], &inside).next()?;
        while next != core[0] {
            let before = cycle[cycle.len() - 1];
            cycle.push(next);
            next = self.near_in(next, &inside).find(|w| *w != before)?;
        }
        (cycle.len() == core.len()).then_some(cycle)
    }

    /// Steps to each box of a set from one of it; `usize::MAX` for others.
    pub(crate) fn steps(&self, from: usize, inside: &[bool]) -> Vec<usize> {
        let mut steps = vec![usize::MAX; self.near.len()];
        steps[from] = 0;
        let mut queue = VecDeque::from([from]);
        while let Some(v) = queue.pop_front() {
            for w in self.near_in(v, inside) {
                if steps[w] == usize::MAX {
                    steps[w] = steps[v] + 1;
                    queue.push_back(w);
                }
            }
        }
        steps
    }
}
