//! Templates of topologies: the part of Go's `text/template` that such templates use, with some functions of gomplate.
//!
//! A template is read by `template_parse` and worked through by `template_run`, in bounded steps and to a bounded
//! length; a function that is not known is an error with its line. <https://pkg.go.dev/text/template>

use std::collections::BTreeMap;
use std::fmt;

use netloom_config::{Kind, Node};

use crate::clab::template_parse::parse;
use crate::clab::template_run::run;
use crate::{Result, wrong};

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

/// What is wrong with a template, and in which line.
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

/// The text that a template makes of variables.
pub(super) fn render(file: &str, text: &str, vars: Value) -> Result<String> {
    let fail = |fault: Fault| wrong(file, fault.line, fault.message);
    let template = parse(text).map_err(fail)?;
    run(&template, vars).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(text: &str) -> Value {
        let mut report = netloom_config::Report::new("vars");
        Value::from(&netloom_config::load(text.as_bytes(), &mut report).unwrap())
    }

    fn rendered(text: &str) -> std::result::Result<String, String> {
        let vars = vars("n: 3\nname: x\nlist: [a, b]\nmap: {k: {v: 7}}\n");
        render("t", text, vars).map_err(|e| e.to_string())
    }

    #[test]
    fn what_topologies_use() {
        for (text, want) in [
            ("a {{ .name }}{{/* c */}} b", "a x b"),
            ("a {{- .n -}}  b", "a3b"),
            ("{{ range $i, $x := .list }}{{ $i }}{{ $x }};{{ end }}", "0a;1b;"),
            ("{{ range $i := seq 1 .n }}{{ $i }}{{ end }}", "123"),
            ("{{ range until 3 }}{{ . }}{{ end }}", "012"),
            ("{{ range .none }}x{{ else }}y{{ end }}", "y"),
            ("{{ if eq .n 3 }}a{{ else if .name }}b{{ else }}c{{ end }}", "a"),
            ("{{ if and (gt .n 1) (not .none) }}y{{ end }}", "y"),
            ("{{ with .map.k }}{{ .v }}{{ $.n }}{{ end }}", "73"),
            ("{{ $a := 1 }}{{ $a = add $a 2 }}{{ $a }}", "3"),
            ("{{ printf \"r%02d-%s\" .n .name | print }}", "r03-x"),
            ("{{ index .list 1 }}{{ index .map \"k\" \"v\" }}{{ len .list }}", "b72"),
            ("{{ define \"l\" }}<{{ . }}>{{ end }}{{ template \"l\" .n }}", "<3>"),
            ("{{ math.Mul 2 (math.Sub 5 1) }} {{ mod 7 3 }}", "8 1"),
            ("{{ range .list }}{{ if eq . \"b\" }}{{ break }}{{ end }}{{ . }}{{ end }}", "a"),
            ("{{ .none | default \"d\" }}{{ `raw\"` }}", "draw\""),
        ] {
            assert_eq!(rendered(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_never_ends_is_refused() {
        for text in [
            "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}",
            "{{ range seq 60000 }}{{ range seq 60000 }}{{ range seq 60000 }}x{{ end }}{{ end }}{{ end }}",
            "{{ seq 1 100000000000 }}",
            "{{ define \"a\" }}{{ template \"a\" }}{{ template \"a\" }}{{ end }}\n{{ template \"a\" }}",
        ] {
            let error = rendered(text).unwrap_err();
            assert!(error.contains("t:1: ") || error.contains("t:2: "), "{error}");
        }
    }

    #[test]
    fn errors_have_a_line() {
        for (text, want) in [
            ("\n{{ nonsense 1 }}", "t:2: error: function \"nonsense\" is not known"),
            ("\n\n{{ if .x }}", "t:3: error: no {{ end }} for this {{ if }}"),
            ("{{ end }}", "t:1: error: {{ end }} without a beginning"),
            ("{{ .x", "t:1: error: {{ is not closed"),
            ("{{ template \"no\" }}", "t:1: error: no template \"no\" is defined"),
            ("{{ div 1 0 }}", "t:1: error: division by zero"),
            ("{{ \"abc }}", "t:1: error: a quote is not closed"),
        ] {
            assert_eq!(rendered(text).unwrap_err(), want, "{text}");
        }
    }
}
