//! The OpenAPI document as text, and its head: information on the API as a whole.

use serde_json::{Map, Value, json};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "netloom",
        description = "A running lab, over the UNIX socket `api.sock` (mode 0600) in the lab's \
                       folder. It answers root and the owner of the lab. Request bodies are JSON \
                       in UTF-8, whatever type they are said to have, and not compressed; where none is \
                       described it is not used. One of more than 64 KiB is refused (8 MiB for `/pnpm/`; \
                       for a plan twice the size of the lab's, from 16 to 256 MiB); large ones share a \
                       memory, and are answered 503 while others use it. A parameter that is not \
                       described is refused, and so is a key that is there twice. \
                       Whole numbers of answers are at most 2^53 - 1, where counters stop; what passes that \
                       is text. A name in a path has all but letters, digits and `-._~` as `%XX`. What is under `/pnpm/` \
                       is served by `netloom serve`, too, over TCP, with `Authorization: Bearer TOKEN`; \
                       there every path may have or lack the `/` at its end.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "lab", description = "The whole lab"),
        (name = "parts", description = "Nodes, links, switches"),
        (name = "measure", description = "Measurements by alternate marking (RFC 9341)"),
        (name = "document", description = "The API itself"),
    )
)]
struct Document;

/// The document as indented JSON, with a final newline.
pub(crate) fn text(document: &utoipa::openapi::OpenApi) -> String {
    // Serialising plain data to memory fails only for maps with non-string keys, which it does not contain.
    let mut whole = serde_json::to_value(document).unwrap_or_default();
    finish(&mut whole);
    if let Some(schemas) = whole["components"]["schemas"].as_object_mut() {
        lift(schemas);
    }
    whole["components"]["securitySchemes"] = json!({"token": {
        "type": "http", "scheme": "bearer",
        "description": "Over TCP; the UNIX socket identifies callers by their user",
    }});
    whole["security"] = json!([{}, {"token": []}]);
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

/// What utoipa writes otherwise: names as in files; lists of fixed length by `items: false`, which generators do not read; keys of maps as numbers;
/// unsigned numbers as signed ones; and problems as JSON of no special type.
fn finish(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(finish);
            if let Some(Value::Object(of)) = fields.get_mut("properties") {
                let named = std::mem::take(of).into_iter();
                *of = named.map(|(name, field)| (name.replace('-', "_"), field)).collect();
            }
            for list in ["required", "enum"] {
                let words = fields.get_mut(list).and_then(Value::as_array_mut);
                for word in words.into_iter().flatten() {
                    if let Value::String(word) = word {
                        *word = word.replace('-', "_");
                    }
                }
            }
            if fields.get("items") == Some(&Value::Bool(false)) {
                bound(fields);
            }
            // Keys of maps are texts, also where they are numbers.
            if let Some(names) =
                fields.get_mut("propertyNames").filter(|of| of["type"] == "integer")
            {
                *names = json!({"type": "string", "pattern": "^[0-9]+$"});
            }
            // Unsigned numbers are not of the signed types that formats name.
            if fields.get("minimum").and_then(Value::as_f64) == Some(0.0) {
                fields.remove("format");
            }
            let refers = |of: &Value| {
                of["schema"]["$ref"].as_str().is_some_and(|name| name.ends_with("/Problem"))
            };
            if fields.get(JSON).is_some_and(refers)
                && let Some(of) = fields.remove(JSON)
            {
                fields.insert(PROBLEM.to_owned(), of);
            }
        }
        Value::Array(all) => all.iter_mut().for_each(finish),
        _ => {}
    }
}

/// Gives the parts of choices names: generators make up names for those without one, and some twice.
fn lift(schemas: &mut Map<String, Value>) {
    let mut lifted = Map::new();
    for (name, schema) in schemas.iter_mut() {
        let choices = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for choice in choices.into_iter().flatten() {
            if choice
                .get("properties")
                .is_some_and(|fields| fields.as_object().is_some_and(|all| all.len() == 1))
            {
                choice["additionalProperties"] = Value::Bool(false);
            }
            let fields = choice.get_mut("properties").and_then(Value::as_object_mut);
            for (key, field) in fields.into_iter().flatten() {
                if field["type"] == "object" && field.get("properties").is_some() {
                    let part =
                        name.clone() + &key.split(['-', '_']).map(capital).collect::<String>();
                    let place = json!({"$ref": format!("#/components/schemas/{part}")});
                    lifted.insert(part, std::mem::replace(field, place));
                }
            }
        }
    }
    schemas.append(&mut lifted);
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A list of fixed length, by its items and its length.
fn bound(list: &mut Map<String, Value>) {
    let Some(Value::Array(mut kinds)) = list.remove("prefixItems") else { return };
    let length = kinds.len();
    let all = kinds.clone();
    let mut at = 0;
    kinds.retain(|kind| {
        at += 1;
        !all[..at - 1].contains(kind)
    });
    let items = if kinds.len() == 1 { kinds.remove(0) } else { json!({"anyOf": kinds}) };
    list.insert("items".to_owned(), items);
    list.insert("minItems".to_owned(), length.into());
    list.insert("maxItems".to_owned(), length.into());
}

const JSON: &str = "application/json";

/// The type of problems (RFC 9457).
pub(crate) const PROBLEM: &str = "application/problem+json";

/// Title and tags, no routes yet.
pub(crate) fn empty_document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
