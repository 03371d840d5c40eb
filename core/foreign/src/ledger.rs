//! The account of an import: what stands in the files of another program, and what became of it.
//!
//! Items are entered before they are read: trees by their leaves ([`Ledger::enter_tree`]), lines and files one by one
//! ([`Ledger::enter`]). A reader then says what became of each. An item of which nobody said anything is left out as
//! unknown, so that nothing is passed over in silence. Of several verdicts on one item the worst holds.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;

use netloom_config::{Kind, Node, Place, printable};
use serde::Serialize;

/// Why an item that no reader knows is left out.
pub(crate) const UNKNOWN: &str = "not known";

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "why")]
pub enum Verdict {
    /// It is in the lab file.
    Carried,
    /// It is there in another way.
    Changed(String),
    /// It is not there.
    LeftOut(String),
}

/// Something that stood in a file of another program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The file, relative to the lab's folder.
    pub file: String,
    /// Line, from 1; of a file as a whole, 0.
    pub line: u32,
    /// What it is: a path of keys, or a line's text.
    pub item: String,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, item) = (printable::line(&self.file), printable::line(&self.item));
        match self.line {
            0 => write!(f, "{file}: ")?,
            line => write!(f, "{file}:{line}: ")?,
        }
        match &self.verdict {
            Verdict::Carried => write!(f, "{item}: carried"),
            Verdict::Changed(why) => write!(f, "{item}: changed: {}", printable::line(why)),
            Verdict::LeftOut(why) => write!(f, "{item}: left out: {}", printable::line(why)),
        }
    }
}

/// The number of an item in its ledger.
pub(crate) type Id = usize;

struct Line {
    file: String,
    line: u32,
    item: String,
    /// The scalar that stands there; empty of lines and files.
    value: String,
    verdict: Option<Verdict>,
}

impl Line {
    /// The words of its text and its value, an address also without its prefix length.
    fn words(&self) -> impl Iterator<Item = &str> {
        let inside = |c: char| !(c.is_ascii_alphanumeric() || ":._/-".contains(c));
        let words = [&self.item, &self.value].into_iter().flat_map(move |text| text.split(inside));
        let words = words.flat_map(|word| {
            std::iter::once(word).chain(word.split(['/', '.'])).chain(word.split(':'))
        });
        let bare = self.value.split_once('/').map(|(bare, _)| bare);
        words.chain(bare).chain(self.item.split([' ', '/'])).filter(|word| !word.is_empty())
    }

    /// Whether it is about a node: by a key of its path, a word, or its file.
    fn names(&self, node: &str) -> bool {
        let apart = |c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c));
        self.file.split(['/', '.']).any(|part| part == node)
            || self.item.split(apart).flat_map(|word| word.split("--")).any(|word| word == node)
    }
}

/// The account while an import is at work.
#[derive(Default)]
pub(crate) struct Ledger {
    lines: RefCell<Vec<Line>>,
    /// Items by file, line and text, so that what is read twice is one item.
    known: RefCell<HashMap<(String, u32, String), Id>>,
    /// Leaves of trees, by file and path.
    leaves: RefCell<HashMap<(String, String), Id>>,
    /// Items by the words in them, once somebody has looked for one.
    words: RefCell<Option<HashMap<String, Vec<Id>>>>,
    /// Items that somebody has found so.
    found: RefCell<HashSet<Id>>,
}

impl Ledger {
    /// Enters an item of which nothing has been said yet.
    pub(crate) fn enter(&self, file: &str, line: u32, item: impl Into<String>) -> Id {
        let (file, item) = (file.to_owned(), item.into());
        let mut lines = self.lines.borrow_mut();
        let mut known = self.known.borrow_mut();
        let id = *known.entry((file.clone(), line, item.clone())).or_insert(lines.len());
        if id == lines.len() {
            lines.push(Line { file, line, item, value: String::new(), verdict: None });
        }
        id
    }

    /// Enters every leaf of a tree.
    pub(crate) fn enter_tree(&self, file: &str, node: &Node) {
        self.enter_below(file, node, node.place, "");
    }

    fn enter_below(&self, file: &str, node: &Node, place: Place, path: &str) {
        match &node.kind {
            Kind::Map(entries) if !entries.is_empty() => {
                for entry in entries {
                    self.enter_below(file, &entry.value, entry.place, &below(path, &entry.key));
                }
            }
            Kind::Seq(items) if !items.is_empty() => {
                for (n, item) in items.iter().enumerate() {
                    self.enter_below(file, item, item.place, &format!("{path}[{n}]"));
                }
            }
            _ => {
                let shown = if path.is_empty() { "the file" } else { path };
                let id = self.enter(file, place.line, shown);
                if let Some(text) = netloom_config::read::scalar(node) {
                    text.clone_into(&mut self.lines.borrow_mut()[id].value);
                }
                self.leaves.borrow_mut().insert((file.to_owned(), path.to_owned()), id);
            }
        }
    }

    /// The leaf of a tree at a path.
    pub(crate) fn leaf(&self, file: &str, path: &str) -> Option<Id> {
        self.leaves.borrow().get(&(file.to_owned(), path.to_owned())).copied()
    }

    /// Says what became of an item; the worst of several verdicts holds.
    pub(crate) fn say(&self, id: Id, verdict: Verdict) {
        if let Some(line) = self.lines.borrow_mut().get_mut(id)
            && line.verdict.as_ref().is_none_or(|old| worse(&verdict, old))
        {
            line.verdict = Some(verdict);
        }
    }

    /// Says what became of all leaves at or below a path.
    pub(crate) fn say_tree(&self, file: &str, node: &Node, path: &str, verdict: &Verdict) {
        match &node.kind {
            Kind::Map(entries) if !entries.is_empty() => {
                for entry in entries {
                    self.say_tree(file, &entry.value, &below(path, &entry.key), verdict);
                }
            }
            Kind::Seq(items) if !items.is_empty() => {
                for (n, item) in items.iter().enumerate() {
                    self.say_tree(file, item, &format!("{path}[{n}]"), verdict);
                }
            }
            _ => {
                if let Some(id) = self.leaf(file, path) {
                    self.say(id, verdict.clone());
                }
            }
        }
    }

    /// The item in which a value of a node stands, which nobody else has found. `after`, if known, is an item that is not
    /// behind it. One that names the node is better than others.
    pub(crate) fn find(&self, after: Option<Id>, node: &str, value: &str) -> Option<Id> {
        let lines = self.lines.borrow();
        let mut words = self.words.borrow_mut();
        // Made once: a lab has thousands of items, and each value that is refused is looked for.
        let words = words.get_or_insert_with(|| {
            let mut found: HashMap<String, Vec<Id>> = HashMap::new();
            for (id, line) in lines.iter().enumerate() {
                for word in line.words() {
                    found.entry(word.to_owned()).or_default().push(id);
                }
            }
            found
        });
        let bare = value.split_once('/').map_or(value, |(bare, _)| bare);
        let mut found = self.found.borrow_mut();
        let has = |(id, line): (Id, &Line)| {
            (line.item.contains(value) || line.value == value).then_some(id)
        };
        let scanned: Vec<Id>;
        let ids = match words.get(value).or_else(|| words.get(bare)) {
            Some(ids) => ids,
            // An address that stands somewhere is a word there; many are made up.
            None if value.is_empty() || bare.parse::<std::net::IpAddr>().is_ok() => return None,
            None => {
                scanned = lines.iter().enumerate().filter_map(has).collect();
                &scanned
            }
        };
        let is_new = |id: &&Id| !found.contains(*id);
        let of_node = |id: &&Id| lines.get(**id).is_some_and(|line| line.names(node));
        let not_before = |id: &&Id| after.is_some_and(|after| **id >= after);
        let new = || ids.iter().filter(is_new);
        // Values such as an MTU stand in many places: each
        // use takes another one, as long as there are some.
        let best = new()
            .filter(not_before)
            .find(of_node)
            .or_else(|| new().find(of_node))
            .or_else(|| new().find(not_before))
            .or_else(|| new().next())
            .or(ids.last())
            .copied();
        found.extend(best);
        best
    }

    /// The finished account, in order of files and lines.
    pub(crate) fn close(self) -> Vec<Item> {
        let unknown = || Verdict::LeftOut(UNKNOWN.to_owned());
        let item = |line: Line| Item {
            file: line.file,
            line: line.line,
            item: line.item,
            verdict: line.verdict.unwrap_or_else(unknown),
        };
        let mut items: Vec<Item> = self.lines.into_inner().into_iter().map(item).collect();
        items.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        items
    }
}

fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Carried => 0,
        Verdict::Changed(_) => 1,
        Verdict::LeftOut(_) => 2,
    }
}

fn worse(new: &Verdict, old: &Verdict) -> bool {
    rank(new) > rank(old)
}

/// The path of a key below another path.
pub(crate) fn below(path: &str, key: &str) -> String {
    let dotted = key.contains(['.', '[', ' ']) || key.is_empty();
    let key = if dotted { format!("{key:?}") } else { key.to_owned() };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Node {
        let mut report = netloom_config::Report::new("f");
        netloom_config::load(text.as_bytes(), &mut report).unwrap()
    }

    #[test]
    fn what_nobody_speaks_of_is_left_out() {
        let node = tree("a: {b: 1, c: [x, {}]}\nd:\n");
        let ledger = Ledger::default();
        ledger.enter_tree("f", &node);
        ledger.say_tree("f", node.get("a").unwrap().get("b").unwrap(), "a.b", &Verdict::Carried);
        let items = ledger.close();
        let shown: Vec<String> = items.iter().map(Item::to_string).collect();
        assert_eq!(
            shown,
            [
                "f:1: a.b: carried",
                "f:1: a.c[0]: left out: not known",
                "f:1: a.c[1]: left out: not known",
                "f:2: d: left out: not known",
            ]
        );
    }

    #[test]
    fn a_name_stays_on_its_line_as_it_is() {
        let ledger = Ledger::default();
        let id = ledger.enter("r1/a\nb", 0, "x\u{202e}y\u{1b}[2J");
        ledger.say(id, Verdict::LeftOut("to \u{2066}z".into()));
        let shown = ledger.close()[0].to_string();
        assert_eq!(shown, "r1/a\\nb: x\\u{202e}y\\u{1b}[2J: left out: to \\u{2066}z");
    }

    #[test]
    fn the_worst_verdict_holds() {
        let ledger = Ledger::default();
        let id = ledger.enter("f", 3, "x");
        ledger.say(id, Verdict::Changed("so".into()));
        ledger.say(id, Verdict::LeftOut("first".into()));
        ledger.say(id, Verdict::LeftOut("second".into()));
        ledger.say(id, Verdict::Carried);
        assert_eq!(ledger.close()[0].verdict, Verdict::LeftOut("first".into()));
    }
}
