//! Finds the unclosed bracket of a text that YAML has refused, to say where to look.
//!
//! The parser stops where the text no longer makes sense, often lines below the opening bracket. This
//! reads only as much of YAML as distinguishes brackets from text: quotes, comments, block scalars, and
//! plain text, in which a bracket is a letter. One pass that keeps only what is open.

use std::iter::Peekable;
use std::str::Chars;

use crate::Place;

/// A bracket that nothing closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclosed {
    pub bracket: char,
    pub place: Place,
}

impl Unclosed {
    /// The character that closes it.
    pub(crate) fn closing(self) -> char {
        if self.bracket == '{' { '}' } else { ']' }
    }
}

/// The innermost bracket that is open at the end, or closed by another kind of bracket.
pub(crate) fn unclosed(text: &str) -> Option<Unclosed> {
    let mut scan = Scan::new(text);
    while let Some(c) = scan.next() {
        if scan.step(c).is_break() {
            break;
        }
    }
    scan.open.pop()
}

struct Scan<'t> {
    chars: Peekable<Chars<'t>>,
    /// The place of the next character.
    place: Place,
    before: char,
    open: Vec<Unclosed>,
    /// Whether a value may start here, so that a bracket is one.
    starts: bool,
    /// Columns in the line: of its last `-`, and of the text after all of them.
    dash: u32,
    first: u32,
}

impl<'t> Scan<'t> {
    fn new(text: &'t str) -> Scan<'t> {
        Scan {
            chars: text.chars().peekable(),
            place: Place::START,
            before: '\n',
            open: Vec::new(),
            starts: true,
            dash: 0,
            first: 0,
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.chars.next()?;
        match c {
            '\n' => {
                self.place = Place { line: self.place.line.saturating_add(1), column: 1 };
                (self.dash, self.first) = (0, 0);
            }
            _ => self.place.column = self.place.column.saturating_add(1),
        }
        Some(c)
    }

    /// The place of the last character read.
    fn here(&self) -> Place {
        Place { column: self.place.column - 1, ..self.place }
    }

    fn step(&mut self, c: char) -> std::ops::ControlFlow<()> {
        let before = std::mem::replace(&mut self.before, c);
        let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
        let ends = self.chars.peek().is_none_or(|next| blank(*next));
        let flow = !self.open.is_empty();
        if c == '\n' {
            self.starts = true;
            return std::ops::ControlFlow::Continue(());
        }
        if blank(c) {
            return std::ops::ControlFlow::Continue(());
        }
        // Within a word it is text (YAML 1.2.2, 6.6).
        if c == '#' && blank(before) {
            self.skip_while(|c| c != '\n');
            return std::ops::ControlFlow::Continue(());
        }
        if !flow && self.starts && c == '-' && ends {
            self.dash = self.here().column;
            return std::ops::ControlFlow::Continue(());
        }
        if self.first == 0 {
            self.first = self.here().column;
        }
        match c {
            '{' | '[' if flow || self.starts => {
                self.open.push(Unclosed { bracket: c, place: self.here() });
                self.starts = true;
            }
            '}' | ']' if flow => {
                // Whatever stands behind it cannot be told apart any more.
                if self.open.last().is_some_and(|open| open.closing() != c) {
                    return std::ops::ControlFlow::Break(());
                }
                self.open.pop();
                self.starts = false;
            }
            '"' | '\'' if self.starts => self.quoted(c),
            '|' | '>' if !flow && self.starts => self.block_scalar(),
            // Anchors and tags precede a value, which may still be a bracket.
            '&' | '!' if self.starts => self.skip_while(|c| !blank(c) && !",[]{}".contains(c)),
            ',' if flow => self.starts = true,
            '?' if self.starts && ends => {}
            // Behind a key in quotes, a flow map needs no blank (YAML 1.2.2, 7.4.2).
            ':' if ends || (flow && before == '"') => self.starts = true,
            _ => self.starts = false,
        }
        std::ops::ControlFlow::Continue(())
    }

    fn skip_while(&mut self, holds: impl Fn(char) -> bool) {
        while self.chars.peek().is_some_and(|c| holds(*c)) {
            self.next();
        }
    }

    /// Reads to the end of quoted text.
    fn quoted(&mut self, quote: char) {
        self.starts = false;
        while let Some(c) = self.next() {
            if c == '\\' && quote == '"' {
                self.next();
            } else if c == quote {
                // Two single quotes are one in the text.
                if quote == '\'' && self.chars.peek() == Some(&'\'') {
                    self.next();
                    continue;
                }
                // For a colon right behind a key in quotes.
                self.before = quote;
                return;
            }
        }
        // An unclosed quote: it contains no bracket, and the parser reports it.
        self.open.clear();
    }

    /// Skips the lines of a block scalar: those indented deeper than its parent.
    fn block_scalar(&mut self) {
        // The parent of `- |` is the dash, that of `key: |` the line's first text.
        let alone = self.first == self.here().column;
        let parent = if alone { self.dash } else { self.first };
        self.skip_while(|c| c != '\n');
        while self.next().is_some() {
            self.skip_while(|c| c == ' ');
            match self.chars.peek() {
                // Empty lines belong to it, however they are indented.
                Some('\n' | '\r') => {}
                Some(_) if self.place.column <= parent => break,
                Some(_) => self.skip_while(|c| c != '\n'),
                None => break,
            }
        }
        (self.starts, self.before) = (true, '\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Option<(char, u32, u32)> {
        unclosed(text).map(|u| (u.bracket, u.place.line, u.place.column))
    }

    #[test]
    fn the_innermost_that_is_open_is_found() {
        for (text, wanted) in [
            ("nodes:\n  a: {x: 1\n  b: {}\nlinks:\n  - [a, b]\n", ('{', 2, 6)),
            ("links:\n  - [a, b\n  - [b, a]\n", ('[', 2, 5)),
            ("links: [\n  [a, b],\n  [b, a]\n", ('[', 1, 8)),
            ("a: {run: [[ping, b}\nc: {}\n", ('[', 1, 11)),
            ("a: {b: \"}\", c: '}''}', d: x # }\n", ('{', 1, 4)),
            ("a: |\n  {[\n\n  [\nb: [", ('[', 5, 4)),
            ("- a: |\n    {\n  b: {\n", ('{', 3, 6)),
            ("- |\n  {\n- [1\n", ('[', 3, 3)),
            ("a: &x {b: 1\n", ('{', 1, 7)),
        ] {
            assert_eq!(found(text), Some(wanted), "{text}");
        }
    }

    #[test]
    fn brackets_in_text_are_letters() {
        for text in [
            "a: {}\nb: [1, {c: 2}]\n",
            "a: it is {\nb: x[0]\n",
            "a: '{'\nb: \"[\\\"[\"\n",
            "# {\na: 1 # [\n",
            "a: >-\n  {\n  [\nb: 1\n",
            "files:\n  /etc/x: |\n    a {\n      b [\n\n    c\n  /etc/y: {text: z}\n",
            "a: \"never closed {\n",
            "a: 1}\n",
            "",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}:,\"'|># \\na-b&-]{0,40}") {
            if let Some(unclosed) = unclosed(&text) {
                let line = text.split('\n').nth(unclosed.place.line as usize - 1).unwrap();
                prop_assert_eq!(line.chars().nth(unclosed.place.column as usize - 1), Some(unclosed.bracket));
            }
        }
    }
}
