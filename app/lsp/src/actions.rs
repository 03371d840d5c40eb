//! What the `help:` of an error suggests, as edits.
//!
//! An edit is only offered if the text with it no longer has the error, and is not less of a YAML text than before.

use std::collections::HashMap;

use lsp_types::{CodeAction, CodeActionKind, Diagnostic, Position, Range, TextEdit, WorkspaceEdit};
use netloom_config::cursor::{self, Step};
use netloom_config::written;

use crate::diagnostics;
use crate::document::Document;

/// How many edits are tried at a time: each is a text to read.
const MOST_TRIED: usize = 20;

/// How errors begin that are about YAML alone.
const NOT_YAML: &str = "not valid YAML";

/// The edits for what is wrong in a part of a text that has been checked.
pub(crate) fn actions(document: &Document, asked: Range) -> Vec<CodeAction> {
    let touches = |range: Range| range.start <= asked.end && asked.start <= range.end;
    let here = document.found.iter().filter(|diagnostic| touches(diagnostic.range));
    let edits = here.flat_map(|diagnostic| {
        edits_of(document, diagnostic)
            .into_iter()
            .map(move |(title, edit)| (diagnostic, title, edit))
    });
    edits
        .take(MOST_TRIED)
        .filter(|(diagnostic, _, edit)| mends(document, edit, &diagnostic.message))
        .map(|(diagnostic, title, edit)| action(document, diagnostic, title, edit))
        .collect()
}

/// Edits of one text, as the protocol has them.
#[allow(clippy::mutable_key_type, reason = "the type of the protocol")]
pub(crate) fn workspace_edit(document: &Document, edits: Vec<TextEdit>) -> WorkspaceEdit {
    let changes = HashMap::from([(document.uri.clone(), edits)]);
    WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }
}

fn action(document: &Document, of: &Diagnostic, title: String, edit: TextEdit) -> CodeAction {
    CodeAction {
        title,
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: Some(vec![of.clone()]),
        edit: Some(workspace_edit(document, vec![edit])),
        ..CodeAction::default()
    }
}

/// Whether a text with an edit has an error less often than now.
fn mends(document: &Document, edit: &TextEdit, error: &str) -> bool {
    let at = |position| document.lines.offset(&document.text, position);
    let mut text = document.text.clone();
    text.replace_range(at(edit.range.start)..at(edit.range.end), &edit.new_text);
    let count = |all: &mut dyn Iterator<Item = &str>| {
        all.fold((0, 0), |(own, yaml), message| {
            (own + usize::from(message == error), yaml + usize::from(message.starts_with(NOT_YAML)))
        })
    };
    let after = diagnostics::messages(document, &text);
    let before = count(&mut document.found.iter().map(|diagnostic| diagnostic.message.as_str()));
    let after = count(&mut after.iter().map(String::as_str));
    after.0 < before.0 && after.1 <= before.1
}

fn edits_of(document: &Document, diagnostic: &Diagnostic) -> Vec<(String, TextEdit)> {
    let replace = |text: &str| TextEdit { range: diagnostic.range, new_text: text.to_owned() };
    let Some((error, help)) = diagnostic.message.rsplit_once("\nhelp: ") else {
        return forwarding(document, diagnostic);
    };
    if let Some(name) =
        help.strip_prefix("did you mean \"").and_then(|rest| rest.strip_suffix("\"?"))
    {
        return vec![(format!("write {name}"), meant(document, diagnostic, error, name))];
    }
    let one = |edit: Option<TextEdit>, title: &str| -> Vec<(String, TextEdit)> {
        edit.into_iter().map(|edit| (title.to_owned(), edit)).collect()
    };
    if help == "indent with spaces, not with tabs" {
        return one(indented(document, diagnostic), help);
    }
    if let Some(rest) = help.strip_prefix("a switch has a line of its own: `") {
        let line = rest.split('`').next().unwrap_or_default();
        return one(
            switch(document, line),
            &format!("add the switch {}", line.trim_end_matches(": {}")),
        );
    }
    if help.starts_with("leave it out") {
        return one(left_out(document, diagnostic), "leave it out");
    }
    let Some(text) = help.strip_prefix("write ") else { return vec![] };
    let entries: Vec<_> = text
        .split(", or ")
        .filter_map(|text| Some((format!("write {text}"), entry(document, diagnostic, text)?)))
        .collect();
    if !entries.is_empty() {
        return entries;
    }
    if text.starts_with('[') && !text.contains(" or ") && !text.contains(" for ") {
        return vec![(format!("write {text}"), replace(text))];
    }
    values(text).into_iter().map(|word| (format!("write {word}"), replace(word))).collect()
}

/// The name that was meant: instead of the word, or of the part of it that the error names.
fn meant(document: &Document, diagnostic: &Diagnostic, error: &str, name: &str) -> TextEdit {
    let at = |position| document.lines.offset(&document.text, position);
    let range = diagnostic.range;
    let whole = &document.text[at(range.start)..at(range.end)];
    let wrong = error.rsplit('"').nth(1).filter(|wrong| !wrong.is_empty());
    let part = wrong.filter(|wrong| whole.trim_matches(['"', '\'']) != *wrong);
    let found = part.and_then(|wrong| Some((whole.rfind(wrong)?, wrong)));
    let Some((start, wrong)) = found.filter(|_| range.start.line == range.end.line) else {
        return TextEdit { range, new_text: written::scalar(name) };
    };
    let units = |text: &str| document.lines.encoding().units(text);
    let from = Position {
        line: range.start.line,
        character: range.start.character + units(&whole[..start]),
    };
    let to = Position { line: from.line, character: from.character + units(wrong) };
    TextEdit { range: Range { start: from, end: to }, new_text: name.to_owned() }
}

/// The values that a help names: `5%`, `100mbit, 100kbit or 100bit`, `true without quotes`.
fn values(text: &str) -> Vec<&str> {
    let text = text.strip_suffix(" without quotes").unwrap_or(text);
    let parts = text.split(", or ").flat_map(|part| part.split(", "));
    let parts = parts.flat_map(|part| part.split(" or "));
    let parts: Vec<&str> = parts.map(|part| part.split(" if ").next().unwrap_or(part)).collect();
    // A sentence is not a value.
    let is_value = |part: &&str| !part.is_empty() && !part.contains([' ', '{', '[', '`', '"', ':']);
    if parts.iter().all(is_value) { parts } else { vec![] }
}

/// `KEY: VALUE` in the place of a key and its value, where both stand on a line.
fn entry(document: &Document, diagnostic: &Diagnostic, text: &str) -> Option<TextEdit> {
    let (name, value) = text.split_once(": ")?;
    let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    // Words in capitals stand for what only the user knows.
    let is_open = value
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase()));
    if !is_name || is_open || value.contains(", a ") || value.contains(" for a ") {
        return None;
    }
    let mut edit = None;
    let mut key: Option<(Range, usize)> = None;
    let (line, column) = document.lines.place(&document.text, diagnostic.range.start);
    cursor::words(&document.text, |word, path| {
        if (word.line, word.column) == (line, column) {
            let range = document.lines.range(&document.text, word);
            if word.is_key {
                key = Some((range, word.line));
            } else if path.last() == Some(&Step::Key(name)) {
                edit = Some(TextEdit { range, new_text: value.to_owned() });
            }
        } else if let Some((start, line)) = key.take()
            && word.line == line
            && !word.is_key
            && !word.text.contains('\n')
        {
            let end = document.lines.range(&document.text, word).end;
            let range = Range { start: start.start, end };
            edit = Some(TextEdit { range, new_text: text.to_owned() });
        }
    });
    edit
}

fn indented(document: &Document, diagnostic: &Diagnostic) -> Option<TextEdit> {
    let number = usize::try_from(diagnostic.range.start.line).ok()?;
    let line = document.lines.line(&document.text, number);
    let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
    let start = Position { line: diagnostic.range.start.line, character: 0 };
    let end = document.lines.position(&document.text, number, indent.len());
    let text = indent.replace('\t', "  ");
    indent.contains('\t').then_some(TextEdit { range: Range { start, end }, new_text: text })
}

/// A switch that links name: its line below `switches:`, which is added if it is missing.
fn switch(document: &Document, line: &str) -> Option<TextEdit> {
    let (mut own, mut first, mut links) = (None, None, None);
    cursor::words(&document.text, |word, path| match path {
        [] if word.is_key && word.text == "switches" => own = Some(word.line),
        [] if word.is_key && word.text == "links" => links = Some(word.line),
        [Step::Key("switches")] if word.is_key && first.is_none() => {
            first = Some((word.line, word.column));
        }
        _ => {}
    });
    let at = |line: usize, new_text: String| {
        let start = document.lines.position(&document.text, line, 0);
        TextEdit { range: Range { start, end: start }, new_text }
    };
    match (own, first) {
        (Some(own), Some((below, column))) if below > own => {
            let before = document.lines.line(&document.text, below).chars().take(column);
            let is_block = before.clone().all(|c| c == ' ');
            is_block.then(|| at(below, format!("{}{line}\n", " ".repeat(column))))
        }
        (Some(_), Some((below, column))) => {
            let start = document.lines.position(&document.text, below, column);
            Some(TextEdit { range: Range { start, end: start }, new_text: format!("{line}, ") })
        }
        (Some(own), None) => Some(at(own + 1, format!("  {line}\n"))),
        (None, _) => Some(at(links?, format!("switches:\n  {line}\n"))),
    }
}

/// Without the line of an entry, if it has it alone.
fn left_out(document: &Document, diagnostic: &Diagnostic) -> Option<TextEdit> {
    let (number, column) = document.lines.place(&document.text, diagnostic.range.start);
    let indent = |line: &str| line.chars().take_while(|c| *c == ' ').count();
    if indent(document.lines.line(&document.text, number)) != column {
        return None;
    }
    let rest = document.text.lines().skip(number + 1);
    let next = rest.into_iter().find(|line| !line.trim().is_empty());
    if next.is_some_and(|line| indent(line) > column || line.trim_start().starts_with('-')) {
        return None;
    }
    let start = document.lines.position(&document.text, number, 0);
    let end = document.lines.position(&document.text, number + 1, 0);
    Some(TextEdit { range: Range { start, end }, new_text: String::new() })
}

/// For a node that joins two networks: what it does with others' packets.
fn forwarding(document: &Document, diagnostic: &Diagnostic) -> Vec<(String, TextEdit)> {
    if !diagnostic.message.contains("write `forwarding: true`, or `forwarding: false`") {
        return vec![];
    }
    let end = diagnostic.range.end;
    let offset = document.lines.offset(&document.text, end);
    let line = document.text[offset..].lines().next().unwrap_or_default();
    let Some(behind) = line.strip_prefix(':') else { return vec![] };
    let body = behind.trim_start_matches(' ');
    let passed = u32::try_from(1 + behind.len() - body.len()).unwrap_or(0);
    let at = |more: u32| Position { line: end.line, character: end.character + passed + more };
    let edit = |setting: &str| -> Option<TextEdit> {
        if let Some(inner) = body.strip_prefix('{') {
            let comma = if inner.trim_start().starts_with('}') { "" } else { ", " };
            let range = Range { start: at(1), end: at(1) };
            return Some(TextEdit { range, new_text: format!("{setting}{comma}") });
        }
        let start = diagnostic.range.start.character;
        let indent = " ".repeat(usize::try_from(start).ok()? + 2);
        let here = Position { line: end.line + 1, character: 0 };
        let range = Range { start: here, end: here };
        let is_below = body.is_empty() || body.starts_with('#');
        is_below.then(|| TextEdit { range, new_text: format!("{indent}{setting}\n") })
    };
    ["forwarding: true", "forwarding: false"]
        .into_iter()
        .filter_map(|setting| Some((format!("write {setting}"), edit(setting)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compiled;
    use crate::position::Encoding;

    #[test]
    fn values_of_a_help_are_told_from_sentences() {
        assert_eq!(values("5%"), ["5%"]);
        assert_eq!(values("100mbit, 100kbit or 100bit"), ["100mbit", "100kbit", "100bit"]);
        assert_eq!(values("0.5%, or 50% if 0.5 is a fraction of 1"), ["0.5%", "50%"]);
        assert_eq!(values("80 without quotes"), ["80"]);
        for sentence in
            ["none, and run a DHCP client in the node", "both ends in one list: ends: [A, B]", ""]
        {
            assert!(values(sentence).is_empty(), "{sentence}");
        }
    }

    /// What a text becomes by each edit that is offered for all of it.
    fn mended(text: &str) -> Vec<(String, String)> {
        let uri = "file:///lab.yaml".parse().unwrap();
        let mut document =
            Document::new(uri, 1, text.to_owned(), Encoding::Utf16, |_| Compiled::Good);
        diagnostics::refresh(&mut document);
        let all = document.lines.whole(text);
        let one = |action: CodeAction| {
            let edit = action.edit.unwrap().changes.unwrap().into_values().next().unwrap();
            let at = |position| document.lines.offset(text, position);
            let mut out = text.to_owned();
            out.replace_range(at(edit[0].range.start)..at(edit[0].range.end), &edit[0].new_text);
            (action.title, out)
        };
        actions(&document, all).into_iter().map(one).collect()
    }

    #[test]
    fn what_a_help_suggests_is_an_edit() {
        let base = "nodes:\n  h1: {}\n  h2: {}\n";
        for (text, title, wanted) in [
            ("links:\n- [h1, h22]\n", "write h2", "links:\n- [h1, h2]\n"),
            ("links:\n- h1-hh2\n", "write h2", "links:\n- h1-h2\n"),
            (
                "links:\n- [h1, sw]\n- h2-sw\n",
                "add the switch sw",
                "switches:\n  sw: {}\nlinks:\n- [h1, sw]\n- h2-sw\n",
            ),
            (
                "switches:\n  # é\n  a: {}\nlinks:\n- h1-sw\n- h2-sw\n",
                "add the switch sw",
                "switches:\n  # é\n  sw: {}\n  a: {}\nlinks:\n- h1-sw\n- h2-sw\n",
            ),
            (
                "switches: {a: {}}\nlinks:\n- h1-sw\n- h2-sw\n",
                "add the switch sw",
                "switches: {sw: {}, a: {}}\nlinks:\n- h1-sw\n- h2-sw\n",
            ),
            (
                "links:\n- ends: [h1, h2]\n  delay: 10\n",
                "write 10ms",
                "links:\n- ends: [h1, h2]\n  delay: 10ms\n",
            ),
        ] {
            let found = mended(&format!("{base}{text}"));
            let wanted = (title.to_owned(), format!("{base}{wanted}"));
            assert!(found.contains(&wanted), "{wanted:?}: {found:#?}");
        }
    }

    #[test]
    fn an_entry_is_left_out_with_its_line_alone() {
        let found = mended("nodes:\n  h1:\n    tty: true\n    run: x\n");
        let wanted = ("leave it out".to_owned(), "nodes:\n  h1:\n    run: x\n".to_owned());
        assert_eq!(found, [wanted]);
        assert!(mended("nodes:\n  h1:\n    tty:\n      a: 1\n").is_empty());
    }
}
