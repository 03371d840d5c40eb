//! Parts of a picture that no link joins, beside each other.

use crate::geometry::minus;
use crate::piece::Piece;

/// Room between parts.
const GAP: f64 = 44.0;

/// Width by height of the whole.
const RATIO: f64 = 1.7;

/// All in rows, in their order, but single boxes last.
pub(crate) fn pack(mut pieces: Vec<Piece>) -> Piece {
    pieces.sort_by_key(|piece| piece.places.len() == 1);
    let area: f64 = pieces
        .iter()
        .map(|piece| (piece.bounds.width() + GAP) * (piece.bounds.height() + GAP))
        .sum();
    let widest = pieces.iter().map(|piece| piece.bounds.width()).fold(0.0, f64::max);
    let target = widest.max((area * RATIO).sqrt());
    let mut whole = Piece::none();
    let (mut x, mut y, mut height) = (0.0, 0.0, 0.0_f64);
    for piece in pieces {
        if x > 0.0 && x + piece.bounds.width() > target + 1.0 {
            y += height + GAP;
            (x, height) = (0.0, 0.0);
        }
        let by = minus([x, y], piece.bounds.min);
        x += piece.bounds.width() + GAP;
        height = height.max(piece.bounds.height());
        whole.join(piece.moved(by));
    }
    whole
}
