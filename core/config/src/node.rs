//! The tree of a file: values with their places.
//!
//! Maps keep the written order and the place of each key. A scalar keeps its text as written
//! beside its meaning, so that `0755`, `1.10` or `true` can be read as text where text is
//! expected.

/// A place in a file: both numbers start at 1 and count lines and characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Place {
    /// The start of a file.
    pub const START: Place = Place { line: 1, column: 1 };
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it starts. Copies made by an alias keep the place of the text itself.
    pub place: Place,
    /// Its kind, with its content.
    pub kind: Kind,
    /// A scalar's text as written, quotes and escapes resolved; empty for lists and maps.
    pub text: String,
}

/// The kind of a node, with its content.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// No value: `~`, `null` or no text at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number, also whole ones beyond 64 bits.
    Float(f64),
    /// Text; it is in [`Node::text`].
    Str,
    /// A list.
    Seq(Vec<Node>),
    /// A map in written order; no key twice.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key's text.
    pub key: String,
    /// Where the key is.
    pub place: Place,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// A node without value at a place.
    pub fn null(place: Place) -> Node {
        Node { place, kind: Kind::Null, text: String::new() }
    }

    /// Whether it has no value.
    pub fn is_null(&self) -> bool {
        self.kind == Kind::Null
    }

    /// The entries, when it is a map.
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The items, when it is a list.
    pub fn items(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::Seq(items) => Some(items),
            _ => None,
        }
    }

    /// A map's value for a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|e| e.key == key).map(|e| &e.value)
    }

    /// Its kind in words, for "found ...".
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".into(),
            Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) => crate::quote_plain(&self.text),
            Kind::Str => crate::quote(&self.text),
            Kind::Seq(_) => "a list".into(),
            Kind::Map(_) => "a map".into(),
        }
    }

    /// Approximate memory of the tree below it, in bytes.
    pub fn weight(&self) -> usize {
        let own = size_of::<Node>() + self.text.len();
        own + match &self.kind {
            Kind::Seq(items) => items.iter().map(Node::weight).sum::<usize>(),
            Kind::Map(entries) => entries.iter().map(Entry::weight).sum(),
            _ => 0,
        }
    }
}

impl Entry {
    fn weight(&self) -> usize {
        size_of::<Entry>() + self.key.len() + self.value.weight()
    }
}
