//! Templates of topologies: the part of Go's `text/template` that such templates use, with some functions of gomplate.
//!
//! Here is what a template is made of. It is read by `template_parse` and worked through by `template_run`, in bounded
//! steps and to a bounded length; a function that is not known is an error with its line. <https://pkg.go.dev/text/template>

use std::collections::BTreeMap;
use std::fmt;

use netloom_config::{Kind, Node};

/// A value of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Nothing,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// The value of a tree.
    pub(super) fn from(node: &Node) -> Value {
        match &node.kind {
            Kind::Null => Value::Nothing,
            Kind::Bool(b) => Value::Bool(*b),
            Kind::Int(n) => Value::Int(*n),
            Kind::Float(n) => Value::Float(*n),
            Kind::Str => Value::Text(node.text.clone()),
            Kind::Seq(items) => Value::List(items.iter().map(Value::from).collect()),
            Kind::Map(entries) => {
                let pair = |e: &netloom_config::Entry| (e.key.clone(), Value::from(&e.value));
                Value::Map(entries.iter().map(pair).collect())
            }
        }
    }

    /// Whether a condition takes it for true.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Nothing => false,
            Value::Bool(b) => *b,
            Value::Int(n) => *n != 0,
            Value::Float(n) => *n != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(items) => !items.is_empty(),
            Value::Map(map) => !map.is_empty(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nothing => f.write_str("<no value>"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(n) => write!(f, "{n}"),
            Value::Text(text) => f.write_str(text),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(f, "[{}]", items.join(" "))
            }
            Value::Map(map) => {
                let pairs: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{v}")).collect();
                write!(f, "map[{}]", pairs.join(" "))
            }
        }
    }
}

/// The fault of a template, and its line.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) line: u32,
    pub(super) message: String,
}

/// A result within a template.
pub(super) type Attempt<T> = std::result::Result<T, Fault>;

pub(super) fn fault<T>(line: u32, message: impl Into<String>) -> Attempt<T> {
    Err(Fault { line, message: message.into() })
}

/// A template.
#[derive(Debug, Default)]
pub(super) struct Template {
    pub(super) body: Vec<Piece>,
    /// By `define`.
    pub(super) named: BTreeMap<String, Vec<Piece>>,
}

/// A piece of a template.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Show(Pipe),
    If { arms: Vec<(Pipe, Vec<Piece>)>, otherwise: Vec<Piece> },
    With { what: Pipe, body: Vec<Piece>, otherwise: Vec<Piece> },
    Range { what: Pipe, body: Vec<Piece>, otherwise: Vec<Piece> },
    Call { name: String, with: Option<Pipe>, line: u32 },
    Break,
    Continue,
}

/// Commands of which each gets the result of the one before as its last argument.
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    pub(super) line: u32,
    /// Variables that get the result: `$a :=`, `$a =`, `$i, $x :=`.
    pub(super) names: Vec<String>,
    /// Whether they are new.
    pub(super) declares: bool,
    pub(super) commands: Vec<Vec<Term>>,
}

/// A word of a command: something, and fields of it.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) base: Base,
    pub(super) fields: Vec<String>,
}

/// What a word begins with.
#[derive(Clone, Debug)]
pub(super) enum Base {
    Dot,
    /// Without its `$`; empty for `$` alone.
    Variable(String),
    Value(Value),
    Pipe(Box<Pipe>),
    Function(String),
}
