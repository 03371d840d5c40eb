//! A ring: boxes on an ellipse, with what hangs at each outside.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI, TAU};

use crate::geometry::{Rect, to_f64};
use crate::graph::Net;
use crate::hang::{Room, Toward, hang};
use crate::piece::Piece;

/// How often the ring may grow.
const GROWTHS: usize = 80;

/// Neighbours along the ring that are looked at: those farther away do not come nearer.
const NEAR: usize = 5;

/// Width by height.
const RATIO: f64 = 1.25;

/// The boxes of a cycle with all that hangs there.
pub(crate) fn ring(net: &Net, cycle: &[usize]) -> Piece {
    let kept = net.marks(cycle);
    let count = to_f64(cycle.len());
    let hangs: Vec<bool> = cycle.iter().map(|v| net.near[*v].len() > 2).collect();
    let few = hangs.iter().filter(|hangs| **hangs).count() * 2 <= cycle.len();
    let first = hangs.iter().position(|hangs| *hangs).filter(|_| few);
    // Where something hangs at few boxes, the first of them is on the left; four make a square, others begin on top.
    let start = match first {
        Some(at) => PI - TAU / count * to_f64(at),
        None if cycle.len() == 4 => -3.0 * FRAC_PI_4,
        None => -FRAC_PI_2,
    };
    let angles: Vec<f64> = (0..cycle.len()).map(|at| start + TAU / count * to_f64(at)).collect();
    let pieces: Vec<Piece> = cycle
        .iter()
        .zip(&angles)
        .map(|(v, angle)| hang(net, *v, &kept, outwards(*angle), Room::BLOCK))
        .collect();
    let chord = cycle.iter().map(|v| net.sizes[*v][0]).fold(0.0, f64::max) + net.link * 0.8;
    let mut radius = (chord * count / TAU).max(70.0);
    for _ in 0..GROWTHS {
        if is_clear(&placed(&pieces, &angles, radius)) {
            break;
        }
        radius *= 1.08;
    }
    let mut whole = Piece::none();
    for (piece, angle) in pieces.into_iter().zip(angles) {
        whole.join(piece.moved([angle.cos() * radius * RATIO, angle.sin() * radius]));
    }
    whole
}

fn outwards(angle: f64) -> Toward {
    let [x, y] = [angle.cos(), angle.sin()];
    match (x.abs() > 0.75, x > 0.0, y > 0.0) {
        (true, true, _) => Toward::Right,
        (true, false, _) => Toward::Left,
        (false, _, true) => Toward::Down,
        (false, _, false) => Toward::Up,
    }
}

/// The areas of all pieces, with the centres of their boxes on the ring.
fn placed(pieces: &[Piece], angles: &[f64], radius: f64) -> Vec<(Rect, [f64; 2])> {
    let place = |(piece, angle): (&Piece, &f64)| {
        let at = [angle.cos() * radius * RATIO, angle.sin() * radius];
        (piece.bounds.moved(at).grown(10.0), at)
    };
    pieces.iter().zip(angles).map(place).collect()
}

/// Whether no pieces overlap, and no link of the ring crosses one.
fn is_clear(placed: &[(Rect, [f64; 2])]) -> bool {
    let count = placed.len();
    (0..count).all(|at| {
        let (area, from) = placed[at];
        let to = placed[(at + 1) % count].1;
        (1..=NEAR.min(count - 1)).all(|ahead| {
            let other = (at + ahead) % count;
            let apart = !area.overlaps(placed[other].0);
            // A chord between the neighbours of a box passes inside of it.
            apart && (ahead == 1 || !placed[other].0.is_crossed(from, to))
        })
    })
}
