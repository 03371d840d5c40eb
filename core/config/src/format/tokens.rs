//! Cuts a YAML text into tokens, with how deep each stands.
//!
//! Reads only texts that the parser has accepted: what the parser refuses is not looked for. It knows less of YAML than the
//! parser; a text that it misreads does not pass the comparison in [`super`].

use super::Unkept;
use super::levels::{Level, Levels};
use crate::Place;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Dash,
    Colon,
    Comma,
    Open,
    Close,
    /// An anchor or a tag.
    Property,
    Alias,
    Plain,
    Quoted,
    /// The first line of a block scalar: `|2-`.
    Header,
    /// Its lines, indented by `indent` columns, of which the header gives `explicit` beyond its parent's.
    Lines {
        indent: usize,
        explicit: Option<usize>,
    },
    Comment,
    /// `---` or `...`.
    Marker,
}

/// A token, with its place counted from 0 in lines and characters.
#[derive(Clone, Debug)]
pub(crate) struct Token<'t> {
    pub what: What,
    pub text: &'t str,
    pub line: usize,
    pub column: usize,
    /// The line on which it ends.
    pub last_line: usize,
    /// How many lists and maps in block style it is in.
    pub within: usize,
    /// If it starts a line in block style: how deep that is.
    pub depth: usize,
}

/// The tokens of a text whose lines end in `\n`.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Unkept> {
    let mut cutter = Cutter::new(text);
    cutter.run()?;
    Ok(cutter.tokens)
}

/// The tokens of a text that may be unfinished, and what is left of it: nothing, unless it has something that cannot be cut.
pub(crate) fn tokens_before_error(text: &str) -> (Vec<Token<'_>>, &str) {
    let mut cutter = Cutter::new(text);
    let rest = if cutter.run().is_err() { &text[cutter.at..] } else { "" };
    (cutter.tokens, rest)
}

/// Comments on lines of their own, which belong to what is before or behind them.
#[derive(Default)]
struct Comments {
    tokens: Vec<usize>,
    /// What was open before them.
    before: Vec<Level>,
}

struct Cutter<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    /// The column of the byte `counted`.
    column: usize,
    counted: usize,
    flow: usize,
    tokens: Vec<Token<'t>>,
    levels: Levels,
    /// The first token of the node that may turn out to be a key.
    node: Option<usize>,
    comments: Comments,
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_indicator(c: char) -> bool {
    matches!(c, ',' | '[' | ']' | '{' | '}')
}

impl<'t> Cutter<'t> {
    fn new(text: &'t str) -> Cutter<'t> {
        Cutter {
            text,
            at: 0,
            line: 0,
            column: 0,
            counted: 0,
            flow: 0,
            tokens: Vec::new(),
            levels: Levels::default(),
            node: None,
            comments: Comments::default(),
        }
    }

    fn run(&mut self) -> Result<(), Unkept> {
        loop {
            let rest = self.rest();
            self.advance(rest.len() - rest.trim_start_matches(is_blank).len());
            let Some(c) = self.rest().chars().next() else { break };
            match c {
                '\n' => {
                    self.advance(1);
                    if self.flow == 0 {
                        self.node = None;
                    }
                }
                '#' => self.comment(),
                _ if self.flow > 0 => self.in_flow(c)?,
                _ => self.in_block(c)?,
            }
        }
        self.place_comments(None);
        Ok(())
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.text[self.at..self.at + bytes];
        self.at += bytes;
        if let Some(last) = passed.rfind('\n') {
            self.line += passed.bytes().filter(|b| *b == b'\n').count();
            self.column = 0;
            self.counted = self.at - (passed.len() - last - 1);
        }
    }

    /// The column of the next character.
    fn column(&mut self) -> usize {
        self.column += self.text[self.counted..self.at].chars().count();
        self.counted = self.at;
        self.column
    }

    fn starts_line(&self) -> bool {
        self.tokens.last().is_none_or(|token| token.last_line < self.line)
    }

    /// Whether the character `skipped` bytes on, if any, separates words.
    fn ends(&self, skipped: usize) -> bool {
        self.rest()[skipped..].chars().next().is_none_or(|c| is_blank(c) || c == '\n')
    }

    fn unkept(&mut self, message: &str, help: Option<&'static str>) -> Unkept {
        let number = |n: usize| u32::try_from(n + 1).unwrap_or(u32::MAX);
        let place = Place { line: number(self.line), column: number(self.column()) };
        Unkept { place, message: message.to_owned(), help }
    }

    /// Adds a token of this length; returns its index.
    fn push(&mut self, what: What, length: usize) -> usize {
        let (line, column) = (self.line, self.column());
        let text = &self.rest()[..length];
        self.advance(length);
        self.tokens.push(Token {
            what,
            text,
            line,
            column,
            last_line: self.line,
            within: self.levels.count(),
            depth: 0,
        });
        self.tokens.len() - 1
    }

    /// Adds a token of a value, which may be a key.
    fn push_node(&mut self, what: What, length: usize) {
        let starts_line = self.starts_line() && self.flow == 0;
        let mut depth = 0;
        if starts_line {
            let column = self.column();
            self.node = None;
            depth = self.levels.value(column);
            self.place_comments(Some((column, depth)));
        }
        let index = self.push(what, length);
        self.tokens[index].depth = depth;
        if self.flow == 0 {
            self.node.get_or_insert(index);
        }
    }

    fn in_block(&mut self, c: char) -> Result<(), Unkept> {
        match c {
            _ if self.column() == 0 && self.starts_line() && self.is_marker() => self.marker(),
            '%' if self.tokens.is_empty() && self.column() == 0 => {
                Err(self.unkept("a directive cannot be formatted", Some("leave it out")))
            }
            '-' if self.ends(1) => {
                let (column, starts_line) = (self.column(), self.starts_line());
                let depth = self.levels.dash(column);
                if starts_line {
                    self.place_comments(Some((column, depth)));
                }
                let index = self.push(What::Dash, 1);
                self.tokens[index].depth = depth;
                self.node = None;
                Ok(())
            }
            '?' if self.ends(1) => Err(self.explicit_key()),
            ':' if self.ends(1) => self.colon(),
            '|' | '>' => {
                self.block_scalar();
                Ok(())
            }
            _ => self.value(c),
        }
    }

    fn in_flow(&mut self, c: char) -> Result<(), Unkept> {
        match c {
            ',' => _ = self.push(What::Comma, 1),
            ']' | '}' => {
                self.flow -= 1;
                self.push(What::Close, 1);
            }
            '?' if self.ends(1) => return Err(self.explicit_key()),
            ':' if self.is_colon_of_flow() => _ = self.push(What::Colon, 1),
            _ => return self.value(c),
        }
        Ok(())
    }

    fn is_colon_of_flow(&self) -> bool {
        let next = self.rest()[1..].chars().next();
        // Right behind quotes or a bracket it needs no blank (YAML 1.2.2, 7.4.2).
        let touches = self.text[..self.at].ends_with(['"', '\'', ']', '}']);
        let is_json = touches
            && self.tokens.last().is_some_and(|t| matches!(t.what, What::Quoted | What::Close));
        is_json || self.ends(1) || next.is_some_and(is_indicator)
    }

    fn explicit_key(&mut self) -> Unkept {
        self.unkept("a key behind \"?\" cannot be formatted", Some("write KEY: VALUE"))
    }

    /// A colon in block style: what stands before it in the line is a key.
    fn colon(&mut self) -> Result<(), Unkept> {
        let Some(first) = self.node.take() else {
            return Err(self.unkept("an empty key cannot be formatted", Some("write KEY: VALUE")));
        };
        let depth = self.levels.key(self.tokens[first].column);
        self.tokens[first].depth = depth;
        self.push(What::Colon, 1);
        Ok(())
    }

    fn value(&mut self, c: char) -> Result<(), Unkept> {
        match c {
            '[' | '{' => {
                self.push_node(What::Open, 1);
                self.flow += 1;
            }
            '&' | '*' | '!' => {
                let what = if c == '*' { What::Alias } else { What::Property };
                let flow = self.flow > 0;
                let ends = |c: char| is_blank(c) || c == '\n' || flow && is_indicator(c);
                let length = self.rest().find(ends).unwrap_or(self.rest().len());
                self.push_node(what, length.max(1));
            }
            '"' | '\'' => {
                let length = self.quoted_length(c)?;
                self.push_node(What::Quoted, length);
            }
            _ => {
                // What a text on a line of its own may continue in depends on the levels around it.
                if self.starts_line() && self.flow == 0 {
                    let column = self.column();
                    self.levels.value(column);
                }
                let length = self.plain_length();
                self.push_node(What::Plain, length.max(c.len_utf8()));
            }
        }
        Ok(())
    }

    fn quoted_length(&mut self, quote: char) -> Result<usize, Unkept> {
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' && quote == '"' {
                chars.next();
            } else if c == quote {
                // Two single quotes are one in the text.
                if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') {
                    chars.next();
                    continue;
                }
                return Ok(at + 1);
            }
        }
        Err(self.unkept("a quote that is not closed", None))
    }

    /// The length of text without quotes, which may go on in further lines.
    fn plain_length(&self) -> usize {
        let rest = self.rest();
        let mut end = 0;
        let mut line_at = 0;
        loop {
            let line = rest[line_at..].split('\n').next().unwrap_or_default();
            let (length, is_whole) = self.plain_line(line, line_at == 0);
            if length > 0 {
                end = line_at + length;
            }
            let Some(next) = self.continued(line_at + line.len()).filter(|_| is_whole) else {
                return end;
            };
            line_at = next;
        }
    }

    /// How much of a line is text, and whether that is all of it.
    fn plain_line(&self, line: &str, is_first: bool) -> (usize, bool) {
        let mut before = if is_first { 'x' } else { ' ' };
        let mut chars = line.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, c)| *c);
            let ends = next.is_none_or(is_blank);
            let is_end = match c {
                '#' => is_blank(before),
                ':' => ends || self.flow > 0 && next.is_some_and(is_indicator),
                c => self.flow > 0 && is_indicator(c),
            };
            if is_end {
                return (line[..at].trim_end_matches(is_blank).len(), false);
            }
            before = c;
        }
        (line.trim_end_matches(is_blank).len(), true)
    }

    /// Where the text goes on behind the line that ends `at` bytes on.
    fn continued(&self, at: usize) -> Option<usize> {
        let mut start = at + 1;
        loop {
            let line = self.rest().get(start..)?.split('\n').next()?;
            let text = line.trim_start_matches(is_blank);
            if text.is_empty() {
                if self.at + start + line.len() >= self.text.len() {
                    return None;
                }
                start += line.len() + 1;
                continue;
            }
            let column = line.len() - line.trim_start_matches(' ').len();
            let is_deeper = self.levels.innermost().is_none_or(|parent| column > parent);
            let is_end = text.starts_with('#') || self.flow == 0 && !is_deeper;
            let is_document = self.levels.count() == 0 && is_marker(line);
            return (!is_end && !is_document).then_some(start);
        }
    }

    /// A text of whole lines: `|` or `>`.
    fn block_scalar(&mut self) {
        let rest = self.rest();
        let length = rest.find(|c| is_blank(c) || c == '\n').unwrap_or(rest.len());
        let header = &rest[..length];
        self.push_node(What::Header, length);
        self.node = None;
        let blanks = self.rest().len() - self.rest().trim_start_matches(is_blank).len();
        self.advance(blanks);
        if self.rest().starts_with('#') {
            self.comment();
        }
        let line = self.rest().find('\n').map_or(self.rest().len(), |at| at + 1);
        self.advance(line);
        let explicit =
            header.bytes().find(u8::is_ascii_digit).map(|digit| usize::from(digit - b'0'));
        let parent = self.levels.innermost();
        let (indent, length) = self.lines(header, explicit, parent);
        if length == 0 {
            return;
        }
        let index = self.push(What::Lines { indent, explicit }, length);
        let lines = self.tokens[index].text.bytes().filter(|b| *b == b'\n').count();
        // It ends with its last line, not behind it.
        let is_cut = self.tokens[index].text.ends_with('\n');
        self.tokens[index].last_line = self.tokens[index].line + lines - usize::from(is_cut);
    }

    /// The indentation of the lines of a block scalar, and the length of all of them.
    fn lines(
        &self,
        header: &str,
        explicit: Option<usize>,
        parent: Option<usize>,
    ) -> (usize, usize) {
        let mut indent = explicit.map(|more| more + parent.unwrap_or(0));
        let (mut length, mut end) = (0, 0);
        for line in self.rest().split_inclusive('\n') {
            let text = line.trim_end_matches('\n');
            let column = text.len() - text.trim_start_matches(' ').len();
            if column == text.len() && indent.is_none_or(|indent| column <= indent) {
                length += line.len();
                continue;
            }
            let is_deeper = parent.is_none_or(|parent| column > parent);
            let own = *indent.get_or_insert(if is_deeper { column } else { usize::MAX });
            if column < own {
                break;
            }
            length += line.len();
            end = length;
        }
        // Empty lines at its end are text only if the header says so.
        (indent.unwrap_or(0), if header.contains('+') { length } else { end })
    }

    fn is_marker(&self) -> bool {
        is_marker(self.rest())
    }

    fn marker(&mut self) -> Result<(), Unkept> {
        let line = self.rest().split('\n').next().unwrap_or_default();
        let behind = line[3..].trim_start_matches(is_blank);
        if !behind.is_empty() && !behind.starts_with('#') {
            let help = Some("begin the document on the next line");
            return Err(self.unkept("text behind \"---\" cannot be formatted", help));
        }
        self.levels.clear();
        self.place_comments(Some((0, 0)));
        self.push(What::Marker, 3);
        self.node = None;
        Ok(())
    }

    fn comment(&mut self) {
        let length = self.rest().find('\n').unwrap_or(self.rest().len());
        let starts_line = self.starts_line();
        let index = self.push(What::Comment, length);
        if starts_line && self.flow == 0 {
            if self.comments.tokens.is_empty() {
                self.comments.before = self.levels.all().to_vec();
            }
            self.comments.tokens.push(index);
        }
    }

    /// Decides how deep comments stand: as what they stand below or above, by their column. `next` is the column and the depth of
    /// the line behind them.
    fn place_comments(&mut self, next: Option<(usize, usize)>) {
        for index in std::mem::take(&mut self.comments.tokens) {
            let column = self.tokens[index].column;
            let before = self.comments.before.iter().enumerate();
            let before = before.map(|(depth, level)| (level.column, depth));
            let places = before.chain(next).filter(|(start, _)| *start <= column);
            // The last one of those furthest to the right: what comes next wins.
            let best = places.max_by_key(|(start, _)| *start);
            self.tokens[index].depth = best.map_or(0, |(_, depth)| depth);
        }
    }
}

fn is_marker(text: &str) -> bool {
    let behind = text.strip_prefix("---").or_else(|| text.strip_prefix("..."));
    behind.is_some_and(|rest| rest.chars().next().is_none_or(|c| is_blank(c) || c == '\n'))
}
