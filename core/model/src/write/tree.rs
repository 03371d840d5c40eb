//! Values of a lab file on their way to text.

use std::fmt::Write as _;

use netloom_config::printable;
use netloom_config::written::{quoted, scalar};

use crate::file::table::Object;

/// The longest line that is not broken.
const WIDTH: usize = 100;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Yaml {
    /// A word, a number or a text that is quoted already.
    Word(String),
    /// A text, quoted where it must be.
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
    /// A list whose items each stand on a line of their own.
    Items(Vec<Yaml>),
    /// A map whose entries do.
    Block(Vec<(String, Yaml)>),
}

impl Yaml {
    pub(super) fn word(word: impl ToString) -> Yaml {
        Yaml::Word(word.to_string())
    }

    pub(super) fn text(text: impl Into<String>) -> Yaml {
        Yaml::Text(text.into())
    }

    /// A value with a unit, an address or the like, which readers do not take as a text: quoted only where YAML needs it.
    pub(super) fn plain(value: impl Into<String>) -> Yaml {
        let value = value.into();
        let safe = |c: char| c.is_ascii_alphanumeric() || "./%_-= ".contains(c);
        let starts = value.starts_with(|c: char| c.is_ascii_alphanumeric());
        match starts && value.chars().all(safe) && !value.ends_with(' ') {
            true => Yaml::Word(value),
            false => Yaml::Text(value),
        }
    }

    pub(super) fn none() -> Yaml {
        Yaml::Map(vec![])
    }

    pub(super) fn texts(texts: &[String]) -> Yaml {
        Yaml::List(texts.iter().map(Yaml::text).collect())
    }

    /// One value by itself, others as a list.
    pub(super) fn one_or_list(mut all: Vec<Yaml>) -> Yaml {
        if all.len() == 1 { all.remove(0) } else { Yaml::List(all) }
    }

    fn is_empty(&self) -> bool {
        match self {
            Yaml::Word(_) | Yaml::Text(_) => false,
            Yaml::List(all) | Yaml::Items(all) => all.is_empty(),
            Yaml::Map(all) | Yaml::Block(all) => all.is_empty(),
        }
    }

    /// The whole file: each entry of this map is a key at the start of a line.
    pub(super) fn file(self) -> String {
        let mut out = String::new();
        let entries = match self {
            Yaml::Map(all) | Yaml::Block(all) => all,
            _ => vec![],
        };
        put_map(&mut out, &entries, 0);
        out
    }

    /// On one line.
    fn flow(&self) -> String {
        match self {
            Yaml::Word(word) => word.clone(),
            Yaml::Text(text) => scalar(text),
            Yaml::List(all) | Yaml::Items(all) => {
                let all: Vec<String> = all.iter().map(Yaml::flow).collect();
                format!("[{}]", all.join(", "))
            }
            Yaml::Map(all) | Yaml::Block(all) => {
                let one =
                    |(key, value): &(String, Yaml)| format!("{}: {}", scalar(key), value.flow());
                format!("{{{}}}", all.iter().map(one).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Whether it is better on several lines, however short.
    fn has_lines(&self) -> bool {
        match self {
            Yaml::Word(_) => false,
            Yaml::Text(text) => text.contains('\n'),
            Yaml::List(all) => all.iter().any(Yaml::has_lines),
            Yaml::Map(all) => all.iter().any(|(_, value)| value.has_lines()),
            Yaml::Items(all) => !all.is_empty(),
            Yaml::Block(all) => !all.is_empty(),
        }
    }

    /// What stands after a key or the dash of an item that begins at column `at`; `used` of its line are taken.
    fn put(&self, out: &mut String, at: usize, used: usize, is_item: bool) {
        let flow = self.flow();
        // A scalar stays on its line however long: to break it would change its text.
        if !self.has_lines() && (used + 1 + flow.chars().count() <= WIDTH || self.is_scalar()) {
            let _ = writeln!(out, " {flow}");
            return;
        }
        match self {
            Yaml::Word(_) => {}
            Yaml::Text(text) => match literal(text) {
                Some(mark) => {
                    let _ = writeln!(out, " {mark}");
                    for line in text.trim_end_matches('\n').split('\n') {
                        let indent = if line.is_empty() { 0 } else { at + 2 };
                        let _ = writeln!(out, "{:indent$}{line}", "");
                    }
                }
                None => {
                    let _ = writeln!(out, " {}", quoted(text));
                }
            },
            Yaml::List(all) | Yaml::Items(all) => {
                let mut lines = String::new();
                put_list(&mut lines, all, at + 2);
                put_lines(out, &lines, at + 2, is_item);
            }
            Yaml::Map(all) | Yaml::Block(all) => {
                let mut lines = String::new();
                put_map(&mut lines, all, at + 2);
                put_lines(out, &lines, at + 2, is_item);
            }
        }
    }

    fn is_scalar(&self) -> bool {
        matches!(self, Yaml::Word(_) | Yaml::Text(_))
    }
}

/// Lines with this indent, below a key, or behind the dash of an item.
fn put_lines(out: &mut String, lines: &str, indent: usize, is_item: bool) {
    match is_item {
        true => _ = write!(out, " {}", lines.get(indent..).unwrap_or_default()),
        false => _ = write!(out, "\n{lines}"),
    }
}

fn put_map(out: &mut String, all: &[(String, Yaml)], at: usize) {
    for (key, value) in all {
        let start = format!("{:at$}{}:", "", scalar(key));
        out.push_str(&start);
        value.put(out, at, start.chars().count(), false);
    }
}

fn put_list(out: &mut String, all: &[Yaml], at: usize) {
    for value in all {
        let _ = write!(out, "{:at$}-", "");
        value.put(out, at, at + 1, true);
    }
}

/// How a text of several lines is announced; `None` if it has to be quoted.
fn literal(text: &str) -> Option<&'static str> {
    let seen = |c: char| {
        let plain = c >= ' ' && !('\u{7f}'..'\u{a0}').contains(&c);
        (plain && !printable::is_unseen(c) && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'))
            || c == '\n'
    };
    let bare = text.trim_end_matches('\n');
    let plain = text.chars().all(seen)
        && !bare.is_empty()
        // A literal block takes its indent from its first line, so that must not begin with a
        // space.
        && !bare.starts_with([' ', '\n'])
        && bare.split('\n').all(|line| !line.ends_with(' '));
    match text.len() - bare.len() {
        _ if !plain => None,
        0 => Some("|-"),
        1 => Some("|"),
        _ => None,
    }
}

/// The entries of a map under construction.
#[derive(Default)]
pub(super) struct Body(pub(super) Vec<(String, Yaml)>);

impl Body {
    pub(super) fn put(&mut self, key: &str, value: Yaml) {
        self.0.push((key.to_owned(), value));
    }

    /// A value that is left out when it is empty.
    pub(super) fn some(&mut self, key: &str, value: Yaml) {
        if !value.is_empty() {
            self.put(key, value);
        }
    }

    /// A text that is left out when it is absent.
    pub(super) fn text(&mut self, key: &str, text: Option<impl Into<String>>) {
        if let Some(text) = text {
            self.put(key, Yaml::text(text));
        }
    }

    /// The same for [`Yaml::plain`].
    pub(super) fn plain(&mut self, key: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.put(key, Yaml::plain(value));
        }
    }

    /// A word or number that is left out when it is the default.
    pub(super) fn unless<T: PartialEq + ToString>(&mut self, key: &str, value: &T, default: &T) {
        if value != default {
            self.put(key, Yaml::word(value.to_string()));
        }
    }

    /// The map, its keys in the order of a table.
    pub(super) fn in_order(mut self, table: &Object) -> Yaml {
        let names: Vec<&str> = table.all_keys().map(|key| key.name).collect();
        let place = |key: &str| names.iter().position(|name| *name == key);
        debug_assert!(self.0.iter().all(|(key, _)| place(key).is_some()), "{:?}", self.0);
        self.0.sort_by_key(|(key, _)| place(key).unwrap_or(usize::MAX));
        Yaml::Map(self.0)
    }
}
