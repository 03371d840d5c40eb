//! What a key or a name is about: the manual's text, and what is planned for a node.

use std::fmt::Write as _;

use lsp_types::{Hover, HoverContents, Location, MarkupContent, MarkupKind, Position};
use netloom_config::cursor::{Step, Word};
use netloom_config::printable;
use netloom_model::plan::PlannedNode;
use netloom_model::reference::{self, KeyInWords};
use netloom_model::{Plan, link_ends};

use crate::document::Document;
use crate::names::{self, Mention, Names};

/// How many nodes are shown of one entry with `for`.
const MOST_NODES: usize = 8;

/// What is known about the word at a position.
pub(crate) fn hover(document: &Document, position: Position) -> Option<Hover> {
    let (text, range) = document.word_at(position, |word, path| {
        (about(document, word, path, position), document.lines.range(&document.text, word))
    })?;
    let value = text?;
    let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
    Some(Hover { contents, range: Some(range) })
}

/// Where the node or switch at a position is defined.
pub(crate) fn definition(document: &Document, position: Position) -> Option<Location> {
    let name = document.word_at(position, |word, path| named(document, word, path, position))??;
    let range = Names::of(document).find(&name)?.range(document);
    Some(Location { uri: document.uri.clone(), range })
}

/// The node or switch that a word names.
pub(crate) fn named(
    document: &Document,
    word: &Word<'_>,
    path: &[Step<'_>],
    position: Position,
) -> Option<String> {
    if let Some(name) = names::defined(path, word.text).filter(|_| word.is_key) {
        return Some(name);
    }
    let name = match names::mention(path, word.is_key)? {
        Mention::End | Mention::Port => word.text,
        Mention::Controller => word.text.strip_prefix("node:")?,
        Mention::Ends => {
            let names = Names::of(document);
            let ends = link_ends(word.text, |end| names.is_end(end))?;
            let (_, column) = document.lines.place(&document.text, position);
            let first = word.column + usize::from(word.is_quoted) + ends[0].chars().count();
            ends[usize::from(column > first)]
        }
        Mention::Expression => return None,
    };
    Some(names::base(name).to_owned())
}

fn about(
    document: &Document,
    word: &Word<'_>,
    path: &[Step<'_>],
    position: Position,
) -> Option<String> {
    let name = named(document, word, path, position);
    let node = name.and_then(|name| planned(document.plan()?, &name));
    let key = if word.is_key {
        reference::key_at(path, word.text)
    } else {
        path.iter().rposition(|step| matches!(step, Step::Key(_))).and_then(|at| match path[at] {
            Step::Key(name) => reference::key_at(&path[..at], name),
            Step::Item => None,
        })
    };
    let parts: Vec<String> = node.into_iter().chain(key.map(|key| manual(&key))).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The manual's text on a key.
fn manual(key: &KeyInWords) -> String {
    let kind = key.kind.map(|kind| format!(", only of kind {kind}")).unwrap_or_default();
    let required = if key.required { ", required" } else { "" };
    format!("**{}**: {}{kind}{required}\n\n{}", key.name, key.value, key.about)
}

/// What is planned for a node or a switch, or for those that an entry with `for` makes.
fn planned(plan: &Plan, name: &str) -> Option<String> {
    let mut text = String::new();
    let nodes: Vec<&PlannedNode> =
        plan.nodes.iter().filter(|node| names::is_named(&node.name, name)).collect();
    for node in nodes.iter().take(MOST_NODES) {
        write_node(plan, node, &mut text);
    }
    if let Some(more) = nodes.len().checked_sub(MOST_NODES).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} more nodes");
    }
    if let Some(switch) = plan.switches.iter().find(|switch| switch.name == name) {
        let _ = writeln!(
            text,
            "switch {}: kind {}, MTU {}",
            switch.name,
            switch.kind.word(),
            switch.mtu
        );
    }
    (!text.is_empty()).then(|| format!("```text\n{text}```"))
}

fn write_node(plan: &Plan, node: &PlannedNode, text: &mut String) {
    let _ = writeln!(text, "{}", printable::line(&node.name));
    for interface in &node.interfaces {
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        let addresses =
            if addresses.is_empty() { "no addresses".to_owned() } else { addresses.join(", ") };
        let link = plan.links.get(interface.link.get()).map_or("", |link| link.name.as_str());
        let _ = writeln!(text, "  {}  {addresses}  {}", interface.name, printable::line(link));
    }
}
