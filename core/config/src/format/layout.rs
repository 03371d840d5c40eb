//! Writes tokens as text: where each line starts, and what separates the tokens in it.

use super::comments::{self, Line};
use super::tokens::{Token, What};
use crate::written;

/// Columns of a level.
const STEP: usize = 2;

/// An open bracket: where lines inside of it start, and where its end stands if that starts a line.
struct Bracket {
    inside: usize,
    end: usize,
}

#[derive(Default)]
struct Writer<'t> {
    lines: Vec<Line<'t>>,
    current: Line<'t>,
    /// The column from which further lines of the current one are indented, if it starts inside brackets.
    base: Option<usize>,
    brackets: Vec<Bracket>,
}

/// The text that tokens are written as.
pub(super) fn text(tokens: &[Token<'_>]) -> String {
    let mut writer = Writer::default();
    let mut before: Option<&Token<'_>> = None;
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1);
        match before {
            Some(last) if last.last_line == token.line => {
                if token.what != What::Comment && is_apart(last, token) {
                    writer.write(" ");
                }
            }
            _ => {
                writer.end_line();
                let last = before.map(|last| last.last_line);
                if last.is_some_and(|last| token.line > last + 1) && !writer.is_at_start() {
                    writer.end_line_with("");
                }
                writer.start_line(token);
            }
        }
        writer.token(token, next);
        before = Some(token);
    }
    writer.end_line();
    comments::text(writer.lines)
}

/// A text as it is written: without quotes where none are needed, else in double ones where nothing has to be escaped for them.
pub(super) fn scalar(token: &Token<'_>) -> String {
    let own = token.text;
    let quote = own.chars().next().filter(|_| token.what == What::Quoted);
    let Some(quote @ ('"' | '\'')) = quote else { return own.to_owned() };
    let inner = own.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)).unwrap_or(own);
    if written::scalar(inner) == inner {
        return inner.to_owned();
    }
    // A quote inside of single ones stands twice.
    let is_simple = !inner.contains(['"', '\'', '\\', '\n', '\t']);
    if quote == '\'' && is_simple { format!("\"{inner}\"") } else { own.to_owned() }
}

/// Whether a blank stands between two tokens of a line.
fn is_apart(last: &Token<'_>, token: &Token<'_>) -> bool {
    match (last.what, token.what) {
        (What::Open, _) | (_, What::Comma | What::Close) => false,
        // A name of an anchor or alias would go on.
        (What::Alias | What::Property, What::Colon) => true,
        (_, What::Colon) => false,
        _ => true,
    }
}

impl<'t> Writer<'t> {
    fn is_at_start(&self) -> bool {
        self.lines.is_empty()
    }

    fn write(&mut self, text: &str) {
        self.current.text.push_str(text);
        self.current.width += text.chars().count();
    }

    fn end_line(&mut self) {
        if self.current.text.is_empty() && self.current.comment.is_none() {
            return;
        }
        self.lines.push(std::mem::take(&mut self.current));
    }

    fn end_line_with(&mut self, text: &str) {
        self.write(text);
        self.lines.push(std::mem::take(&mut self.current));
    }

    fn start_line(&mut self, token: &Token<'_>) {
        let bracket = self.brackets.last();
        let indent = match (bracket, token.what) {
            (_, What::Lines { .. }) => return,
            (Some(bracket), What::Close) => bracket.end,
            (Some(bracket), _) => bracket.inside,
            (None, _) => STEP * token.depth,
        };
        self.base = bracket.map(|_| indent);
        self.write(&" ".repeat(indent));
    }

    fn token(&mut self, token: &Token<'t>, next: Option<&Token<'_>>) {
        match token.what {
            What::Comment => self.comment(token),
            What::Lines { indent, explicit } => self.block(token, indent, explicit),
            What::Open => self.open(token, next),
            What::Close => {
                self.brackets.pop();
                self.write(token.text);
            }
            What::Plain | What::Quoted => self.scalar(token),
            _ => self.write(token.text),
        }
    }

    fn comment(&mut self, token: &Token<'t>) {
        let text = token.text.trim_end();
        if self.current.text.trim_start().is_empty() {
            self.write(text);
        } else {
            self.current.comment = Some((token.column, text));
        }
    }

    fn open(&mut self, token: &Token<'_>, next: Option<&Token<'_>>) {
        let column = self.current.width;
        self.write(token.text);
        let follows = next.is_some_and(|n| n.line == token.line && n.what != What::Comment);
        let bracket = if follows {
            Bracket { inside: column + 1, end: column }
        } else {
            let base = self.base.unwrap_or(STEP * token.within.saturating_sub(1));
            // In block style all of a value stands deeper than its key, its end too (YAML 1.2.2, 7.4).
            let is_of_key = self.base.is_none() && token.within > 0;
            Bracket { inside: base + STEP, end: base + if is_of_key { STEP } else { 0 } }
        };
        self.brackets.push(bracket);
    }

    /// A text, whose further lines may start anywhere.
    fn scalar(&mut self, token: &Token<'_>) {
        let text = scalar(token);
        let indent = self.brackets.last().map_or(STEP * token.within, |bracket| bracket.inside);
        for (number, line) in text.split('\n').enumerate() {
            if number == 0 {
                self.write(line);
                continue;
            }
            let line = line.trim_start_matches([' ', '\t']);
            self.lines.push(std::mem::take(&mut self.current));
            if !line.is_empty() {
                self.write(&" ".repeat(indent));
                self.write(line);
            }
        }
    }

    fn block(&mut self, token: &Token<'_>, indent: usize, explicit: Option<usize>) {
        let parent = STEP * token.within.saturating_sub(1);
        let own = " ".repeat(parent + explicit.unwrap_or(STEP));
        let lines = token.text.strip_suffix('\n').unwrap_or(token.text);
        for line in lines.split('\n') {
            match line.get(indent..).filter(|text| !text.is_empty()) {
                Some(text) => self.end_line_with(&format!("{own}{text}")),
                None => self.end_line_with(""),
            }
        }
    }
}
