//! The arguments of a tool, and how a call's values are read from them.

use netloom_lab::call::{Parameter, Read};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// The argument that holds the body of a call.
pub(crate) const BODY: &str = "body";

/// Arguments as the client sent them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments(pub(crate) Map<String, Value>);

impl Arguments {
    /// Refuses arguments that the tool does not have: a misspelt one would otherwise be ignored.
    pub(crate) fn check(&self, known: &Map<String, Value>) -> Result<()> {
        match self.0.keys().find(|name| !known.contains_key(*name)) {
            None => Ok(()),
            Some(unknown) => {
                let all: Vec<&str> = known.keys().map(String::as_str).collect();
                let all = if all.is_empty() { "no argument".to_owned() } else { all.join(", ") };
                Err(Error::argument(unknown, format!("is not known; this tool takes {all}")))
            }
        }
    }

    /// A text, if it is there.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::argument(name, "is text in quotes")),
        }
    }

    /// A text that must be there.
    pub(crate) fn needed(&self, name: &str) -> Result<&str> {
        self.text(name)?.ok_or_else(|| Error::argument(name, "is missing"))
    }

    /// A whole number in these bounds, or the usual one.
    pub(crate) fn number(&self, name: &str, usual: u64, bounds: (u64, u64)) -> Result<u64> {
        let (least, most) = bounds;
        let number = match self.0.get(name) {
            None | Some(Value::Null) => Some(usual),
            Some(value) => value.as_u64(),
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            Error::argument(name, format!("is a whole number from {least} to {most}"))
        })
    }

    /// A list of texts that must be there, and not be empty.
    pub(crate) fn words(&self, name: &str) -> Result<Vec<String>> {
        let words = self.0.get(name).and_then(Value::as_array).filter(|words| !words.is_empty());
        let words =
            words.map(|words| words.iter().map(|w| w.as_str().map(str::to_owned)).collect());
        words
            .flatten()
            .ok_or_else(|| Error::argument(name, "is a list of words, like [\"ip\", \"address\"]"))
    }

    /// A parameter's text; numbers and truth values are written as in a query.
    pub(crate) fn parameter<T: Parameter>(&self, name: &str) -> Result<T> {
        let text = match self.0.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            // A list of names or numbers, as a query has it.
            Some(Value::Array(all)) if all.iter().all(|v| v.is_string() || v.is_number()) => {
                let all =
                    all.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
                Some(all.collect::<Vec<_>>().join(","))
            }
            Some(_) => return Err(Error::argument(name, "is text or a number")),
        };
        T::read(text.as_deref()).map_err(|why| Error::argument(name, why))
    }
}

impl Read for Arguments {
    type Error = Error;

    fn path<T: Parameter>(&self, name: &str) -> Result<T> {
        self.parameter(name)
    }

    fn query<T: Parameter>(&self, name: &str) -> Result<T> {
        self.parameter(name)
    }

    fn body<T: DeserializeOwned>(&self, _: &str) -> Result<T> {
        let body = self.0.get(BODY).ok_or_else(|| Error::argument(BODY, "is missing"))?;
        // Read as the API reads a body: nothing unknown, nothing twice.
        netloom_form::read(body.to_string().as_bytes()).map_err(|why| Error::argument(BODY, why))
    }
}
