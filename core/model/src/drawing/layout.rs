//! Where vertices go: a deterministic layout of an undirected graph.
//!
//! First the overall shape: distances to a few landmarks, projected on the two directions in which
//! they vary most (Brandes and Pich, "Eigensolver Methods for Progressive Multidimensional Scaling
//! of Large Data", 2006). Then local forces with cooling (Fruchterman and Reingold, "Graph Drawing
//! by Force-directed Placement", 1991, with their grid for repulsion). Finally, vertices that are still
//! too close are pushed apart. Cost: about 10^5 steps per vertex.

use std::collections::{HashMap, VecDeque};

/// Landmarks of the first step.
const LANDMARKS: usize = 40;

/// Rounds of the force step.
const ROUNDS: u32 = 220;

/// Maximum rounds of pushing apart.
const PUSHES: usize = 200;

/// A place in the picture.
pub(super) type Point = [f64; 2];

/// Positions of `n` vertices: connected ones about 1 apart, no two closer than `least` (below 1).
pub(super) fn place(n: usize, edges: &[(usize, usize)], least: f64) -> Vec<Point> {
    let mut neighbours = vec![Vec::new(); n];
    for &(a, b) in edges.iter().filter(|(a, b)| a != b) {
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let mut points = overall(&neighbours);
    relax(&mut points, &neighbours);
    scale_to_edges(&mut points, &neighbours);
    push_apart(&mut points, least);
    points
}

/// Steps from one vertex to each; unreachable ones get more than the farthest.
fn distances(neighbours: &[Vec<usize>], from: usize) -> Vec<f64> {
    let mut steps = vec![usize::MAX; neighbours.len()];
    let mut queue = VecDeque::from([from]);
    steps[from] = 0;
    let mut farthest = 0;
    while let Some(at) = queue.pop_front() {
        farthest = steps[at];
        for &next in &neighbours[at] {
            if steps[next] == usize::MAX {
                steps[next] = steps[at] + 1;
                queue.push_back(next);
            }
        }
    }
    // Parts without a path to it still need a place that is near.
    steps.iter().map(|s| to_f64((*s).min(farthest + 2))).collect()
}

/// Pivot scaling: doubly centred squared distances to landmarks, and their two main directions.
fn overall(neighbours: &[Vec<usize>]) -> Vec<Point> {
    let n = neighbours.len();
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let mut nearest = vec![f64::INFINITY; n];
    let mut next = 0;
    for _ in 0..LANDMARKS.min(n) {
        let column = distances(neighbours, next);
        for (near, d) in nearest.iter_mut().zip(&column) {
            *near = near.min(*d);
        }
        columns.push(column.iter().map(|d| d * d).collect());
        // The vertex farthest from all landmarks; the first of equals.
        next = (0..n).fold(0, |best, v| if nearest[v] > nearest[best] { v } else { best });
    }
    centre(&mut columns, n);
    let first = main_direction(&columns, None);
    let second = main_direction(&columns, Some(&first));
    let spread = |direction: &[f64], v: usize| -> f64 {
        columns.iter().zip(direction).map(|(column, d)| column[v] * d).sum()
    };
    let mut points: Vec<Point> = (0..n).map(|v| [spread(&first, v), spread(&second, v)]).collect();
    scale_to_edges(&mut points, neighbours);
    // Vertices that the landmarks do not distinguish start around a common position.
    for (v, point) in points.iter_mut().enumerate() {
        let angle = to_f64(v) * 2.399_963_229_728_653; // the golden angle: no two alike
        let radius = 0.3 + 0.2 * (to_f64(v) * 0.618_033_988_75).fract();
        point[0] += radius * angle.cos();
        point[1] += radius * angle.sin();
    }
    points
}

fn centre(columns: &mut [Vec<f64>], n: usize) {
    let count = to_f64(columns.len().max(1));
    let rows: Vec<f64> =
        (0..n).map(|v| columns.iter().map(|c| c[v]).sum::<f64>() / count).collect();
    let all = rows.iter().sum::<f64>() / to_f64(n.max(1));
    for column in columns {
        let mean = column.iter().sum::<f64>() / to_f64(n.max(1));
        for (value, row) in column.iter_mut().zip(&rows) {
            *value = -0.5 * (*value - row - mean + all);
        }
    }
}

/// The direction in which the columns vary most, at right angles to another: power iteration.
fn main_direction(columns: &[Vec<f64>], other: Option<&[f64]>) -> Vec<f64> {
    let k = columns.len();
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(x, y)| x * y).sum() };
    let matrix: Vec<Vec<f64>> =
        columns.iter().map(|a| columns.iter().map(|b| product(a, b)).collect()).collect();
    // Fixed, not random: the same plan gives the same picture.
    let mut vector: Vec<f64> = (0..k).map(|i| 1.0 + (to_f64(i) * 1.7).sin()).collect();
    for _ in 0..100 {
        // Again in each round: rounding brings the first direction back.
        if let Some(other) = other {
            let along = product(&vector, other);
            vector.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
        }
        vector = matrix.iter().map(|row| product(row, &vector)).collect();
        let length = product(&vector, &vector).sqrt();
        if length < 1e-12 {
            // All points are in one line or in one place: there is no second direction.
            return vec![0.0; k];
        }
        vector.iter_mut().for_each(|v| *v /= length);
    }
    vector
}

/// Scales so that connected vertices are 1 apart on average.
fn scale_to_edges(points: &mut [Point], neighbours: &[Vec<usize>]) {
    let (mut sum, mut count) = (0.0, 0.0);
    for (v, others) in neighbours.iter().enumerate() {
        for &w in others {
            sum += length(minus(points[v], points[w]));
            count += 1.0;
        }
    }
    let factor = if sum > 1e-9 { count / sum } else { 1.0 };
    for point in points {
        *point = [point[0] * factor, point[1] * factor];
    }
}

/// Connected vertices attract by d², all near ones repel by 1/d; moves are bounded and shrink.
fn relax(points: &mut [Point], neighbours: &[Vec<usize>]) {
    // In small graphs all vertices repel; in large ones only those nearby.
    let reach = if points.len() <= 300 { f64::INFINITY } else { 3.0 };
    for round in 0..ROUNDS {
        // Large moves first, which shrink with the square, and never quite stop.
        let heat = 0.6 * (1.0 - f64::from(round) / f64::from(ROUNDS)).powi(2) + 0.005;
        let grid = Grid::of(points, reach.min(1e6));
        let middle = middle(points);
        let moves: Vec<Point> = (0..points.len())
            .map(|v| {
                let mut force = [0.0, 0.0];
                grid.near(points[v], |w| {
                    let away = minus(points[v], points[w]);
                    // Two vertices in one place would repel without bound.
                    let square = (away[0] * away[0] + away[1] * away[1]).max(1e-4);
                    if w != v && square < reach * reach {
                        force = plus(force, away, 1.0 / square);
                    }
                });
                for &w in &neighbours[v] {
                    let towards = minus(points[w], points[v]);
                    force = plus(force, towards, length(towards));
                }
                // A weak pull keeps disconnected parts together.
                plus(force, minus(middle, points[v]), 0.03)
            })
            .collect();
        for (point, force) in points.iter_mut().zip(moves) {
            let size = length(force).max(1e-9);
            *point = plus(*point, force, size.min(heat) / size);
        }
    }
}

/// Moves vertices closer than `least` away from each other.
fn push_apart(points: &mut [Point], least: f64) {
    for _ in 0..PUSHES {
        let grid = Grid::of(points, least);
        let mut moved = false;
        for v in 0..points.len() {
            let here = points[v];
            let mut near = Vec::new();
            grid.near(here, |w| near.push(w));
            // Each pair once.
            for w in near.into_iter().filter(|w| *w > v) {
                let away = minus(points[v], points[w]);
                let distance = length(away);
                if distance < least {
                    moved = true;
                    let angle = to_f64(v + w);
                    let away = if distance < 1e-6 { [angle.cos(), angle.sin()] } else { away };
                    // A little more than half each, so that rounding does not leave them too near.
                    let step = (least - distance) * 0.51 / length(away);
                    points[v] = plus(points[v], away, step);
                    points[w] = plus(points[w], away, -step);
                }
            }
        }
        if !moved {
            return;
        }
    }
}

/// Vertices by square cells, to find those near a point.
struct Grid {
    cell: f64,
    cells: HashMap<(i64, i64), Vec<usize>>,
}

impl Grid {
    fn of(points: &[Point], cell: f64) -> Grid {
        let mut grid = Grid { cell, cells: HashMap::new() };
        for (v, point) in points.iter().enumerate() {
            grid.cells.entry(grid.key(*point)).or_default().push(v);
        }
        grid
    }

    #[expect(clippy::cast_possible_truncation, reason = "coordinates are small")]
    fn key(&self, point: Point) -> (i64, i64) {
        ((point[0] / self.cell).floor() as i64, (point[1] / self.cell).floor() as i64)
    }

    /// Calls `each` with every vertex in the cell of `point` and the eight around it, in a fixed order.
    fn near(&self, point: Point, mut each: impl FnMut(usize)) {
        let (x, y) = self.key(point);
        for cell in (x - 1..=x + 1).flat_map(|x| (y - 1..=y + 1).map(move |y| (x, y))) {
            self.cells.get(&cell).into_iter().flatten().for_each(|v| each(*v));
        }
    }
}

fn middle(points: &[Point]) -> Point {
    let n = to_f64(points.len().max(1));
    let sum = points.iter().fold([0.0, 0.0], |sum, p| plus(sum, *p, 1.0));
    [sum[0] / n, sum[1] / n]
}

fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

fn plus(a: Point, b: Point, times: f64) -> Point {
    [a[0] + b[0] * times, a[1] + b[1] * times]
}

fn length(a: Point) -> f64 {
    a[0].hypot(a[1])
}

/// Counts here are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn to_f64(count: usize) -> f64 {
    count as f64
}
