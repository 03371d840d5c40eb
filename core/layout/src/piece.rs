//! A part of a picture that is put together before its place is known.

use crate::geometry::{Point, Rect, plus};

/// Boxes by their centres, and the corners of links that are not straight, relative to any origin.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) places: Vec<(usize, Point)>,
    /// By the two linked boxes: points between the first one's centre and the second one's.
    pub(crate) vias: Vec<([usize; 2], Vec<Point>)>,
    pub(crate) bounds: Rect,
}

impl Piece {
    /// One box at the origin.
    pub(crate) fn of(v: usize, size: Point) -> Piece {
        let bounds = Rect::around([0.0, 0.0], size);
        Piece { places: vec![(v, [0.0, 0.0])], vias: vec![], bounds }
    }

    /// Nothing.
    pub(crate) fn none() -> Piece {
        let bounds = Rect { min: [0.0, 0.0], max: [0.0, 0.0] };
        Piece { places: vec![], vias: vec![], bounds }
    }

    /// Moved by this much.
    pub(crate) fn moved(mut self, by: Point) -> Piece {
        self.places.iter_mut().for_each(|(_, at)| *at = plus(*at, by));
        self.vias.iter_mut().flat_map(|(_, via)| via).for_each(|at| *at = plus(*at, by));
        self.bounds = self.bounds.moved(by);
        self
    }

    /// With all of another one, which may have a box that is already here in the same place.
    pub(crate) fn join(&mut self, other: Piece) {
        if other.places.is_empty() {
            return;
        }
        self.bounds =
            if self.places.is_empty() { other.bounds } else { self.bounds.with(other.bounds) };
        self.places.extend(other.places);
        self.vias.extend(other.vias);
    }

    /// The centre of each box by its index.
    pub(crate) fn centres(&self, count: usize) -> Vec<Point> {
        let mut centres = vec![[0.0, 0.0]; count];
        self.places.iter().for_each(|(v, at)| centres[*v] = *at);
        centres
    }
}
