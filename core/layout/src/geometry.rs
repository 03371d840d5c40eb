//! Points, rectangles and segments of the plane; y grows downwards.

/// A place or a displacement, in pixels.
pub type Point = [f64; 2];

/// A rectangle with sides parallel to the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Upper left corner.
    pub min: Point,
    /// Lower right corner.
    pub max: Point,
}

impl Rect {
    /// One of this size around its centre.
    pub fn around(centre: Point, size: Point) -> Rect {
        let half = [size[0] / 2.0, size[1] / 2.0];
        Rect { min: minus(centre, half), max: plus(centre, half) }
    }

    /// The smallest one around both.
    #[must_use]
    pub fn with(self, other: Rect) -> Rect {
        let pick = |a: Point, b: Point, f: fn(f64, f64) -> f64| [f(a[0], b[0]), f(a[1], b[1])];
        Rect { min: pick(self.min, other.min, f64::min), max: pick(self.max, other.max, f64::max) }
    }

    /// Moved by this much.
    #[must_use]
    pub fn moved(self, by: Point) -> Rect {
        Rect { min: plus(self.min, by), max: plus(self.max, by) }
    }

    /// Larger by this much on each side.
    #[must_use]
    pub fn grown(self, by: f64) -> Rect {
        Rect {
            min: [self.min[0] - by, self.min[1] - by],
            max: [self.max[0] + by, self.max[1] + by],
        }
    }

    /// Its width.
    pub fn width(self) -> f64 {
        self.max[0] - self.min[0]
    }

    /// Its height.
    pub fn height(self) -> f64 {
        self.max[1] - self.min[1]
    }

    /// Its centre.
    pub fn centre(self) -> Point {
        [f64::midpoint(self.min[0], self.max[0]), f64::midpoint(self.min[1], self.max[1])]
    }

    /// How far both reach into each other along each axis; overlapping ones do along both.
    pub fn overlap(self, other: Rect) -> Point {
        let along =
            |axis: usize| self.max[axis].min(other.max[axis]) - self.min[axis].max(other.min[axis]);
        [along(0), along(1)]
    }

    /// Whether both have more than an edge in common.
    pub fn overlaps(self, other: Rect) -> bool {
        let [x, y] = self.overlap(other);
        x > 1e-6 && y > 1e-6
    }

    /// Whether a segment passes through its inside.
    pub fn is_crossed(self, from: Point, to: Point) -> bool {
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        for axis in 0..2 {
            let way = to[axis] - from[axis];
            if way.abs() < 1e-9 {
                if from[axis] <= self.min[axis] || from[axis] >= self.max[axis] {
                    return false;
                }
                continue;
            }
            let at = |edge: f64| (edge - from[axis]) / way;
            let (a, b) = (at(self.min[axis]), at(self.max[axis]));
            enter = enter.max(a.min(b));
            leave = leave.min(a.max(b));
        }
        leave - enter > 1e-9
    }
}

/// `a - b`
pub(crate) fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

/// `a + b`
pub(crate) fn plus(a: Point, b: Point) -> Point {
    [a[0] + b[0], a[1] + b[1]]
}

/// `a * by`
pub(crate) fn times(a: Point, by: f64) -> Point {
    [a[0] * by, a[1] * by]
}

/// The length of a displacement.
pub(crate) fn length(a: Point) -> f64 {
    a[0].hypot(a[1])
}

/// The point half way.
pub(crate) fn middle(a: Point, b: Point) -> Point {
    [f64::midpoint(a[0], b[0]), f64::midpoint(a[1], b[1])]
}

/// Counts of boxes are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub(crate) fn to_f64(count: usize) -> f64 {
    count as f64
}

/// The square cells of a grid that a rectangle touches; `side` is a cell's.
#[expect(clippy::cast_possible_truncation, reason = "coordinates are small")]
pub fn cells(area: Rect, side: f64) -> impl Iterator<Item = (i64, i64)> {
    let at = |x: f64| (x / side).floor() as i64;
    let (left, right) = (at(area.min[0]), at(area.max[0]));
    let (top, bottom) = (at(area.min[1]), at(area.max[1]));
    (left..=right).flat_map(move |x| (top..=bottom).map(move |y| (x, y)))
}

/// The cells that a segment passes, column by column.
pub fn cells_along(from: Point, to: Point, side: f64) -> Vec<(i64, i64)> {
    let (left, right) = if from[0] <= to[0] { (from, to) } else { (to, from) };
    let way = right[0] - left[0];
    let y_at = |x: f64| left[1] + (right[1] - left[1]) * ((x - left[0]) / way).clamp(0.0, 1.0);
    let mut all = Vec::new();
    let mut x = left[0];
    loop {
        let next = ((x / side).floor() + 1.0) * side;
        let (a, b) = if way < 1e-9 { (left[1], right[1]) } else { (y_at(x), y_at(next)) };
        all.extend(cells(Rect { min: [x, a.min(b)], max: [x, a.max(b)] }, side));
        if next > right[0] {
            return all;
        }
        x = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_passes_the_cells_between_its_ends() {
        assert_eq!(cells_along([5.0, 5.0], [25.0, 5.0], 10.0), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(cells_along([5.0, 25.0], [5.0, 5.0], 10.0), [(0, 0), (0, 1), (0, 2)]);
        let diagonal = cells_along([1.0, 2.0], [28.0, 29.0], 10.0);
        assert!(
            [(0, 0), (1, 1), (2, 2)].iter().all(|cell| diagonal.contains(cell)),
            "{diagonal:?}"
        );
        assert_eq!(cells_along([-3.0, 1.0], [3.0, 1.0], 10.0), [(-1, 0), (0, 0)]);
    }
}
