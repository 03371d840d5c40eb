//! Where a place in a text stands among its keys, also in a text that is not valid YAML yet: for editors.
//!
//! Lexical: tokens and columns, no tree. Aliases and merge keys are not followed. In a text that the parser refuses, what stands
//! behind the fault may be misplaced, never out of bounds.

use crate::format::tokens::{Token, What, tokens_before_error};
use crate::format::unified;

/// A step from a value into what it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'t> {
    /// The value of this key.
    Key(&'t str),
    /// An item of a list.
    Item,
}

/// A key or a value without parts.
#[derive(Clone, Copy, Debug)]
pub struct Word<'t> {
    /// Its text, without quotes; escapes as written.
    pub text: &'t str,
    /// Its line, from 0.
    pub line: usize,
    /// Its column, from 0, in characters; of the quote if it has some.
    pub column: usize,
    /// Its characters, with quotes; those of its first line.
    pub width: usize,
    /// Whether it stands in quotes.
    pub is_quoted: bool,
    /// Whether it is a key of the map at the path.
    pub is_key: bool,
}

/// What could be written at the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// A key of the map at the path.
    Key,
    /// The value at the path, on the line of its key or in brackets.
    Value,
    /// The value at the path, at the start of a line or behind a dash: it may be a map, and start with a key.
    Fresh,
}

/// Calls `each` for every word of a text, in its order, with the path of the map or list that it stands in, or of the value
/// that it is.
pub fn words(text: &str, mut each: impl FnMut(&Word<'_>, &[Step<'_>])) {
    let text = unified(text);
    let (tokens, _) = tokens_before_error(&text);
    walk(&tokens, &mut each);
}

/// What could be written at the end of a text, calls `found` with it, its path, and the word that has been begun.
pub fn gap<T>(text: &str, found: impl FnOnce(Gap, &[Step<'_>], &str) -> T) -> Option<T> {
    let text = unified(text);
    let (mut tokens, rest) = tokens_before_error(&text);
    let line = text.matches('\n').count();
    let own_line = text.rsplit('\n').next().unwrap_or_default();
    let mut column = own_line.chars().count();
    let mut partial = "";
    if !rest.is_empty() {
        // A quote that is not closed yet.
        if rest.contains('\n') {
            return None;
        }
        partial = rest.get(1..).unwrap_or_default();
        column -= rest.chars().count();
    } else if let Some(last) = tokens.last() {
        let is_begun = text.ends_with(last.text) && last.line == line;
        match last.what {
            What::Comment if last.line == line => return None,
            What::Lines { .. } if last.last_line >= line => return None,
            What::Plain | What::Quoted if is_begun => {
                (partial, column) = (last.text.trim_start_matches(['"', '\'']), last.column);
                tokens.pop();
            }
            _ => {}
        }
    }
    let mut walk = walk(&tokens, &mut |_, _| {});
    let before = tokens.last().filter(|last| last.last_line == line).map(|last| last.what);
    let gap = walk.gap(before, column)?;
    Some(found(gap, &walk.path(), partial))
}

/// A list or map that is open.
struct Frame<'t> {
    column: usize,
    is_flow: bool,
    is_list: bool,
    key: Option<&'t str>,
}

#[derive(Default)]
struct Walk<'t> {
    frames: Vec<Frame<'t>>,
}

fn walk<'t>(tokens: &[Token<'t>], each: &mut dyn FnMut(&Word<'t>, &[Step<'t>])) -> Walk<'t> {
    let mut walk = Walk::default();
    // The column of the first token of the current node, in block style.
    let mut node: Option<usize> = None;
    let mut last_line = None;
    for (index, token) in tokens.iter().enumerate() {
        // Each word has its path: depth is bounded, as the parser bounds it.
        if walk.frames.len() > crate::MAX_DEPTH {
            break;
        }
        let starts_line = last_line.is_none_or(|last| last < token.line);
        last_line = Some(token.last_line);
        if starts_line && !walk.in_flow() {
            node = None;
            if !matches!(token.what, What::Dash | What::Comment | What::Lines { .. }) {
                walk.close(|frame| frame.column >= token.column);
            }
        }
        match token.what {
            What::Dash => {
                walk.dash(token.column);
                node = None;
            }
            What::Colon => node = None,
            What::Comma => walk.forget_key(),
            What::Open => {
                node.get_or_insert(token.column);
                let is_list = token.text == "[";
                walk.frames.push(Frame { column: token.column, is_flow: true, is_list, key: None });
            }
            What::Close => _ = walk.frames.pop_if(|frame| frame.is_flow),
            What::Plain | What::Quoted | What::Alias => {
                let column = *node.get_or_insert(token.column);
                let is_key = tokens.get(index + 1).is_some_and(|next| next.what == What::Colon);
                walk.word(token, column, is_key, each);
            }
            What::Property => _ = node.get_or_insert(token.column),
            What::Header | What::Lines { .. } | What::Comment => {}
            What::Marker => walk.frames.clear(),
        }
    }
    walk
}

impl<'t> Walk<'t> {
    fn in_flow(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.is_flow)
    }

    fn close(&mut self, ends: impl Fn(&Frame<'t>) -> bool) {
        while self.frames.pop_if(|frame| !frame.is_flow && ends(frame)).is_some() {}
    }

    fn dash(&mut self, column: usize) {
        self.close(|frame| frame.column > column);
        if !self.frames.last().is_some_and(|top| top.is_list && top.column == column) {
            self.frames.push(Frame { column, is_flow: false, is_list: true, key: None });
        }
    }

    fn forget_key(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.key = None;
        }
    }

    fn path(&self) -> Vec<Step<'t>> {
        let step = |frame: &Frame<'t>| match frame.is_list {
            true => Some(Step::Item),
            false => frame.key.map(Step::Key),
        };
        self.frames.iter().filter_map(step).collect()
    }

    fn word(
        &mut self,
        token: &Token<'t>,
        column: usize,
        is_key: bool,
        each: &mut dyn FnMut(&Word<'t>, &[Step<'t>]),
    ) {
        let is_quoted = token.what == What::Quoted;
        let text = token.text;
        let inner = if is_quoted && text.len() > 1 { &text[1..text.len() - 1] } else { text };
        let first = text.split('\n').next().unwrap_or_default();
        // In a map in braces, `{a, b}` has two keys without values.
        let is_bare =
            self.frames.last().is_some_and(|top| top.is_flow && !top.is_list && top.key.is_none());
        let is_key = is_key || is_bare;
        if is_key && !self.in_flow() {
            self.close(|frame| frame.column >= column);
            self.frames.push(Frame { column, is_flow: false, is_list: false, key: None });
        }
        let word = Word {
            text: inner,
            line: token.line,
            column: token.column,
            width: first.chars().count(),
            is_quoted,
            is_key,
        };
        if let Some(frame) = self.frames.last_mut().filter(|frame| is_key && !frame.is_list) {
            frame.key = None;
            each(&word, &self.path());
            self.frames.last_mut().into_iter().for_each(|frame| frame.key = Some(inner));
        } else {
            each(&word, &self.path());
        }
    }

    /// What may be written in this column, behind the token `before` of its line.
    fn gap(&mut self, before: Option<What>, column: usize) -> Option<Gap> {
        if let Some(frame) = self.frames.last().filter(|frame| frame.is_flow) {
            return Some(if frame.is_list || frame.key.is_some() { Gap::Value } else { Gap::Key });
        }
        match before {
            Some(What::Colon) => Some(Gap::Value),
            Some(What::Dash) => Some(Gap::Fresh),
            Some(_) => None,
            None => {
                self.close(|frame| {
                    frame.column > column || frame.is_list && frame.column == column
                });
                match self.frames.last_mut().filter(|frame| frame.column == column) {
                    Some(frame) => {
                        frame.key = None;
                        Some(Gap::Key)
                    }
                    None => Some(Gap::Fresh),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(path: &[Step<'_>]) -> String {
        let steps = path.iter().map(|step| match step {
            Step::Key(key) => (*key).to_owned(),
            Step::Item => "-".to_owned(),
        });
        steps.collect::<Vec<_>>().join(".")
    }

    fn all(text: &str) -> Vec<String> {
        let mut found = vec![];
        words(text, |word, path| {
            let mark = if word.is_key { ":" } else { "" };
            found.push(format!(
                "{} {}{mark} {}.{}",
                shown(path),
                word.text,
                word.line,
                word.column
            ));
        });
        found
    }

    #[test]
    fn words_have_the_path_of_what_they_are_in() {
        let found = all(
            "nodes:\n  h1: {run: \"x y\", ready: {tcp: 80}}\nlinks:\n- [a, b]\n- ends: [a, \"c:d\"]\n  mtu: 9\n",
        );
        assert_eq!(
            found,
            [
                " nodes: 0.0",
                "nodes h1: 1.2",
                "nodes.h1 run: 1.7",
                "nodes.h1.run x y 1.12",
                "nodes.h1 ready: 1.19",
                "nodes.h1.ready tcp: 1.27",
                "nodes.h1.ready.tcp 80 1.32",
                " links: 2.0",
                "links.-.- a 3.3",
                "links.-.- b 3.6",
                "links.- ends: 4.2",
                "links.-.ends.- a 4.9",
                "links.-.ends.- c:d 4.12",
                "links.- mtu: 5.2",
                "links.-.mtu 9 5.7",
            ]
        );
        assert_eq!(all("a:\r\n  {b, c: 1}"), [" a: 0.0", "a b: 1.3", "a c: 1.6", "a.c 1 1.9"]);
    }

    #[test]
    fn a_gap_is_found_in_unfinished_text() {
        let of = |text: &str| {
            gap(text, |gap, path, partial| format!("{gap:?} {} {partial}", shown(path)))
        };
        for (text, wanted) in [
            ("", "Fresh  "),
            ("no", "Fresh  no"),
            ("nodes:\n  h1:\n    forw", "Fresh nodes.h1 forw"),
            ("nodes:\n  h1:\n    run: x\n    ", "Key nodes.h1 "),
            ("nodes:\n  h1: {run: x, fo", "Key nodes.h1 fo"),
            ("nodes:\n  h1: {forwarding: ", "Value nodes.h1.forwarding "),
            ("nodes:\n  h1:\n    kind: v", "Value nodes.h1.kind v"),
            ("links:\n  - [h1, \"h", "Value links.-.- h"),
            ("links:\n  - ", "Fresh links.- "),
            ("links:\n- a\n", "Key  "),
            ("nodes:\n  h1: {}\n  ", "Key nodes "),
        ] {
            assert_eq!(of(text).as_deref(), Some(wanted), "{text:?}");
        }
        for text in ["# com", "a: |\n  te", "a: \"x\n  y", "a: b # c"] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}:,\"'|>#&*!?% \\n\\raé-]{0,60}") {
            words(&text, |word, _| assert!(word.line <= text.len()));
            let _ = gap(&text, |_, path, _| path.len());
            let _ = crate::format("f", text.as_bytes());
        }
    }
}
