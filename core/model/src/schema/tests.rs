//! The schema compared with the parser: same keys, and all example files satisfy it.

use std::collections::BTreeSet;
use std::path::Path;

use netloom_config::{Kind, Node, Report, load};

use super::*;

/// A YAML tree as JSON.
fn json_of(node: &Node) -> Json {
    match &node.kind {
        Kind::Null => Json::Null,
        Kind::Bool(value) => json!(value),
        Kind::Int(value) => json!(value),
        Kind::Float(value) => json!(value),
        Kind::Str => json!(node.text),
        Kind::Seq(items) => items.iter().map(json_of).collect(),
        Kind::Map(entries) => {
            Json::Object(entries.iter().map(|e| (e.key.clone(), json_of(&e.value))).collect())
        }
    }
}

/// Resolves a reference to a node or direction.
fn shared(schema: &Json) -> Option<Json> {
    let name = schema["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    (name != "template").then(|| super::schema()["$defs"][name].clone())
}

/// A validator for the JSON Schema keywords that [`schema`] uses; of `pattern` it only checks that of
/// templates. Returns the path of the first invalid value.
fn misfit(schema: &Json, value: &Json, at: &str) -> Option<String> {
    if schema == &json!(true) {
        return None;
    }
    if let Some(shared) = shared(schema) {
        return misfit(&shared, value, at);
    }
    if let (Some(then), true) = (schema.get("then"), value.is_string()) {
        assert_eq!(schema["if"], json!({"type": "string"}), "{at}");
        return misfit(&json!({"type": "string", "enum": then["enum"]}), value, at);
    }
    if let Some(condition) = schema.get("if").filter(|_| schema.get("then").is_none()) {
        assert_eq!(condition, &json!({"$ref": "#/$defs/template"}), "{at}");
        let filled_in = value.as_str().is_some_and(|text| text.contains('{'));
        return if filled_in { None } else { misfit(&schema["else"], value, at) };
    }
    if let Some(Json::Array(words)) = schema.get("enum") {
        return (!words.contains(value)).then(|| format!("{at}: none of {words:?}"));
    }
    let types = match &schema["type"] {
        Json::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    if !types.iter().any(|t| has_type(t.as_str().unwrap(), value)) {
        return Some(format!("{at}: {value} is none of {types:?}"));
    }
    match value {
        Json::Object(map) => misfit_object(schema, map, at),
        Json::Array(items) => misfit_array(schema, items, at),
        Json::Number(number) => {
            let number = number.as_f64().unwrap();
            let low = schema["minimum"].as_f64().is_some_and(|m| number < m);
            let high = schema["maximum"].as_f64().is_some_and(|m| number > m);
            (low || high).then(|| format!("{at}: {number} is out of range"))
        }
        _ => None,
    }
}

fn has_type(name: &str, value: &Json) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    }
}

fn misfit_object(schema: &Json, map: &Map<String, Json>, at: &str) -> Option<String> {
    let required = schema["required"].as_array().into_iter().flatten();
    for key in required.filter_map(Json::as_str) {
        if !map.contains_key(key) {
            return Some(format!("{at}: {key} is missing"));
        }
    }
    for each in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
        let given =
            map.get("kind").or_else(|| each["if"].get("required").is_none().then_some(&Json::Null));
        let kind = &each["if"]["properties"]["kind"]["const"];
        let holds = given.is_some_and(|given| given.is_null() || given == kind);
        let refused = each["then"]["properties"].as_object().filter(|_| holds);
        let found = refused.into_iter().flatten().find(|(key, _)| map.contains_key(*key));
        if let Some((key, no)) = found {
            assert_eq!(no, &json!(false), "{at}");
            return Some(format!("{at}.{key}: not a key of kind {kind}"));
        }
    }
    map.iter().find_map(|(key, value)| {
        let at = format!("{at}.{key}");
        let extension = key.starts_with("x-") && schema.get("patternProperties").is_some();
        match (schema["properties"].get(key), &schema["additionalProperties"]) {
            (Some(schema), _) => misfit(schema, value, &at),
            (None, _) if extension => None,
            (None, Json::Bool(false)) => Some(format!("{at}: not a key")),
            (None, schema) => misfit(schema, value, &at),
        }
    })
}

fn misfit_array(schema: &Json, items: &[Json], at: &str) -> Option<String> {
    let few = schema["minItems"].as_u64().is_some_and(|m| (items.len() as u64) < m);
    let many = schema["maxItems"].as_u64().is_some_and(|m| (items.len() as u64) > m);
    if few || many {
        return Some(format!("{at}: {} items", items.len()));
    }
    items
        .iter()
        .enumerate()
        .find_map(|(i, item)| misfit(&schema["items"], item, &format!("{at}[{i}]")))
}

fn tree(text: &[u8]) -> Json {
    let mut report = Report::new("f");
    let node = load(text, &mut report);
    assert!(report.is_empty(), "{}", report.finish());
    json_of(&node.unwrap())
}

/// Shows the keys of switches in shared memory.
const SHM: &str = "shm-switch.yaml";

fn examples() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    files.iter().map(|p| (p.display().to_string(), std::fs::read(p).unwrap())).collect()
}

#[test]
fn every_example_parses_and_holds_to_the_schema() {
    let schema = schema();
    let examples = examples();
    assert!(examples.len() >= 7);
    for (name, text) in examples {
        crate::parse(&name, &text, "example").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(misfit(&schema, &tree(&text), ""), None, "{name}");
    }
}

/// The paths of all keys of a schema: `nodes.*.limits.cpu`. Nodes in nodes count once, and keys of
/// one direction are those of a link.
fn keys_of(schema: &Json, at: &str, found: &mut BTreeSet<String>) {
    if let Some(shared) = shared(schema).filter(|s| s["title"] == "node" && at == ".nodes.*") {
        keys_of(&shared, at, found);
    }
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        found.insert(at.clone());
        keys_of(inner, &at, found);
    }
    if schema["additionalProperties"].is_object() {
        keys_of(&schema["additionalProperties"], &format!("{at}.*"), found);
    }
    if schema["items"].is_object() {
        keys_of(&schema["items"], &format!("{at}.*"), found);
    }
    if schema["else"].is_object() {
        keys_of(&schema["else"], at, found);
    }
}

/// The same for a value, with each of `known` that it contains.
fn used(value: &Json, at: &str, known: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    let children: Vec<(Option<&str>, &Json)> = match value {
        Json::Object(map) => map.iter().map(|(k, v)| (Some(k.as_str()), v)).collect(),
        Json::Array(items) => items.iter().map(|v| (None, v)).collect(),
        _ => return,
    };
    for (key, inner) in children {
        let by_name = key.map(|k| format!("{at}.{k}")).filter(|p| known.contains(p));
        let at = by_name.unwrap_or_else(|| format!("{at}.*"));
        found.insert(at.clone());
        used(inner, &at, known, found);
    }
}

#[test]
fn the_examples_show_every_key_of_the_schema() {
    let mut keys = BTreeSet::new();
    keys_of(&schema(), "", &mut keys);
    assert!(keys.len() > 70, "{}", keys.len());
    let direction = &schema()["$defs"]["direction"]["properties"];
    for key in direction.as_object().unwrap().keys() {
        assert!(keys.contains(&format!(".links.*.{key}")), "{key}");
    }
    let mut shown = BTreeSet::new();
    let files = [
        "all-keys.yaml",
        SHM,
        "openflow.yaml",
        "vm-qemu.yaml",
        "slices.yaml",
        "router.yaml",
        "image.yaml",
        "expect.yaml",
    ];
    for file in files {
        let (_, text) = examples().into_iter().find(|(n, _)| n.ends_with(file)).unwrap();
        used(&tree(&text), "", &keys, &mut shown);
    }
    // Files that must be there when the lab comes up; those of a switch are the same.
    let tls = b"slices: {a: {tls: {authorities: a, certificate: b, key: c, name: d}}}";
    used(&tree(tls), "", &keys, &mut shown);
    // One alone has the keys of one in a list, which is shown: of spaces one alone, of commands a list.
    let other = |path: &str| {
        let path = path.replacen(".switches.*.*.", ".switches.*.", 1);
        let path = path.replacen(".nodes.*.run.", ".nodes.*.run.*.", 1);
        path.replacen(".nodes.*.exec.", ".nodes.*.exec.*.", 1)
    };
    let missing: Vec<_> =
        keys.difference(&shown).filter(|path| !shown.contains(&other(path))).collect();
    assert!(missing.is_empty(), "not in all-keys.yaml: {missing:?}");
}

#[test]
fn a_key_that_is_not_in_the_schema_is_not_taken() {
    let schema = schema();
    for text in [
        "nodez: {}",
        "nodes: {a: {x: 1}}",
        "nodes: {a: {limits: {sockets: 0}}}",
        "nodes: {a: {children: {nodes: {b: {limits: {socket: 5}}}}}}",
        "links: [{ends: [a, b], rate: 1}]",
        "links: [{ends: [a, b], a: {delays: 1ms}}]",
    ] {
        assert!(misfit(&schema, &tree(text.as_bytes()), "").is_some(), "{text}");
        assert!(crate::parse("f", text.as_bytes(), "f").is_err(), "{text}");
    }
}

/// Keywords that let a validator say only that nothing fits.
#[test]
fn no_choice_between_schemas_hides_where_an_error_is() {
    fn none(schema: &Json, at: &str) {
        for word in ["anyOf", "oneOf", "not"] {
            assert!(schema.get(word).is_none(), "{word} at {at}");
        }
        // Conditions, each refusing keys by name.
        for each in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            assert!(each["if"]["properties"]["kind"]["const"].is_string(), "{at}");
            assert_eq!(
                each["then"].as_object().unwrap().keys().collect::<Vec<_>>(),
                ["properties"]
            );
        }
        match schema {
            Json::Object(map) => map.iter().for_each(|(key, s)| none(s, &format!("{at}/{key}"))),
            Json::Array(items) => items.iter().for_each(|item| none(item, at)),
            _ => {}
        }
    }
    none(&schema(), "");
}

#[test]
fn keys_of_another_kind_are_refused_where_they_stand() {
    let schema = schema();
    let misfit = |text: &str| misfit(&schema, &tree(text.as_bytes()), "");
    assert_eq!(misfit("switches: {s: {kind: shm, arena: 1MiB, mtu: 1500}}"), None);
    for kernel in ["", "kind: kernel, "] {
        let found = misfit(&format!("switches: {{s: {{{kernel}arena: 1MiB}}}}"));
        assert_eq!(found.as_deref(), Some(".switches.s.arena: not a key of kind \"kernel\""));
    }
}

#[test]
fn what_may_be_empty_and_what_may_be_of_several_types_fits() {
    let schema = schema();
    for good in [
        "nodes: {a: , b: {limits: , ready: , children: }}",
        "nodes: {a: {ready: {tcp: 80}}, b: {ready: {tcp: [80, 81]}}}",
        "nodes: {a: {ready: 80, health: [80, /run/x], run: sleep inf, exec: [ip link, [ip, route]]}}",
        "links: [[a, b], a-b, {ends: a-b}, {ends: [a, b], loss: 1%, jitter: {spread: 1ms}, a: }]",
        "links: [{for: {x: 3}, ends: [\"a{x}\", b], mtu: \"{x}\", delay: \"{x}ms\"}]",
        "x-any: {of: all}",
    ] {
        assert_eq!(misfit(&schema, &tree(good.as_bytes()), ""), None, "{good}");
    }
    for (wrong, at) in [
        ("nodes: {a: {limits: {processes: many}}}", ".nodes.a.limits.processes"),
        ("nodes: [a]", ".nodes"),
        ("links: [[a, b], [a]]", ".links[1]"),
        ("links: [5]", ".links[0]"),
        ("links: [{ends: [a, b], a: {mtu: 5}}]", ".links[0].a.mtu"),
        ("switches: {s: {mtu: huge}}", ".switches.s.mtu"),
        ("routing: atuo", ".routing"),
    ] {
        let found = misfit(&schema, &tree(wrong.as_bytes()), "").expect(wrong);
        assert_eq!(found.split(": ").next(), Some(at), "{wrong}: {found}");
    }
}

#[test]
fn every_key_has_its_description() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for (key, inner) in schema["properties"].as_object().unwrap() {
        assert!(inner["description"].as_str().is_some_and(|d| d.len() > 10), "{key}");
    }
}
