//! Tcl's words: separated by spaces, in braces that nest, or in quotes.

use crate::{Result, wrong};

/// How deep braces may be nested.
const DEEPEST: usize = 64;

/// A word, and the line in which its text begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word {
    pub(super) line: u32,
    pub(super) text: String,
}

/// The words of a text that begins in a line of a file.
pub(super) fn words(file: &str, first: u32, text: &str) -> Result<Vec<Word>> {
    let mut reader = Reader { file, text, at: 0, line: first };
    let mut found = vec![];
    while let Some(c) = reader.text[reader.at..].chars().next() {
        let start = reader.at + c.len_utf8();
        match c {
            '{' | '"' => found.push(reader.enclosed(c, start)?),
            '}' => return Err(wrong(file, reader.line, "a brace that nothing opens")),
            c if c.is_whitespace() || c == ';' => {
                reader.line += u32::from(c == '\n');
                reader.at = start;
            }
            _ => {
                let mut escaped = false;
                let is_end = |c: char| {
                    let is_mark = c.is_whitespace() || c == ';' || c == '{' || c == '}';
                    // A line ends even so, to be counted.
                    let ends = is_mark && (!escaped || c == '\n');
                    escaped = c == '\\' && !escaped;
                    ends
                };
                let rest = &text[reader.at..];
                let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
                found.push(Word { line: reader.line, text: word.to_owned() });
                reader.at += word.len();
            }
        }
    }
    Ok(found)
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    at: usize,
    line: u32,
}

impl Reader<'_> {
    /// The text within braces or quotes, which begins at `start`.
    fn enclosed(&mut self, open: char, start: usize) -> Result<Word> {
        let (opened, mut depth, mut escaped) = (self.line, 1, false);
        for (at, c) in self.text[start..].char_indices() {
            self.line += u32::from(c == '\n');
            match c {
                _ if escaped => escaped = false,
                // Within braces too: a brace behind it neither opens nor closes, and both stay in the text.
                '\\' => escaped = true,
                '"' if open == '"' => depth = 0,
                '{' if open == '{' => depth += 1,
                '}' if open == '{' => depth -= 1,
                _ => {}
            }
            if depth > DEEPEST {
                let message = format!("braces nested more than {DEEPEST} deep");
                return Err(wrong(self.file, self.line, message));
            }
            if depth == 0 {
                self.at = start + at + 1;
                let text = self.text[start..start + at].to_owned();
                return Ok(Word { line: opened, text });
            }
        }
        let what = if open == '{' { "a brace is not closed" } else { "a quote is not closed" };
        Err(wrong(self.file, opened, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_nest() {
        let found =
            words("f", 1, "node n0 {\n type pc\n x {a {b} c}\n}\nlink l0 {} \"q q\"").unwrap();
        let texts: Vec<&str> = found.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["node", "n0", "\n type pc\n x {a {b} c}\n", "link", "l0", "", "q q"]);
        assert_eq!(found[3].line, 5);
    }

    #[test]
    fn a_brace_behind_a_backslash_is_a_character() {
        let texts = |text: &str| -> Vec<String> {
            words("f", 1, text).unwrap().into_iter().map(|word| word.text).collect()
        };
        assert_eq!(texts(r"a {b \{ c} d"), ["a", r"b \{ c", "d"]);
        assert_eq!(texts(r"a {b \} c} d"), ["a", r"b \} c", "d"]);
        // Two backslashes are one, and the brace is a brace.
        assert_eq!(texts(r"{b \\} d"), [r"b \\", "d"]);
        // The text within is read in the same way.
        assert_eq!(texts(r"b \{ c\}d e"), ["b", r"\{", r"c\}d", "e"]);
        let lines = words("f", 1, "a \\\nb").unwrap();
        assert_eq!((lines[2].text.as_str(), lines[2].line), ("b", 2));
    }

    #[test]
    fn open_braces_are_named() {
        for (text, want) in [
            ("a\n{ b", "f:2: error: a brace is not closed"),
            ("a }", "f:1: error: a brace that nothing opens"),
            ("\"a", "f:1: error: a quote is not closed"),
        ] {
            assert_eq!(words("f", 1, text).unwrap_err().to_string(), want);
        }
        assert!(words("f", 1, &"{".repeat(100)).is_err());
    }
}
