//! The keys of the lab file in words, for the manual and the guide, made from the parser's tables.

use netloom_config::cursor::Step;

use crate::file::table::{Key, Object, Value};
use crate::keys::hosts::HOSTS_FILE;
use crate::keys::{LAB, NODE};

/// The keys of one kind of map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Its name: `node`.
    pub of: &'static str,
    /// One or two sentences.
    pub about: &'static str,
    /// In the order of the tables.
    pub keys: Vec<KeyInWords>,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInWords {
    /// Its name.
    pub name: &'static str,
    /// Its valid values: `a whole number from 68 to 65535`.
    pub value: String,
    /// Whether it is required.
    pub required: bool,
    /// Its meaning.
    pub about: &'static str,
    /// The kind of its map, if only maps of this kind have it.
    pub kind: Option<&'static str>,
}

/// All keys, from the top level to the innermost map; each kind of map once.
pub fn reference() -> Vec<Keys> {
    below(&LAB)
}

/// The same for a hosts file.
pub fn hosts_reference() -> Vec<Keys> {
    below(&HOSTS_FILE)
}

fn below(root: &'static Object) -> Vec<Keys> {
    let mut found: Vec<&'static Object> = vec![root];
    let mut at = 0;
    while at < found.len() {
        for key in found[at].all_keys() {
            maps_in(&key.value, &mut |object| {
                // By address: the tables are statics, and nodes hold nodes.
                if !found.iter().any(|known| std::ptr::eq(*known, object)) {
                    found.push(object);
                }
            });
        }
        at += 1;
    }
    found.into_iter().map(in_words).collect()
}

/// What may be written at a path of the file: keys of a map, and words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// The keys of the maps that the value may be.
    pub keys: Vec<KeyInWords>,
    /// Words that the value may be.
    pub words: Vec<&'static str>,
}

/// What may be written as the value at a path.
pub fn choices(path: &[Step<'_>]) -> Choices {
    let mut found = Choices::default();
    for value in values_at(path) {
        match value {
            Value::Object(object) | Value::Shared(object) => found.keys.extend(keys_of(object)),
            Value::Node => found.keys.extend(keys_of(&NODE)),
            Value::Choice(words) => found.words.extend(words.iter()),
            Value::Boolean => found.words.extend(["true", "false"]),
            _ => {}
        }
    }
    found
}

/// What a key of the map at a path is about.
pub fn key_at(path: &[Step<'_>], name: &str) -> Option<KeyInWords> {
    choices(path).keys.into_iter().find(|key| key.name == name)
}

/// The kinds of values that the value at a path may have, without their alternatives and descriptions.
fn values_at(path: &[Step<'_>]) -> Vec<&'static Value> {
    static WHOLE: Value = Value::Object(&LAB);
    let mut found = vec![];
    flatten(&WHOLE, &mut found);
    for step in path {
        let mut inner = vec![];
        for value in found {
            let next = match (value, step) {
                (Value::Object(object) | Value::Shared(object), Step::Key(name)) => {
                    object.key(name)
                }
                (Value::Node, Step::Key(name)) => NODE.key(name),
                (Value::Map(value), Step::Key(_)) => Some(*value),
                (
                    Value::List(value, _) | Value::Pair(value) | Value::AnyList(value),
                    Step::Item,
                ) => Some(*value),
                _ => None,
            };
            next.into_iter().for_each(|value| flatten(value, &mut inner));
        }
        found = inner;
    }
    found
}

fn flatten(value: &'static Value, found: &mut Vec<&'static Value>) {
    match value {
        Value::AnyOf(kinds) => kinds.iter().for_each(|kind| flatten(kind, found)),
        Value::Called(_, value) => flatten(value, found),
        value => found.push(value),
    }
}

fn in_words(object: &'static Object) -> Keys {
    Keys { of: object.name, about: object.doc, keys: keys_of(object) }
}

fn keys_of(object: &'static Object) -> Vec<KeyInWords> {
    let key = |kind: Option<&'static str>, key: &'static Key| KeyInWords {
        name: key.name,
        value: words(&key.value),
        required: key.required,
        about: key.doc,
        kind,
    };
    let mut keys: Vec<KeyInWords> = object.keys.iter().map(|of_all| key(None, of_all)).collect();
    for kind in object.kinds {
        keys.extend(kind.keys.iter().map(|of_kind| key(Some(kind.kind), of_kind)));
    }
    keys
}

/// The kinds of maps that a value may hold.
fn maps_in(value: &'static Value, found: &mut dyn FnMut(&'static Object)) {
    match value {
        Value::Object(object) | Value::Shared(object) => found(object),
        Value::Node => found(&NODE),
        Value::List(inner, _)
        | Value::Pair(inner)
        | Value::AnyList(inner)
        | Value::Map(inner)
        | Value::Called(_, inner) => maps_in(inner, found),
        Value::AnyOf(kinds) => kinds.iter().for_each(|kind| maps_in(kind, found)),
        Value::Boolean
        | Value::Integer(..)
        | Value::Text
        | Value::Pattern(_)
        | Value::NumberOrPattern(_)
        | Value::Choice(_)
        | Value::Nothing => {}
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::Boolean => "true or false".into(),
        Value::Integer(low, high) if low == high => low.to_string(),
        Value::Integer(low, i64::MAX) => format!("a whole number from {low}"),
        Value::Integer(low, high) => format!("a whole number from {low} to {high}"),
        Value::Text | Value::Pattern(_) => "text".into(),
        Value::NumberOrPattern(_) => "a number".into(),
        Value::Choice(choices) => choices.join(" or "),
        Value::List(item, Some(most)) => format!("a list of at most {most}, each {}", words(item)),
        Value::List(item, None) | Value::AnyList(item) => format!("a list, each {}", words(item)),
        Value::Pair(item) => format!("a list of two, each {}", words(item)),
        Value::Map(item) => format!("a map, each value {}", words(item)),
        Value::Object(object) | Value::Shared(object) => format!("a map of {} keys", object.name),
        Value::Node => "a map of node keys".into(),
        Value::Nothing => "nothing".into(),
        Value::Called(words, _) => (*words).into(),
        Value::AnyOf(kinds) => {
            // It is not worth mentioning that a map may be empty.
            let told = kinds.iter().filter(|kind| !matches!(kind, Value::Nothing)).map(words);
            told.collect::<Vec<_>>().join(", or ")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The titles and keys of a schema, which is made from the same tables.
    fn keys_of(schema: &serde_json::Value, found: &mut BTreeSet<(String, String)>) {
        if let (Some(title), Some(keys)) =
            (schema["title"].as_str(), schema["properties"].as_object())
        {
            found.extend(keys.keys().map(|key| (title.to_owned(), key.clone())));
        }
        match schema {
            serde_json::Value::Object(map) => map.values().for_each(|inner| keys_of(inner, found)),
            serde_json::Value::Array(items) => items.iter().for_each(|inner| keys_of(inner, found)),
            _ => {}
        }
    }

    #[test]
    fn the_reference_has_every_key_of_the_schema_once() {
        let mut schema = crate::schema();
        schema["title"] = "lab".into();
        let mut wanted = BTreeSet::new();
        keys_of(&schema, &mut wanted);
        let mut found = BTreeSet::new();
        for map in reference() {
            for key in map.keys {
                assert!(!key.about.is_empty() && !key.value.is_empty(), "{} {}", map.of, key.name);
                assert!(
                    found.insert((map.of.to_owned(), key.name.to_owned())),
                    "{} twice",
                    key.name
                );
            }
        }
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_path_leads_to_keys_and_words() {
        let key = Step::Key;
        let names =
            |path: &[Step<'_>]| choices(path).keys.iter().map(|key| key.name).collect::<Vec<_>>();
        assert!(names(&[]).contains(&"nodes") && names(&[key("nodes")]).is_empty());
        assert!(names(&[key("nodes"), key("h1")]).contains(&"forwarding"));
        let child = [key("nodes"), key("a"), key("children"), key("nodes"), key("b")];
        assert!(names(&child).contains(&"children"));
        assert!(names(&[key("links"), Step::Item]).contains(&"ends"));
        assert!(names(&[key("links"), Step::Item, key("a"), key("loss")]).contains(&"bursts"));
        let words = choices(&[key("switches"), key("s"), key("kind")]).words;
        assert_eq!(words, ["kernel", "shm", "openflow"]);
        assert_eq!(choices(&[key("nodes"), key("a"), key("privileged")]).words, ["true", "false"]);
        assert_eq!(choices(&[key("no"), Step::Item]), Choices::default());
        let about = key_at(&[key("switches"), key("s")], "mtu").unwrap();
        assert!(about.about.starts_with("MTU of the segment"), "{about:?}");
        assert!(key_at(&[key("switches")], "mtu").is_none());
    }

    #[test]
    fn values_are_told_in_words() {
        let all = reference();
        let value = |of: &str, name: &str| {
            let map = all.iter().find(|map| map.of == of).expect(of);
            map.keys.iter().find(|key| key.name == name).expect(name).value.clone()
        };
        assert_eq!(value("switch", "mtu"), "a whole number from 68 to 65535");
        assert_eq!(value("switch", "kind"), "kernel or shm or openflow");
        assert_eq!(value("lab", "nodes"), "a map, each value a map of node keys");
        assert_eq!(value("link", "ends"), "a list of two, each text, or text");
        assert_eq!(value("link", "a"), "a map of direction keys");
        assert_eq!(value("direction", "loss").split(", or ").last(), Some("a map of loss keys"));
    }
}
