//! Trees: what hangs at a box, in rows beneath it.
//!
//! A few children stand in one row with straight links. More of them hang at a bus with a branch to each child; what does not fit
//! into one row stands in several, left and right of a trunk, so that no link crosses another or a box. A tree can also hang
//! upwards or to a side: then it is built as if downwards, and turned.

use crate::geometry::{Point, Rect, to_f64};
use crate::graph::Net;
use crate::piece::Piece;
use crate::{Role, geometry};

/// Room between boxes that are side by side.
const GAP: f64 = 16.0;

/// Room between a row and the next one's bus, and between a bus and its row.
const BUS: f64 = 13.0;

/// Most children with straight links.
const STRAIGHT: usize = 4;

/// Where a tree hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Down,
    Up,
    Right,
    Left,
}

impl Toward {
    /// All, the preferred ones first.
    pub(crate) const ALL: [Toward; 4] = [Toward::Down, Toward::Up, Toward::Right, Toward::Left];

    fn is_sideways(self) -> bool {
        matches!(self, Toward::Right | Toward::Left)
    }

    /// The direction as a unit vector.
    pub(crate) fn unit(self) -> Point {
        self.turn([0.0, 1.0])
    }

    /// A point of a tree that hangs downwards, turned.
    fn turn(self, [x, y]: Point) -> Point {
        match self {
            Toward::Down => [x, y],
            Toward::Up => [x, -y],
            Toward::Right => [y, x],
            Toward::Left => [-y, x],
        }
    }
}

/// How much room rows get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Children stay in one row up to this width.
    pub(crate) single: f64,
    /// Width by height of several rows.
    pub(crate) ratio: f64,
}

impl Room {
    /// For a tree that stands alone.
    pub(crate) const WIDE: Room = Room { single: 620.0, ratio: 2.2 };
    /// For one beside others.
    pub(crate) const BLOCK: Room = Room { single: 330.0, ratio: 1.5 };
}

/// What hangs at `root`, which stands at the origin. Boxes with a mark in `kept` do not hang.
pub(crate) fn hang(net: &Net, root: usize, kept: &[bool], toward: Toward, room: Room) -> Piece {
    let mut tree = Tree { net, toward, room, order: vec![root], children: vec![vec![]; 1] };
    tree.collect(kept);
    let spots = tree.measure();
    tree.place(&spots)
}

/// A whole tree: from a door, else from its middle.
pub(crate) fn tree(net: &Net, part: &[usize]) -> Piece {
    let nothing = vec![false; net.near.len()];
    let root = part.iter().copied().find(|v| net.roles[*v] == Role::Door);
    let root = root.unwrap_or_else(|| middle(net, part));
    hang(net, root, &nothing, Toward::Down, Room::WIDE)
}

/// The middle of the longest path of a tree; of two the one with more neighbours.
fn middle(net: &Net, part: &[usize]) -> usize {
    let inside = net.marks(part);
    let farthest = |from: usize| {
        let steps = net.steps(from, &inside);
        let far = part
            .iter()
            .copied()
            .fold(from, |best, v| if steps[v] > steps[best] { v } else { best });
        (far, steps)
    };
    // In a tree the box farthest from any is an end of a longest path.
    let (one, _) = farthest(part[0]);
    let (other, from_one) = farthest(one);
    let from_other = net.steps(other, &inside);
    let whole = from_one[other];
    let is_middle =
        |v: usize| from_one[v] + from_other[v] == whole && from_one[v].abs_diff(from_other[v]) <= 1;
    let better =
        |best: usize, v: usize| if net.near[v].len() > net.near[best].len() { v } else { best };
    part.iter().copied().filter(|v| is_middle(*v)).reduce(better).unwrap_or(part[0])
}

struct Tree<'n> {
    net: &'n Net,
    toward: Toward,
    room: Room,
    /// Boxes, each after the one that it hangs at.
    order: Vec<usize>,
    /// By place in `order`: the places of those that hang there.
    children: Vec<Vec<usize>>,
}

/// Where a box stands relative to the one that it hangs at.
#[derive(Clone, Default)]
struct Spot {
    offset: Point,
    via: Vec<Point>,
}

impl Tree<'_> {
    fn collect(&mut self, kept: &[bool]) {
        let mut above = vec![usize::MAX];
        let mut at = 0;
        while at < self.order.len() {
            let (v, parent) = (self.order[at], above[at]);
            for &w in &self.net.near[v] {
                if w != parent && (at > 0 || !kept[w]) {
                    self.children[at].push(self.order.len());
                    self.order.push(w);
                    above.push(v);
                    self.children.push(vec![]);
                }
            }
            at += 1;
        }
    }

    /// The size of a box as if the tree hung downwards.
    fn size(&self, at: usize) -> Point {
        let [width, height] = self.net.sizes[self.order[at]];
        if self.toward.is_sideways() { [height, width] } else { [width, height] }
    }

    /// Room between a box and what hangs there.
    fn drop(&self) -> f64 {
        if self.toward.is_sideways() { self.net.link } else { (self.net.link * 0.5).max(34.0) }
    }

    /// From the outermost boxes to the root: where children stand.
    fn measure(&self) -> Vec<Spot> {
        let mut spots = vec![Spot::default(); self.order.len()];
        let mut bounds = vec![Rect::around([0.0, 0.0], [0.0, 0.0]); self.order.len()];
        for at in (0..self.order.len()).rev() {
            bounds[at] = Rect::around([0.0, 0.0], self.size(at));
            let mut items = self.children[at].clone();
            // Lone boxes first, then those with others.
            items.sort_by_key(|item| !self.children[*item].is_empty());
            let tops: Vec<Rect> = items.iter().map(|item| bounds[*item]).collect();
            let lone = items.iter().take_while(|item| self.children[**item].is_empty()).count();
            let below = bounds[at].max[1] + self.drop();
            for (item, spot) in items.iter().zip(self.rows(&tops, lone, below)) {
                bounds[at] = bounds[at].with(bounds[*item].moved(spot.offset));
                spots[*item] = spot;
            }
        }
        spots
    }

    /// Rows of items whose own boxes stand at their tops; the first `lone` ones have nothing below.
    fn rows(&self, items: &[Rect], lone: usize, below: f64) -> Vec<Spot> {
        let width = row_width(items);
        if items.len() <= 3 || width <= self.room.single {
            return one_row(items, below);
        }
        let area: f64 =
            items.iter().map(|item| (item.width() + GAP) * (item.height() + 2.0 * BUS)).sum();
        let widest = items.iter().map(|item| item.width()).fold(0.0, f64::max);
        let wanted = (area * self.room.ratio)
            .sqrt()
            .max(self.room.single * 0.6)
            .max(widest * 2.0 + GAP * 2.0);
        if width <= wanted {
            return one_row(items, below);
        }
        let mut spots = Vec::with_capacity(items.len());
        let mut top = below;
        for part in [&items[..lone], &items[lone..]].into_iter().filter(|part| !part.is_empty()) {
            let rows = (row_width(part) / wanted).ceil().max(1.0);
            let target = row_width(part) / rows;
            for row in split(part, target) {
                top = trunk_row(row, top, &mut spots);
            }
        }
        spots
    }

    /// From the root outwards: the places of all.
    fn place(&self, spots: &[Spot]) -> Piece {
        let root = self.order[0];
        let mut piece = Piece::of(root, self.net.sizes[root]);
        let mut centres = vec![[0.0, 0.0]; self.order.len()];
        for at in 0..self.order.len() {
            for &item in &self.children[at] {
                let spot = &spots[item];
                centres[item] = geometry::plus(centres[at], spot.offset);
                let (v, place) = (self.order[item], self.toward.turn(centres[item]));
                piece.places.push((v, place));
                piece.bounds = piece.bounds.with(Rect::around(place, self.net.sizes[v]));
                if !spot.via.is_empty() {
                    let via =
                        spot.via.iter().map(|p| self.toward.turn(geometry::plus(centres[at], *p)));
                    piece.vias.push(([self.order[at], v], via.collect()));
                }
            }
        }
        piece
    }
}

fn row_width(items: &[Rect]) -> f64 {
    items.iter().map(|item| item.width()).sum::<f64>() + GAP * to_f64(items.len().saturating_sub(1))
}

/// All in one row, with the box above in the middle of the outer ones' links.
fn one_row(items: &[Rect], below: f64) -> Vec<Spot> {
    let mut x = 0.0;
    let mut spots: Vec<Spot> = Vec::with_capacity(items.len());
    for item in items {
        spots.push(Spot { offset: [x - item.min[0], below - item.min[1]], via: vec![] });
        x += item.width() + GAP;
    }
    let (Some(first), Some(last)) = (spots.first(), spots.last()) else { return spots };
    let centre = f64::midpoint(first.offset[0], last.offset[0]);
    for spot in &mut spots {
        spot.offset[0] -= centre;
    }
    if items.len() > STRAIGHT {
        for spot in &mut spots {
            spot.via = vec![[0.0, below - BUS], [spot.offset[0], below - BUS]];
        }
    }
    spots
}

/// Rows of about this width.
fn split(items: &[Rect], target: f64) -> Vec<&[Rect]> {
    let (mut rows, mut first, mut width) = (Vec::new(), 0, 0.0);
    for (at, item) in items.iter().enumerate() {
        // Half of an item may stand out.
        if at > first && width + item.width() / 2.0 > target {
            rows.push(&items[first..at]);
            (first, width) = (at, 0.0);
        }
        width += item.width() + GAP;
    }
    rows.push(&items[first..]);
    rows
}

/// A row left and right of the trunk; returns where the next one begins.
fn trunk_row(items: &[Rect], top: f64, spots: &mut Vec<Spot>) -> f64 {
    let half = row_width(items) / 2.0;
    let mut width = 0.0;
    let left = items.iter().take_while(|item| {
        width += item.width() + GAP;
        width - (item.width() + GAP) / 2.0 <= half
    });
    let left = left.count().max(1).min(items.len());
    let mut x = -row_width(&items[..left]) - GAP;
    for (at, item) in items.iter().enumerate() {
        if at == left {
            x = GAP;
        }
        let offset = [x - item.min[0], top + BUS - item.min[1]];
        spots.push(Spot { via: vec![[0.0, top], [offset[0], top]], offset });
        x += item.width() + GAP;
    }
    let height = items.iter().map(|item| item.height()).fold(0.0, f64::max);
    top + BUS + height + BUS
}
