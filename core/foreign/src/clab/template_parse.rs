//! The grammar of templates: from text to pieces.

use std::collections::BTreeMap;

use crate::clab::template::{Attempt, Base, Piece, Pipe, Template, Term, Value, fault};

/// How deep blocks and parentheses may be nested.
const DEEPEST: usize = 64;

/// Text, or the inside of `{{ }}`.
enum Chunk {
    Text(String),
    Action(String, u32),
}

/// Reads a template.
pub(super) fn parse(text: &str) -> Attempt<Template> {
    let chunks = chunks(text)?;
    let mut reader = Blocks { chunks: chunks.into_iter(), named: BTreeMap::new(), depth: 0 };
    let (body, end) = reader.body()?;
    match end {
        Ended::Text => Ok(Template { body, named: reader.named }),
        Ended::Closed(line) => fault(line, "{{ end }} without a beginning"),
        Ended::Else(_, line) => fault(line, "{{ else }} without a beginning"),
    }
}

fn chunks(text: &str) -> Attempt<Vec<Chunk>> {
    let (mut found, mut rest, mut line) = (vec![], text, 1);
    let mut trims = false;
    while let Some(at) = rest.find("{{") {
        let mut before = &rest[..at];
        let lines = before.matches('\n').count();
        line += u32::try_from(lines).unwrap_or(u32::MAX);
        let inside = &rest[at + 2..];
        let Some(end) = action_end(inside) else { return fault(line, "{{ is not closed") };
        let mut action = &inside[..end];
        if trims {
            before = before.trim_start();
        }
        if let Some(trimmed) =
            // Only with a space: `{{-3}}` is a number.
            action.strip_prefix('-').filter(|a| a.starts_with(char::is_whitespace))
        {
            before = before.trim_end();
            action = trimmed;
        }
        trims = false;
        if let Some(trimmed) = action.strip_suffix('-').filter(|a| a.ends_with(char::is_whitespace))
        {
            trims = true;
            action = trimmed;
        }
        found.push(Chunk::Text(before.to_owned()));
        if !action.trim_start().starts_with("/*") {
            found.push(Chunk::Action(action.trim().to_owned(), line));
        }
        line += u32::try_from(inside[..end].matches('\n').count()).unwrap_or(u32::MAX);
        rest = &inside[end + 2..];
    }
    let last = if trims { rest.trim_start() } else { rest };
    found.push(Chunk::Text(last.to_owned()));
    Ok(found)
}

/// Where the `}}` of an action is, outside of its quotes and comments.
fn action_end(text: &str) -> Option<usize> {
    if text.trim_start_matches('-').trim_start().starts_with("/*") {
        let end = text.find("*/")?;
        return Some(end + text[end..].find("}}")?);
    }
    let bytes = text.as_bytes();
    let (mut at, mut quote) = (0, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            // Only double quotes have escapes; a text in backquotes ends at the next one.
            (Some(b'"'), b'\\') => at += 1,
            (Some(open), b) if open == b => quote = None,
            (None, b @ (b'"' | b'`')) => quote = Some(b),
            (None, b'}') if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    // A quote that is not closed is found when the action is read.
    text.find("}}")
}

/// What ended a body.
enum Ended {
    Text,
    Closed(u32),
    /// With what follows the word.
    Else(String, u32),
}

struct Blocks {
    chunks: std::vec::IntoIter<Chunk>,
    named: BTreeMap<String, Vec<Piece>>,
    depth: usize,
}

impl Blocks {
    fn body(&mut self) -> Attempt<(Vec<Piece>, Ended)> {
        let mut pieces = vec![];
        while let Some(chunk) = self.chunks.next() {
            let (action, line) = match chunk {
                Chunk::Text(text) => {
                    pieces.push(Piece::Text(text));
                    continue;
                }
                Chunk::Action(action, line) => (action, line),
            };
            let end = action.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(action.len());
            let (word, rest) = action.split_at(end);
            match word {
                "end" if rest.trim().is_empty() => return Ok((pieces, Ended::Closed(line))),
                "else" => return Ok((pieces, Ended::Else(rest.trim().to_owned(), line))),
                "if" | "range" | "with" | "define" | "block" => {
                    self.depth += 1;
                    if self.depth > DEEPEST {
                        return fault(line, format!("blocks nested more than {DEEPEST} deep"));
                    }
                    pieces.extend(self.block(word, rest, line)?);
                    self.depth -= 1;
                }
                "template" => {
                    let (name, with) = name_and_pipe(rest, line)?;
                    pieces.push(Piece::Call { name, with, line });
                }
                "break" if rest.is_empty() => pieces.push(Piece::Break),
                "continue" if rest.is_empty() => pieces.push(Piece::Continue),
                _ => pieces.push(Piece::Show(pipe(&action, line)?)),
            }
        }
        Ok((pieces, Ended::Text))
    }

    fn block(&mut self, word: &str, head: &str, line: u32) -> Attempt<Option<Piece>> {
        match word {
            "if" => self.conditions(head, line).map(Some),
            "define" | "block" => {
                let (name, with) = name_and_pipe(head, line)?;
                let body = self.closed(word, line)?.0;
                self.named.insert(name.clone(), body);
                // A `block` is a definition that is used where it stands.
                Ok((word == "block").then_some(Piece::Call { name, with, line }))
            }
            _ => {
                let what = pipe(head, line)?;
                let (body, otherwise) = self.closed(word, line)?;
                Ok(Some(match word {
                    "with" => Piece::With { what, body, otherwise },
                    _ => Piece::Range { what, body, otherwise },
                }))
            }
        }
    }

    /// A body to its `end`, with what stands behind `else`.
    fn closed(&mut self, word: &str, line: u32) -> Attempt<(Vec<Piece>, Vec<Piece>)> {
        let (body, end) = self.body()?;
        match end {
            Ended::Closed(_) => Ok((body, vec![])),
            Ended::Else(rest, _) if rest.is_empty() => match self.body()? {
                (otherwise, Ended::Closed(_)) => Ok((body, otherwise)),
                (_, _) => unclosed(word, line),
            },
            Ended::Else(_, at) => fault(at, "expected {{ else }} alone"),
            Ended::Text => unclosed(word, line),
        }
    }

    fn conditions(&mut self, head: &str, line: u32) -> Attempt<Piece> {
        let mut arms = vec![];
        let mut head = head.to_owned();
        loop {
            let condition = pipe(&head, line)?;
            let (body, end) = self.body()?;
            arms.push((condition, body));
            match end {
                Ended::Closed(_) => return Ok(Piece::If { arms, otherwise: vec![] }),
                Ended::Else(rest, _) if rest.is_empty() => {
                    let (otherwise, end) = self.body()?;
                    return match end {
                        Ended::Closed(_) => Ok(Piece::If { arms, otherwise }),
                        _ => unclosed("if", line),
                    };
                }
                Ended::Else(rest, at) => match rest.strip_prefix("if") {
                    Some(next) => head = next.to_owned(),
                    None => return fault(at, "expected {{ else }} or {{ else if }}"),
                },
                Ended::Text => return unclosed("if", line),
            }
        }
    }
}

fn unclosed<T>(word: &str, line: u32) -> Attempt<T> {
    fault(line, format!("no {{{{ end }}}} for this {{{{ {word} }}}}"))
}

fn name_and_pipe(text: &str, line: u32) -> Attempt<(String, Option<Pipe>)> {
    let mut words = Words::new(text, line)?;
    let Some(Word::Value(Value::Text(name))) = words.next() else {
        return fault(line, "expected the name of a template in quotes");
    };
    if words.at_end() {
        return Ok((name, None));
    }
    let pipe = words.pipe(0)?;
    words.ended()?;
    Ok((name, Some(pipe)))
}

fn pipe(text: &str, line: u32) -> Attempt<Pipe> {
    let mut words = Words::new(text, line)?;
    let pipe = words.pipe(0)?;
    words.ended()?;
    Ok(pipe)
}

/// A word of an action.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    Value(Value),
    /// With its dots: `.a.b`, `.`.
    Field(String),
    /// Without its `$`, with fields: `x.a`.
    Variable(String),
    Name(String),
    Sign(&'static str),
}

struct Words {
    words: Vec<Word>,
    at: usize,
    line: u32,
}

const SIGNS: [&str; 6] = [":=", "=", "|", "(", ")", ","];

impl Words {
    fn new(text: &str, line: u32) -> Attempt<Words> {
        let mut words = vec![];
        let mut rest = text.trim_start();
        while let Some(c) = rest.chars().next() {
            let (word, used) = word(c, rest, line)?;
            words.push(word);
            rest = rest[used..].trim_start();
        }
        Ok(Words { words, at: 0, line })
    }

    fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    fn next(&mut self) -> Option<Word> {
        self.at += 1;
        self.words.get(self.at - 1).cloned()
    }

    fn at_end(&self) -> bool {
        self.at >= self.words.len()
    }

    fn ended(&self) -> Attempt<()> {
        if self.at_end() {
            Ok(())
        } else {
            fault(self.line, "something is left at the end of an action")
        }
    }

    /// `$a, $b :=` or `$a =` before a pipe.
    fn names(&mut self) -> (Vec<String>, bool) {
        let (start, mut names) = (self.at, vec![]);
        while let Some(Word::Variable(name)) = self.peek().cloned() {
            names.push(name);
            self.at += 1;
            match self.peek() {
                Some(Word::Sign(",")) => self.at += 1,
                Some(Word::Sign(sign @ (":=" | "="))) => {
                    let declares = *sign == ":=";
                    self.at += 1;
                    return (names, declares);
                }
                _ => break,
            }
        }
        // A variable that is used, not set.
        self.at = start;
        (vec![], false)
    }

    fn pipe(&mut self, depth: usize) -> Attempt<Pipe> {
        if depth > DEEPEST {
            return fault(self.line, format!("parentheses nested more than {DEEPEST} deep"));
        }
        let (names, declares) = self.names();
        let mut commands = vec![];
        loop {
            let mut command = vec![];
            while let Some(term) = self.term(depth)? {
                command.push(term);
            }
            if command.is_empty() {
                return fault(self.line, "an action without a value");
            }
            commands.push(command);
            match self.peek() {
                Some(Word::Sign("|")) => self.at += 1,
                _ => return Ok(Pipe { line: self.line, names, declares, commands }),
            }
        }
    }

    fn term(&mut self, depth: usize) -> Attempt<Option<Term>> {
        let Some(word) = self.peek().cloned() else { return Ok(None) };
        let fields = |path: &str| -> Vec<String> {
            path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let term = match word {
            Word::Value(value) => Term { base: Base::Value(value), fields: vec![] },
            Word::Field(path) => Term { base: Base::Dot, fields: fields(&path) },
            Word::Variable(path) => {
                let (name, rest) = path.split_once('.').unwrap_or((&path, ""));
                Term { base: Base::Variable(name.to_owned()), fields: fields(rest) }
            }
            Word::Name(name) => Term { base: Base::Function(name), fields: vec![] },
            Word::Sign("(") => {
                self.at += 1;
                let inner = self.pipe(depth + 1)?;
                if self.peek() != Some(&Word::Sign(")")) {
                    return fault(self.line, "a parenthesis is not closed");
                }
                let mut term = Term { base: Base::Pipe(Box::new(inner)), fields: vec![] };
                if let Some(Word::Field(path)) = self.words.get(self.at + 1)
                    && path.len() > 1
                {
                    term.fields = fields(path);
                    self.at += 1;
                }
                term
            }
            Word::Sign(_) => return Ok(None),
        };
        self.at += 1;
        Ok(Some(term))
    }
}

/// The word at the start of a text, and its length.
fn word(c: char, text: &str, line: u32) -> Attempt<(Word, usize)> {
    if let Some(sign) = SIGNS.iter().find(|sign| text.starts_with(**sign)) {
        return Ok((Word::Sign(sign), sign.len()));
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let end = |from: usize| text[from..].find(|c| !is_part(c)).map_or(text.len(), |n| n + from);
    match c {
        '"' => quoted(text, line),
        '`' => match text[1..].find('`') {
            Some(n) => Ok((Word::Value(Value::Text(text[1..=n].to_owned())), n + 2)),
            None => fault(line, "a quote is not closed"),
        },
        '.' => Ok((Word::Field(text[..end(1)].to_owned()), end(1))),
        '$' => Ok((Word::Variable(text[1..end(1)].to_owned()), end(1))),
        '-' | '+' | '0'..='9' => number(&text[..end(1)], line),
        c if c.is_alphabetic() || c == '_' => {
            let name = &text[..end(0)];
            let word = match name {
                "true" | "false" => Word::Value(Value::Bool(name == "true")),
                "nil" => Word::Value(Value::Nothing),
                _ => Word::Name(name.to_owned()),
            };
            Ok((word, name.len()))
        }
        _ => fault(line, format!("{c:?} is not known here")),
    }
}

fn number(text: &str, line: u32) -> Attempt<(Word, usize)> {
    let value = match (text.parse(), text.parse()) {
        (Ok(n), _) => Value::Int(n),
        (_, Ok(n)) => Value::Float(n),
        _ => return fault(line, format!("{text:?} is not a number")),
    };
    Ok((Word::Value(value), text.len()))
}

fn quoted(text: &str, line: u32) -> Attempt<(Word, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Word::Value(Value::Text(value)), at + 1)),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, c)) => value.push(c),
                None => break,
            },
            c => value.push(c),
        }
    }
    fault(line, "a quote is not closed")
}
