//! Requests that are not understood are refused in one form: parameters, bodies, encodings, names of hosts.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use netloom_api::{Gate, Token, serve_probe};
use netloom_measure::{Host, Probe};
use serde_json::Value;

use super::document::{BODIES, at, operations};
use super::fake::Served;
use super::http::{exchange, parse, request, request_with};
use super::pnpm::ask;
use super::shape::document;

/// The refusal of an answer, which is JSON and has no word of what it was made with.
fn refusal(answer: &str) -> String {
    let value: Value = serde_json::from_str(answer).unwrap_or_else(|e| panic!("{answer:?}: {e}"));
    let words = value["detail"].as_str().unwrap_or_else(|| panic!("{answer}"));
    for of_frameworks in
        ["Failed to", "deserialize", "extract", "axum", "hyper", "struct ", "expected one of"]
    {
        assert!(!words.contains(of_frameworks), "{words}");
    }
    words.to_owned()
}

#[test]
fn unknown_parameters_are_refused_everywhere_and_nothing_is_done() {
    let served = Served::new();
    for (method, path) in operations() {
        for query in ["dry_run=true", "wait_ms=1&nonsense=1", "nonsense", "%6eonsense=1"] {
            let uri = format!("{}?{query}", at(&path));
            let (status, body) = request(served.path(), &method.to_uppercase(), &uri);
            assert_eq!(status, 400, "{method} {uri}: {body}");
            let words = refusal(&body);
            assert!(words.starts_with("parameter \""), "{method} {uri}: {words}");
        }
    }
    assert_eq!(*served.fake.asked.lock().unwrap(), [""; 0]);
    let (_, body) = request(served.path(), "DELETE", "/v1/lab?dry_run=true");
    assert_eq!(refusal(&body), "parameter \"dry_run\": is not known here; DELETE /v1/lab has none");
    let (_, body) = request(served.path(), "GET", "/v1/nodes/h1/log?wait=1");
    let has = "GET /v1/nodes/{node}/log has after, limit, tail, wait_ms";
    assert_eq!(refusal(&body), format!("parameter \"wait\": is not known here; {has}"));
    assert_eq!(request(served.path(), "DELETE", "/v1/lab?").0, 200);
}

#[test]
fn bodies_are_refused_where_none_is_taken_and_nothing_is_done() {
    let (served, document) = (Served::new(), document());
    let mut refused = 0;
    for (method, path) in operations() {
        if !document["paths"][&path][&method]["requestBody"].is_null() {
            continue;
        }
        let (method, uri) = (method.to_uppercase(), at(&path));
        let (status, body) = request_with(served.path(), &method, &uri, r#"{"dry_run": true}"#);
        assert_eq!(status, 400, "{method} {uri}: {body}");
        // Some lack a parameter besides, and say so first.
        refused += usize::from(refusal(&body).ends_with(" takes none"));
    }
    assert!(refused > 20, "{refused}");
    assert_eq!(*served.fake.asked.lock().unwrap(), [""; 0]);
    let (_, body) = request_with(served.path(), "DELETE", "/v1/lab", " ");
    assert_eq!(refusal(&body), "body: DELETE /v1/lab takes none");
    assert_eq!(request_with(served.path(), "DELETE", "/v1/lab", "").0, 200);
}

#[test]
fn parameters_are_there_once_and_are_what_they_should_be() {
    let served = Served::new();
    for (query, words) in [
        ("wait_ms=1&wait_ms=2", "parameter \"wait_ms\": is there twice"),
        ("wait_ms=soon", "parameter \"wait_ms\": takes a whole number, is \"soon\""),
        ("wait_ms=", "parameter \"wait_ms\": takes a whole number, is \"\""),
        ("after=x", "parameter \"after\": takes the `cursor` of a line"),
        ("after=-1", "parameter \"after\": takes the `cursor` of a line"),
        ("after=%FF", "parameters: must be UTF-8, with other bytes as %XX"),
        ("after=%4", "parameters: must be UTF-8, with other bytes as %XX"),
    ] {
        let (status, body) = request(served.path(), "GET", &format!("/v1/nodes/h1/log?{query}"));
        assert_eq!((status, refusal(&body).as_str()), (400, words), "{query}");
    }
    let (status, body) = request(served.path(), "GET", "/v1/nodes/%FF");
    assert_eq!(
        (status, refusal(&body).as_str()),
        (400, "path: must be UTF-8, with other bytes as %XX")
    );
    let (status, body) = request(served.path(), "DELETE", "/v1/nodes/h1?force=1");
    let words = "parameter \"force\": takes true or false, is \"1\"";
    assert_eq!((status, refusal(&body).as_str()), (400, words));
    assert_eq!(*served.fake.asked.lock().unwrap(), [""; 0]);
}

#[test]
fn a_list_is_no_object() {
    let served = Served::new();
    for (method, _, uri, sent, _) in BODIES.iter().filter(|case| case.4 < 300) {
        let value: Value = serde_json::from_str(sent).unwrap();
        let Some(fields) = value.as_object() else { continue };
        let list = Value::Array(fields.values().cloned().collect());
        served.fake.asked.lock().unwrap().clear();
        let (status, body) =
            request_with(served.path(), &method.to_uppercase(), uri, &list.to_string());
        assert_eq!(status, 400, "{method} {uri} {list}: {body}");
        assert_eq!(*served.fake.asked.lock().unwrap(), [""; 0], "{method} {uri} {list}");
    }
    let (status, body) = request_with(served.path(), "POST", "/v1/nodes", r#"["made", [], null]"#);
    let words = "body: invalid type: sequence, expected an object at line 1 column 1";
    assert_eq!((status, refusal(&body).as_str()), (400, words));
    let inner = r#"{"set_port": {"port": 1, "change": ["p"]}}"#;
    let (status, body) = request_with(served.path(), "POST", "/v1/switches/s%201/requests", inner);
    assert_eq!(status, 400, "{body}");
    assert!(
        refusal(&body).contains("change: invalid type: sequence, expected an object"),
        "{body}"
    );
}

#[test]
fn what_is_said_twice_is_refused() {
    let served = Served::new();
    for (method, uri, sent, words) in [
        ("POST", "/v1/nodes", r#"{"name": "a", "name": "b"}"#, "body: duplicate field `name`"),
        (
            "POST",
            "/v1/nodes",
            r#"{"name": "a", "settings": [["cpu", "5%"], ["cpu", "50%"]]}"#,
            "body: settings: \"cpu\" is given twice",
        ),
        (
            "PATCH",
            "/v1/nodes/h1",
            r#"{"settings": [["cpu", "5%"], ["memory", "1G"], ["cpu", "5%"]]}"#,
            "body: settings: \"cpu\" is given twice",
        ),
        (
            "PATCH",
            "/v1/links/t%2Fa%3Aeth0",
            r#"{"settings": [["delay", "1ms"], ["delay", "2ms"]]}"#,
            "body: settings: \"delay\" is given twice",
        ),
        (
            "POST",
            "/v1/switches",
            r#"{"name": "s", "settings": [["mode", "600"], ["mode", "660"]]}"#,
            "body: settings: \"mode\" is given twice",
        ),
    ] {
        let (status, body) = request_with(served.path(), method, uri, sent);
        assert_eq!(status, 400, "{sent}: {body}");
        assert!(refusal(&body).starts_with(words), "{sent}: {body}");
    }
    let mut plan = serde_json::to_string(&super::fake::plan()).unwrap();
    plan = plan.replace(r#""s1":["10.0.0.0/24"]"#, r#""s1":["10.0.0.0/24"],"s1":[]"#);
    let (status, body) =
        request_with(served.path(), "POST", "/v1/lab/apply", &format!("{{\"plan\": {plan}}}"));
    assert_eq!(status, 400, "{body}");
    assert!(refusal(&body).contains("the key \"s1\" is there twice"), "{body}");
    assert_eq!(*served.fake.asked.lock().unwrap(), [""; 0]);
}

/// A request to make a node with these headers.
fn make(served: &Served, headers: &str) -> (u16, String) {
    let body = r#"{"name": "t/a"}"#;
    let length = body.len();
    let head = format!(
        "POST /v1/nodes HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    parse(&exchange(served.path(), head.as_bytes()))
}

#[test]
fn encoded_bodies_are_told_from_plain_ones() {
    let served = Served::new();
    for headers in [
        "",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: application/json; charset=UTF-8\r\n",
        "content-encoding: identity\r\n",
    ] {
        assert_eq!(make(&served, headers).0, 201, "{headers}");
    }
    served.fake.asked.lock().unwrap().clear();
    for (headers, words) in [
        ("content-encoding: gzip\r\n", "content-encoding: \"gzip\": send the body as it is"),
        (
            "content-encoding: identity, br\r\n",
            "content-encoding: \"identity, br\": send the body as it is",
        ),
        (
            "content-type: application/json; charset=utf-16\r\n",
            "content-type: charset \"utf-16\": send the body in UTF-8",
        ),
        (
            "content-type: text/plain;charset=\"ISO-8859-1\"\r\n",
            "content-type: charset \"ISO-8859-1\": send the body in UTF-8",
        ),
    ] {
        let (status, body) = make(&served, headers);
        assert_eq!((status, refusal(&body).as_str()), (415, words), "{headers}");
    }
    let latin = b"POST /v1/nodes HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 14\r\n\r\n{\"name\": \"\xe9\"}\n";
    let (status, body) = parse(&exchange(served.path(), latin));
    assert_eq!(status, 400, "{body}");
    refusal(&body);
    assert_eq!(*served.fake.asked.lock().unwrap(), [""; 0]);
}

#[test]
fn a_page_in_a_browser_is_not_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let token = Token::random().unwrap();
    let probe = Arc::new(Probe::new("host".into(), Arc::new(Host)));
    let gate = Gate::new(token.clone(), vec!["probe.example".to_owned(), "x".to_owned()]);
    let _server = serve_probe(listener, probe, gate).unwrap();
    let right = format!("authorization: Bearer {}\r\n", token.text());
    let status = |headers: &str| parse(ask(port, "GET /pnpm/", headers).as_bytes());
    assert_eq!(status(&right).0, 200);
    for origin in ["https://evil.example", "null", "http://127.0.0.1:8474"] {
        let (status, body) = status(&format!("{right}origin: {origin}\r\n"));
        assert_eq!(
            (status, refusal(&body).as_str()),
            (403, "origin: pages of browsers are not answered")
        );
    }
    // `ask` says host: x, so that this is a second one.
    let (found, body) = status(&format!("{right}host: x\r\n"));
    assert_eq!((found, refusal(&body).as_str()), (400, "host: must be there once"));
    for (host, expected) in [
        ("probe.example:8474", 200),
        ("localhost", 200),
        ("[::1]:8474", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
    ] {
        let head =
            format!("GET /pnpm/ HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{right}\r\n");
        assert_eq!(tcp(port, &head).0, expected, "{host}");
    }
    let (status, body) =
        tcp(port, &format!("GET /pnpm/ HTTP/1.1\r\nconnection: close\r\n{right}\r\n"));
    assert_eq!((status, refusal(&body).as_str()), (400, "host: must be there once"));
    assert_eq!(tcp(port, &format!("GET /pnpm/ HTTP/1.0\r\n{right}\r\n")).0, 200);
}

fn tcp(port: u16, request: &str) -> (u16, String) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).unwrap();
    parse(&answer)
}

/// A time whose neighbours are the same number in floating point.
const TIME: u64 = 1_764_300_000_123_456_789;

#[test]
fn a_log_is_paged_by_readers_that_round_numbers() {
    let served = Served::new();
    for n in 0..40 {
        served.fake.write(TIME + n, &format!("line {n}"));
    }
    assert!(TIME as f64 == (TIME + 1) as f64, "rounded as a reader in floating point rounds it");
    let (mut after, mut seen) = ("0".to_owned(), vec![]);
    loop {
        let (status, body) =
            request(served.path(), "GET", &format!("/v1/nodes/h1/log?after={after}"));
        assert_eq!(status, 200, "{body}");
        let lines: Vec<Value> = serde_json::from_str(&body).unwrap();
        // As if each answer had room for seven.
        let Some(last) = lines.iter().take(7).next_back() else { break };
        after = last["cursor"].as_str().unwrap().to_owned();
        seen.extend(lines.iter().take(7).map(|line| line["text"].as_str().unwrap().to_owned()));
    }
    let all: Vec<String> = (0..40).map(|n| format!("line {n}")).collect();
    assert_eq!(seen, all);
}

/// Every object of a value, by its path in words of JSON pointers.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(all) => {
            found.push(at.to_owned());
            all.iter().for_each(|(key, value)| objects(value, &format!("{at}/{key}"), found));
        }
        Value::Array(all) => {
            let all = all.iter().enumerate();
            all.for_each(|(at_which, value)| objects(value, &format!("{at}/{at_which}"), found));
        }
        _ => {}
    }
}

#[test]
fn no_object_of_a_plan_takes_a_key_that_nobody_knows() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let (mut seen, mut named) = (0, 0);
    for name in ["all-keys", "vm-qemu", "shm-switch", "slices", "plane-separation", "doors"] {
        let path = format!("{examples}/{name}.yaml");
        let lab = netloom_model::parse(&path, &std::fs::read(&path).unwrap(), name).unwrap();
        let plan = netloom_model::plan::plan(&lab).unwrap();
        let whole = serde_json::json!({"plan": netloom_form::to_value(&plan).unwrap()});
        let mut found = vec![];
        objects(&whole, "", &mut found);
        for form in [&whole, &serde_json::json!({"plan": plan})] {
            let again: netloom_lab::view::Apply =
                netloom_form::read(form.to_string().as_bytes()).unwrap();
            assert_eq!(again.plan.as_ref(), Some(&plan), "{name}");
        }
        for at in found {
            let mut changed = whole.clone();
            let object = changed.pointer_mut(&at).and_then(|found| found.as_object_mut());
            object.unwrap().insert("colour".into(), serde_json::json!(1));
            let error =
                netloom_form::read::<netloom_lab::view::Apply>(changed.to_string().as_bytes());
            let error = error.expect_err(&at);
            // One that stands for a choice has a single key; with two keys it stands for none.
            named += u32::from(error.contains("colour"));
            seen += 1;
        }
    }
    assert!(seen > 100 && named * 10 > seen * 9, "{named} of {seen}");
}
