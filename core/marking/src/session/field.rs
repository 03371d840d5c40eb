//! Fields of JSON objects, read one by one, with every error kept beside its path.
//!
//! A wrong field is reported and then counts as missing, and reading continues. No field is read twice,
//! and a field that nobody read is reported as unknown at the end.

use serde::Serialize;
use serde_json::{Map, Value};

/// An error of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The field, such as `filters[1].src_ip`; empty for the body itself.
    pub path: String,
    /// The fault, and valid values.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// An object being read.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    prefix: String,
    read: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The fields of a value at a path, if it is an object.
    pub(super) fn of(value: &'a Value, path: &str, problems: &mut Vec<Problem>) -> Option<Self> {
        let Value::Object(map) = value else {
            add(problems, path, format!("must be an object, is {}", kind(value)));
            return None;
        };
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        Some(Fields { map, prefix, read: Vec::new() })
    }

    /// The path of a field of this object.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// An optional field; null counts as missing.
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'a Value> {
        self.read.push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A required field.
    pub(super) fn need(
        &mut self,
        name: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<&'a Value> {
        let value = self.get(name);
        if value.is_none() {
            add(problems, &self.path(name), "is missing");
        }
        value
    }

    /// An optional whole number within bounds.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        (least, most): (u64, u64),
        problems: &mut Vec<Problem>,
    ) -> Option<u64> {
        let value = self.get(name)?;
        number(value, &self.path(name), (least, most), problems)
    }

    /// A required whole number within bounds.
    pub(super) fn need_number(
        &mut self,
        name: &'static str,
        (least, most): (u64, u64),
        problems: &mut Vec<Problem>,
    ) -> Option<u64> {
        let value = self.need(name, problems)?;
        number(value, &self.path(name), (least, most), problems)
    }

    /// An optional text.
    pub(super) fn text(
        &mut self,
        name: &'static str,
        problems: &mut Vec<Problem>,
    ) -> Option<&'a str> {
        let value = self.get(name)?;
        if value.as_str().is_none() {
            add(problems, &self.path(name), format!("must be a text, is {}", kind(value)));
        }
        value.as_str()
    }

    /// An optional choice among words.
    pub(super) fn word<T>(
        &mut self,
        name: &'static str,
        words: &[&str],
        named: impl Fn(&str) -> Option<T>,
        problems: &mut Vec<Problem>,
    ) -> Option<T> {
        let word = self.text(name, problems)?;
        let found = named(word);
        if found.is_none() {
            let words = words.join(", ");
            add(problems, &self.path(name), format!("must be one of {words}, is {word:?}"));
        }
        found
    }

    /// The entries of a list with their paths, if it is one.
    pub(super) fn entries(
        &self,
        name: &str,
        value: &'a Value,
        problems: &mut Vec<Problem>,
    ) -> Vec<(String, &'a Value)> {
        let path = self.path(name);
        let Value::Array(entries) = value else {
            add(problems, &path, format!("must be a list, is {}", kind(value)));
            return Vec::new();
        };
        entries.iter().enumerate().map(|(i, entry)| (format!("{path}[{i}]"), entry)).collect()
    }

    /// Reports fields that nobody read.
    pub(super) fn finish(self, problems: &mut Vec<Problem>) {
        for name in self.map.keys().filter(|name| !self.read.contains(&name.as_str())) {
            let known = self.read.join(", ");
            let path = self.path(name);
            add(problems, &path, format!("is not a field here; there are {known}"));
        }
    }
}

/// Records a problem.
pub(super) fn add(problems: &mut Vec<Problem>, path: &str, message: impl Into<String>) {
    problems.push(Problem { path: path.to_owned(), message: message.into() });
}

fn number(
    value: &Value,
    path: &str,
    (least, most): (u64, u64),
    problems: &mut Vec<Problem>,
) -> Option<u64> {
    let number = value.as_u64().filter(|number| (least..=most).contains(number));
    if number.is_none() {
        let is = shown(value);
        add(problems, path, format!("must be a whole number from {least} to {most}, is {is}"));
    }
    number
}

/// A value in a message: numbers as written, others by their kind.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        _ => kind(value).to_owned(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
