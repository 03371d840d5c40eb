//! The course of a link as a path of SVG, and as short straight pieces to measure.

use std::fmt::Write as _;

use netloom_layout::{Course, Point, Shape};

/// Pieces of a curve.
const PIECES: u32 = 12;

/// How round the corners of a course are.
const ROUND: f64 = 7.0;

/// A link's course from centre to centre.
pub(super) struct Curve {
    shape: Shape,
    /// Its ends with the points between.
    points: Vec<Point>,
    /// The same as straight pieces.
    pub(super) pieces: Vec<Point>,
}

impl Curve {
    pub(super) fn of([from, to]: [Point; 2], course: &Course) -> Curve {
        let points: Vec<Point> =
            [from].into_iter().chain(course.via.iter().copied()).chain([to]).collect();
        let pieces = match course.shape {
            Shape::Straight | Shape::Corners => points.clone(),
            Shape::Bent | Shape::Loop => (0..=PIECES)
                .map(|step| bezier(&points, f64::from(step) / f64::from(PIECES)))
                .collect(),
        };
        Curve { shape: course.shape, points, pieces }
    }

    pub(super) fn path(&self) -> String {
        let [x, y] = self.points[0];
        let mut out = format!("M{x:.1} {y:.1}");
        match self.shape {
            Shape::Straight => list(&mut out, "L", &self.points[1..]),
            Shape::Bent => list(&mut out, "Q", &self.points[1..]),
            Shape::Loop => list(&mut out, "C", &self.points[1..]),
            Shape::Corners => {
                for corner in self.points.windows(3) {
                    rounded(&mut out, [corner[0], corner[1], corner[2]]);
                }
                list(&mut out, "L", &self.points[self.points.len() - 1..]);
            }
        }
        out
    }

    /// Its length in pixels.
    pub(super) fn length(&self) -> f64 {
        self.pieces.windows(2).map(|piece| distance(piece[0], piece[1])).sum()
    }

    /// The point at a share of its length.
    pub(super) fn at(&self, share: f64) -> Point {
        self.after(share * self.length())
    }

    /// The point at this distance along the curve, in pixels.
    pub(super) fn after(&self, pixels: f64) -> Point {
        let mut left = pixels.max(0.0);
        for piece in self.pieces.windows(2) {
            let whole = distance(piece[0], piece[1]);
            if left <= whole && whole > 1e-9 {
                let share = left / whole;
                return [0, 1]
                    .map(|axis| piece[0][axis] + (piece[1][axis] - piece[0][axis]) * share);
            }
            left -= whole;
        }
        self.pieces[self.pieces.len() - 1]
    }
}

fn list(out: &mut String, command: &str, points: &[Point]) {
    out.push_str(command);
    for (at, [x, y]) in points.iter().enumerate() {
        let blank = if at == 0 { "" } else { " " };
        let _ = write!(out, "{blank}{x:.1} {y:.1}");
    }
}

/// To a corner and round it.
fn rounded(out: &mut String, [from, corner, to]: [Point; 3]) {
    let towards = |other: Point| {
        let way = distance(corner, other);
        let by = if way > 1e-9 { (ROUND / way).min(0.5) } else { 0.0 };
        [0, 1].map(|axis| corner[axis] + (other[axis] - corner[axis]) * by)
    };
    list(out, "L", &[towards(from)]);
    list(out, "Q", &[corner, towards(to)]);
}

fn distance(a: Point, b: Point) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// A point of a curve with these control points, by repeated halving as of de Casteljau.
fn bezier(points: &[Point], t: f64) -> Point {
    let mut points = points.to_vec();
    while points.len() > 1 {
        points = points
            .windows(2)
            .map(|pair| [0, 1].map(|axis| pair[0][axis] * (1.0 - t) + pair[1][axis] * t))
            .collect();
    }
    points[0]
}
