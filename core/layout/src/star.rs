//! A star: one box with all others around it; also a lone box, and two.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use crate::geometry::{Rect, to_f64};
use crate::graph::Net;
use crate::hang::{Room, Toward, hang};
use crate::piece::Piece;

/// Most boxes around another; more stand in rows above and below.
const AROUND: usize = 12;

/// How often the circle may grow.
const GROWTHS: usize = 60;

/// The part as a star, if it is one.
pub(crate) fn star(net: &Net, part: &[usize]) -> Option<Piece> {
    let mut inner = part.iter().copied().filter(|v| net.near[*v].len() > 1);
    let (hub, more) = (inner.next(), inner.next());
    match (hub, more) {
        (None, _) => Some(few(net, part)),
        (Some(hub), None) if net.near[hub].len() <= AROUND => Some(around(net, hub)),
        (Some(hub), None) => Some(above_and_below(net, hub)),
        _ => None,
    }
}

/// One box, or two side by side.
fn few(net: &Net, part: &[usize]) -> Piece {
    let mut piece = Piece::none();
    let mut x = 0.0;
    for &v in part {
        let half = net.sizes[v][0] / 2.0;
        piece.join(Piece::of(v, net.sizes[v]).moved([x + half, 0.0]));
        x += 2.0 * half + net.link;
    }
    piece
}

fn around(net: &Net, hub: usize) -> Piece {
    let leaves = &net.near[hub];
    // Two are left and right.
    let first = if leaves.len() == 2 { -PI } else { -FRAC_PI_2 };
    let mut radius = net.link * 0.6 + 40.0;
    for _ in 0..GROWTHS {
        let boxes = circle(net, hub, first, radius);
        let clear = |at: usize| {
            boxes[..at].iter().all(|(_, other)| !boxes[at].1.grown(12.0).overlaps(*other))
        };
        if (0..boxes.len()).all(clear) {
            break;
        }
        radius *= 1.1;
    }
    let mut piece = Piece::none();
    for (v, area) in circle(net, hub, first, radius) {
        piece.join(Piece::of(v, net.sizes[v]).moved(area.centre()));
    }
    piece
}

/// The hub and all around it on an ellipse, from an angle on, clockwise.
fn circle(net: &Net, hub: usize, first: f64, radius: f64) -> Vec<(usize, Rect)> {
    let mut boxes = vec![(hub, Rect::around([0.0, 0.0], net.sizes[hub]))];
    let step = TAU / to_f64(net.near[hub].len());
    for (at, &v) in net.near[hub].iter().enumerate() {
        let angle = first + step * to_f64(at);
        // Boxes are wide: side by side they need more room.
        let centre = [angle.cos() * (radius * 1.25 + 30.0), angle.sin() * radius];
        boxes.push((v, Rect::around(centre, net.sizes[v])));
    }
    boxes
}

fn above_and_below(net: &Net, hub: usize) -> Piece {
    let (above, below) = net.near[hub].split_at(net.near[hub].len() / 2);
    let mut piece = hang(net, hub, &net.marks(below), Toward::Up, Room::WIDE);
    piece.join(hang(net, hub, &net.marks(above), Toward::Down, Room::WIDE));
    piece
}
