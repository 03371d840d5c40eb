//! Checks a JSON value against a schema of the document, as far as the document uses schemas.
//!
//! Stricter than JSON Schema: a key that the schema does not name is wrong, so that documentation
//! cannot fall behind.

use serde_json::{Map, Value, json};

/// The document as built.
pub(crate) fn document() -> Value {
    serde_json::from_str(&netloom_api::openapi()).unwrap()
}

/// What is wrong with `value`, with its place; `Ok` when it has the schema's shape.
pub(crate) fn check(
    document: &Value,
    schema: &Value,
    value: &Value,
    at: &str,
) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let target = document.pointer(pointer).ok_or(format!("{reference}: nowhere"))?;
        return check(document, target, value, at);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().filter(|c| check(document, c, value, at).is_ok()).count();
        return if fits == 1 { Ok(()) } else { Err(format!("{at}: {value} fits {fits} choices")) };
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let fits = choices.iter().any(|choice| check(document, choice, value, at).is_ok());
        return if fits { Ok(()) } else { Err(format!("{at}: {value} fits no choice")) };
    }
    if schema.get("allOf").is_some() {
        return check(document, &joined(document, schema), value, at);
    }
    let wrong = |what: &str| Err(format!("{at}: {value} is not {what}"));
    if !types(schema).iter().any(|t| has_type(value, t)) {
        return wrong(&schema["type"].to_string());
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        return wrong(&schema["enum"].to_string());
    }
    match value {
        Value::Object(fields) if schema.get("properties").is_some() => {
            for name in schema["required"].as_array().into_iter().flatten() {
                if !fields.contains_key(name.as_str().unwrap_or_default()) {
                    return Err(format!("{at}: lacks {name}"));
                }
            }
            fields.iter().try_for_each(|(name, value)| {
                let known = schema["properties"].get(name);
                let known = known.ok_or(format!("{at}.{name}: not documented"))?;
                check(document, known, value, &format!("{at}.{name}"))
            })
        }
        Value::Object(fields) if schema.get("additionalProperties").is_some() => {
            fields.iter().try_for_each(|(name, value)| {
                let schema = &schema["additionalProperties"];
                check(document, schema, value, &format!("{at}.{name}"))
            })
        }
        Value::Array(items) => items.iter().enumerate().try_for_each(|(n, item)| {
            let schema = schema["prefixItems"].get(n).unwrap_or(&schema["items"]);
            check(document, schema, item, &format!("{at}[{n}]"))
        }),
        _ => Ok(()),
    }
}

/// The least value that has a schema's shape.
pub(crate) fn sample(document: &Value, schema: &Value) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return sample(document, document.pointer(reference.trim_start_matches('#')).unwrap());
    }
    if let Some(one) = schema["enum"].as_array().or(schema["oneOf"].as_array()) {
        let first = &one[0];
        return if schema.get("enum").is_some() { first.clone() } else { sample(document, first) };
    }
    match types(schema).first() {
        Some(&"object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            let names = required.filter_map(Value::as_str);
            let field = |name: &str| sample(document, &schema["properties"][name]);
            names.map(|name| (name.to_owned(), field(name))).collect::<Map<_, _>>().into()
        }
        Some(&"array") => json!([]),
        Some(&"string") => json!("x"),
        Some(&"integer" | &"number") => schema.get("minimum").cloned().unwrap_or(json!(0)),
        Some(&"boolean") => json!(false),
        _ => Value::Null,
    }
}

/// One object with the fields of all parts of an `allOf`.
fn joined(document: &Value, schema: &Value) -> Value {
    let mut whole = json!({"type": "object", "properties": {}, "required": []});
    for part in schema["allOf"].as_array().into_iter().flatten() {
        let pointer = part["$ref"].as_str().map(|reference| reference.trim_start_matches('#'));
        let part = pointer.map_or(part, |pointer| document.pointer(pointer).unwrap());
        for (name, field) in part["properties"].as_object().unwrap() {
            whole["properties"][name] = field.clone();
        }
        let required = part["required"].as_array().cloned().unwrap_or_default();
        whole["required"].as_array_mut().unwrap().extend(required);
    }
    whole
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => false,
    }
}

#[test]
fn what_is_not_documented_is_found() {
    let document = document();
    let schema = &document["components"]["schemas"]["Record"];
    let whole = json!({"time_ns": "1", "program": 0, "text": ""});
    assert_eq!(check(&document, schema, &whole, ""), Ok(()));
    for (key, value) in [("new", json!(1)), ("text", Value::Null)] {
        let mut changed = whole.clone();
        changed[key] = value;
        assert!(check(&document, schema, &changed, "").is_err(), "{changed}");
    }
    let lacking = json!({"time_ns": "1", "program": 0});
    assert!(check(&document, schema, &lacking, "").is_err());
}
