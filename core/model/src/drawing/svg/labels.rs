//! Room for what is written at links: no label covers a box, another label or another link.

use std::collections::HashMap;

use netloom_layout::{Point, Rect, cells, cells_along};

use super::curve::Curve;
use crate::drawing::card;

/// The height of a line.
pub(super) const LINE: f64 = 11.0;

/// The size of letters at ends of links.
const END: f64 = 9.0;

/// The size of letters of what impairs a link.
const PILL: f64 = 9.5;

/// Where a mark stands that replaces a text, as a share of the link.
pub(super) const MARK: f64 = 0.5;

/// Shares of a link at which a text in its middle may stand.
const MIDDLES: [f64; 9] = [0.5, 0.45, 0.55, 0.4, 0.6, 0.34, 0.66, 0.28, 0.72];

/// Places that are tried along a link from its end.
const PLACES: u32 = 14;

/// From place to place.
const STEP: f64 = 7.0;

/// Side of a cell in which boxes and links are looked for.
const CELL: f64 = 100.0;

/// What takes room.
pub(super) struct Labels<'c> {
    curves: &'c [Curve],
    taken: HashMap<(i64, i64), Vec<Rect>>,
    /// Pieces of links by cell.
    lines: HashMap<(i64, i64), Vec<Piece>>,
}

/// A straight piece of a link: the link's place, and the piece's ends.
type Piece = (usize, [Point; 2]);

impl<'c> Labels<'c> {
    pub(super) fn of(boxes: &[Rect], curves: &'c [Curve]) -> Labels<'c> {
        let mut labels = Labels { curves, taken: HashMap::new(), lines: HashMap::new() };
        boxes.iter().for_each(|area| labels.take(area.grown(3.0)));
        for (at, curve) in curves.iter().enumerate() {
            for piece in curve.pieces.windows(2) {
                let piece = [piece[0], piece[1]];
                for key in cells_along(piece[0], piece[1], CELL) {
                    labels.lines.entry(key).or_default().push((at, piece));
                }
            }
        }
        labels
    }

    fn take(&mut self, area: Rect) {
        for key in cells(area, CELL) {
            self.taken.entry(key).or_default().push(area);
        }
    }

    fn is_free(&self, own: usize, area: Rect) -> bool {
        cells(area, CELL).all(|key| {
            let boxes = self.taken.get(&key).into_iter().flatten();
            let lines = self.lines.get(&key).into_iter().flatten().filter(|(link, _)| *link != own);
            boxes.into_iter().all(|other| !area.overlaps(*other))
                && lines.into_iter().all(|(_, [from, to])| !area.is_crossed(*from, *to))
        })
    }

    /// Room for a text near the middle of a link.
    pub(super) fn in_the_middle(&mut self, link: usize, text: &str) -> Option<Rect> {
        let size = [card::width(text, PILL) + 14.0, 15.0];
        let area = MIDDLES.iter().map(|share| Rect::around(self.curves[link].at(*share), size));
        let area = area.into_iter().find(|area| self.is_free(link, *area))?;
        self.take(area.grown(2.0));
        Some(area)
    }

    /// Room for lines near an end of a link, and how many of them have room.
    pub(super) fn at_the_end(
        &mut self,
        link: usize,
        side: usize,
        own: Rect,
        lines: &[&str],
    ) -> Option<(Rect, usize)> {
        let curve = &self.curves[link];
        let whole = curve.length();
        for count in (1..=lines.len()).rev() {
            let widest =
                lines[..count].iter().map(|line| card::width(line, END)).fold(0.0, f64::max);
            let size = [widest + 5.0, LINE * f64::from(u32::try_from(count).unwrap_or(1)) + 1.0];
            let places = (0..PLACES * 3)
                .map(|place| STEP * f64::from(place))
                .take_while(|pixels| *pixels < whole * 0.46);
            let mut areas = places.map(|pixels| {
                let pixels = if side == 0 { pixels } else { whole - pixels };
                Rect::around(curve.after(pixels), size)
            });
            // The first one that leaves the box.
            let found = areas
                .by_ref()
                .filter(|area| !area.grown(4.0).overlaps(own))
                .take(8)
                .find(|area| self.is_free(link, *area));
            if let Some(area) = found {
                self.take(area.grown(1.0));
                return Some((area, count));
            }
        }
        None
    }
}
