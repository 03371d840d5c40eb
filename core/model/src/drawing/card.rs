//! The boxes of a picture and the room that their texts take.
//!
//! Fonts differ between viewers: widths are those of a wide sans-serif font, so that texts fit with all usual ones.

use super::Vertex;

/// Most letters of a name that are shown; the tooltip has all.
const LETTERS: usize = 26;

/// Size of names and of second lines, in pixels.
pub(super) const NAME: f64 = 12.0;
pub(super) const CAPTION: f64 = 9.5;

/// From the left side to the name: the icon with room around.
pub(super) const TEXT_AT: f64 = 30.0;

/// Room after the text.
const PADDING: f64 = 10.0;

/// The height of a box without and with a second line.
const HEIGHT: f64 = 26.0;
const TALL: f64 = 36.0;

/// The name as shown.
pub(super) fn name(vertex: &Vertex) -> String {
    shortened(&vertex.name, LETTERS)
}

/// The second line as shown.
pub(super) fn caption(vertex: &Vertex, labelled: bool) -> Option<String> {
    (labelled && !vertex.caption.is_empty()).then(|| shortened(&vertex.caption, LETTERS + 8))
}

pub(super) fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters - 1).chain(['…']).collect()
}

/// Width and height in whole pixels.
pub(super) fn size(vertex: &Vertex, labelled: bool) -> [f64; 2] {
    let caption = caption(vertex, labelled);
    // Names are semi-bold.
    let name = width(&name(vertex), NAME) * 1.05;
    let text = caption.as_ref().map_or(0.0, |text| width(text, CAPTION)).max(name);
    let height = if caption.is_some() { TALL } else { HEIGHT };
    // Even, so that a box around a whole centre has whole corners.
    [((TEXT_AT + text + PADDING) / 2.0).ceil() * 2.0, height]
}

/// About the width of a text at a size.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let letter = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '/' => 0.34,
        'f' | 't' | 'r' | '-' | '(' | ')' => 0.43,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.93,
        c if c.is_ascii_uppercase() => 0.7,
        c if c.is_ascii() => 0.62,
        '…' | '±' | '·' | '→' | '←' => 0.8,
        _ => 1.0,
    };
    text.chars().map(letter).sum::<f64>() * size
}
