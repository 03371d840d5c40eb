//! A line: a path of boxes from left to right, at each of which single others may hang.
//!
//! What hangs at the ends stands beside them, the rest below. A long line continues in the next row in the other direction.

use crate::geometry::Rect;
use crate::graph::Net;
use crate::hang::{Room, Toward, hang};
use crate::piece::Piece;

/// Most boxes beside an end of the line; more hang below it.
const BESIDE: usize = 4;

/// Lines up to this width stay in one row.
const ONE_ROW: f64 = 1900.0;

/// Room between what hangs at neighbours.
const GAP: f64 = 24.0;

/// Width by height of several rows.
const RATIO: f64 = 2.0;

/// The part as a line, if it is one of at least two boxes.
pub(crate) fn spine(net: &Net, part: &[usize]) -> Option<Piece> {
    let path = path(net, part)?;
    let one_row = Line::of(net, &path, true);
    if one_row.width() <= ONE_ROW {
        Some(one_row.rows(f64::INFINITY))
    } else {
        Some(Line::of(net, &path, false).folded())
    }
}

/// The boxes with more than one neighbour, if they are a path; from the end that comes first in the file. All boxes if
/// nothing hangs at the path but its ends.
fn path(net: &Net, part: &[usize]) -> Option<Vec<usize>> {
    let chain = part.iter().all(|v| net.near[*v].len() <= 2);
    let inner: Vec<usize> =
        part.iter().copied().filter(|v| chain || net.near[*v].len() > 1).collect();
    let marks = net.marks(&inner);
    if inner.iter().any(|v| net.near_in(*v, &marks).count() > 2) {
        return None;
    }
    let first_near = |v: usize| net.near[v].iter().copied().chain([v]).min();
    let ends = inner.iter().copied().filter(|v| net.near_in(*v, &marks).count() <= 1);
    let mut path = vec![ends.min_by_key(|v| first_near(*v))?];
    while path.len() < inner.len() {
        let (at, before) = (path[path.len() - 1], path.len().checked_sub(2).map(|at| path[at]));
        path.push(net.near_in(at, &marks).find(|w| Some(*w) != before)?);
    }
    Some(path)
}

/// The boxes of a line with what hangs at each.
struct Line<'n> {
    net: &'n Net,
    path: &'n [usize],
    pieces: Vec<Piece>,
}

impl<'n> Line<'n> {
    fn of(net: &'n Net, path: &'n [usize], beside: bool) -> Line<'n> {
        let inner = net.marks(path);
        let last = path.len() - 1;
        let piece = |(at, v): (usize, &usize)| {
            let leaves = net.near[*v].len() - net.near_in(*v, &inner).count();
            let toward = match at {
                0 if beside && leaves <= BESIDE => Toward::Left,
                at if beside && at == last && leaves <= BESIDE => Toward::Right,
                _ => Toward::Down,
            };
            hang(net, *v, &inner, toward, Room::BLOCK)
        };
        Line { net, path, pieces: path.iter().enumerate().map(piece).collect() }
    }

    /// From a box of the line to the one before it, in a row that goes to the right or to the left.
    fn step(&self, at: usize, forward: bool) -> f64 {
        let [a, b] = [self.path[at - 1], self.path[at]];
        let linked = f64::midpoint(self.net.sizes[a][0], self.net.sizes[b][0]) + self.net.link;
        let [one, other] = [&self.pieces[at - 1].bounds, &self.pieces[at].bounds];
        let apart = if forward { one.max[0] - other.min[0] } else { other.max[0] - one.min[0] };
        linked.max(apart + GAP)
    }

    fn width(&self) -> f64 {
        (1..self.path.len()).map(|at| self.step(at, true)).sum()
    }

    fn height(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.bounds.height()).fold(0.0, f64::max)
            + self.net.link * 0.4
            + 20.0
    }

    /// In rows that make a page.
    fn folded(self) -> Piece {
        let target = (self.width() * self.height() * RATIO).sqrt().max(600.0);
        self.rows(target)
    }

    /// In rows of this width and alternating direction.
    fn rows(mut self, target: f64) -> Piece {
        let height = self.height();
        let pieces = std::mem::take(&mut self.pieces);
        let bounds: Vec<Piece> =
            pieces.iter().map(|piece| Piece { bounds: piece.bounds, ..Piece::none() }).collect();
        self.pieces = bounds;
        let mut line = Piece::none();
        let (mut at, mut begun, mut forward) = ([0.0, 0.0], 0.0, true);
        for (index, piece) in pieces.into_iter().enumerate() {
            if index > 0 {
                let step = self.step(index, forward);
                let sign = if forward { 1.0 } else { -1.0 };
                if f64::abs(at[0] - begun) + step > target {
                    let side = at[0] + sign * self.turn(index);
                    let corners = vec![[side, at[1]], [side, at[1] + height]];
                    line.vias.push(([self.path[index - 1], self.path[index]], corners));
                    at[1] += height;
                    (begun, forward) = (at[0], !forward);
                } else {
                    at[0] += sign * step;
                }
            }
            line.join(piece.moved(at));
        }
        for at in line.vias.iter().flat_map(|(_, via)| via) {
            line.bounds = line.bounds.with(Rect::around(*at, [0.0, 0.0]));
        }
        line
    }

    /// How far a link to the next row goes aside, so that it passes what hangs.
    fn turn(&self, index: usize) -> f64 {
        let reach = |piece: &Piece| piece.bounds.max[0].max(-piece.bounds.min[0]);
        reach(&self.pieces[index - 1]).max(reach(&self.pieces[index])) + GAP
    }
}
