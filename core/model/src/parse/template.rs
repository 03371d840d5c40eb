//! The body of a repeated entry with `{expression}` in its texts, compiled once and filled in for
//! each combination of indices.
//!
//! `{{` and `}}` stand for braces. A text with an expression means what its result would mean
//! when written without quotes: `mtu: "{1400+x}"` is a number.

use netloom_config::{Entry, Kind, Node, Place, Report, quote, resolve};

use super::expr::{self, Expr, Problem, Value};
use super::work::{Exhausted, Work};

/// A text in pieces.
#[derive(Debug)]
pub(crate) struct Text {
    pieces: Vec<Piece>,
    /// The cost of filling it in, in units of [`Work`].
    cost: usize,
}

#[derive(Debug)]
enum Piece {
    Plain(String),
    Expr(Expr),
}

impl Piece {
    fn cost(&self) -> usize {
        match self {
            Piece::Plain(text) => text.len(),
            Piece::Expr(expr) => Work::OPERATION * expr.size(),
        }
    }
}

/// A node whose texts are templates.
#[derive(Debug)]
pub(crate) struct Template {
    place: Place,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// A node without replacements.
    Fixed(Node, usize),
    Text(Text),
    Seq(Vec<Template>),
    Map(Vec<(Text, Place, Template)>),
}

/// Why a combination cannot be filled in.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An expression has no value.
    NoValue(Place, String),
    /// The file needs too much work.
    Exhausted,
}

impl From<Exhausted> for Failure {
    fn from(Exhausted: Exhausted) -> Failure {
        Failure::Exhausted
    }
}

/// Records why an expression in a text cannot be read.
pub(crate) fn report_problem(
    problem: Problem,
    text: &str,
    indices: &[String],
    place: Place,
    report: &mut Report,
) {
    let shown = quote(text);
    match problem {
        Problem::Grammar(what) => report.error(place, format!("in {shown}: {what}")),
        Problem::UnknownIndex(name) => {
            let help = report.suggest(&name, indices.iter().map(String::as_str));
            let message = format!("in {shown}: `for` has no index {}", quote(&name));
            report.error_with(place, message, help);
        }
    }
}

impl Text {
    /// Reads a text; `None` with the reason in the report.
    pub(crate) fn compile(
        text: &str,
        indices: &[String],
        place: Place,
        report: &mut Report,
    ) -> Option<Text> {
        match split(text, indices) {
            Ok(pieces) => {
                Some(Text { cost: 32 + pieces.iter().map(Piece::cost).sum::<usize>(), pieces })
            }
            Err(problem) => {
                report_problem(problem, text, indices, place, report);
                None
            }
        }
    }

    fn has_expression(&self) -> bool {
        self.pieces.iter().any(|p| matches!(p, Piece::Expr(_)))
    }

    /// The text with expressions replaced by values.
    pub(crate) fn fill(
        &self,
        slots: &[Value],
        place: Place,
        work: &mut Work,
    ) -> Result<String, Failure> {
        work.spend(self.cost)?;
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Plain(text) => filled.push_str(text),
                Piece::Expr(expr) => {
                    let value = expr.evaluate(slots).map_err(|why| Failure::NoValue(place, why))?;
                    let text = value.to_string();
                    // Only now is the length known: an expression may multiply texts.
                    work.spend(text.len())?;
                    filled.push_str(&text);
                }
            }
        }
        Ok(filled)
    }
}

fn split(text: &str, indices: &[String]) -> Result<Vec<Piece>, Problem> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    // By bytes: a text may be long, and is split for each value of a `for` around it.
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'{' | b'}')) {
        plain.push_str(&rest[..at]);
        let from = &rest[at..];
        if from.starts_with("{{") || from.starts_with("}}") {
            plain.push_str(&from[..1]);
            rest = &from[2..];
        } else if from.starts_with('}') {
            return Err(Problem::Grammar("`}` without `{`; write `}}` for a brace".into()));
        } else {
            let inside = &from[1..];
            let end = closing_brace(inside).ok_or_else(|| {
                Problem::Grammar("`{` without `}`; write `{{` for a brace".into())
            })?;
            pieces.push(Piece::Plain(std::mem::take(&mut plain)));
            pieces.push(Piece::Expr(expr::parse(&inside[..end], indices)?));
            rest = &inside[end + 1..];
        }
    }
    plain.push_str(rest);
    pieces.push(Piece::Plain(plain));
    Ok(pieces)
}

/// The end of the expression at the start of a text, skipping quoted text.
fn closing_brace(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '}') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

impl Template {
    /// Compiles the body of an entry, without `for` and `if`, and without the nodes inside a node, which
    /// may have indices of their own.
    pub(crate) fn compile_body(
        node: &Node,
        indices: &[String],
        report: &mut Report,
    ) -> Option<Template> {
        let Some(entries) = node.entries() else {
            return Template::compile(node, &[], indices, report);
        };
        let kept = entries.iter().filter(|e| !matches!(e.key.as_str(), "for" | "if"));
        let entry = |e: &Entry| {
            let skip: &[&str] = if e.key == "children" { &["nodes"] } else { &[] };
            compile_entry(e, skip, indices, report)
        };
        // All are compiled before the first failure counts, so that every error is told at once.
        let entries: Vec<_> = kept.map(entry).collect();
        let content = Content::Map(entries.into_iter().collect::<Option<_>>()?);
        Some(Template { place: node.place, content })
    }

    /// Compiles a node; `None` with the reasons in the report. Map keys in `skip` are left out.
    fn compile(
        node: &Node,
        skip: &[&str],
        indices: &[String],
        report: &mut Report,
    ) -> Option<Template> {
        let content = match &node.kind {
            Kind::Str => {
                let text = Text::compile(&node.text, indices, node.place, report)?;
                Content::Text(text)
            }
            Kind::Seq(items) => {
                let items: Vec<_> =
                    items.iter().map(|i| Template::compile(i, &[], indices, report)).collect();
                Content::Seq(items.into_iter().collect::<Option<_>>()?)
            }
            Kind::Map(entries) => {
                let kept = entries.iter().filter(|e| !skip.contains(&e.key.as_str()));
                let entries: Vec<_> =
                    kept.map(|e| compile_entry(e, &[], indices, report)).collect();
                Content::Map(entries.into_iter().collect::<Option<_>>()?)
            }
            _ => Content::Fixed(node.clone(), 32 + node.text.len()),
        };
        Some(Template { place: node.place, content })
    }

    /// The node with expressions replaced by values.
    pub(crate) fn fill(
        &self,
        slots: &[Value],
        report: &mut Report,
        work: &mut Work,
    ) -> Result<Node, Failure> {
        let place = self.place;
        let (kind, text) = match &self.content {
            Content::Fixed(node, cost) => {
                work.spend(*cost)?;
                return Ok(node.clone());
            }
            Content::Text(template) => {
                let text = template.fill(slots, place, work)?;
                (kind_of(template, &text), text)
            }
            Content::Seq(items) => {
                work.spend(32)?;
                let items = items.iter().map(|i| i.fill(slots, report, work));
                (Kind::Seq(items.collect::<Result<_, _>>()?), String::new())
            }
            Content::Map(entries) => {
                work.spend(32)?;
                (Kind::Map(fill_entries(entries, slots, report, work)?), String::new())
            }
        };
        Ok(Node { place, kind, text })
    }
}

fn compile_entry(
    entry: &Entry,
    skip: &[&str],
    indices: &[String],
    report: &mut Report,
) -> Option<(Text, Place, Template)> {
    let key = Text::compile(&entry.key, indices, entry.place, report);
    let value = Template::compile(&entry.value, skip, indices, report);
    Some((key?, entry.place, value?))
}

/// Different keys may become equal.
fn fill_entries(
    entries: &[(Text, Place, Template)],
    slots: &[Value],
    report: &mut Report,
    work: &mut Work,
) -> Result<Vec<Entry>, Failure> {
    let mut filled: Vec<Entry> = Vec::with_capacity(entries.len());
    let mut seen = std::collections::HashSet::new();
    let templated = entries.iter().any(|(key, _, _)| key.has_expression());
    for (key, place, value) in entries {
        let key = key.fill(slots, *place, work)?;
        let value = value.fill(slots, report, work)?;
        if templated && !seen.insert(key.clone()) {
            report.error(*place, format!("{} is given twice", quote(&key)));
            continue;
        }
        filled.push(Entry { key, place: *place, value });
    }
    Ok(filled)
}

fn kind_of(template: &Text, text: &str) -> Kind {
    if !template.has_expression() {
        return Kind::Str;
    }
    match resolve(text) {
        // An expression gives a text or a number. An empty one is a text of no letters, not a
        // missing value.
        Kind::Null => Kind::Str,
        kind => kind,
    }
}
