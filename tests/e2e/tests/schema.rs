//! The JSON Schema with a validator that is not ours: it finds the place of an error, not only that there is one.

use netloom_config::{Kind, Node, Report, load};
use netloom_tests_e2e::{Machine, Run, needs, program, workspace_root};
use serde_json::{Value, json};

/// Reads `{"schema": ..., "labs": [...]}`, prints the path and words of each lab's errors, the best one first.
const VALIDATOR: &str = r#"
import json, sys
import jsonschema
from jsonschema.exceptions import best_match
asked = json.load(sys.stdin)
kind = jsonschema.validators.validator_for(asked["schema"])
kind.check_schema(asked["schema"])
validator = kind(asked["schema"])
def told(lab):
    errors = list(validator.iter_errors(lab))
    best = [best_match(errors)] if errors else []
    return [{"path": "/".join(map(str, e.absolute_path)), "message": e.message} for e in best + errors]
json.dump([told(lab) for lab in asked["labs"]], sys.stdout)
"#;

/// Wrong files, where one of the errors of each is, and a word of what a validator says.
const WRONG: &[(&str, &str, &str)] = &[
    ("unknown-key", "nodes/r1", "forwading"),
    ("unknown-top-key", "", "swiches"),
    ("units", "switches/s1/mtu", "not of type 'integer'"),
    ("units", "links/0/rate", "10Mbps"),
    ("units", "nodes/a/limits/memory", "512mb"),
    ("limits", "nodes/c/limits", "not of type"),
    ("mtu", "links/3/mtu", "not of type 'integer'"),
    ("link-ends", "links/6", "'ends' is a required property"),
    ("routes", "nodes/a/routes/4", "'to' is a required property"),
    ("loss", "links/5/loss/bursts", "laeve"),
    ("impairments", "links/6/b", "not of type 'object'"),
    ("protect", "nodes/d/protect", "frames"),
    ("switch-kind", "switches/s3/kind", "is not one of ['kernel', 'shm', 'openflow']"),
    ("several-errors-at-once", "routing", "is not one of ['auto', 'none']"),
    ("run", "nodes/restart/run/1", "'command' is a required property"),
    ("words-of-containerlab", "", "mgmt"),
    ("wrong-shapes", "switches", "not of type 'object'"),
];

fn json_of(node: &Node) -> Value {
    match &node.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => json!(value),
        Kind::Int(value) => json!(value),
        Kind::Float(value) => json!(value),
        Kind::Str => json!(node.text),
        Kind::Seq(items) => items.iter().map(json_of).collect(),
        Kind::Map(entries) => {
            Value::Object(entries.iter().map(|e| (e.key.clone(), json_of(&e.value))).collect())
        }
    }
}

/// A lab file of the workspace.
fn lab(path: &str) -> Value {
    let text = std::fs::read(workspace_root().join(path)).expect(path);
    json_of(&load(&text, &mut Report::new(path)).expect(path))
}

#[test]
fn a_validator_tells_which_key_of_which_node_is_wrong() {
    needs!("jsonschema");
    let machine = Machine::new();
    let schema = machine.netloom(["schema"]).finish().code(0).json();
    let mut labs: Vec<Value> =
        WRONG.iter().map(|(file, ..)| lab(&format!("tests/e2e/bad/{file}.yaml"))).collect();
    let good = ["all-keys", "shm-switch", "openflow", "torus", "tenants", "two-sites"];
    labs.extend(good.iter().map(|file| lab(&format!("examples/{file}.yaml"))));
    let asked = json!({"schema": schema, "labs": labs}).to_string();
    let python = program("python3").expect("it was there");
    let told = Run::new(python).args(["-c", VALIDATOR]).input(asked).finish().code(0).json();
    for (at, (file, path, word)) in WRONG.iter().enumerate() {
        let errors = told[at].as_array().expect("a list");
        let says = |error: &Value| error["message"].as_str().is_some_and(|m| m.contains(word));
        assert!(errors.iter().any(|e| e["path"] == *path && says(e)), "{file}: {errors:?}");
        // Every error is as deep as it can be told, the best one as well.
        let vague = |error: &Value| {
            error["message"].as_str().is_some_and(|m| m.contains("any of the given"))
        };
        assert!(!errors.iter().any(vague), "{file}: {errors:?}");
    }
    for (file, error) in good.iter().zip(&told.as_array().expect("a list")[WRONG.len()..]) {
        assert_eq!(error, &json!([]), "{file}");
    }
    machine.untouched();
}
