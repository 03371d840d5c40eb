//! The tools made from calls to a lab: each operation of the API's document that has rights, with its schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::arguments::BODY;
use crate::confirming::CONFIRM;
use crate::{Scope, answer};

/// Calls without a tool: a plan is made from a lab file, so the verb `apply` takes its place.
const NOT_OFFERED: [&str; 1] = ["apply"];

/// What a tool may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    Reads,
    Changes,
    Destroys,
}

/// How a call's answer is shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    /// A list, answered in pages by offset.
    Many,
    /// A list of objects with names, of which the lab reads no more than a page.
    Named,
    /// The whole lab, answered as a summary.
    Summary,
}

/// A tool that is a call to a lab.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    pub(crate) tool: Tool,
    pub(crate) rights: Rights,
    pub(crate) shape: Shape,
    /// It has an argument `limit` of its own, which is not that of a page.
    pub(crate) own_limit: bool,
    /// For what removes an object: the call that shows it.
    pub(crate) shows: Option<String>,
}

/// All calls that are tools in this scope, by name.
pub(crate) fn all(document: &Value, scope: &Scope) -> BTreeMap<String, Offered> {
    let mut all = BTreeMap::new();
    for (_, methods) in document["paths"].as_object().into_iter().flatten() {
        for (_, operation) in methods.as_object().into_iter().flatten() {
            let (Some(name), Some(rights)) =
                (operation["operationId"].as_str(), rights(&operation["x-rights"]))
            else {
                continue;
            };
            let is_call = operation["responses"].get("200").or(operation["responses"].get("201"));
            let is_json =
                is_call.is_some_and(|answer| answer["content"].get("application/json").is_some());
            if NOT_OFFERED.contains(&name)
                || !is_json
                || (scope.read_only && rights != Rights::Reads)
            {
                continue;
            }
            let shows = methods["get"]["operationId"].as_str().map(str::to_owned);
            all.insert(name.to_owned(), offered(document, scope, operation, name, rights, shows));
        }
    }
    all
}

fn rights(word: &Value) -> Option<Rights> {
    match word.as_str()? {
        "reads" => Some(Rights::Reads),
        "changes" => Some(Rights::Changes),
        _ => Some(Rights::Destroys),
    }
}

fn offered(
    document: &Value,
    scope: &Scope,
    operation: &Value,
    name: &str,
    rights: Rights,
    shows: Option<String>,
) -> Offered {
    let answers = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    let shape = match (name, answers["type"].as_str()) {
        ("status", _) => Shape::Summary,
        (_, Some("array")) if is_read_by_page(operation) => Shape::Named,
        (_, Some("array")) => Shape::Many,
        _ => Shape::One,
    };
    let schema = schema(document, scope, operation, rights, shape);
    let title = operation["summary"].as_str().unwrap_or(name).to_owned();
    let mut about = title.clone() + ".";
    for more in [&operation["description"], &operation["responses"]["200"]["description"]] {
        if let Some(more) = more.as_str() {
            about = format!("{about} {}.", more.trim_end_matches('.'));
        }
    }
    let annotations = annotations(&title, rights);
    let tool =
        Tool::new(name.to_owned(), about, schema).with_title(title).with_annotations(annotations);
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let own_limit = parameters.into_iter().any(|parameter| parameter["name"] == answer::LIMIT);
    Offered { tool, rights, shape, own_limit, shows: shows.filter(|_| rights == Rights::Destroys) }
}

/// Whether the lab itself reads a page: the call takes the name of the last object of the page before.
fn is_read_by_page(operation: &Value) -> bool {
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    // The cursor of a log has a pattern, and names nothing.
    parameters.any(|one| one["name"] == answer::AFTER && one["schema"].get("pattern").is_none())
}

/// What a client may show or ask its user before a call.
pub(crate) fn annotations(title: &str, rights: Rights) -> ToolAnnotations {
    ToolAnnotations::with_title(title)
        .read_only(rights == Rights::Reads)
        .destructive(rights == Rights::Destroys)
        .open_world(false)
}

/// An object's schema with these properties.
pub(crate) fn object(properties: Map<String, Value>, required: &[&str]) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

/// The property that names the lab, unless only one may be reached.
pub(crate) fn lab_property(scope: &Scope) -> Option<(String, Value)> {
    scope.lab.is_none().then(|| {
        let about = "The lab's name; may be left out while only one runs";
        ("lab".to_owned(), json!({"type": "string", "description": about}))
    })
}

/// The schema of a call's arguments: the lab, its parameters, its body, and those of this protocol's side.
fn schema(
    document: &Value,
    scope: &Scope,
    operation: &Value,
    rights: Rights,
    shape: Shape,
) -> Arc<JsonObject> {
    let mut properties: Map<String, Value> = lab_property(scope).into_iter().collect();
    let mut required = vec![];
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let (Some(name), false) = (parameter["name"].as_str(), parameter["in"] == "header") else {
            continue;
        };
        let mut one = parameter["schema"].clone();
        if let (Some(fields), Some(about)) = (one.as_object_mut(), parameter.get("description")) {
            fields.insert("description".to_owned(), about.clone());
        }
        if parameter["required"] == true {
            required.push(name);
        }
        properties.insert(name.to_owned(), one);
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        properties.insert(BODY.to_owned(), body.clone());
        required.push(BODY);
    }
    if shape == Shape::Named {
        let [(limit, schema), _] = answer::page_schemas();
        properties.insert(limit.to_owned(), schema);
    }
    if shape == Shape::Many {
        for (name, schema) in answer::page_schemas() {
            // A call's own parameter of this name bounds what is read; the page is of that.
            properties.entry(name).or_insert(schema);
        }
    }
    if rights == Rights::Destroys {
        let about = "The word that the first call's answer has, which shows what would be done";
        let word = json!({"type": "string", "description": about});
        properties.insert(CONFIRM.to_owned(), word);
    }
    let mut schema = object(properties, &required);
    let definitions = definitions(document, &schema);
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let mut schema = Value::Object(schema);
    move_references(&mut schema);
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

/// Where the document has its schemas.
const COMPONENTS: &str = "#/components/schemas/";

/// The document's schemas that a schema refers to, at any depth.
fn definitions(document: &Value, schema: &Map<String, Value>) -> Map<String, Value> {
    let mut found = Map::new();
    let mut wanted = vec![];
    schema.values().for_each(|value| references(value, &mut wanted));
    while let Some(name) = wanted.pop() {
        if found.contains_key(&name) {
            continue;
        }
        let schema = document["components"]["schemas"][&name].clone();
        references(&schema, &mut wanted);
        found.insert(name, schema);
    }
    found
}

fn references(value: &Value, to: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            to.extend(name.and_then(|name| name.strip_prefix(COMPONENTS)).map(str::to_owned));
            fields.values().for_each(|value| references(value, to));
        }
        Value::Array(all) => all.iter().for_each(|value| references(value, to)),
        _ => {}
    }
}

/// Makes references to the document's schemas refer to the tool's own.
fn move_references(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(name)) = fields.get_mut("$ref")
                && let Some(rest) = name.strip_prefix(COMPONENTS)
            {
                *name = format!("#/$defs/{rest}");
            }
            fields.values_mut().for_each(move_references);
        }
        Value::Array(all) => all.iter_mut().for_each(move_references),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(read_only: bool, lab: Option<&str>) -> Scope {
        Scope {
            program: "netloom".into(),
            connect: |_| Err("none".to_owned()),
            lab: lab.map(str::to_owned),
            read_only,
        }
    }

    fn document() -> Value {
        serde_json::from_str(&netloom_api::openapi()).unwrap()
    }

    #[test]
    fn every_call_is_a_tool_with_its_rights() {
        let all = all(&document(), &scope(false, None));
        assert!(all.len() >= 34, "{:?}", all.keys());
        let of = |name: &str| &all[name];
        assert_eq!((of("status").rights, of("status").shape), (Rights::Reads, Shape::Summary));
        assert_eq!((of("nodes").rights, of("nodes").shape), (Rights::Reads, Shape::Named));
        assert_eq!((of("log").shape, of("interfaces").shape), (Shape::Many, Shape::Many));
        assert_eq!((of("set_link").rights, of("set_link").shape), (Rights::Changes, Shape::One));
        assert_eq!(of("delete_node").rights, Rights::Destroys);
        assert_eq!(of("delete_node").shows.as_deref(), Some("node"));
        assert_eq!(of("down").shows.as_deref(), Some("status"));
        assert!(!all.contains_key("apply") && !all.contains_key("show_metrics"));
        for (name, offered) in &all {
            let annotations = offered.tool.annotations.as_ref().unwrap();
            assert_eq!(annotations.read_only_hint, Some(offered.rights == Rights::Reads), "{name}");
            assert_eq!(annotations.destructive_hint, Some(offered.rights == Rights::Destroys));
            assert!(offered.tool.title.as_ref().is_some_and(|title| !title.is_empty()), "{name}");
        }
    }

    #[test]
    fn schemas_are_whole_and_ask_for_the_lab_only_where_it_can_be_chosen() {
        let document = document();
        let (free, bound) =
            (all(&document, &scope(false, None)), all(&document, &scope(false, Some("x"))));
        for (name, offered) in &free {
            let schema = Value::Object((*offered.tool.input_schema).clone());
            let mut wanted = vec![];
            references(&schema, &mut wanted);
            assert!(wanted.is_empty(), "{name} refers to the document: {wanted:?}");
            for name in schema.to_string().split("#/$defs/").skip(1) {
                let name = name.split('"').next().unwrap();
                assert!(schema["$defs"].get(name).is_some(), "{name} is not defined");
            }
            assert!(schema["properties"].get("lab").is_some());
            assert!(bound[name].tool.input_schema["properties"].get("lab").is_none());
            let destroys = offered.rights == Rights::Destroys;
            assert_eq!(schema["properties"].get(CONFIRM).is_some(), destroys, "{name}");
        }
    }

    #[test]
    fn an_agent_that_may_only_read_is_offered_nothing_else() {
        let all = all(&document(), &scope(true, None));
        assert!(all.values().all(|offered| offered.rights == Rights::Reads));
        assert!(
            all.contains_key("why") && !all.contains_key("down") && !all.contains_key("set_link")
        );
    }
}
