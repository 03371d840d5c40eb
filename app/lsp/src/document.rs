//! A text that the client has open, and what is known of it.

use lsp_types::{Diagnostic, Position, TextDocumentContentChangeEvent, Uri};
use netloom_config::cursor::{self, Step, Word};
use netloom_model::Plan;

use crate::Compiler;
use crate::position::{Encoding, Lines};

/// What is kept of a text: more than a lab file may have, so that its error tells its size.
const MOST: usize = 32 << 20;

/// An open text.
#[derive(Debug)]
pub(crate) struct Document {
    /// Its address.
    pub uri: Uri,
    /// Its version, as the client counts.
    pub version: i32,
    /// Its text; empty if it is too long.
    pub text: String,
    /// Its lines.
    pub lines: Lines,
    /// How long it is, if it is too long to be kept; then only a whole text changes it.
    pub too_long: Option<usize>,
    /// Whether it has changed since it was checked.
    pub is_changed: bool,
    /// Its plan, of the last time when it had no error.
    pub last_plan: Option<Plan>,
    /// Whether that plan is of this text.
    pub is_planned: bool,
    /// What was wrong in it when it was last checked.
    pub found: Vec<Diagnostic>,
    /// Compiles its expressions.
    pub compiler: Compiler,
    /// Whether the client has been told that.
    pub is_told: bool,
}

impl Document {
    pub(crate) fn new(
        uri: Uri,
        version: i32,
        text: String,
        encoding: Encoding,
        compiler: Compiler,
    ) -> Document {
        let mut document = Document {
            uri,
            version,
            text: String::new(),
            lines: Lines::of("", encoding),
            too_long: None,
            is_changed: true,
            last_plan: None,
            is_planned: false,
            found: vec![],
            compiler,
            is_told: false,
        };
        document.set(text);
        document
    }

    fn set(&mut self, text: String) {
        self.too_long = (text.len() > MOST).then_some(text.len());
        self.text = if self.too_long.is_some() { String::new() } else { text };
        self.lines = Lines::of(&self.text, self.lines.encoding());
        self.is_changed = true;
        self.is_planned = false;
    }

    /// Changes the text; the client sends changes in their order, each in terms of the one before.
    pub(crate) fn change(&mut self, version: i32, changes: Vec<TextDocumentContentChangeEvent>) {
        self.version = version;
        for change in changes {
            let Some(range) = change.range else {
                self.set(change.text);
                continue;
            };
            if self.too_long.is_some() {
                continue;
            }
            let start = self.lines.offset(&self.text, range.start);
            let end = self.lines.offset(&self.text, range.end).max(start);
            let mut text = std::mem::take(&mut self.text);
            text.replace_range(start..end, &change.text);
            self.set(text);
        }
    }

    /// Its plan, if it has no error.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.last_plan.as_ref().filter(|_| self.is_planned)
    }

    /// Calls `found` for the word at a position, with its path.
    pub(crate) fn word_at<T>(
        &self,
        position: Position,
        mut found: impl FnMut(&Word<'_>, &[Step<'_>]) -> T,
    ) -> Option<T> {
        let (line, column) = self.lines.place(&self.text, position);
        let mut answer = None;
        cursor::words(&self.text, |word, path| {
            let is_here =
                word.line == line && (word.column..=word.column + word.width).contains(&column);
            // Of two that touch, the one that starts here.
            if is_here && (answer.is_none() || word.column == column) {
                answer = Some(found(word, path));
            }
        });
        answer
    }

    /// The name of its file, for messages.
    pub(crate) fn name(&self) -> String {
        self.uri.path().as_str().rsplit('/').next().map(decoded).unwrap_or_default()
    }

    /// The default name of its lab.
    pub(crate) fn stem(&self) -> String {
        let name = self.name();
        name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem).to_owned()
    }
}

/// A part of an address without its escapes.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use lsp_types::Range;

    use super::*;

    fn change(
        range: Option<((u32, u32), (u32, u32))>,
        text: &str,
    ) -> TextDocumentContentChangeEvent {
        let position = |(line, character)| Position { line, character };
        let range = range.map(|(start, end)| Range { start: position(start), end: position(end) });
        TextDocumentContentChangeEvent { range, range_length: None, text: text.to_owned() }
    }

    #[test]
    fn changes_build_on_each_other_and_stay_inside() {
        let uri: Uri = "file:///tmp/two%20sites.lab.yaml".parse().unwrap();
        let mut document =
            Document::new(uri, 1, "a: 1\nb: 2\n".to_owned(), Encoding::Utf16, |_| {
                crate::Compiled::Good
            });
        assert_eq!(
            (document.name(), document.stem()),
            ("two sites.lab.yaml".into(), "two sites.lab".into())
        );
        let changes = vec![
            change(Some(((1, 3), (1, 4))), "\u{1f600}"),
            change(Some(((1, 5), (99, 0))), "x"),
            // Ends before it starts.
            change(Some(((0, 2), (0, 0))), "!"),
        ];
        document.change(2, changes);
        assert_eq!(document.text, "a:! 1\nb: \u{1f600}x");
        let long = "x".repeat(MOST);
        document.change(
            3,
            vec![change(Some(((0, 0), (0, 0))), &long), change(Some(((0, 0), (0, 1))), "")],
        );
        assert_eq!((document.text.len(), document.too_long), (0, Some(MOST + 14)));
        document.change(4, vec![change(None, "a: 1\n")]);
        assert_eq!((document.text.as_str(), document.too_long), ("a: 1\n", None));
    }

    #[test]
    fn odd_addresses_have_names() {
        for (text, name) in [("a%2", "a%2"), ("%41%zz", "A%zz"), ("%ff", "\u{fffd}"), ("", "")] {
            assert_eq!(decoded(text), name);
        }
    }
}
