//! Places of the protocol, in lines and the units that the client counts in, and those of a text, in bytes or characters.
//!
//! A position beyond a line is its end, beyond the text the text's end, inside of a character its beginning. A byte order mark is a
//! character of the client's text, and none of the parser's.

use std::ops::Range as Bytes;

use lsp_types::{Position, PositionEncodingKind, Range};
use netloom_config::cursor::Word;

/// The byte order mark.
const MARK: char = '\u{feff}';

/// What a client counts a line's characters in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Bytes.
    Utf8,
    /// Units of UTF-16, which a client counts in unless it offers others.
    #[default]
    Utf16,
    /// Code points.
    Utf32,
}

impl Encoding {
    /// The first that is known here, of those that a client offers in the order of its preference.
    pub(crate) fn first<'a>(offered: impl IntoIterator<Item = &'a str>) -> Option<Encoding> {
        offered.into_iter().find_map(|word| match word {
            "utf-8" => Some(Encoding::Utf8),
            "utf-16" => Some(Encoding::Utf16),
            "utf-32" => Some(Encoding::Utf32),
            _ => None,
        })
    }

    /// Its name in the protocol.
    pub(crate) fn kind(self) -> PositionEncodingKind {
        match self {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
            Encoding::Utf32 => PositionEncodingKind::UTF32,
        }
    }

    fn width(self, c: char) -> u32 {
        match self {
            Encoding::Utf8 => number(c.len_utf8()),
            Encoding::Utf16 => number(c.len_utf16()),
            Encoding::Utf32 => 1,
        }
    }

    /// How long a text of one line is.
    pub(crate) fn units(self, text: &str) -> u32 {
        text.chars().map(|c| self.width(c)).sum()
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// How many characters of a text's line the parser does not count.
fn skipped(text: &str, line: usize) -> usize {
    usize::from(line == 0 && text.starts_with(MARK))
}

/// The lines of a text.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Where each starts, in bytes.
    starts: Vec<usize>,
    encoding: Encoding,
}

impl Lines {
    /// The lines of a text; each of `\n`, `\r\n` and `\r` ends one.
    pub(crate) fn of(text: &str, encoding: Encoding) -> Lines {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || *byte == b'\r' && bytes.get(at + 1) != Some(&b'\n') {
                starts.push(at + 1);
            }
        }
        Lines { starts, encoding }
    }

    /// What the client counts in.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// A line without its end, from 0; empty beyond the last one.
    pub(crate) fn line<'t>(&self, text: &'t str, line: usize) -> &'t str {
        let Some(start) = self.starts.get(line) else { return "" };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        text[*start..end].trim_end_matches(['\n', '\r'])
    }

    /// The byte at a position.
    pub(crate) fn offset(&self, text: &str, position: Position) -> usize {
        let line = usize::try_from(position.line).unwrap_or(usize::MAX);
        let Some(start) = self.starts.get(line) else { return text.len() };
        let mut left = position.character;
        let own = self.line(text, line);
        for (at, c) in own.char_indices() {
            let width = self.encoding.width(c);
            if left < width {
                return start + at;
            }
            left -= width;
        }
        start + own.len()
    }

    /// The position of a character of a line, both from 0.
    pub(crate) fn position(&self, text: &str, line: usize, column: usize) -> Position {
        Ruler::of(self, text).at(line, column).0
    }

    /// The line and the character of a position, both from 0.
    pub(crate) fn place(&self, text: &str, position: Position) -> (usize, usize) {
        let offset = self.offset(text, position);
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let column = text[start..offset].chars().count();
        (line, column.saturating_sub(skipped(text, line)))
    }

    /// Where a word stands, with its quotes.
    pub(crate) fn range(&self, text: &str, word: &Word<'_>) -> Range {
        Ruler::of(self, text).range(word.line, word.column, word.width).0
    }

    /// From a character of a line to the end of what is written there.
    pub(crate) fn rest_of_line(&self, text: &str, line: usize, column: usize) -> Range {
        let written = self.line(text, line).trim_end().chars().count();
        let end = written.saturating_sub(skipped(text, line)).max(column);
        Range { start: self.position(text, line, column), end: self.position(text, line, end) }
    }

    /// The whole text.
    pub(crate) fn whole(&self, text: &str) -> Range {
        let last = self.starts.len().saturating_sub(1);
        Range { start: Position::default(), end: self.position(text, last, usize::MAX) }
    }
}

/// Finds positions of many places in their order, without going through a line for each.
pub(crate) struct Ruler<'t> {
    lines: &'t Lines,
    text: &'t str,
    line: usize,
    column: usize,
    byte: usize,
    units: u32,
}

impl<'t> Ruler<'t> {
    pub(crate) fn of(lines: &'t Lines, text: &'t str) -> Ruler<'t> {
        Ruler { lines, text, line: usize::MAX, column: 0, byte: 0, units: 0 }
    }

    /// The position of a character of a line, both from 0, and its byte; the end for one beyond the text, where errors about what
    /// is missing may stand.
    pub(crate) fn at(&mut self, line: usize, column: usize) -> (Position, usize) {
        let last = self.lines.starts.len().saturating_sub(1);
        let (line, column) = if line > last { (last, usize::MAX) } else { (line, column) };
        let column = column.saturating_add(skipped(self.text, line));
        if line != self.line || column < self.column {
            let start = self.lines.starts.get(line).copied().unwrap_or(self.text.len());
            (self.line, self.column, self.byte, self.units) = (line, 0, start, 0);
        }
        let start = self.lines.starts.get(line).copied().unwrap_or(self.text.len());
        let own = self.lines.line(self.text, line);
        for c in own[self.byte - start..].chars().take(column - self.column) {
            self.column += 1;
            self.byte += c.len_utf8();
            self.units += self.lines.encoding.width(c);
        }
        (Position { line: number(line), character: self.units }, self.byte)
    }

    /// The range of a number of characters in a line, in the client's units and in bytes.
    pub(crate) fn range(
        &mut self,
        line: usize,
        column: usize,
        width: usize,
    ) -> (Range, Bytes<usize>) {
        let (start, from) = self.at(line, column);
        let (end, to) = self.at(line, column.saturating_add(width));
        (Range { start, end }, from..to)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_count_units_of_utf16_and_stay_inside() {
        let text = "a: \u{1f600}b\r\nsecond\rlast é";
        let lines = Lines::of(text, Encoding::Utf16);
        let at = |line, character| lines.offset(text, Position { line, character });
        assert_eq!((at(0, 0), at(0, 3), at(0, 5), at(0, 6), at(0, 99)), (0, 3, 7, 8, 8));
        // In the middle of a pair of surrogates: before it.
        assert_eq!(at(0, 4), 3);
        assert_eq!((at(1, 0), at(2, 5), at(2, 6), at(3, 0)), (10, 22, 24, 24));
        assert_eq!(at(u32::MAX, u32::MAX), text.len());
        assert_eq!(lines.position(text, 0, 4), Position { line: 0, character: 5 });
        assert_eq!(lines.position(text, 9, 9), Position { line: 2, character: 6 });
        assert_eq!(lines.place(text, Position { line: 0, character: 5 }), (0, 4));
        assert_eq!(lines.place(text, Position { line: 7, character: 5 }), (2, 6));
        assert_eq!(lines.whole(text).end, Position { line: 2, character: 6 });
        assert_eq!(Lines::of("", Encoding::Utf16).whole("").end, Position::default());
    }

    #[test]
    fn each_encoding_has_its_own_units() {
        let text = "é\u{1f600}x";
        for (encoding, ends) in [
            (Encoding::Utf8, [2, 6, 7]),
            (Encoding::Utf16, [1, 3, 4]),
            (Encoding::Utf32, [1, 2, 3]),
        ] {
            let lines = Lines::of(text, encoding);
            let found = [1, 2, 3].map(|column| lines.position(text, 0, column).character);
            assert_eq!(found, ends, "{encoding:?}");
        }
        assert_eq!(Encoding::first(["utf-7", "utf-8", "utf-16"]), Some(Encoding::Utf8));
        assert_eq!(Encoding::first(["utf-7"]), None);
    }

    #[test]
    fn a_byte_order_mark_counts_for_the_client_alone() {
        let text = "\u{feff}ab\ncd";
        let lines = Lines::of(text, Encoding::Utf16);
        assert_eq!(lines.position(text, 0, 1), Position { line: 0, character: 2 });
        assert_eq!(lines.place(text, Position { line: 0, character: 2 }), (0, 1));
        assert_eq!(lines.position(text, 1, 1), Position { line: 1, character: 1 });
        assert_eq!(lines.rest_of_line(text, 0, 0).end, Position { line: 0, character: 3 });
    }

    proptest! {
        #[test]
        fn places_are_positions_and_back(
            text in "[ab\\n\\ré\u{1f600}\u{feff}]{0,40}",
            positions in prop::collection::vec((0..6_u32, 0..12_u32), 1..20),
            encoding in prop::sample::select(vec![Encoding::Utf8, Encoding::Utf16, Encoding::Utf32]),
        ) {
            let lines = Lines::of(&text, encoding);
            let mut ruler = Ruler::of(&lines, &text);
            for (line, character) in positions {
                let position = Position { line, character };
                let byte = lines.offset(&text, position);
                prop_assert!(text.is_char_boundary(byte));
                let (line, column) = lines.place(&text, position);
                let (found, at) = ruler.at(line, column);
                prop_assert_eq!((found, at), (lines.position(&text, line, column), lines.offset(&text, found)));
                prop_assert!(found <= position || position.line > found.line || line == 0);
                // The mark has no place of its own.
                prop_assert!(at == byte || text.starts_with(MARK) && byte == 0);
            }
        }
    }
}
