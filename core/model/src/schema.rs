//! The JSON Schema of the lab file (draft 2020-12, <https://json-schema.org/draft/2020-12/schema>).
//!
//! It is made from the tables that the parser reads by, so it has exactly the keys that are taken.
//! It says what can be said key by key; names, addresses and loops are the parser's to check.
//!
//! A text with `{` in it may stand for any scalar, since entries with `for` fill it in.

use serde_json::{Map, Value as Json, json};

use crate::parse::keys::{DIRECTION, LAB, NODE, Object, Value};

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
    let mut properties = Map::new();
    for key in object.keys {
        let mut schema = value(&key.value);
        if let Json::Object(map) = &mut schema {
            map.insert("description".into(), json!(key.doc));
        }
        properties.insert(key.name.into(), schema);
    }
    let required: Vec<_> = object.keys.iter().filter(|k| k.required).map(|k| k.name).collect();
    let mut schema = json!({
        "title": object.name,
        "description": object.doc,
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if let Json::Object(map) = &mut schema {
        if !required.is_empty() {
            map.insert("required".into(), json!(required));
        }
        if object.extensions {
            map.insert("patternProperties".into(), json!({"^x-": true}));
        }
    }
    schema
}

fn value(kind: &Value) -> Json {
    match kind {
        Value::Boolean => or_template(json!({"type": "boolean"})),
        Value::Integer(low, high) => {
            or_template(json!({"type": "integer", "minimum": low, "maximum": high}))
        }
        Value::Text => json!({"type": ["string", "number", "boolean"]}),
        Value::Pattern(pattern) => or_template(json!({"type": "string", "pattern": pattern})),
        Value::NumberOrPattern(pattern) => json!({"anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": pattern},
            {"$ref": "#/$defs/template"},
        ]}),
        Value::Choice(words) => or_template(json!({"enum": words})),
        Value::List(item, most) => {
            let mut schema = json!({"type": "array", "items": value(item), "minItems": 1});
            if let (Json::Object(map), Some(most)) = (&mut schema, most) {
                map.insert("maxItems".into(), json!(most));
            }
            schema
        }
        Value::Pair(item) => {
            json!({"type": "array", "items": value(item), "minItems": 2, "maxItems": 2})
        }
        Value::AnyList(item) => json!({"type": "array", "items": value(item)}),
        Value::Map(item) => json!({"type": "object", "additionalProperties": value(item)}),
        Value::Object(inner) => object(inner),
        Value::Shared(inner) => reference(inner),
        Value::Node => reference(&NODE),
        Value::Nothing => json!({"type": "null"}),
        Value::AnyOf(kinds) => json!({"anyOf": kinds.iter().map(value).collect::<Vec<_>>()}),
    }
}

fn reference(to: &Object) -> Json {
    json!({"$ref": format!("#/$defs/{}", to.name)})
}

fn or_template(schema: Json) -> Json {
    json!({"anyOf": [schema, {"$ref": "#/$defs/template"}]})
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
