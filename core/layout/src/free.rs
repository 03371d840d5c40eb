//! A network without a form of its own: distances in the picture follow those in the network.
//!
//! The start: distances to a few landmarks, projected on the two directions in which they vary most (Brandes and Pich,
//! "Eigensolver Methods for Progressive Multidimensional Scaling of Large Data", 2006). Then each box in turn moves to where
//! its neighbours and the landmarks want it (Gansner, Koren and North, "Graph Drawing by Stress Majorization", 2004; sparse as in
//! Ortmann, Klimenta and Brandes, "A Sparse Stress Model", 2016). The picture is turned so that its long side lies, and
//! follows the order of the file. What hangs at boxes is placed outside, and areas that overlap are pushed apart.

use std::cmp::Ordering;

use crate::geometry::{Point, Rect, length, minus, plus, times, to_f64};
use crate::graph::Net;
use crate::hang::{Room, Toward, hang};
use crate::piece::Piece;

/// Boxes whose distances to all others count.
const LANDMARKS: usize = 60;

/// Rounds of moving each box.
const ROUNDS: usize = 70;

/// Most rounds of pushing apart.
const PUSHES: usize = 120;

/// Room between areas.
const GAP: f64 = 18.0;

/// The long side lies if the picture is this much longer in one direction.
const LONG: f64 = 1.25;

/// The boxes of a core with all that hangs there.
pub(crate) fn free(net: &Net, core: &[usize]) -> Piece {
    let marks = net.marks(core);
    let mut index = vec![usize::MAX; net.near.len()];
    core.iter().enumerate().for_each(|(at, v)| index[*v] = at);
    let near: Vec<Vec<usize>> =
        core.iter().map(|v| net.near_in(*v, &marks).map(|w| index[w]).collect()).collect();
    let mut points = stressless(&near);
    turn(&mut points);
    scale(&mut points, &near, usual_length(net, core));
    let hung = |at: usize, toward: Toward| hang(net, core[at], &marks, toward, Room::BLOCK);
    let mut pieces: Vec<Piece> =
        (0..core.len()).map(|at| hung(at, direction(at, &points, &near))).collect();
    let mut areas: Vec<Rect> = pieces.iter().map(|piece| piece.bounds.grown(GAP / 2.0)).collect();
    push_apart(&mut points, &areas);
    for at in 0..core.len() {
        if let Some(better) = clearer(at, &points, &near, &pieces[at], &areas, &hung) {
            areas[at] = better.bounds.grown(GAP / 2.0);
            pieces[at] = better;
        }
    }
    let mut whole = Piece::none();
    for (piece, at) in pieces.into_iter().zip(points) {
        whole.join(piece.moved(at));
    }
    whole
}

/// From centre to centre of linked boxes.
fn usual_length(net: &Net, core: &[usize]) -> f64 {
    let widths: f64 = core.iter().map(|v| f64::midpoint(net.sizes[*v][0], net.sizes[*v][1])).sum();
    widths / to_f64(core.len()) + net.link
}

/// Steps from one to each.
fn steps(near: &[Vec<usize>], from: usize) -> Vec<f64> {
    let mut steps = vec![f64::INFINITY; near.len()];
    steps[from] = 0.0;
    let mut queue = vec![from];
    let mut at = 0;
    while at < queue.len() {
        for &w in &near[queue[at]] {
            if steps[w].is_infinite() {
                steps[w] = steps[queue[at]] + 1.0;
                queue.push(w);
            }
        }
        at += 1;
    }
    steps
}

/// Places at which linked boxes are about 1 apart.
fn stressless(near: &[Vec<usize>]) -> Vec<Point> {
    let (landmarks, distances) = landmarks(near);
    let mut points = start(near.len(), &distances);
    let share = to_f64(near.len()) / to_f64(landmarks.len().max(1));
    for _ in 0..ROUNDS {
        for v in 0..near.len() {
            let (mut sum, mut weights) = ([0.0, 0.0], 0.0);
            let mut pull = |w: usize, distance: f64, weight: f64| {
                let away = minus(points[v], points[w]);
                let now = length(away);
                let at = if now < 1e-9 {
                    points[w]
                } else {
                    plus(points[w], times(away, distance / now))
                };
                sum = plus(sum, times(at, weight));
                weights += weight;
            };
            for (landmark, distances) in landmarks.iter().zip(&distances) {
                if *landmark != v {
                    // A landmark stands for its share of all boxes. The longer a distance, the less its errors count.
                    pull(*landmark, distances[v], share / (distances[v] * distances[v]));
                }
            }
            // Where every box is a landmark, neighbours have pulled already.
            if landmarks.len() < near.len() {
                near[v].iter().for_each(|w| pull(*w, 1.0, 1.0));
            }
            if weights > 0.0 {
                points[v] = times(sum, 1.0 / weights);
            }
        }
    }
    points
}

/// Boxes that are far from each other, and the steps from each of them to all.
fn landmarks(near: &[Vec<usize>]) -> (Vec<usize>, Vec<Vec<f64>>) {
    let mut nearest = vec![f64::INFINITY; near.len()];
    let (mut chosen, mut distances, mut next) = (Vec::new(), Vec::new(), 0);
    for _ in 0..LANDMARKS.min(near.len()) {
        let column = steps(near, next);
        nearest.iter_mut().zip(&column).for_each(|(near, d)| *near = near.min(*d));
        chosen.push(next);
        distances.push(column);
        // The one farthest from all so far; the first of equals.
        next = (0..near.len()).fold(0, |best, v| if nearest[v] > nearest[best] { v } else { best });
    }
    (chosen, distances)
}

/// Squared distances, centred, in their two main directions.
fn start(count: usize, distances: &[Vec<f64>]) -> Vec<Point> {
    let mut columns: Vec<Vec<f64>> =
        distances.iter().map(|column| column.iter().map(|d| d * d).collect()).collect();
    centre(&mut columns, count);
    let first = main_direction(&columns, None);
    let second = main_direction(&columns, Some(&first));
    let along = |direction: &[f64], v: usize| -> f64 {
        columns.iter().zip(direction).map(|(column, d)| column[v] * d).sum()
    };
    let mut points: Vec<Point> =
        (0..count).map(|v| [along(&first, v), along(&second, v)]).collect();
    let size = points.iter().map(|p| length(*p)).fold(0.0, f64::max).max(1e-9);
    let wanted = distances.iter().flatten().copied().fold(1.0, f64::max) / 2.0;
    for (v, point) in points.iter_mut().enumerate() {
        // Boxes that landmarks do not tell apart start around a common place, at the golden angle from each other.
        let angle = to_f64(v) * 2.399_963_229_728_653;
        let radius = 0.05 + 0.1 * (to_f64(v) * 0.618_033_988_75).fract();
        *point = plus(times(*point, wanted / size), [radius * angle.cos(), radius * angle.sin()]);
    }
    points
}

fn centre(columns: &mut [Vec<f64>], count: usize) {
    let width = to_f64(columns.len().max(1));
    let rows: Vec<f64> =
        (0..count).map(|v| columns.iter().map(|c| c[v]).sum::<f64>() / width).collect();
    let all = rows.iter().sum::<f64>() / to_f64(count.max(1));
    for column in columns {
        let mean = column.iter().sum::<f64>() / to_f64(count.max(1));
        for (value, row) in column.iter_mut().zip(&rows) {
            *value = -0.5 * (*value - row - mean + all);
        }
    }
}

/// The direction in which the columns vary most, at right angles to another: power iteration.
fn main_direction(columns: &[Vec<f64>], other: Option<&[f64]>) -> Vec<f64> {
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(x, y)| x * y).sum() };
    let matrix: Vec<Vec<f64>> =
        columns.iter().map(|a| columns.iter().map(|b| product(a, b)).collect()).collect();
    // Any start will do that is not at right angles to the result; a fixed one gives the same picture each time.
    let mut vector: Vec<f64> = (0..columns.len()).map(|i| 1.0 + (to_f64(i) * 1.7).sin()).collect();
    for _ in 0..60 {
        if let Some(other) = other {
            let along = product(&vector, other);
            vector.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
        }
        vector = matrix.iter().map(|row| product(row, &vector)).collect();
        let size = product(&vector, &vector).sqrt();
        if size < 1e-12 {
            return vec![0.0; columns.len()];
        }
        vector.iter_mut().for_each(|v| *v /= size);
    }
    vector
}

/// Turns and mirrors the picture: a long one lies, a round one comes as near as it can to rows in the order of the file.
fn turn(points: &mut [Point]) {
    let count = to_f64(points.len().max(1));
    let middle = times(points.iter().copied().fold([0.0, 0.0], plus), 1.0 / count);
    points.iter_mut().for_each(|p| *p = minus(*p, middle));
    let sum = |f: &dyn Fn(usize, Point) -> f64| -> f64 {
        points.iter().enumerate().map(|(at, p)| f(at, *p)).sum()
    };
    let (xx, xy, yy) =
        (sum(&|_, p| p[0] * p[0]), sum(&|_, p| p[0] * p[1]), sum(&|_, p| p[1] * p[1]));
    let half = ((xx - yy) * (xx - yy) / 4.0 + xy * xy).sqrt();
    let (large, small) = (f64::midpoint(xx, yy) + half, (f64::midpoint(xx, yy) - half).max(0.0));
    let columns = count.sqrt().ceil().max(1.0);
    let column = |at: usize| to_f64(at) % columns - (columns - 1.0) / 2.0;
    let row = |at: usize| (to_f64(at) / columns).floor() - (columns - 1.0) / 2.0;
    let order = |at: usize| to_f64(at) - (count - 1.0) / 2.0;
    if large > small * LONG * LONG {
        let angle = 0.5 * (2.0 * xy).atan2(xx - yy);
        rotate(points, -angle);
        let sum = |axis: usize, points: &[Point]| -> f64 {
            points.iter().enumerate().map(|(at, p)| order(at) * p[axis]).sum()
        };
        for axis in [0, 1] {
            if sum(axis, points) < 0.0 {
                points.iter_mut().for_each(|p| p[axis] = -p[axis]);
            }
        }
        return;
    }
    // The best rotation onto the rows, and the best one of the mirror image.
    let (cx, cy) = (sum(&|at, p| column(at) * p[0]), sum(&|at, p| column(at) * p[1]));
    let (rx, ry) = (sum(&|at, p| row(at) * p[0]), sum(&|at, p| row(at) * p[1]));
    let plain = [cx + ry, rx - cy];
    let mirrored = [cx - ry, rx + cy];
    if length(mirrored) > length(plain) + 1e-9 {
        points.iter_mut().for_each(|p| p[1] = -p[1]);
        rotate(points, mirrored[1].atan2(mirrored[0]));
    } else {
        rotate(points, plain[1].atan2(plain[0]));
    }
}

fn rotate(points: &mut [Point], angle: f64) {
    let (sin, cos) = angle.sin_cos();
    points.iter_mut().for_each(|p| *p = [p[0] * cos - p[1] * sin, p[0] * sin + p[1] * cos]);
}

/// Scales so that the middle one of all links, by length, is this long.
fn scale(points: &mut [Point], near: &[Vec<usize>], wanted: f64) {
    let links = near.iter().enumerate().flat_map(|(v, list)| list.iter().map(move |w| (v, *w)));
    let mut lengths: Vec<f64> =
        links.filter(|(v, w)| v < w).map(|(v, w)| length(minus(points[v], points[w]))).collect();
    lengths.sort_by(f64::total_cmp);
    let Some(middle) = lengths.get(lengths.len() / 2).filter(|middle| **middle > 1e-6) else {
        return;
    };
    let by = wanted / middle;
    points.iter_mut().for_each(|p| *p = times(*p, by));
}

/// Where there is room for what hangs at a box: away from its links and from the middle.
fn direction(at: usize, points: &[Point], near: &[Vec<usize>]) -> Toward {
    let unit = |p: Point| times(p, 1.0 / length(p).max(1e-9));
    let along = |a: Point, b: Point| a[0] * b[0] + a[1] * b[1];
    let outwards = unit(points[at]);
    let cost = |toward: Toward| {
        let towards = toward.unit();
        let link = near[at].iter().map(|w| along(unit(minus(points[*w], points[at])), towards));
        link.fold(-1.0, f64::max) - 0.6 * along(outwards, towards)
    };
    // The first of equals.
    Toward::ALL
        .into_iter()
        .reduce(|best, other| if cost(other) < cost(best) - 1e-9 { other } else { best })
        .unwrap_or(Toward::Down)
}

/// What hangs at a box in another direction, if links pass through it where it is, fewer do there, and there is room.
fn clearer(
    at: usize,
    points: &[Point],
    near: &[Vec<usize>],
    piece: &Piece,
    areas: &[Rect],
    hung: &dyn Fn(usize, Toward) -> Piece,
) -> Option<Piece> {
    let passing = |piece: &Piece| {
        let block = piece.places[1..].iter().map(|(_, centre)| Rect::around(*centre, [0.0, 0.0]));
        // The centres of what hangs there, with half of their usual size around.
        let Some(block) = block.reduce(Rect::with) else { return 0 };
        let block = block.grown(16.0).moved(points[at]);
        let links = near.iter().enumerate().flat_map(|(v, list)| list.iter().map(move |w| (v, *w)));
        links.filter(|(v, w)| v < w && block.is_crossed(points[*v], points[*w])).count()
    };
    let mut best = (passing(piece), None);
    for toward in Toward::ALL {
        if best.0 == 0 {
            break;
        }
        let other = hung(at, toward);
        let area = other.bounds.grown(GAP / 2.0).moved(points[at]);
        let has_room =
            (0..areas.len()).all(|v| v == at || !area.overlaps(areas[v].moved(points[v])));
        let links = passing(&other);
        if has_room && links < best.0 {
            best = (links, Some(other));
        }
    }
    best.1
}

/// Moves areas that overlap apart. What still overlaps then makes the whole picture larger.
fn push_apart(points: &mut [Point], areas: &[Rect]) {
    for round in 0..PUSHES {
        let mut moved = false;
        for (a, b) in overlaps(points, areas) {
            let (one, other) = (areas[a].moved(points[a]), areas[b].moved(points[b]));
            let [x, y] = one.overlap(other);
            if x <= 0.0 || y <= 0.0 {
                continue;
            }
            moved = true;
            let axis = usize::from(x > y);
            // Each a little more than half, so that both are apart after one push.
            let by = x.min(y) * 0.51 + 0.01;
            let (from, to) = (one.centre()[axis], other.centre()[axis]);
            let sign = if from < to || (from - to).abs() < 1e-9 && a < b { -1.0 } else { 1.0 };
            points[a][axis] += sign * by;
            points[b][axis] -= sign * by;
        }
        if !moved {
            return;
        }
        // Boxes that push each other in circles need more room.
        if round % 20 == 19 {
            points.iter_mut().for_each(|p| *p = times(*p, 1.08));
        }
    }
    let needed = |(a, b): (usize, usize)| {
        let (one, other) = (areas[a], areas[b]);
        // How much larger the distance of the two boxes must be, by the easier axis.
        let along = |axis: usize| {
            let apart = points[b][axis] - points[a][axis];
            let least = if apart > 0.0 {
                one.max[axis] - other.min[axis]
            } else {
                other.max[axis] - one.min[axis]
            };
            if apart.abs() < 1e-6 { f64::INFINITY } else { least / apart.abs() }
        };
        along(0).min(along(1))
    };
    let by = overlaps(points, areas).into_iter().map(needed).fold(1.0, f64::max);
    if by <= MOST_GROWTH {
        points.iter_mut().for_each(|p| *p = times(*p, by + 1e-6));
    } else {
        rows(points, areas);
    }
}

/// Most growth of a picture for overlaps that pushing did not end.
const MOST_GROWTH: f64 = 6.0;

/// Pairs of areas that overlap, by their left sides.
fn overlaps(points: &[Point], areas: &[Rect]) -> Vec<(usize, usize)> {
    let mut order: Vec<(usize, Rect)> =
        areas.iter().zip(points).map(|(area, at)| area.moved(*at)).enumerate().collect();
    order.sort_by(|a, b| a.1.min[0].total_cmp(&b.1.min[0]).then(a.0.cmp(&b.0)));
    let mut pairs = Vec::new();
    for (at, (a, one)) in order.iter().enumerate() {
        let beside = order[at + 1..].iter().take_while(|(_, other)| other.min[0] < one.max[0]);
        pairs.extend(
            beside.filter(|(_, other)| one.overlaps(*other)).map(|(b, _)| (*a.min(b), *a.max(b))),
        );
    }
    pairs
}

/// All areas in rows, in the order of their places: for pictures that nothing else makes clear.
fn rows(points: &mut [Point], areas: &[Rect]) {
    let mut order: Vec<usize> = (0..points.len()).collect();
    let by = |axis: usize| move |a: &Point, b: &Point| -> Ordering { a[axis].total_cmp(&b[axis]) };
    order.sort_by(|a, b| by(1)(&points[*a], &points[*b]).then(a.cmp(b)));
    let columns = points.len().isqrt().max(1);
    let mut y = 0.0;
    for row in order.chunks_mut(columns) {
        row.sort_by(|a, b| by(0)(&points[*a], &points[*b]).then(a.cmp(b)));
        let (mut x, mut height) = (0.0, 0.0_f64);
        for &v in &*row {
            points[v] = minus([x, y], areas[v].min);
            x += areas[v].width();
            height = height.max(areas[v].height());
        }
        y += height;
    }
}
