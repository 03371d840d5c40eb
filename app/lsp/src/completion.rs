//! What may be written at a place: keys, words, names of nodes and switches, interfaces.

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, Position, Range,
    TextEdit,
};
use netloom_config::cursor::{self, Gap, Step};
use netloom_config::written;
use netloom_model::reference::{self, KeyInWords};

use crate::document::Document;
use crate::names::{self, Mention, Names};

/// How many names are offered.
const MOST_NAMES: usize = 1000;

/// Ends of links that are not nodes.
const OTHER_ENDS: [&str; 2] = ["internet", "nowhere"];

/// What may be written at a position.
pub(crate) fn items(document: &Document, position: Position) -> Vec<CompletionItem> {
    // A place beyond the text is its end.
    let (line, column) = document.lines.place(&document.text, position);
    let position = document.lines.position(&document.text, line, column);
    let text = &document.text[..document.lines.offset(&document.text, position)];
    let found = cursor::gap(text, |gap, path, partial| {
        let units = document.lines.encoding().units(partial);
        let start = Position { character: position.character.saturating_sub(units), ..position };
        let before = text[..text.len() - partial.len()].chars().next_back();
        let is_quoted = before.is_some_and(|c| matches!(c, '"' | '\''));
        let range = Range { start, end: position };
        Offer { document, path, range, is_quoted, partial }.items(gap)
    });
    found.unwrap_or_default()
}

struct Offer<'a> {
    document: &'a Document,
    path: &'a [Step<'a>],
    range: Range,
    is_quoted: bool,
    partial: &'a str,
}

impl Offer<'_> {
    fn items(&self, gap: Gap) -> Vec<CompletionItem> {
        let choices = reference::choices(self.path);
        let mut items = vec![];
        if gap != Gap::Value {
            items.extend(choices.keys.iter().map(|key| self.key(key)));
        }
        if gap == Gap::Key && self.mentions(true) {
            items.extend(self.names().into_iter().map(|name| self.name(&name)));
        }
        if gap == Gap::Key {
            return items;
        }
        items.extend(
            choices.words.iter().map(|word| self.item(word, word, CompletionItemKind::ENUM_MEMBER)),
        );
        if self.mentions(false) {
            items.extend(self.names().into_iter().map(|name| self.name(&name)));
        }
        items.extend(self.interfaces());
        items
    }

    /// Whether names of nodes and switches stand here.
    fn mentions(&self, is_key: bool) -> bool {
        let mention = names::mention(self.path, is_key);
        mention.is_some_and(|mention| !matches!(mention, Mention::Expression | Mention::Controller))
    }

    fn item(&self, label: &str, text: &str, kind: CompletionItemKind) -> CompletionItem {
        let edit = TextEdit { range: self.range, new_text: text.to_owned() };
        CompletionItem {
            label: label.to_owned(),
            kind: Some(kind),
            // Some clients compare with what stands in the range.
            filter_text: Some(label.to_owned()),
            text_edit: Some(CompletionTextEdit::Edit(edit)),
            ..CompletionItem::default()
        }
    }

    fn key(&self, key: &KeyInWords) -> CompletionItem {
        let text = if self.is_quoted { key.name.to_owned() } else { format!("{}: ", key.name) };
        CompletionItem {
            detail: Some(key.value.clone()),
            documentation: Some(Documentation::String(key.about.to_owned())),
            ..self.item(key.name, &text, CompletionItemKind::PROPERTY)
        }
    }

    fn name(&self, name: &str) -> CompletionItem {
        let text = if self.is_quoted { name.to_owned() } else { written::scalar(name) };
        self.item(name, &text, CompletionItemKind::REFERENCE)
    }

    /// Names of nodes and switches, with those that `for` makes where they are known.
    fn names(&self) -> Vec<String> {
        let defined = Names::of(self.document);
        let written = defined.all.iter().map(|defined| &defined.name);
        let mut names: Vec<String> =
            written.filter(|name| !name.contains('{')).take(MOST_NAMES).cloned().collect();
        if let Some(plan) = &self.document.last_plan {
            let all = plan.nodes.iter().map(|node| &node.name);
            let made = all.chain(plan.switches.iter().map(|switch| &switch.name));
            let room = MOST_NAMES.saturating_sub(names.len());
            names.extend(made.filter(|name| !defined.has(name)).take(room).cloned());
        }
        if let [Step::Key("links"), ..] = self.path {
            names.extend(OTHER_ENDS.map(str::to_owned));
        }
        names
    }

    /// Interfaces: behind `NODE:` of an end, and of a node's own for `dev`.
    fn interfaces(&self) -> Vec<CompletionItem> {
        let Some(plan) = &self.document.last_plan else { return vec![] };
        let (node, is_end) = match self.path {
            [
                Step::Key("nodes"),
                Step::Key(node),
                Step::Key("routes"),
                Step::Item,
                Step::Key("dev"),
            ] => (*node, false),
            _ if self.mentions(false) => match self.partial.split_once(':') {
                Some((node, _)) => (node, true),
                None => return vec![],
            },
            _ => return vec![],
        };
        let Some(node) = plan.nodes.iter().find(|planned| planned.name == node) else {
            return vec![];
        };
        let names = node.interfaces.iter().map(|interface| match is_end {
            true => format!("{}:{}", node.name, interface.name),
            false => interface.name.clone(),
        });
        names.map(|name| self.name(&name)).collect()
    }
}
