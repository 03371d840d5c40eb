//! Positions by hand: they are kept, and all other boxes stand around them as they would anyway.

use std::collections::HashMap;

use crate::Graph;
use crate::geometry::{Point, Rect, cells, minus, plus, times, to_f64};
use crate::group::Groups;

/// Room around a box that finds its place among others.
const GAP: f64 = 14.0;

/// Rings of places that are tried around the wanted one, and places of a ring.
const RINGS: usize = 40;
const PLACES: usize = 16;

/// From ring to ring.
const STEP: f64 = 30.0;

/// Side of a cell in which boxes are looked for.
const CELL: f64 = 200.0;

/// Puts boxes where they were fixed, and the others where there is room beside their neighbours. Returns whether there is a
/// fixed one.
pub(crate) fn apply(graph: &Graph, groups: &Groups, centres: &mut [Point]) -> bool {
    let fixed: Vec<Option<Point>> = graph
        .vertices
        .iter()
        .map(|v| v.fixed.filter(|at| at.iter().all(|x| x.is_finite())))
        .collect();
    let count = fixed.iter().flatten().count();
    if count == 0 {
        return false;
    }
    let shifts = fixed.iter().zip(&*centres).filter_map(|(fixed, at)| Some(minus((*fixed)?, *at)));
    // What no placed box leads to moves with the mean of those that are fixed.
    let shift = times(shifts.fold([0.0, 0.0], plus), 1.0 / to_f64(count));
    let computed = centres.to_vec();
    let mut taken = Taken::default();
    let mut placed = vec![false; fixed.len()];
    for (v, at) in fixed.iter().enumerate().filter_map(|(v, at)| Some((v, (*at)?))) {
        centres[v] = at;
        placed[v] = true;
        taken.add(Rect::around(at, graph.vertices[v].size));
    }
    let near = neighbours(graph);
    for v in beginning_with_neighbours(graph, near.clone(), &placed) {
        let wanted = wanted(graph, groups, (v, &near[v]), &placed, centres, &computed)
            .unwrap_or_else(|| plus(computed[v], shift));
        centres[v] = taken.room_near(wanted, graph.vertices[v].size);
        placed[v] = true;
        taken.add(Rect::around(centres[v], graph.vertices[v].size));
    }
    true
}

/// The boxes at the other ends of each box's links, in the order of the links.
fn neighbours(graph: &Graph) -> Vec<Vec<usize>> {
    let mut near = vec![Vec::new(); graph.vertices.len()];
    for &[a, b] in &graph.edges {
        near[a].push(b);
        near[b].push(a);
    }
    near
}

/// Boxes without a place, those first whose neighbours have one.
fn beginning_with_neighbours(
    graph: &Graph,
    mut near: Vec<Vec<usize>>,
    placed: &[bool],
) -> Vec<usize> {
    for (v, vertex) in graph.vertices.iter().enumerate() {
        if let Some(parent) = vertex.parent {
            near[parent].push(v);
        }
    }
    let mut seen = placed.to_vec();
    let mut order: Vec<usize> = (0..placed.len()).filter(|v| placed[*v]).collect();
    let mut at = 0;
    let mut rest = 0;
    loop {
        while at < order.len() {
            for &w in &near[order[at]] {
                if !std::mem::replace(&mut seen[w], true) {
                    order.push(w);
                }
            }
            at += 1;
        }
        let Some(next) = (rest..seen.len()).find(|v| !seen[*v]) else { break };
        seen[next] = true;
        order.push(next);
        rest = next + 1;
    }
    order.retain(|v| !placed[*v]);
    order
}

/// Where a box would stand relative to those of its neighbours that have a place.
fn wanted(
    graph: &Graph,
    groups: &Groups,
    (v, near): (usize, &[usize]),
    placed: &[bool],
    centres: &[Point],
    computed: &[Point],
) -> Option<Point> {
    if let Some(parent) = graph.vertices[v].parent.filter(|parent| placed[*parent]) {
        return Some(plus(centres[parent], groups.beside(v, parent)));
    }
    let (mut sum, mut count) = ([0.0, 0.0], 0.0);
    for &w in near.iter().filter(|w| placed[**w]) {
        sum = plus(sum, plus(centres[w], minus(computed[v], computed[w])));
        count += 1.0;
    }
    (count > 0.0).then(|| times(sum, 1.0 / count))
}

/// Areas that are taken, by cells.
#[derive(Default)]
struct Taken {
    cells: HashMap<(i64, i64), Vec<Rect>>,
    lowest: f64,
}

impl Taken {
    fn add(&mut self, area: Rect) {
        self.lowest = self.lowest.max(area.max[1]);
        for cell in cells(area, CELL) {
            self.cells.entry(cell).or_default().push(area);
        }
    }

    fn is_free(&self, area: Rect) -> bool {
        let area = area.grown(GAP);
        cells(area, CELL).all(|cell| {
            self.cells.get(&cell).into_iter().flatten().all(|other| !area.overlaps(*other))
        })
    }

    /// The nearest free place of those that are tried; below everything if there is none.
    fn room_near(&self, wanted: Point, size: Point) -> Point {
        let around = (0..RINGS).flat_map(|ring| {
            let radius = STEP * to_f64(ring);
            (0..if ring == 0 { 1 } else { PLACES }).map(move |place| {
                let angle = std::f64::consts::TAU * to_f64(place) / to_f64(PLACES);
                plus(wanted, [angle.cos() * radius, angle.sin() * radius])
            })
        });
        let mut free = around.filter(|at| self.is_free(Rect::around(*at, size)));
        free.next().unwrap_or([wanted[0], self.lowest + size[1] / 2.0 + GAP + 1.0])
    }
}
