//! What maps of the file may hold: tables of keys, each with its meaning and the kind of its value.
//!
//! The parser takes no key that is not in a table, and the JSON Schema and the manual are made from them: so they
//! cannot drift apart.

/// What a map of the file may hold.
#[derive(Debug)]
pub(crate) struct Object {
    /// In messages and as the schema's title: `node`.
    pub name: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// Its keys, whatever its kind.
    pub keys: &'static [Key],
    /// Its kinds, which are words of its key `kind`, the default first; empty where there is no choice.
    pub kinds: &'static [KindKeys],
    /// Keys that are known and refused, with the reason.
    pub refused: &'static [(&'static str, &'static str)],
    /// Whether keys that start with `x-` are taken and ignored.
    pub extensions: bool,
}

/// The keys that only objects of one kind have.
#[derive(Debug)]
pub(crate) struct KindKeys {
    /// What stands in the key `kind`.
    pub kind: &'static str,
    /// No other kind has a key of the same name.
    pub keys: &'static [Key],
}

/// A key of an [`Object`].
#[derive(Debug)]
pub(crate) struct Key {
    pub name: &'static str,
    pub doc: &'static str,
    pub value: Value,
    pub required: bool,
}

/// The kind of a value.
#[derive(Debug)]
pub(crate) enum Value {
    Boolean,
    /// A whole number in this range.
    Integer(i64, i64),
    /// Any text; numbers and booleans count as the text they are written as.
    Text,
    /// Text of a form, given as a regular expression.
    Pattern(&'static str),
    /// A number, or text of a form.
    NumberOrPattern(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of at least one and at most so many items.
    List(&'static Value, Option<usize>),
    /// A list of two items.
    Pair(&'static Value),
    /// A list that may be empty.
    AnyList(&'static Value),
    /// A map with keys of the user's choice.
    Map(&'static Value),
    Object(&'static Object),
    /// The same, for an object that stands in several places.
    Shared(&'static Object),
    /// A [`NODE`]; by name, because it may stand in itself.
    Node,
    /// No value: `h1:` is like `h1: {}`.
    Nothing,
    /// One of several kinds.
    AnyOf(&'static [Value]),
    /// A value, and how a reader is told of it: `a duration like 30s`.
    Called(&'static str, &'static Value),
}

pub(crate) const fn key(name: &'static str, value: Value, doc: &'static str) -> Key {
    Key { name, doc, value, required: false }
}

pub(crate) const DURATION: Value = Value::Called(
    "a duration like 500ms, 30s or 2m; a bare number is seconds",
    &Value::NumberOrPattern(r"^[0-9]+(\.[0-9]+)? *(us|ms|s|m|min|h)?$"),
);
pub(crate) const BYTES: Value = Value::Called(
    "a size like 256MiB, 1GB or 64k; a bare number is bytes",
    &Value::NumberOrPattern(
        r"^[0-9]+(\.[0-9]+)? *(B|k|K|kB|KB|M|MB|G|GB|T|TB|Ki|KiB|Mi|MiB|Gi|GiB|Ti|TiB)?$",
    ),
);
pub(crate) const MODE: Value =
    Value::Called("octal digits like 0644", &Value::NumberOrPattern(r"^(0o)?[0-7]{3,4}$"));

impl Object {
    /// The names of its keys, those of every kind among them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all_keys().map(|key| key.name)
    }

    /// Its keys: those of all kinds, then those of each.
    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &'static Key> {
        let of_kinds = self.kinds.iter().flat_map(|kind| kind.keys);
        self.keys.iter().chain(of_kinds)
    }
}
