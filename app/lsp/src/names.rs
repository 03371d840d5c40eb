//! Names of nodes and switches: where they are defined, and which word mentions one.

use std::collections::HashMap;

use lsp_types::Range;
use netloom_config::cursor::{self, Step};

use crate::document::Document;
use crate::position::Ruler;

/// A node or a switch that the file names.
#[derive(Clone, Debug)]
pub(crate) struct Defined {
    /// Its name, of a node in a node with its parents': `tenant/a`; with braces, of all that `for` makes.
    pub name: String,
    /// Its line, its column and the characters of its key.
    place: [usize; 3],
}

impl Defined {
    /// Where its key stands.
    pub(crate) fn range(&self, document: &Document) -> Range {
        let [line, column, width] = self.place;
        Ruler::of(&document.lines, &document.text).range(line, column, width).0
    }
}

/// All of a file.
#[derive(Debug)]
pub(crate) struct Names {
    /// In the order of the file.
    pub all: Vec<Defined>,
    by_name: HashMap<String, usize>,
    templates: Vec<usize>,
}

impl Names {
    pub(crate) fn of(document: &Document) -> Names {
        let mut names = Names { all: vec![], by_name: HashMap::new(), templates: vec![] };
        cursor::words(&document.text, |word, path| {
            let Some(name) = defined(path, word.text).filter(|_| word.is_key) else { return };
            let index = names.all.len();
            if name.contains('{') {
                names.templates.push(index);
            }
            names.by_name.entry(name.clone()).or_insert(index);
            names.all.push(Defined { name, place: [word.line, word.column, word.width] });
        });
        names
    }

    /// Whether the file has a key with exactly this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The one with this name, or whose braces may stand for it.
    pub(crate) fn find(&self, name: &str) -> Option<&Defined> {
        let exact = self.by_name.get(name);
        let made = || self.templates.iter().find(|at| is_made_by(name, &self.all[**at].name));
        exact.or_else(made).map(|at| &self.all[*at])
    }

    /// Whether this is an end of a link: one of these, or a way out of the lab.
    pub(crate) fn is_end(&self, end: &str) -> bool {
        let name = base(end);
        ["internet", "nowhere", "host"].contains(&name) || self.find(name).is_some()
    }
}

/// The whole name of what a key defines, if that is a node or a switch.
pub(crate) fn defined(path: &[Step<'_>], key: &str) -> Option<String> {
    let parents = parents(path)?;
    Some(parents.iter().chain([&key]).copied().collect::<Vec<_>>().join("/"))
}

/// The nodes around a key that names a node or a switch; `None` for another key.
fn parents<'t>(path: &[Step<'t>]) -> Option<Vec<&'t str>> {
    if path == [Step::Key("switches")] {
        return Some(vec![]);
    }
    let mut parents = vec![];
    let mut rest = path;
    while let [Step::Key("nodes"), Step::Key(name), Step::Key("children"), behind @ ..] = rest {
        parents.push(*name);
        rest = behind;
    }
    (rest == [Step::Key("nodes")]).then_some(parents)
}

/// Whether a name is that of a key, or one that its braces may stand for.
pub(crate) fn is_named(name: &str, key: &str) -> bool {
    name == key || is_made_by(name, key)
}

/// Whether filling the braces of a template may give this name.
fn is_made_by(name: &str, template: &str) -> bool {
    let mut rest = name;
    let mut parts = template.split('{');
    let Some(first) = parts.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = first;
    let mut is_template = false;
    for part in parts {
        is_template = true;
        let Some((_, text)) = part.split_once('}') else { return false };
        if text.is_empty() {
            continue;
        }
        // What fills braces is at least a character.
        let Some(at) = rest.get(1..).and_then(|behind| behind.find(text)) else { return false };
        rest = &rest[1 + at + text.len()..];
    }
    is_template && (template.ends_with('}') != rest.is_empty())
}

/// The node or switch that an end of a link names: `h1:eth1` is of h1.
pub(crate) fn base(word: &str) -> &str {
    word.split(':').next().unwrap_or(word)
}

/// How a word mentions nodes or switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mention {
    /// A node or switch, maybe with an interface.
    End,
    /// Both ends of a link in a text.
    Ends,
    /// A port of a switch: an end, or a link's name, which has ends where nothing else is said.
    Port,
    /// `node:NAME`, maybe with a port.
    Controller,
    /// An expression, in which names are words.
    Expression,
}

/// Whether the value, or the key, at a path mentions nodes or switches.
pub(crate) fn mention(path: &[Step<'_>], is_key: bool) -> Option<Mention> {
    use Step::{Item, Key};
    let (path, is_listed) = match path {
        [path @ .., Item] if !is_key => (path, true),
        path => (path, false),
    };
    let found = match path {
        [Key("links"), Item, Key("addresses" | "mac" | "port")] if is_key => Mention::End,
        [Key("x-layout" | "place")] if is_key => Mention::End,
        [Key("slices"), Key(_), Key("switches" | "datapaths")] if is_key => Mention::End,
        [Key("expect"), Item, Key("do"), Key("exec")] if is_key => Mention::End,
        [Key("expect"), Item, Key("do"), Key("set")] if is_key => Mention::Port,
        [Key("switches"), Key(_), Key("ports")] if is_key => Mention::Port,
        _ if is_key => return None,
        [Key("links")] if is_listed => Mention::Ends,
        [Key("links"), Item] | [Key("links"), Item, Key("ends")] if is_listed => Mention::End,
        [Key("nodes"), .., Key("routes"), Item, Key("via")] => Mention::End,
        [Key("expect"), Item, Key("reaches" | "cannot-reach"), rest @ ..] => match rest {
            [] | [Item] if is_listed => Mention::End,
            [Key("from" | "to")] => Mention::End,
            _ => return None,
        },
        [Key("expect"), Item, Key(kind), Key(key)] => match (*kind, *key) {
            ("route" | "no-route", "node" | "to" | "via") => Mention::End,
            ("loss" | "rate", "from" | "to") | ("output", "node") => Mention::End,
            ("do", "down" | "up") => Mention::Port,
            _ => return None,
        },
        [Key("switches"), Key(_), Key("mirrors"), Item, Key("from" | "to")] => Mention::Port,
        [Key("slices"), Key(_), Key("switches"), Key(_), Key("ports")]
        | [Key("slices"), Key(_), Key("switches"), Key(_), Item, Key("ports")] => Mention::Port,
        [Key("switches" | "slices"), Key(_), Key("controllers")] => Mention::Controller,
        [Key("links"), Item, Key("drop")]
        | [Key("links"), Item, Key("a" | "b"), Key("drop")]
        | [Key("expect"), Item, Key("do"), Key("set"), Key(_), Key("drop")] => Mention::Expression,
        _ => return None,
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use netloom_model::link_ends;

    use super::*;

    #[test]
    fn templates_make_names() {
        for (name, template, wanted) in [
            ("h3", "h{i}", true),
            ("h", "h{i}", false),
            ("agg1-2", "agg{pod}-{i}", true),
            ("agg1", "agg{pod}-{i}", false),
            ("agg1-2x", "agg{pod}-{i}", true),
            ("x1y", "x{i}y", true),
            ("x1yz", "x{i}y", false),
            ("é", "{a}b", false),
            ("a", "a", false),
            ("h3", "h{i", false),
        ] {
            assert_eq!(is_made_by(name, template), wanted, "{name} {template}");
        }
    }

    #[test]
    fn the_text_of_a_link_has_two_ends() {
        let known = |name: &str| ["a", "a-b", "c"].contains(&base(name));
        assert_eq!(link_ends("a-b-c", known), Some(["a-b", "c"]));
        assert_eq!(link_ends("a:eth1 -- c", known), Some(["a:eth1", "c"]));
        assert_eq!(link_ends("a<->c", known), Some(["a", "c"]));
        assert_eq!(link_ends("a, c", known), Some(["a", "c"]));
        assert_eq!(link_ends("a-x", known), None);
    }

    #[test]
    fn nodes_in_nodes_have_their_parents() {
        let key = Step::Key;
        assert_eq!(defined(&[key("nodes")], "a").as_deref(), Some("a"));
        let inside = [key("nodes"), key("t"), key("children"), key("nodes")];
        assert_eq!(defined(&inside, "a").as_deref(), Some("t/a"));
        assert_eq!(defined(&[key("nodes"), key("t")], "run"), None);
        assert_eq!(defined(&[key("switches")], "s").as_deref(), Some("s"));
    }
}
