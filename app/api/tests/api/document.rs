//! The document: the committed one is the built one, and it and the router know the same routes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fake::{Served, plan};
use super::http::{parse, request, request_with};
use super::shape::{check, document, sample};

#[test]
fn the_committed_document_is_the_built_one() {
    let path = netloom_kit::workspace_root().join("docs/api/openapi.json");
    let built = netloom_api::openapi();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &built).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == built, "{path:?} is not what is built; UPDATE=1 rewrites it");
}

/// Method, documented path, request, status.
const CASES: &[(&str, &str, &str, u16)] = &[
    ("get", "/v1/lab", "/v1/lab", 200),
    ("delete", "/v1/lab", "/v1/lab", 200),
    ("get", "/v1/lab/plan", "/v1/lab/plan", 200),
    ("get", "/v1/lab/layout", "/v1/lab/layout", 200),
    ("post", "/v1/lab/repair", "/v1/lab/repair", 200),
    ("post", "/v1/lab/ping", "/v1/lab/ping", 200),
    ("post", "/v1/lab/ping", "/v1/lab/ping?family=6&timeout_ms=60000", 200),
    ("post", "/v1/lab/ping", "/v1/lab/ping?family=4%2C6", 200),
    ("post", "/v1/lab/ping", "/v1/lab/ping?family=5", 400),
    ("post", "/v1/lab/ping", "/v1/lab/ping?family=", 400),
    ("post", "/v1/lab/ping", "/v1/lab/ping?timeout_ms=0", 400),
    ("post", "/v1/lab/ping", "/v1/lab/ping?timeout_ms=soon", 400),
    ("post", "/v1/lab/ping", "/v1/lab/ping?timeout_ms=99999999999999999999", 400),
    ("post", "/v1/lab/ping", "/v1/lab/ping?timeout=5", 400),
    ("post", "/v1/nodes/{node}/ping", "/v1/nodes/h1/ping?to=r%201%2Fx", 200),
    ("post", "/v1/nodes/{node}/ping", "/v1/nodes/h1/ping?to=h1&family=6&count=1000", 200),
    ("post", "/v1/nodes/{node}/ping", "/v1/nodes/h1/ping?to=h1&interval_ms=0&timeout_ms=1", 200),
    ("post", "/v1/nodes/{node}/ping", "/v1/nodes/h1/ping", 400),
    ("post", "/v1/nodes/{node}/ping", "/v1/nodes/h1/ping?to=h1&count=0", 400),
    ("post", "/v1/nodes/{node}/ping", "/v1/nodes/h1/ping?to=h1&interval_ms=1001", 400),
    ("post", "/v1/nodes/{node}/ping", "/v1/nodes/h1/ping?to=h2", 404),
    ("get", "/v1/nodes", "/v1/nodes", 200),
    ("get", "/v1/nodes/{node}", "/v1/nodes/h1", 200),
    ("get", "/v1/nodes/{node}", "/v1/nodes/%68%31", 200),
    ("get", "/v1/nodes/{node}", "/v1/nodes/r%201%2Fx", 200),
    ("get", "/v1/nodes/{node}", "/v1/nodes/h2", 404),
    ("get", "/v1/nodes/{node}", "/v1/nodes/%FF", 400),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/h1/log", 200),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/h1/log?after=18446744073709551615", 200),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/h1/log?tail=0&limit=1", 200),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/h1/log?limit=0", 400),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/h1/log?tail=-1", 400),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/h2/log", 404),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/dead/log", 409),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/h1/log?wait_ms=60001", 400),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/h1/log?after=-1", 400),
    ("get", "/v1/nodes/{node}/log", "/v1/nodes/fault/log", 500),
    ("delete", "/v1/nodes/{node}", "/v1/nodes/h1", 200),
    ("post", "/v1/nodes/{node}/move-control", "/v1/nodes/h1/move-control", 200),
    ("post", "/v1/nodes/{node}/move-control", "/v1/nodes/nobody/move-control", 404),
    ("delete", "/v1/nodes/{node}", "/v1/nodes/r%201%2Fx?force=true", 200),
    ("delete", "/v1/nodes/{node}", "/v1/nodes/r%201%2Fx?force=false", 409),
    ("delete", "/v1/nodes/{node}", "/v1/nodes/h1?force=yes", 400),
    ("delete", "/v1/nodes/{node}", "/v1/nodes/h1?forced=true", 400),
    ("delete", "/v1/nodes/{node}", "/v1/nodes/h2", 404),
    ("get", "/v1/links", "/v1/links", 200),
    ("get", "/v1/links/{link}", "/v1/links/l", 200),
    ("get", "/v1/links/{link}", "/v1/links/h1%3Aeth0", 200),
    ("get", "/v1/links/{link}", "/v1/links/t%2Fa%3Aeth0--s%201", 200),
    ("get", "/v1/links/{link}", "/v1/links/h1,s1", 200),
    ("get", "/v1/links/{link}", "/v1/links/s1", 404),
    ("delete", "/v1/links/{link}", "/v1/links/t%2Fa%3Aeth0--s%201", 200),
    ("delete", "/v1/links/{link}", "/v1/links/none", 404),
    ("get", "/v1/links/{link}", "/v1/links/%FF", 400),
    ("put", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates?keep=0", 200),
    ("put", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates?keep=1000000", 200),
    ("put", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates?keep=1000001", 400),
    ("put", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates?keep=-1", 400),
    ("put", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates", 400),
    ("put", "/v1/links/{link}/fates", "/v1/links/none/fates?keep=1", 404),
    ("get", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates", 200),
    ("get", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates?end=1&after=0&wait_ms=1", 200),
    ("get", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates?end=2", 400),
    ("get", "/v1/links/{link}/fates", "/v1/links/t%2Fa%3Aeth0/fates?wait_ms=60001", 400),
    ("get", "/v1/links/{link}/fates", "/v1/links/none/fates", 404),
    ("get", "/v1/links/{link}/fates", "/v1/links/fault/fates", 500),
    ("get", "/v1/switches", "/v1/switches", 200),
    ("delete", "/v1/switches/{switch}", "/v1/switches/s%201?force=true", 200),
    ("delete", "/v1/switches/{switch}", "/v1/switches/s%201", 409),
    ("delete", "/v1/switches/{switch}", "/v1/switches/s%201?force=yes", 400),
    ("delete", "/v1/switches/{switch}", "/v1/switches/none", 404),
    ("get", "/v1/switches/{switch}/openflow", "/v1/switches/s%201/openflow", 200),
    ("get", "/v1/switches/{switch}/openflow", "/v1/switches/none/openflow", 404),
    ("get", "/v1/slices", "/v1/slices", 200),
    ("get", "/v1/slices/{slice}", "/v1/slices/red", 200),
    ("get", "/v1/slices/{slice}", "/v1/slices/none", 404),
    ("get", "/v1/switches/{switch}", "/v1/switches/s%201", 200),
    ("get", "/v1/switches/{switch}", "/v1/switches/none", 404),
    ("get", "/v1/nodes/{node}/interfaces", "/v1/nodes/h1/interfaces", 200),
    ("get", "/v1/nodes/{node}/interfaces", "/v1/nodes/h2/interfaces", 404),
    ("get", IFACE, "/v1/nodes/h1/interfaces/eth1", 200),
    ("get", IFACE, "/v1/nodes/h1/interfaces/none", 404),
    ("get", "/v1/openapi.json", "/v1/openapi.json", 200),
];

/// Method, documented path, request, body, status.
pub(crate) const BODIES: &[(&str, &str, &str, &str, u16)] = &[
    ("post", "/v1/nodes", "/v1/nodes", r#"{"name": "t/a"}"#, 201),
    (
        "post",
        "/v1/nodes",
        "/v1/nodes",
        r#"{"name": "a", "settings": [["cpu", "5%"]], "root": "/r"}"#,
        201,
    ),
    (
        "post",
        "/v1/links",
        "/v1/links",
        r#"{"a": "h1", "b": "s1", "settings": [["mtu", "1400"]]}"#,
        201,
    ),
    (
        "post",
        "/v1/lab/apply",
        "/v1/lab/apply",
        r#"{"plan": {"lab": "t", "digest": "", "next_id": 0, "nodes": [], "switches": [], "links": [], "hosts": ""}}"#,
        200,
    ),
    ("post", "/v1/lab/apply", "/v1/lab/apply", r#"{"dry_run": true}"#, 400),
    (
        "post",
        "/v1/why",
        "/v1/why",
        r#"{"from": "h1", "to": "r 1/x", "protocol": "tcp", "port": 80}"#,
        200,
    ),
    ("post", "/v1/why", "/v1/why", r#"{"from": "h1", "to": "r 1/x", "family": 5}"#, 400),
    ("post", "/v1/why", "/v1/why", r#"{"from": "h1", "to": "r 1/x", "protocol": "sctp"}"#, 400),
    ("post", "/v1/why", "/v1/why", r#"{"from": "h2", "to": "h1"}"#, 404),
    (
        "post",
        "/v1/packets",
        "/v1/packets",
        r#"{"what": ["h1", "80/tcp"], "links": ["l"], "last_ms": 500, "most": 3}"#,
        200,
    ),
    ("post", "/v1/packets", "/v1/packets", r#"{"what": ["h1"]}"#, 400),
    ("post", "/v1/packets", "/v1/packets", r#"{"what": "h1", "last_ms": 500}"#, 400),
    ("post", "/v1/links", "/v1/links", r#"{"a": "h1"}"#, 400),
    ("post", "/v1/nodes", "/v1/nodes", r#"{"name": "h1"}"#, 409),
    ("post", "/v1/nodes", "/v1/nodes", "{}", 400),
    ("patch", "/v1/nodes/{node}", "/v1/nodes/r%201%2Fx", r#"{"settings": [["a", "b"]]}"#, 200),
    ("patch", "/v1/nodes/{node}", "/v1/nodes/h1", r#"{"settings": [["cpu", "wrong"]]}"#, 400),
    ("patch", "/v1/nodes/{node}", "/v1/nodes/h2", r#"{"settings": []}"#, 404),
    ("patch", "/v1/nodes/{node}", "/v1/nodes/dead", r#"{"settings": []}"#, 409),
    (
        "post",
        "/v1/interfaces/move",
        "/v1/interfaces/move",
        r#"{"interface": "h2:eth0", "to": "h1"}"#,
        200,
    ),
    (
        "post",
        "/v1/interfaces/move",
        "/v1/interfaces/move",
        r#"{"interface": "a:b", "to": "h2"}"#,
        404,
    ),
    ("patch", "/v1/links/{link}", "/v1/links/t%2Fa%3Aeth0", "{}", 200),
    (
        "patch",
        "/v1/links/{link}",
        "/v1/links/t%2Fa%3Aeth0",
        r#"{"end": 1, "clear": true, "settings": [["delay", "10ms"]]}"#,
        200,
    ),
    ("patch", "/v1/links/{link}", "/v1/links/l2", "{}", 404),
    ("post", "/v1/switches", "/v1/switches", r#"{"name": "s"}"#, 201),
    (
        "post",
        "/v1/switches",
        "/v1/switches",
        r#"{"name": "s", "settings": [["mode", "660"]]}"#,
        201,
    ),
    ("post", "/v1/switches", "/v1/switches", r#"{"name": "s 1"}"#, 409),
    ("post", "/v1/switches", "/v1/switches", r#"{"name": "s", "mode": "660"}"#, 400),
    ("post", TRACE, "/v1/switches/s%201/trace", r#"{"match": "in_port=1,arp"}"#, 200),
    ("post", TRACE, "/v1/switches/s%201/trace", r#"{"frame": {"port": "h1", "hex": ""}}"#, 200),
    ("post", TRACE, "/v1/switches/s%201/trace", r#""arp""#, 400),
    ("post", TRACE, "/v1/switches/none/trace", r#"{"match": "arp"}"#, 404),
    ("post", ASK, "/v1/switches/none/requests", r#""show""#, 404),
    ("post", ASK, AT, r#""show""#, 200),
    ("post", ASK, AT, r#""stop""#, 400),
    ("post", ASK, AT, r#"{"macs": {}}"#, 200),
    ("post", ASK, AT, r#"{"macs": {"port": 1}}"#, 200),
    ("post", ASK, AT, r#"{"macs": {"port": null}}"#, 200),
    ("post", ASK, AT, r#"{"set_port": {"port": "p", "change": {"learn": false}}}"#, 200),
    (
        "post",
        ASK,
        AT,
        r#"{"set_port": {"port": 1, "change": {"name": "p", "uid": null, "gid": 5, "macs": []}}}"#,
        200,
    ),
    ("post", ASK, AT, r#"{"set_vlan": {"port": 1, "vlan": {"access": 7}}}"#, 200),
    ("post", ASK, AT, r#"{"set_vlan": {"port": 1, "vlan": {"access": 4095}}}"#, 400),
    ("post", ASK, AT, r#"{"set_vlan": {"port": 1, "vlan": {"trunk": {}}}}"#, 200),
    (
        "post",
        ASK,
        AT,
        r#"{"set_vlan": {"port": 1, "vlan": {"trunk": {"native": 1, "allowed": "1-3"}}}}"#,
        200,
    ),
    ("post", ASK, AT, r#"{"set_vlan": {"port": 1, "vlan": {"qinq": {"vlan": 20}}}}"#, 200),
    (
        "post",
        ASK,
        AT,
        r#"{"set_vlan": {"port": 1, "vlan": {"qinq": {"vlan": 20, "cvlans": "1-3", "tpid": "0x9100"}}}}"#,
        200,
    ),
    ("post", ASK, AT, r#"{"set_vlan": {"port": 1, "vlan": null}}"#, 200),
    (
        "post",
        ASK,
        AT,
        r#"{"add_mirror": {"to": 9, "sources": [{"port": 1, "direction": "in"}]}}"#,
        200,
    ),
    (
        "post",
        ASK,
        AT,
        r#"{"add_mirror": {"to": 9, "filter": "tcp", "sources": [{"port": 1, "direction": "out"}]}}"#,
        200,
    ),
    ("post", ASK, AT, r#"{"add_mirror": {"to": 9, "sources": [], "filter": "x"}}"#, 400),
    ("post", ASK, AT, r#"{"delete_mirror": {"mirror": 1}}"#, 200),
    ("post", ASK, AT, r#"{"delete_mirror": {"mirror": 2}}"#, 409),
    ("post", ASK, AT, r#"{"disconnect": {"port": 1}}"#, 200),
    ("post", ASK, AT, r#"{"disconnect": {"port": []}}"#, 400),
    ("post", ASK, AT, r#""format""#, 400),
];

/// Asking a switch: the route, and where it is for the fake's.
const IFACE: &str = "/v1/nodes/{node}/interfaces/{interface}";
const TRACE: &str = "/v1/switches/{switch}/trace";
const ASK: &str = "/v1/switches/{switch}/requests";
const AT: &str = "/v1/switches/s%201/requests";

/// The schema of a response's body.
pub(crate) fn content(response: &Value) -> &Value {
    let all = response["content"].as_object().unwrap();
    &all.values().next().unwrap()["schema"]
}

#[test]
fn generators_can_read_the_document() {
    fn walk(value: &Value, at: &str) {
        match value {
            Value::Object(fields) => {
                assert_ne!(fields.get("items"), Some(&Value::Bool(false)), "{at}");
                fields.iter().for_each(|(name, value)| walk(value, &format!("{at}/{name}")));
            }
            Value::Array(all) => all.iter().for_each(|value| walk(value, at)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, "");
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let mut names = BTreeSet::new();
    for (method, path) in operations() {
        let operation = &document["paths"][&path][&method];
        let name = operation["operationId"].as_str().unwrap().to_owned();
        assert!(names.insert(name.clone()), "{name}: two operations");
        let problem = &operation["responses"]["default"]["content"];
        let is_problem = problem.get("application/problem+json").is_some();
        assert!(is_problem || name == "show_document", "{name}: {problem}");
        if path.starts_with("/v1/") && name != "show_document" {
            let rights = operation["x-rights"].as_str();
            assert!(rights.is_some_and(|word| ["reads", "changes", "destroys"].contains(&word)));
        }
    }
}

#[test]
fn what_is_made_is_where_its_location_says() {
    let served = Served::new();
    for (uri, body, place) in [
        ("/v1/nodes", r#"{"name": "t/ü"}"#, "/v1/nodes/t%2F%C3%BC"),
        ("/v1/links", r#"{"a": "a", "b": "b"}"#, "/v1/links/a%3Aeth0--b%3Aeth0"),
        ("/v1/switches", r#"{"name": "s"}"#, "/v1/switches/s"),
    ] {
        let length = body.len();
        let head = format!("POST {uri} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        let head = format!("{head}content-length: {length}\r\n\r\n{body}");
        let answer = super::http::exchange(served.path(), head.as_bytes());
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
        assert!(answer.contains(&format!("\r\nlocation: {place}\r\n")), "{answer}");
    }
}

#[test]
fn problems_have_a_code_and_the_object() {
    let served = Served::new();
    for (method, uri, code, object) in [
        ("GET", "/v1/nodes/h2", "no_such_node", Some(("node", "h2"))),
        ("GET", "/v1/nodes/h1/interfaces/x", "no_such_interface", Some(("interface", "h1:x"))),
        ("GET", "/v1/nodes/dead", "node_has_ended", Some(("node", "dead"))),
        ("DELETE", "/v1/switches/s%201", "in_use", Some(("switch", "s 1"))),
        ("GET", "/v1/nodes?x=1", "invalid_parameter", Some(("parameter", "x"))),
        ("POST", "/v1/nodes", "invalid_body", None),
        ("GET", "/v1/nothing", "no_such_route", None),
        ("PUT", "/v1/nodes", "no_such_route", None),
    ] {
        let head = format!("{method} {uri} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = super::http::exchange(served.path(), head.as_bytes());
        let kind = "content-type: application/problem+json";
        assert!(String::from_utf8_lossy(&answer).contains(kind), "{method} {uri}");
        let (status, body) = parse(&answer);
        let problem: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&code.into(), &status.into()), "{uri}");
        let found = object.map(|(kind, name)| serde_json::json!({"kind": kind, "name": name}));
        assert_eq!(problem["object"], found.unwrap_or_default(), "{uri}");
    }
}

/// Names are text of others; what was asked for in vain is told as elsewhere.
#[test]
fn metrics_are_text_with_any_name_in_it() {
    let served = Served::new();
    let ask = |head: &str| {
        let head = format!("{head}\r\nhost: x\r\nconnection: close\r\n\r\n");
        String::from_utf8(super::http::exchange(served.path(), head.as_bytes())).unwrap()
    };
    let told = ask("GET /metrics HTTP/1.1");
    assert!(told.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert!(told.contains("\nnetloom_node_up{lab=\"fake\",node=\"r 1/x\"} 1\n"), "{told}");
    assert!(ask("GET /metrics?x=1 HTTP/1.1").starts_with("HTTP/1.1 400 "));
    assert!(ask("POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405 "));
    *served.fake.fail.lock().unwrap() = Some(netloom_lab::Error::NoLab("fake".to_owned()));
    let refused = ask("GET /metrics HTTP/1.1");
    assert!(refused.starts_with("HTTP/1.1 404 ") && refused.contains("\"code\":\"no_such_lab\""));
}

/// Calls `see` with each key of each object, and the object.
fn each_object(value: &Value, at: &str, see: &mut dyn FnMut(&str, &Value)) {
    if let Some(fields) = value.as_object() {
        see(at, value);
        fields.iter().for_each(|(key, value)| each_object(value, &format!("{at}/{key}"), see));
    }
    for value in value.as_array().into_iter().flatten() {
        each_object(value, at, see);
    }
}

#[test]
fn names_and_words_have_one_form() {
    let document = document();
    let ours = |name: &str| name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
    let mut seen = 0;
    each_object(&document["components"]["schemas"], "", &mut |at, value| {
        for name in value["properties"].as_object().into_iter().flat_map(|all| all.keys()) {
            assert!(ours(name), "{at}: {name}");
            seen += 1;
        }
        let words = ["required", "enum"].into_iter().filter_map(|list| value[list].as_array());
        for word in words.flatten().filter_map(Value::as_str) {
            assert!(ours(word) || word.contains(['.', ',']), "{at}: {word}");
        }
        let bytes = value["type"] == "array" && at.to_lowercase().ends_with("/mac");
        assert!(!bytes, "{at}: {value}");
    });
    assert!(seen > 500, "{seen}");
}

#[test]
fn every_body_is_documented_and_so_is_its_answer() {
    let served = Served::new();
    let document = document();
    for (method, path, uri, sent, status) in BODIES {
        let (found, body) = request_with(served.path(), &method.to_uppercase(), uri, sent);
        assert_eq!(found, *status, "{method} {uri} {sent}: {body}");
        let operation = &document["paths"][path][method];
        let shape = |schema: &Value, text: &str| {
            check(&document, schema, &serde_json::from_str(text).unwrap(), uri)
        };
        let response = &operation["responses"].get(status.to_string());
        let response = response.unwrap_or(&operation["responses"]["default"]);
        shape(content(response), &body).unwrap();
        if *status < 300 {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            shape(schema, sent).unwrap();
        }
    }
}

#[test]
fn every_answer_has_its_status_and_its_documented_shape() {
    let served = Served::new();
    served.fake.write(5, "a line");
    let document = document();
    for (method, path, uri, status) in CASES {
        let (found, body) = request(served.path(), &method.to_uppercase(), uri);
        assert_eq!(found, *status, "{method} {uri}: {body}");
        let responses = &document["paths"][path][method]["responses"];
        let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        let value: Value = serde_json::from_str(&body).unwrap();
        check(&document, content(response), &value, uri).unwrap();
        assert_eq!(value.get("detail").is_some(), *status != 200, "{method} {uri}: {body}");
    }
    served.server.stop();
}

#[test]
fn every_documented_operation_has_a_good_case() {
    let plain = CASES.iter().filter(|c| c.3 < 300).map(|c| (c.0.to_owned(), c.1.to_owned()));
    let bodies = BODIES.iter().filter(|c| c.4 < 300).map(|c| (c.0.to_owned(), c.1.to_owned()));
    let measured = super::pnpm::CASES.iter().filter(|c| (200..300).contains(&c.4));
    let measured = measured.map(|c| (c.0.to_owned(), c.1.to_owned()));
    let known = plain.chain(bodies).chain(measured).collect::<BTreeSet<_>>();
    let all = operations();
    assert!(known.is_subset(&all));
    // Others are asked by what the document says of them.
    let (served, document) = (Served::new(), document());
    for (method, path) in all.difference(&known) {
        let operation = &document["paths"][path][method];
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let sent = if body.is_null() { String::new() } else { sample(&document, body).to_string() };
        let (status, body) = request_with(served.path(), &method.to_uppercase(), &at(path), &sent);
        assert!(status < 300, "{method} {path} {sent}: {status} {body}");
        let response = &operation["responses"][status.to_string()];
        let value = match response["content"].get("text/plain") {
            Some(_) => Value::String(body),
            None => serde_json::from_str(&body).unwrap(),
        };
        check(&document, content(response), &value, path).unwrap();
    }
}

/// A route of the document with objects that the fake has.
pub(crate) fn at(path: &str) -> String {
    let names = [
        ("{node}", "h1"),
        ("{link}", "l"),
        ("{switch}", "s%201"),
        ("{id}", "1"),
        ("{netif}", "h1:eth0"),
        ("{interface}", "eth0"),
        ("{slice}", "red"),
        ("{flow}", "0"),
    ];
    names.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value))
}

#[test]
fn the_router_has_the_documented_routes_and_methods_and_no_others() {
    let served = Served::new();
    let operations = operations();
    let paths: BTreeSet<&String> = operations.iter().map(|(_, path)| path).collect();
    for path in paths {
        for method in ["get", "post", "put", "patch", "delete"] {
            let uri = at(path);
            let (status, body) = request(served.path(), &method.to_uppercase(), &uri);
            // Without body and parameters some are refused, but by their own handler.
            let routed = status != 405 && !body.contains("no such route");
            assert_eq!(
                routed,
                operations.contains(&(method.to_owned(), path.clone())),
                "{method} {path}: {status} {body}"
            );
        }
    }
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/lab/",
        "/v1/lab/graph",
        "/v2/lab",
        "/v1/nodes/h1/x",
        "/v1/links/l/x",
        "/pnpm/1/state/x",
        "/pnpm/1/measures/netif",
        "/pnpm/1/measures/flow/0/netif/h1:eth0/",
    ] {
        let (status, body) = request(served.path(), "GET", path);
        assert_eq!(status, 404, "{path}: {body}");
        assert!(body.contains("no such route"), "{path}: {body}");
    }
}

#[test]
fn head_is_get_without_a_body() {
    let served = Served::new();
    assert_eq!(request(served.path(), "HEAD", "/v1/lab"), (200, String::new()));
    let answer = super::http::exchange(
        served.path(),
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    assert_eq!(parse(&answer).0, 404);
}

#[test]
fn plans_and_records_have_the_documented_shape() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let plan = netloom_form::to_value(&plan()).unwrap();
    check(&document, &schemas["Plan"], &plan, "plan").unwrap();
    // Every choice of every enum occurs, so that none is documented under another name.
    for (schema, pointers) in [
        (
            "Restart",
            vec!["/nodes/0/run/0/restart", "/nodes/1/run/0/restart", "/nodes/2/run/0/restart"],
        ),
        ("FileContent", vec!["/nodes/0/files/0/content", "/nodes/1/files/0/content"]),
        (
            "PlannedEnd",
            vec![
                "/links/0/ends/0",
                "/links/0/ends/1",
                "/links/1/ends/0",
                "/links/1/ends/1",
                "/links/2/ends/1",
            ],
        ),
    ] {
        for pointer in &pointers {
            check(&document, &schemas[schema], plan.pointer(pointer).unwrap(), pointer).unwrap();
        }
        let choices = schemas[schema]["oneOf"].as_array().or(schemas[schema]["enum"].as_array());
        assert_eq!(choices.map(Vec::len), Some(pointers.len()), "{schema}");
    }
}

/// Method and path of everything in the document.
pub(crate) fn operations() -> BTreeSet<(String, String)> {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let methods = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()))
    });
    methods.collect()
}
