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
    let mut found = vec![];
    let mut chars = text.char_indices().peekable();
    let mut line = first;
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => line += 1,
            c if c.is_whitespace() || c == ';' => {}
            '{' => {
                let (start, opened) = (at + 1, line);
                let mut depth = 1;
                let mut end = None;
                for (at, c) in chars.by_ref() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        '\n' => line += 1,
                        _ => {}
                    }
                    if depth > DEEPEST {
                        return Err(wrong(
                            file,
                            line,
                            format!("braces nested more than {DEEPEST} deep"),
                        ));
                    }
                    if depth == 0 {
                        end = Some(at);
                        break;
                    }
                }
                let Some(end) = end else {
                    return Err(wrong(file, opened, "a brace is not closed"));
                };
                found.push(Word { line: opened, text: text[start..end].to_owned() });
            }
            '}' => return Err(wrong(file, line, "a brace that nothing opens")),
            '"' => {
                let (start, opened) = (at + 1, line);
                let mut end = None;
                while let Some((at, c)) = chars.next() {
                    match c {
                        '"' => {
                            end = Some(at);
                            break;
                        }
                        '\\' => drop(chars.next()),
                        '\n' => line += 1,
                        _ => {}
                    }
                }
                let Some(end) = end else {
                    return Err(wrong(file, opened, "a quote is not closed"));
                };
                found.push(Word { line: opened, text: text[start..end].to_owned() });
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || c == ';' || c == '{' || c == '}';
                while chars.next_if(|(_, c)| !is_end(*c)).is_some() {}
                let end = chars.peek().map_or(text.len(), |(at, _)| *at);
                found.push(Word { line, text: text[at..end].to_owned() });
            }
        }
    }
    Ok(found)
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
