//! From text to the tree: assembles YAML events, copies aliases, resolves merge keys.
//!
//! Keys are text and unique in a map. An alias is a copy of what its anchor names; the total of all
//! copies is bounded, so that a few lines cannot become gigabytes. `<<` takes a map or a list of
//! maps: their keys apply where the map has none of its own, earlier maps of a list first
//! (<https://yaml.org/type/merge.html>). A file holds one document; tags other than those of the
//! core schema are refused.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use crate::brackets::unclosed;
use crate::text::decode;
use crate::{Entry, Kind, Node, Place, Report, quote, resolve};

/// How deep lists and maps may be nested.
pub const MAX_DEPTH: usize = 64;

/// Total memory of the copies made for anchors and aliases, in bytes.
pub const MAX_EXPANSION: usize = 64 << 20;

/// How many lists, maps and scalars a file may hold, including keys and excluding copies; the end of
/// a list or map counts as one more.
pub const MAX_VALUES: usize = 2_000_000;

/// Reads a file's bytes. `None` when there is no usable tree; the report says why. With a
/// tree the report may still hold errors, such as a duplicate key.
pub fn load(bytes: &[u8], report: &mut Report) -> Option<Node> {
    let text = decode(bytes, report)?;
    let mut builder = Builder::new(report);
    match builder.run(text) {
        Ok(()) => Some(builder.root.unwrap_or_else(|| Node::null(Place::START))),
        Err(Stop) => None,
    }
}

/// Reading cannot continue; the reason is in the report.
struct Stop;

/// An incomplete list or map.
struct Frame {
    place: Place,
    anchor: usize,
    content: Content,
}

enum Content {
    Seq(Vec<Node>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    entries: Vec<Entry>,
    /// Index into `entries` by key.
    index: HashMap<String, usize>,
    /// The key whose value comes next.
    key: Option<Key>,
    /// Values of `<<`, with the place of each.
    merged: Vec<(Place, Node)>,
}

struct Key {
    text: String,
    place: Place,
    /// False when the key was refused, so that its value is dropped.
    valid: bool,
    merge: bool,
}

struct Builder<'r> {
    report: &'r mut Report,
    stack: Vec<Frame>,
    /// What each anchor names, with its weight.
    anchors: HashMap<usize, (Node, usize)>,
    expansion_left: usize,
    values_left: usize,
    root: Option<Node>,
}

fn place_of(span: Span) -> Place {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).max(1);
    // The parser counts lines from 1, and columns from 0.
    Place { line: number(span.start.line()), column: number(span.start.col() + 1) }
}

impl<'r> Builder<'r> {
    fn new(report: &'r mut Report) -> Builder<'r> {
        Builder {
            report,
            stack: Vec::new(),
            anchors: HashMap::new(),
            expansion_left: MAX_EXPANSION,
            values_left: MAX_VALUES,
            root: None,
        }
    }

    fn run(&mut self, text: &str) -> Result<(), Stop> {
        let mut parser = Parser::new_from_str(text);
        let mut documents = 0;
        while let Some(next) = parser.next_event() {
            let (event, span) = next.map_err(|e| self.not_yaml(&e, text))?;
            if matches!(event, Event::DocumentStart(_)) {
                documents += 1;
                if documents > 1 {
                    return Err(
                        self.stop(place_of(span), "a second document: one file holds one document")
                    );
                }
            }
            self.event(event, place_of(span))?;
        }
        Ok(())
    }

    fn stop(&mut self, place: Place, message: impl Into<String>) -> Stop {
        self.report.error(place, message);
        Stop
    }

    /// Reports what YAML refused; for an unclosed bracket at the bracket.
    fn not_yaml(&mut self, error: &ScanError, text: &str) -> Stop {
        let place = place_of(Span::empty(*error.marker()));
        let line = text.lines().nth(place.line as usize - 1).unwrap_or_default();
        let indent = &line[..line.len() - line.trim_start().len()];
        if indent.contains('\t') {
            let help = Some("indent with spaces, not with tabs".to_owned());
            self.report.error_with(place, format!("not valid YAML: {}", error.info()), help);
        } else if let Some(open) = unclosed(text).filter(|open| open.place < place) {
            let message = format!(
                "not valid YAML: \"{}\" is not closed; reading ended on line {}, column {}",
                open.bracket, place.line, place.column
            );
            let what = if open.bracket == '{' { "map" } else { "list" };
            let help = format!("put \"{}\" where the {what} ends", open.closing());
            self.report.error_with(open.place, message, Some(help));
        } else {
            self.report.error(place, format!("not valid YAML: {}", error.info()));
        }
        Stop
    }

    fn event(&mut self, event: Event<'_>, place: Place) -> Result<(), Stop> {
        // Counted before it is kept: memory is bounded while the file is read.
        match self.values_left.checked_sub(1) {
            Some(left) => self.values_left = left,
            None => {
                return Err(self.stop(place, format!("more than {MAX_VALUES} values in one file")));
            }
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let kind = self.scalar_kind(&text, style, tag.as_deref(), place);
                let quoted = style != ScalarStyle::Plain;
                let node = Node { place, kind, text: text.into_owned() };
                self.complete(node, anchor, quoted)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(place, anchor, tag.as_deref(), Content::Seq(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.open(place, anchor, tag.as_deref(), Content::Map(OpenMap::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, place),
            _ => Ok(()),
        }
    }

    fn scalar_kind(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        place: Place,
    ) -> Kind {
        match tag {
            // `!!str` takes what looks like a number as text.
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Kind::Str,
            Some(tag) if tag.is_yaml_core_schema() => resolve(text),
            Some(tag) => {
                self.refuse_tag(tag, place);
                Kind::Str
            }
            None if style == ScalarStyle::Plain => resolve(text),
            None => Kind::Str,
        }
    }

    fn refuse_tag(&mut self, tag: &Tag, place: Place) {
        let help = "to write text that starts with `!`, put it in quotes".into();
        self.report.error_with(
            place,
            format!("tag {} has no meaning here", quote(&tag.to_string())),
            Some(help),
        );
    }

    fn open(
        &mut self,
        place: Place,
        anchor: usize,
        tag: Option<&Tag>,
        content: Content,
    ) -> Result<(), Stop> {
        // Its content is read all the same, for its errors.
        if let Some(tag) = tag.filter(|t| !t.is_yaml_core_schema()) {
            self.refuse_tag(tag, place);
        }
        // Readers of the tree are recursive: depth is bounded here for all.
        if self.stack.len() >= MAX_DEPTH {
            return Err(
                self.stop(place, format!("lists and maps nested more than {MAX_DEPTH} deep"))
            );
        }
        self.stack.push(Frame { place, anchor, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stop> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let kind = match frame.content {
            Content::Seq(items) => Kind::Seq(items),
            Content::Map(map) => Kind::Map(self.merge(map)),
        };
        let node = Node { place: frame.place, kind, text: String::new() };
        self.complete(node, frame.anchor, true)
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Stop> {
        // The parser refuses an alias without an anchor; this one's value is still open.
        let Some((node, weight)) = self.anchors.get(&anchor) else {
            return Err(self.stop(place, "an alias inside the value that its anchor names"));
        };
        let (node, weight) = (node.clone(), *weight);
        self.spend(weight, place)?;
        // The copy has no anchor of its own.
        self.complete(node, 0, true)
    }

    /// Deducts the memory of a copy from the budget.
    fn spend(&mut self, weight: usize, place: Place) -> Result<(), Stop> {
        match self.expansion_left.checked_sub(weight) {
            Some(left) => {
                self.expansion_left = left;
                Ok(())
            }
            None => {
                let mib = MAX_EXPANSION >> 20;
                Err(self
                    .stop(place, format!("anchors and aliases make more than {mib} MiB of copies")))
            }
        }
    }

    /// Adds a complete node to the open list or map. A `quoted` node cannot be the
    /// merge key.
    fn complete(&mut self, node: Node, anchor: usize, quoted: bool) -> Result<(), Stop> {
        // The parser counts anchors from 1. What an anchor names is copied, too.
        if anchor != 0 {
            let weight = node.weight();
            self.spend(weight, node.place)?;
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        match self.stack.last_mut().map(|frame| &mut frame.content) {
            None => self.root = Some(node),
            Some(Content::Seq(items)) => items.push(node),
            Some(Content::Map(map)) => match map.key.take() {
                None => map.key = Some(key_of(node, quoted, self.report)),
                Some(key) => map.insert(key, node, self.report),
            },
        }
        Ok(())
    }

    /// The map's own entries, followed by those of its merge keys.
    fn merge(&mut self, map: OpenMap) -> Vec<Entry> {
        let OpenMap { mut entries, mut index, merged, .. } = map;
        for (place, value) in merged {
            let sources = match value.kind {
                Kind::Seq(items) => items,
                _ => vec![value],
            };
            for source in sources {
                let Kind::Map(more) = source.kind else {
                    self.report
                        .error(place, "`<<` takes a map or a list of maps, by alias: `<<: *name`");
                    continue;
                };
                for entry in more {
                    // The map's own keys win, then those of earlier maps.
                    if !index.contains_key(&entry.key) {
                        index.insert(entry.key.clone(), entries.len());
                        entries.push(entry);
                    }
                }
            }
        }
        entries
    }
}

impl OpenMap {
    fn insert(&mut self, key: Key, value: Node, report: &mut Report) {
        if !key.valid {
            return;
        }
        // Keys of the map itself may still come, and win: merged when it closes.
        if key.merge {
            return self.merged.push((key.place, value));
        }
        if let Some(&first) = self.index.get(&key.text) {
            let line = self.entries[first].place.line;
            return report.error(
                key.place,
                format!("{} is given twice, first on line {line}", quote(&key.text)),
            );
        }
        self.index.insert(key.text.clone(), self.entries.len());
        self.entries.push(Entry { key: key.text, place: key.place, value });
    }
}

fn key_of(node: Node, quoted: bool, report: &mut Report) -> Key {
    let valid = match node.kind {
        Kind::Str | Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) => true,
        Kind::Null | Kind::Seq(_) | Kind::Map(_) => {
            let help = match node.kind {
                Kind::Map(_) => Some("put text with braces in quotes: \"{x}\"".into()),
                _ => None,
            };
            report.error_with(
                node.place,
                format!("a key must be text, found {}", node.describe()),
                help,
            );
            false
        }
    };
    // In quotes it is a key like any other.
    let merge = !quoted && node.text == "<<";
    Key { text: node.text, place: node.place, valid, merge }
}

#[cfg(test)]
mod tests;
