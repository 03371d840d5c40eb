//! A value in a tree of another program's file, with its path and the account that it belongs to.
//!
//! Readers go down with [`At::get`], [`At::entries`] and [`At::items`] and say of what they read what became of it. To
//! go down says nothing, so keys that no reader asks for stay unknown.

use std::rc::Rc;

use netloom_config::{Kind, Node, Place, read};

use crate::ledger::{Ledger, Verdict, below};

/// A value and where it stands.
#[derive(Clone)]
pub(crate) struct At<'a> {
    pub(crate) node: &'a Node,
    /// The key's place, or the value's own in a list.
    pub(crate) place: Place,
    path: String,
    file: Rc<str>,
    ledger: &'a Ledger,
}

impl<'a> At<'a> {
    /// The whole of a file, whose leaves are entered into the account.
    pub(crate) fn root(file: &str, node: &'a Node, ledger: &'a Ledger) -> At<'a> {
        ledger.enter_tree(file, node);
        At { node, place: node.place, path: String::new(), file: file.into(), ledger }
    }

    fn child(&self, node: &'a Node, place: Place, path: String) -> At<'a> {
        At { node, place, path, file: Rc::clone(&self.file), ledger: self.ledger }
    }

    /// A map's value.
    pub(crate) fn get(&self, key: &str) -> Option<At<'a>> {
        let entry = self.node.entries()?.iter().find(|entry| entry.key == key)?;
        Some(self.child(&entry.value, entry.place, below(&self.path, key)))
    }

    /// A map's entries; none of anything else.
    pub(crate) fn entries(&self) -> Vec<(&'a str, At<'a>)> {
        let entries = self.node.entries().unwrap_or_default();
        let one = |entry: &'a netloom_config::Entry| {
            let at = self.child(&entry.value, entry.place, below(&self.path, &entry.key));
            (entry.key.as_str(), at)
        };
        entries.iter().map(one).collect()
    }

    /// A list's items; none of anything else.
    pub(crate) fn items(&self) -> Vec<At<'a>> {
        let items = self.node.items().unwrap_or_default();
        let one = |(n, item): (usize, &'a Node)| {
            self.child(item, item.place, format!("{}[{n}]", self.path))
        };
        items.iter().enumerate().map(one).collect()
    }

    /// The items of a list, or a single value as the only one.
    pub(crate) fn one_or_items(&self) -> Vec<At<'a>> {
        if self.node.items().is_some() { self.items() } else { vec![self.clone()] }
    }

    /// A scalar's text as written.
    pub(crate) fn text(&self) -> Option<&'a str> {
        read::scalar(self.node)
    }

    /// The text of a key's scalar.
    pub(crate) fn text_of(&self, key: &str) -> Option<&'a str> {
        let entry = self.node.entries()?.iter().find(|entry| entry.key == key)?;
        read::scalar(&entry.value)
    }

    /// The item of its first leaf.
    pub(crate) fn item(&self) -> Option<crate::ledger::Id> {
        let (mut at, mut below) =
            (self.clone(), self.entries().into_iter().map(|(_, at)| at).next());
        while let Some(next) = below.or_else(|| at.items().into_iter().next()) {
            below = next.entries().into_iter().map(|(_, at)| at).next();
            at = next;
        }
        self.ledger.leaf(&at.file, &at.path)
    }

    /// Whether it says `true`.
    pub(crate) fn is_true(&self) -> bool {
        self.node.kind == Kind::Bool(true)
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.node.kind {
            Kind::Null => true,
            Kind::Seq(items) => items.is_empty(),
            Kind::Map(entries) => entries.is_empty(),
            Kind::Str => self.node.text.is_empty(),
            _ => false,
        }
    }

    pub(crate) fn say(&self, verdict: &Verdict) {
        self.ledger.say_tree(&self.file, self.node, &self.path, verdict);
    }

    /// All of it is in the lab file.
    pub(crate) fn carried(&self) {
        self.say(&Verdict::Carried);
    }

    /// All of it is there in another way.
    pub(crate) fn changed(&self, why: impl Into<String>) {
        self.say(&Verdict::Changed(why.into()));
    }

    /// Nothing of it is there.
    pub(crate) fn left_out(&self, why: impl Into<String>) {
        self.say(&Verdict::LeftOut(why.into()));
    }

    /// It is neither text nor number where one is expected.
    pub(crate) fn odd(&self, expected: &str) {
        self.left_out(format!("expected {expected}, found {}", self.node.describe()));
    }

    /// Nothing in it matters to a lab: drawings, colours, notes.
    pub(crate) fn drawing(&self) {
        self.changed("only matters to its drawing");
    }
}
