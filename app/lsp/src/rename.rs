//! Renames a node or a switch: its key and all that mentions it.
//!
//! The renamed text is read again: unless it is a lab with the same parts and the same links between them, nothing is renamed.
//! Commands and texts of files may name nodes as well; they are programs' words and stay.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::Range as Bytes;

use lsp_types::{Position, Range, TextEdit};
use netloom_config::cursor::{self, Step, Word};
use netloom_config::{printable, written};
use netloom_model::lab::End;
use netloom_model::{Lab, link_ends};

use crate::Compiled;
use crate::document::Document;
use crate::hover;
use crate::names::{self, Mention, Names};
use crate::position::Ruler;

/// The word at a position, if it names what can be renamed: what the client asks a new name for.
///
/// # Errors
/// Why not, in words.
pub(crate) fn prepared(document: &Document, position: Position) -> Result<(Range, String), String> {
    let old = named(document, position)?;
    let names = Names::of(document);
    renamable(&names, &old)?;
    let at = |word: &Word<'_>| {
        let shown = old.rsplit('/').next().unwrap_or(&old);
        let (_, column) = document.lines.place(&document.text, position);
        let inside = column.saturating_sub(word.column + usize::from(word.is_quoted));
        // Of two ends in a text, the one at the position.
        let found =
            word.text.match_indices(shown).map(|(byte, _)| word.text[..byte].chars().count());
        let length = shown.chars().count();
        let start = found.filter(|start| *start <= inside).last().unwrap_or(0);
        let start = word.column + usize::from(word.is_quoted) + start;
        let range = Ruler::of(&document.lines, &document.text).range(word.line, start, length).0;
        (range, shown.to_owned())
    };
    document.word_at(position, |word, _| at(word)).ok_or_else(|| NOTHING.to_owned())
}

/// The edits that give what is named at a position another name.
///
/// # Errors
/// Why not, in words.
pub(crate) fn edits(
    document: &Document,
    position: Position,
    new: &str,
) -> Result<Vec<TextEdit>, String> {
    let old = named(document, position)?;
    let names = Names::of(document);
    renamable(&names, &old)?;
    if let Some(problem) = netloom_model::node_name_problem(new) {
        return Err(problem);
    }
    let whole = match old.rsplit_once('/') {
        Some((parents, _)) => format!("{parents}/{new}"),
        None => new.to_owned(),
    };
    if names.has(&whole) {
        return Err(format!("{whole:?} is there already"));
    }
    let before = lab(document, &document.text)?;
    let renaming =
        Renaming { document, names: &names, old: &old, new: &whole, links: named_links(document) };
    let edits = renaming.edits();
    let after = lab(document, &applied(&document.text, &edits))
        .map_err(|told| format!("renamed, {told}"))?;
    if parts(&before) != parts(&after) {
        return Err(format!("renamed, {old:?} would be part of another lab"));
    }
    let edit = |edit: Edit| TextEdit { range: edit.range, new_text: edit.text };
    Ok(edits.into_iter().map(edit).collect())
}

const NOTHING: &str = "no node or switch is named here";

/// The node or switch that is named at a position.
fn named(document: &Document, position: Position) -> Result<String, String> {
    let named =
        document.word_at(position, |word, path| hover::named(document, word, path, position));
    named.flatten().ok_or_else(|| NOTHING.to_owned())
}

fn renamable(names: &Names, old: &str) -> Result<(), String> {
    if !names.has(old) {
        let made = names.find(old).map(|defined| &defined.name);
        return Err(made.map_or_else(
            || format!("{old:?} is defined nowhere in this file"),
            |made| format!("{old:?} is one of {made:?}, which `for` makes"),
        ));
    }
    if old.contains('{') {
        return Err(format!("{old:?}: names with braces are not renamed"));
    }
    Ok(())
}

fn lab(document: &Document, text: &str) -> Result<Lab, String> {
    let told = |first: Option<&netloom_config::Diagnostic>| {
        let first = first.map(|error| printable::line(&error.message).into_owned());
        format!("the file has errors: {}", first.unwrap_or_default())
    };
    let lab = netloom_model::parse("lab", text.as_bytes(), &document.stem());
    let lab = lab.map_err(|errors| told(errors.list.first()))?;
    let plan = netloom_model::plan::plan(&lab).map_err(|error| error.to_string())?;
    match (document.compiler)(&plan) {
        Compiled::Good | Compiled::Not(_) => Ok(lab),
        Compiled::Wrong(words) => Err(words),
    }
}

/// What a lab is whatever its names are: how many nodes and switches, and which of them links join.
fn parts(lab: &Lab) -> (usize, usize, Vec<&[End; 2]>) {
    let links = lab.links.iter().map(|link| &link.ends).collect();
    (lab.nodes.len(), lab.switches.len(), links)
}

/// The names that links have by hand.
fn named_links(document: &Document) -> HashSet<String> {
    let mut found = HashSet::new();
    cursor::words(&document.text, |word, path| {
        if path == [Step::Key("links"), Step::Item, Step::Key("name")] && !word.is_key {
            found.insert(word.text.to_owned());
        }
    });
    found
}

/// What stands in the place of a part of a text.
struct Edit {
    range: Range,
    bytes: Bytes<usize>,
    text: String,
}

/// A text with edits, which stand in their order and do not touch each other.
fn applied(text: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for edit in edits {
        out.push_str(&text[done..edit.bytes.start]);
        out.push_str(&edit.text);
        done = edit.bytes.end;
    }
    out + &text[done..]
}

struct Renaming<'a> {
    document: &'a Document,
    names: &'a Names,
    old: &'a str,
    new: &'a str,
    links: HashSet<String>,
}

impl Renaming<'_> {
    fn edits(&self) -> Vec<Edit> {
        let mut edits = vec![];
        let mut ruler = Ruler::of(&self.document.lines, &self.document.text);
        cursor::words(&self.document.text, |word, path| {
            let renamed = self.renamed(word, path).filter(|new| new != word.text);
            if let Some(new) = renamed {
                let (range, bytes) = ruler.range(word.line, word.column, word.width);
                let text = self.written(bytes.start, word.is_quoted, &new);
                edits.push(Edit { range, bytes, text });
            }
        });
        edits
    }

    /// What becomes of a word.
    fn renamed(&self, word: &Word<'_>, path: &[Step<'_>]) -> Option<String> {
        if word.text.contains('\n') {
            return None;
        }
        if let Some(name) = names::defined(path, word.text).filter(|_| word.is_key) {
            let own = self.new.rsplit('/').next().unwrap_or(self.new);
            return (name == self.old).then(|| own.to_owned());
        }
        Some(match names::mention(path, word.is_key)? {
            Mention::End => self.end(word.text),
            Mention::Ends => self.ends(word.text),
            Mention::Port if self.links.contains(word.text) => return None,
            Mention::Port => match word.text.split_once("--") {
                Some((first, second)) => format!("{}--{}", self.end(first), self.end(second)),
                None => self.end(word.text),
            },
            Mention::Controller => format!("node:{}", self.end(word.text.strip_prefix("node:")?)),
            Mention::Expression => self.expression(word.text),
        })
    }

    /// Both ends of a link in a text.
    fn ends(&self, text: &str) -> String {
        let inner = text.trim();
        let Some([first, second]) = link_ends(inner, |end| self.names.is_end(end)) else {
            return text.to_owned();
        };
        let between = &inner[first.len()..inner.len() - second.len()];
        format!("{}{between}{}", self.end(first), self.end(second))
    }

    /// The end of a link, or a node's name with its parents'.
    fn end(&self, text: &str) -> String {
        let behind = text.strip_prefix(self.old);
        match behind.filter(|rest| rest.is_empty() || rest.starts_with([':', '/'])) {
            Some(rest) => format!("{}{rest}", self.new),
            None => text.to_owned(),
        }
    }

    /// An expression: names stand after `host`, `src` and `dst` and in flows; other words are the language's, whatever nodes are
    /// called.
    fn expression(&self, text: &str) -> String {
        let renamed = |word: &str| Ok::<_, Infallible>(Some(self.end(word)));
        match netloom_filter::expand::rename(text, renamed) {
            Ok(renamed) => renamed,
            Err(never) => match never {},
        }
    }

    /// A word in the form that it has: without quotes if it has none and needs none.
    fn written(&self, start: usize, is_quoted: bool, new: &str) -> String {
        match self.document.text[start..].chars().next().filter(|_| is_quoted) {
            Some('\'') => format!("'{new}'"),
            Some(_) => format!("\"{new}\""),
            None if written::scalar(self.new) == self.new => new.to_owned(),
            None => written::scalar(new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::Encoding;

    #[test]
    fn words_of_the_filter_language_stay_whatever_nodes_are_called() {
        let text = "name: t\nnodes:\n  tcp: {}\n  b: {}\nlinks:\n  - ends: [tcp, b]\n    \
                    drop: tcp port 80 and host tcp or flow:tcp->b:80/tcp\n";
        let uri = "file:///t.yaml".parse().unwrap();
        let good = |_: &netloom_model::Plan| Compiled::Good;
        let document = Document::new(uri, 1, text.to_owned(), Encoding::Utf16, good);
        let edits = edits(&document, Position { line: 2, character: 3 }, "web").unwrap();
        let texts: Vec<&str> = edits.iter().map(|edit| edit.new_text.as_str()).collect();
        assert_eq!(texts, ["web", "web", "tcp port 80 and host web or flow:web->b:80/tcp"]);
    }
}
