//! Variables of the environment in a topology, as containerlab's envsubst fills them in.
//!
//! That is a machine of few states, and what it makes of nested and odd forms follows from them: a value in braces is
//! a name, an operator and a text up to the first `}`. An empty value stays as `$NAME`, `$$` is `$`, and a name does not
//! begin with a digit.

use crate::{Job, MOST_BYTES, Result, Verdict, wrong};

/// What stands in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Variable,
    Open,
    Close,
    /// `-` or `=`: for what is not set.
    Unset,
    /// `:-` or `:=`: for what is not set, or empty.
    Empty,
    /// `+` or `:+`: for what is set.
    Set,
}

/// A piece of the text, and the byte at which it begins.
type Token<'a> = (Kind, usize, &'a str);

/// The text with its variables filled in; each is an item of the account.
pub(crate) fn expand(job: &Job<'_>, text: &str) -> Result<String> {
    let tokens = Lexer { text, start: 0, at: 0, depth: 0, last: 0, tokens: vec![] }.run();
    let tokens = tokens.map_err(|at| {
        wrong(
            job.file,
            line(text, at),
            "a variable in braces needs a `}` on the same line; `$$` is a `$`",
        )
    })?;
    let mut out = String::with_capacity(text.len());
    let mut place = 0;
    while let Some((kind, at, own)) = tokens.get(place).copied() {
        place += 1;
        match (kind, tokens.get(place)) {
            (Kind::Variable, _) => out.push_str(&plain(job, text, at, own)),
            (Kind::Open, Some((Kind::Variable, ..))) => {
                out.push_str(&braces(job, text, &tokens, &mut place));
            }
            _ => out.push_str(own),
        }
        // One long value that a text names often would fill the memory.
        if out.len() as u64 > MOST_BYTES {
            let why = "with its variables the text exceeds 8 MiB";
            return Err(wrong(job.file, line(text, at), why));
        }
    }
    Ok(out)
}

fn line(text: &str, at: usize) -> u32 {
    u32::try_from(text[..at].matches('\n').count()).unwrap_or(u32::MAX).saturating_add(1)
}

/// The value of a variable; an empty one stays as it is written.
fn value(job: &Job<'_>, name: &str) -> (String, bool) {
    let name = name.strip_prefix('$').unwrap_or(name);
    match job.options.env.get(name).filter(|value| !value.is_empty()) {
        Some(value) => (value.clone(), true),
        None => (format!("${name}"), false),
    }
}

fn plain(job: &Job<'_>, text: &str, at: usize, own: &str) -> String {
    let (value, is_set) = value(job, own);
    // A `$` that is not a variable may be part of a command.
    if is_set {
        say(job, text, at, own, true);
    }
    value
}

fn say(job: &Job<'_>, text: &str, at: usize, written: &str, filled: bool) {
    let item = job.ledger.enter(job.file, line(text, at), written);
    let why = if filled { "its value at the import" } else { "not set: stays as `$NAME`" };
    job.ledger.say(item, Verdict::Changed(why.into()));
}

/// What stands between braces, from the variable on; the next token is behind them.
fn braces(job: &Job<'_>, text: &str, tokens: &[Token<'_>], place: &mut usize) -> String {
    let (_, start, name) = tokens[*place];
    *place += 1;
    let mut operator = None;
    let mut other: Option<String> = None;
    let mut end = start + name.len();
    while let Some((kind, at, own)) = tokens.get(*place).copied() {
        *place += 1;
        end = at + own.len();
        match kind {
            Kind::Close => break,
            Kind::Variable => other = Some(value(job, own).0),
            Kind::Text => {
                let mut all = own.to_owned();
                while let Some((_, _, more)) =
                    tokens.get(*place).filter(|(kind, ..)| *kind != Kind::Close)
                {
                    all.push_str(more);
                    *place += 1;
                }
                other = Some(all);
            }
            kind => operator = Some(kind),
        }
    }
    let (own, is_filled) = value(job, name);
    // Set and empty is not the same as filled: `-` and `+` ask for the first, `:-` for the second.
    let has = job.options.env.contains_key(name);
    let (result, filled) = match (operator, other) {
        (Some(Kind::Empty), Some(other)) if !is_filled => (other, true),
        (Some(Kind::Set), Some(other)) => (if has { other } else { String::new() }, true),
        (Some(Kind::Unset), Some(other)) if !has => (other, true),
        _ => (own, is_filled),
    };
    say(job, text, start, &text[start.saturating_sub(2)..end], filled);
    result
}

/// The states of envsubst.
struct Lexer<'a> {
    text: &'a str,
    /// Where the piece begins that is being read.
    start: usize,
    at: usize,
    /// Open braces; a form that is none may leave one open.
    depth: u32,
    /// Where the last piece began.
    last: usize,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    /// All pieces, or where a closing brace is missing.
    fn run(mut self) -> std::result::Result<Vec<Token<'a>>, usize> {
        let mut inside = false;
        while let Some(next) = if inside { self.inside()? } else { self.outside() } {
            inside = next;
        }
        Ok(self.tokens)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn emit(&mut self, kind: Kind) {
        self.tokens.push((kind, self.start, &self.text[self.start..self.at]));
        self.last = self.start;
        self.start = self.at;
    }

    /// Up to a variable or an opening brace; whether it goes on within braces, `None` at the end.
    fn outside(&mut self) -> Option<bool> {
        while let Some(found) = self.text[self.at..].find('$') {
            self.at += found;
            if self.at > self.start {
                self.emit(Kind::Text);
            }
            self.at += 1;
            match self.peek() {
                Some(c) if c.is_numeric() => {
                    self.next();
                    self.emit(Kind::Text);
                }
                Some('$') => {
                    self.start = self.at;
                    self.next();
                    self.emit(Kind::Text);
                }
                Some('{') => {
                    self.next();
                    if self.peek().is_some_and(char::is_numeric) {
                        self.next();
                        self.emit(Kind::Text);
                    } else {
                        self.depth += 1;
                        self.emit(Kind::Open);
                        return Some(true);
                    }
                }
                Some(c) if is_part(c) => return Some(self.variable()),
                _ => {}
            }
        }
        self.at = self.text.len();
        if self.at > self.start {
            self.emit(Kind::Text);
        }
        None
    }

    /// A name, behind its `$` or brace.
    fn variable(&mut self) -> bool {
        while self.peek().is_some_and(is_part) {
            self.next();
        }
        // envsubst takes a lone underscore for text.
        if ["_", "$_"].contains(&&self.text[self.start..self.at]) {
            return false;
        }
        self.emit(Kind::Variable);
        self.depth > 0
    }

    fn inside(&mut self) -> std::result::Result<Option<bool>, usize> {
        let next = match self.next() {
            None | Some('\n' | '\r') => return Err(self.start),
            Some(next) => next,
        };
        match next {
            '}' => {
                self.depth = self.depth.saturating_sub(1);
                self.emit(Kind::Close);
                return Ok(Some(false));
            }
            // A name stands right behind the brace; letters further on are text.
            c if c == '$' || is_part(c) && self.text[self.last..].starts_with("${") => {
                return Ok(Some(self.variable()));
            }
            '+' => self.emit(Kind::Set),
            '-' | '=' => self.emit(Kind::Unset),
            ':' => match self.next() {
                Some('-' | '=') => self.emit(Kind::Empty),
                Some('+') => self.emit(Kind::Set),
                _ => self.emit(Kind::Text),
            },
            _ => self.emit(Kind::Text),
        }
        Ok(Some(true))
    }
}

fn is_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::{Memory, Options};

    fn expanded(text: &str) -> Result<String> {
        let env = [("A", "1"), ("EMPTY", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let options = Options { env: env.into(), ..Options::default() };
        let (ledger, files) = (Ledger::default(), Memory::default());
        let job = Job {
            files: &files,
            file: "f",
            options: &options,
            ledger: &ledger,
            ports: Default::default(),
        };
        expand(&job, text)
    }

    /// By hellt/envsubst 0.2.0, which containerlab 0.78 uses (without unset, empty and digits, without replacement).
    #[test]
    fn variables_as_envsubst_has_them() {
        for (text, want) in [
            ("$A ${A} $$A", "1 1 $A"),
            ("${B:=x} ${B:-y} ${B-z} ${EMPTY:-e}", "x y z e"),
            ("${A:+set} ${B:+set}", "set "),
            ("$B ${B} $1 $ a", "$B $B $1 $ a"),
            ("$EMPTY ${EMPTY} ${EMPTY-e} ${EMPTY+s}", "$EMPTY $EMPTY $EMPTY s"),
            ("${B:-$A} ${A:1} ${1}", "1 1 ${1}"),
            ("${B:-${A}} ${B:-$C}", "{A} $C"),
            ("${B:-a b-c:d}", "a b-c:d"),
            ("price: 5$", "price: 5$"),
        ] {
            assert_eq!(expanded(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn an_open_brace_is_an_error_with_its_line() {
        for text in ["a\n${A", "a\n${A\n}", "a\n${"] {
            let error = expanded(text).unwrap_err().to_string();
            assert!(error.starts_with("f:2: error: a variable in braces needs"), "{error}");
        }
    }
}
