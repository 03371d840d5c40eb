//! The courses of links: straight where nothing is in the way, else bent around it; by the corners of a bus; side by side
//! where several join the same two boxes.

use std::collections::HashMap;

use crate::Graph;
use crate::geometry::{Point, Rect, cells_along, length, middle, minus, plus, times, to_f64};

/// Side of a cell in which boxes are looked for.
const CELL: f64 = 120.0;

/// Between links that are side by side, in their middles.
const LANE: f64 = 20.0;

/// Most lanes to one side of two boxes: more links stand closer, so that a picture does not grow with their number.
const LANES: f64 = 24.0;

/// How far around a box a link may bend, in the middle.
const BENDS: [f64; 6] = [24.0, 40.0, 60.0, 90.0, 130.0, 180.0];

/// Links of larger pictures are not bent around boxes.
const MOST: usize = 4000;

/// How a link goes from the centre of its first box to that of its second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Straight; no points between.
    Straight,
    /// A quadratic curve; one point between, its control point.
    Bent,
    /// Straight from point to point.
    Corners,
    /// From a box to itself: a cubic curve; two points between, its control points.
    Loop,
}

/// The course of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Its shape.
    pub shape: Shape,
    /// The points between its ends.
    pub via: Vec<Point>,
}

/// The courses of all links. `vias` has corners by the two boxes.
pub(crate) fn courses(
    graph: &Graph,
    centres: &[Point],
    vias: &[([usize; 2], Vec<Point>)],
) -> Vec<Course> {
    let corners: HashMap<[usize; 2], &[Point]> =
        vias.iter().map(|(pair, via)| (*pair, via.as_slice())).collect();
    let boxes = Boxes::of(graph, centres);
    let mut lanes: HashMap<[usize; 2], (usize, usize)> = HashMap::new();
    for edge in &graph.edges {
        lanes.entry(sorted(*edge)).or_default().1 += 1;
    }
    let course = |&[a, b]: &[usize; 2]| {
        let lane = lanes.entry(sorted([a, b])).or_default();
        let outermost = to_f64(lane.1.saturating_sub(1)) / 2.0;
        let closer = LANES / outermost.max(LANES);
        let aside = (to_f64(lane.0) - outermost) * closer;
        lane.0 += 1;
        if a == b {
            return around_itself(centres[a], graph.vertices[a].size, to_f64(lane.0) * closer);
        }
        let forth = corners.get(&[a, b]).map(|via| via.to_vec());
        let back = || corners.get(&[b, a]).map(|via| via.iter().rev().copied().collect());
        if let Some(via) = forth.or_else(back) {
            let by = aside * LANE * 0.5;
            let via = via.into_iter().map(|at: Point| plus(at, [by, by])).collect();
            return Course { shape: Shape::Corners, via };
        }
        boxes.course([a, b], [centres[a], centres[b]], aside)
    };
    graph.edges.iter().map(course).collect()
}

fn sorted([a, b]: [usize; 2]) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

fn around_itself([x, y]: Point, size: Point, lane: f64) -> Course {
    let up = y - size[1] / 2.0 - 24.0 - 16.0 * lane;
    let aside = size[0] / 2.0 + 10.0;
    Course { shape: Shape::Loop, via: vec![[x - aside, up], [x + aside, up]] }
}

/// Boxes by cells.
struct Boxes {
    areas: Vec<Rect>,
    cells: HashMap<(i64, i64), Vec<usize>>,
    bends: bool,
}

impl Boxes {
    fn of(graph: &Graph, centres: &[Point]) -> Boxes {
        let areas: Vec<Rect> = graph
            .vertices
            .iter()
            .zip(centres)
            // A link that only touches a box looks as if it ended there.
            .map(|(v, at)| Rect::around(*at, v.size).grown(3.0))
            .collect();
        let mut cells: HashMap<(i64, i64), Vec<usize>> = HashMap::new();
        for (v, area) in areas.iter().enumerate() {
            for key in crate::geometry::cells(*area, CELL) {
                cells.entry(key).or_default().push(v);
            }
        }
        Boxes { areas, cells, bends: graph.edges.len() <= MOST }
    }

    /// How many boxes except these two a segment crosses.
    fn crossed(&self, pair: [usize; 2], from: Point, to: Point) -> usize {
        let mut met: Vec<usize> = Vec::new();
        for key in cells_along(from, to, CELL) {
            for &v in self.cells.get(&key).into_iter().flatten() {
                if !pair.contains(&v) && self.areas[v].is_crossed(from, to) && !met.contains(&v) {
                    met.push(v);
                }
            }
        }
        met.len()
    }

    fn crossed_by_curve(&self, pair: [usize; 2], [from, to]: [Point; 2], control: Point) -> usize {
        let at = |t: f64| {
            let (a, b, c) = ((1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t);
            plus(plus(times(from, a), times(control, b)), times(to, c))
        };
        (0..8)
            .map(|step| {
                self.crossed(pair, at(f64::from(step) / 8.0), at(f64::from(step + 1) / 8.0))
            })
            .sum()
    }

    fn course(&self, pair: [usize; 2], ends: [Point; 2], aside: f64) -> Course {
        // The side does not depend on which end comes first.
        let [low, high] = if pair[0] < pair[1] { ends } else { [ends[1], ends[0]] };
        let way = minus(high, low);
        let across = times([-way[1], way[0]], 1.0 / length(way).max(1.0));
        // A curve goes half as far aside as its control point.
        let control = |by: f64| plus(middle(low, high), times(across, 2.0 * by));
        let own = aside * LANE;
        let hits = |by: f64| {
            if by.abs() < 1e-9 {
                self.crossed(pair, ends[0], ends[1])
            } else {
                self.crossed_by_curve(pair, ends, control(by))
            }
        };
        let mut best = (if self.bends { hits(own) } else { 0 }, own);
        if best.0 > 0 {
            for by in BENDS.iter().flat_map(|by| [own + by, own - by]) {
                let count = hits(by);
                if count < best.0 {
                    best = (count, by);
                }
                if count == 0 {
                    break;
                }
            }
        }
        if best.1.abs() < 1e-9 {
            return Course { shape: Shape::Straight, via: vec![] };
        }
        Course { shape: Shape::Bent, via: vec![control(best.1)] }
    }
}
