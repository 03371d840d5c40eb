//! Tables of keys for the maps of the file, each with its meaning and the kind of its value.
//!
//! The parser accepts only keys from these tables, and JSON Schema and manual are made from them, so they
//! cannot drift apart.

/// The keys of one kind of map.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its name in messages and the schema: `node`.
    pub name: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// Keys common to all its kinds.
    pub keys: &'static [Key],
    /// Its kinds, the words of its key `kind`, the default first; empty without a choice.
    pub kinds: &'static [KindKeys],
    /// Known keys that are refused, with the reason.
    pub refused: &'static [(&'static str, &'static str)],
    /// Whether keys that start with `x-` are allowed and ignored.
    pub extensions: bool,
}

/// The keys that only objects of one kind have.
#[derive(Debug)]
pub(crate) struct KindKeys {
    /// The value of the key `kind`.
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
    /// Any text; numbers and booleans count as written.
    Text,
    /// Text of a form, given as a regular expression.
    Pattern(&'static str),
    /// A number, or text of a form.
    NumberOrPattern(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of at least one and at most this many items.
    List(&'static Value, Option<usize>),
    /// A list of two items.
    Pair(&'static Value),
    /// A list that may be empty.
    AnyList(&'static Value),
    /// A map with keys of the user's choice.
    Map(&'static Value),
    Object(&'static Object),
    /// The same, for an object used in several places.
    Shared(&'static Object),
    /// A [`NODE`]; by name, because it may contain itself.
    Node,
    /// No value: `h1:` is like `h1: {}`.
    Nothing,
    /// One of several kinds.
    AnyOf(&'static [Value]),
    /// A value, and its description for messages: `a duration like 30s`.
    Called(&'static str, &'static Value),
}

pub(crate) const fn key(name: &'static str, value: Value, doc: &'static str) -> Key {
    Key { name, doc, value, required: false }
}

const INDEX: Value =
    Value::AnyOf(&[Value::Integer(0, i64::MAX), Value::Text, Value::List(&Value::Text, None)]);

pub(crate) const FOR: Key = key(
    "for",
    Value::Map(&INDEX),
    "Repeats the entry for every combination of indices: `{x: 0..9, y: 1..x}`. A range has both ends, \
     a number N counts from 0 to N-1, a list gives its items. `{x+1}` in the entry's text is replaced.",
);
pub(crate) const IF: Key = key(
    "if",
    Value::Text,
    "With `for`: keeps only the combinations for which this expression is true: `x < y and x != 3`.",
);

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

pub(crate) const COMMAND: Value = Value::Called(
    "an argument list or a line",
    &Value::AnyOf(&[Value::Text, Value::List(&Value::Text, None)]),
);
pub(crate) const SHARE: Value = Value::Called(
    "a percentage like 0.1%, or none",
    &Value::Pattern(r"^([0-9]+(\.[0-9]+)? *%|none)$"),
);
pub(crate) const RATE: Value = Value::Called(
    "a rate like 100mbit or 1.5Gb/s, or none",
    &Value::Pattern(r"^([0-9]+(\.[0-9]+)? *([kKmMgGtT]?([bB][iI][tT](/s)?|b/s))|none)$"),
);

impl Object {
    /// The names of its keys, including those of every kind.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all_keys().map(|key| key.name)
    }

    /// The value of one of its keys.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Value> {
        self.all_keys().find(|key| key.name == name).map(|key| &key.value)
    }

    /// Its keys: the common ones, then those of each kind.
    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &'static Key> {
        let of_kinds = self.kinds.iter().flat_map(|kind| kind.keys);
        self.keys.iter().chain(of_kinds)
    }
}
