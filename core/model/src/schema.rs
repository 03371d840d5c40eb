//! The JSON Schema of the lab file (draft 2020-12, <https://json-schema.org/draft/2020-12/schema>).
//!
//! It is made from the parser's tables, so it has exactly the valid keys.
//! It covers what can be checked key by key; the parser checks names, addresses and loops.
//!
//! A text with `{` in it may stand for any scalar, since entries with `for` fill it in.
//!
//! A condition on the word `kind` refuses keys of other kinds, so that a validator names the wrong key.
//! A value of several types is one schema with several types, never a choice between schemas: so a validator
//! tells which key of which node is wrong, and not only that nothing fits.

use serde_json::{Map, Value as Json, json};

use crate::file::table::{KindKeys, Object, Value};
use crate::keys::{DIRECTION, LAB, NODE};

/// The JSON Schema of the lab file.
pub fn schema() -> Json {
    let mut schema = object(&LAB);
    if let Json::Object(map) = &mut schema {
        map.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("$id".into(), json!("urn:netloom:lab"));
        map.insert("title".into(), json!("netloom lab"));
        let mut shared = json!({"template": template()});
        for of in [&NODE, &DIRECTION] {
            shared[of.name] = object(of);
            shared[of.name]["type"] = json!(["object", "null"]);
        }
        map.insert("$defs".into(), shared);
    }
    schema
}

/// A text that an entry with `for` fills in.
fn template() -> Json {
    json!({
        "description": "Text with {expression}, filled in for each combination of an entry's `for`.",
        "type": "string",
        "pattern": r"\{",
    })
}

fn object(object: &Object) -> Json {
    Json::Object(Shape::object(object).schema())
}

/// The schema of a value: its possible types, and the constraints on each of them.
#[derive(Default)]
struct Shape {
    types: Vec<&'static str>,
    keywords: Map<String, Json>,
    /// Its possible texts, if they are few.
    words: &'static [&'static str],
    /// Whether text with `{` may stand for it.
    template: bool,
    /// Any text is valid, so there are no constraints on texts and numbers.
    any_scalar: bool,
    reference: Option<String>,
}

impl Shape {
    fn new(types: &[&'static str], keywords: Json) -> Shape {
        let Json::Object(keywords) = keywords else { return Shape::default() };
        Shape { types: types.to_vec(), keywords, ..Shape::default() }
    }

    /// The same for values that an entry with `for` may fill in.
    fn or_template(self) -> Shape {
        Shape { template: true, ..self }
    }

    fn of(kind: &Value) -> Shape {
        match kind {
            Value::Boolean => Shape::new(&["boolean"], json!({})).or_template(),
            Value::Integer(low, high) => {
                Shape::new(&["integer"], json!({"minimum": low, "maximum": high})).or_template()
            }
            Value::Text => {
                let any = Shape::new(&["string", "number", "boolean"], json!({}));
                Shape { any_scalar: true, ..any }
            }
            Value::Pattern(pattern) => {
                Shape::new(&["string"], json!({"pattern": pattern})).or_template()
            }
            Value::NumberOrPattern(pattern) => {
                let keywords = json!({"minimum": 0, "pattern": pattern});
                Shape::new(&["number", "string"], keywords).or_template()
            }
            Value::Choice(words) => {
                let text = Shape::new(&["string"], json!({})).or_template();
                Shape { words, ..text }
            }
            Value::List(item, most) => {
                let mut list = json!({"items": value(item), "minItems": 1});
                if let Some(most) = most {
                    list["maxItems"] = json!(most);
                }
                Shape::new(&["array"], list)
            }
            Value::Pair(item) => {
                Shape::new(&["array"], json!({"items": value(item), "minItems": 2, "maxItems": 2}))
            }
            Value::AnyList(item) => Shape::new(&["array"], json!({"items": value(item)})),
            Value::Map(item) => {
                Shape::new(&["object"], json!({"additionalProperties": value(item)}))
            }
            Value::Object(inner) => Shape::object(inner),
            Value::Shared(inner) => Shape::reference(inner),
            Value::Node => Shape::reference(&NODE),
            Value::Nothing => Shape::new(&["null"], json!({})),
            Value::Called(_, inner) => Shape::of(inner),
            Value::AnyOf(kinds) => kinds.iter().map(Shape::of).fold(Shape::default(), Shape::or),
        }
    }

    fn object(object: &Object) -> Shape {
        let mut properties = Map::new();
        for key in object.all_keys() {
            let mut schema = value(&key.value);
            if let Json::Object(map) = &mut schema {
                map.insert("description".into(), json!(key.doc));
            }
            properties.insert(key.name.into(), schema);
        }
        let required: Vec<_> = object.all_keys().filter(|k| k.required).map(|k| k.name).collect();
        let mut keywords = json!({
            "title": object.name,
            "description": object.doc,
            "properties": properties,
            "additionalProperties": false,
        });
        if !required.is_empty() {
            keywords["required"] = json!(required);
        }
        if !object.kinds.is_empty() {
            keywords["allOf"] = object.kinds.iter().map(|kind| only_of(kind, object)).collect();
        }
        if object.extensions {
            keywords["patternProperties"] = json!({"^x-": true});
        }
        Shape::new(&["object"], keywords)
    }

    fn reference(to: &Object) -> Shape {
        Shape { reference: Some(format!("#/$defs/{}", to.name)), ..Shape::default() }
    }

    /// The union of two schemas.
    fn or(mut self, other: Shape) -> Shape {
        for kind in other.types {
            if !self.types.contains(&kind) {
                self.types.push(kind);
            }
        }
        for (word, value) in other.keywords {
            let both = match (word.as_str(), self.keywords.get(&word)) {
                ("pattern", Some(own)) => json!(format!("{}|{}", text(own), text(&value))),
                ("minimum", Some(own)) => json!(number(own).min(number(&value))),
                ("maximum", Some(own)) => json!(number(own).max(number(&value))),
                _ => value,
            };
            self.keywords.insert(word, both);
        }
        assert!(self.words.is_empty() || other.words.is_empty(), "one list of words");
        self.words = if self.words.is_empty() { other.words } else { self.words };
        self.template |= other.template;
        self.any_scalar |= other.any_scalar;
        self.reference = self.reference.or(other.reference);
        self
    }

    fn schema(self) -> Map<String, Json> {
        let mut schema = self.keywords;
        if let Some(reference) = self.reference {
            // Nodes and directions may be empty, and say so themselves.
            schema.insert("$ref".into(), json!(reference));
            return schema;
        }
        if self.any_scalar {
            schema.retain(|word, _| !matches!(word.as_str(), "minimum" | "maximum" | "pattern"));
        }
        match (self.words, schema.get("pattern").map(text)) {
            ([], _) => {}
            (words, Some(pattern)) => {
                let either = format!("{pattern}|^({})$", words.join("|"));
                schema.insert("pattern".into(), json!(either));
            }
            (words, None) if self.types == ["string"] => {
                schema.insert("enum".into(), json!(words));
            }
            // An `enum` beside other types would refuse their values, so it is for texts alone.
            (words, None) => {
                schema.insert("if".into(), json!({"type": "string"}));
                schema.insert("then".into(), json!({"enum": words}));
            }
        }
        let types = match self.types.as_slice() {
            [one] => json!(one),
            many => json!(many),
        };
        schema.insert("type".into(), types);
        if !self.template || self.any_scalar {
            return schema;
        }
        let mut either = Map::new();
        either.insert("if".into(), json!({"$ref": "#/$defs/template"}));
        either.insert("else".into(), Json::Object(schema));
        either
    }
}

/// The condition that an object of this kind has no key of only other kinds.
fn only_of(kind: &KindKeys, object: &Object) -> Json {
    let others = object.kinds.iter().filter(|other| other.kind != kind.kind);
    let refused =
        others.flat_map(|other| other.keys).map(|key| (key.name.to_owned(), json!(false)));
    let refused: Map<String, Json> = refused.collect();
    let mut is = json!({"properties": {"kind": {"const": kind.kind}}});
    // The first kind is the default.
    if object.kinds.first().is_some_and(|first| first.kind != kind.kind) {
        is["required"] = json!(["kind"]);
    }
    json!({"if": is, "then": {"properties": refused}})
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Json) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn value(kind: &Value) -> Json {
    let mut shape = Shape::of(kind);
    // A map without required keys may be left empty: `limits:` is `limits: {}`.
    let kinds = if let Value::AnyOf(kinds) = kind { kinds } else { std::slice::from_ref(kind) };
    let is_empty = |kind: &Value| matches!(kind, Value::Object(map) if map.all_keys().all(|key| !key.required));
    if kinds.iter().any(is_empty) && !shape.types.contains(&"null") {
        shape.types.push("null");
    }
    Json::Object(shape.schema())
}

#[cfg(test)]
mod tests;
