//! Measurements: every route with every status, both forms of paths, tokens, and ten thousand requests of any
//! kind.
//!
//! The fake's interfaces are `lo` of a fresh namespace. Only root may measure there.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use netloom_api::{Gate, Token, serve_probe};
use netloom_digest::splitmix::SplitMix64;
use netloom_ebpf::Hook;
use netloom_kit::{is_root, root_only};
use netloom_measure::{Host, MOST_SESSIONS, Probe};
use serde_json::{Value, json};

use super::fake::{LOOPS, Served};
use super::http::{connect, parse, request, request_with};
use super::shape::{check, document};

const GOOD: &str = r#"{"prog_id": 1, "mp": 0.05, "mpc": 3600, "starter_mark": 8, "next_mark": 16,
    "filters": [{"id": 0, "dst_ip": "163.162.95.238"}, {"id": 7, "proto": "udp", "dst_port": 9}],
    "netifs": [{"netif": "h1:eth0"}, {"netif": "s1/h1:eth0"}], "marking": [{"netif": "h1:eth0"}]}"#;
const SELECTED: &str = r#"{"prog_id": 3, "mp": 30, "mpc": 120, "starter_mark": 8, "next_mark": 16,
    "filters": [{"id": 0}], "match_value": 383146267, "hash_length": 0, "hash_function": "bob",
    "npkts": 8}"#;

const ALL: &str = "/pnpm/";
const ONE: &str = "/pnpm/{id}";
const STATE: &str = "/pnpm/{id}/state";
const MEASURES: &str = "/pnpm/{id}/measures";
const NETIF: &str = "/pnpm/{id}/measures/netif/{netif}/";
const FLOW: &str = "/pnpm/{id}/measures/flow/{flow}/";
const BOTH: &str = "/pnpm/{id}/measures/netif/{netif}/flow/{flow}/";
const TWO_WAY: &str = "/pnpm/{id}/two-way";

/// Method, documented path, request, body, status; in this order.
pub(crate) const CASES: &[(&str, &str, &str, &str, u16)] = &[
    ("get", ALL, "/pnpm/", "", 200),
    ("post", ALL, "/pnpm/", GOOD, 201),
    ("post", ALL, "/pnpm/", SELECTED, 201),
    ("post", ALL, "/pnpm/", "", 400),
    ("post", ALL, "/pnpm/", "[]", 400),
    ("post", ALL, "/pnpm/", r#"{"prog_id": 9, "mp": "x"}"#, 400),
    ("get", ALL, "/pnpm/", "", 200),
    ("get", ONE, "/pnpm/1", "", 200),
    ("get", ONE, "/pnpm/3", "", 404),
    ("get", ONE, "/pnpm/one", "", 404),
    ("get", ONE, "/pnpm/-1", "", 404),
    ("get", ONE, "/pnpm/%FF", "", 400),
    ("get", MEASURES, "/pnpm/1/measures", "", 200),
    ("put", STATE, "/pnpm/1/state", r#"{"state": "stop"}"#, 409),
    ("put", STATE, "/pnpm/1/state", r#"{"state": "pause"}"#, 400),
    ("put", STATE, "/pnpm/1/state", "", 400),
    ("put", STATE, "/pnpm/9/state", r#"{"state": "start"}"#, 404),
    ("put", STATE, "/pnpm/1/state", r#"{"state": "start"}"#, 200),
    ("put", STATE, "/pnpm/1/state", r#"{"state": "start"}"#, 409),
    ("put", STATE, "/pnpm/2/state", r#""start""#, 200),
    ("get", ONE, "/pnpm/1", "", 200),
    ("get", MEASURES, "/pnpm/1/measures?from=1&wait_ms=20000", "", 200),
    ("get", MEASURES, "/pnpm/2/measures", "", 200),
    ("get", MEASURES, "/pnpm/1/measures?from=x", "", 400),
    ("get", MEASURES, "/pnpm/1/measures?wait_ms=60001", "", 400),
    ("get", MEASURES, "/pnpm/1/measures?until=1", "", 400),
    ("get", MEASURES, "/pnpm/9/measures", "", 404),
    ("get", NETIF, "/pnpm/1/measures/netif/h1:eth0/", "", 200),
    ("get", NETIF, "/pnpm/1/measures/netif/s1%2Fh1%3Aeth0/", "", 200),
    ("get", NETIF, "/pnpm/1/measures/netif/eth9/", "", 404),
    ("get", NETIF, "/pnpm/9/measures/netif/h1:eth0/", "", 404),
    ("get", FLOW, "/pnpm/1/measures/flow/7/", "", 200),
    ("get", FLOW, "/pnpm/1/measures/flow/1/", "", 404),
    ("get", FLOW, "/pnpm/1/measures/flow/seven/", "", 404),
    ("get", FLOW, "/pnpm/1/measures/flow/4294967296/", "", 404),
    ("get", BOTH, "/pnpm/1/measures/netif/h1:eth0/flow/0/", "", 200),
    ("get", BOTH, "/pnpm/1/measures/netif/h1:eth0/flow/1/", "", 404),
    ("get", BOTH, "/pnpm/1/measures/netif/eth9/flow/0/", "", 404),
    ("get", TWO_WAY, "/pnpm/1/two-way?near=h1:eth0&far=s1%2Fh1%3Aeth0", "", 200),
    ("get", TWO_WAY, "/pnpm/1/two-way?near=h1:eth0&far=s1/h1:eth0&flow=7&back=0&from=1", "", 200),
    ("get", TWO_WAY, "/pnpm/1/two-way?near=h1:eth0", "", 400),
    ("get", TWO_WAY, "/pnpm/1/two-way?near=h1:eth0&far=eth9", "", 404),
    ("get", TWO_WAY, "/pnpm/1/two-way?near=h1:eth0&far=s1/h1:eth0&back=1", "", 404),
    ("get", TWO_WAY, "/pnpm/9/two-way?near=h1:eth0&far=s1/h1:eth0", "", 404),
    ("put", STATE, "/pnpm/1/state", r#""stop""#, 200),
    ("put", STATE, "/pnpm/1/state", r#""start""#, 409),
    ("get", MEASURES, "/pnpm/1/measures", "", 200),
    ("delete", ONE, "/pnpm/1", "", 200),
    ("delete", ONE, "/pnpm/1", "", 404),
    ("delete", ONE, "/pnpm/x", "", 404),
    ("get", MEASURES, "/pnpm/1/measures", "", 404),
    ("get", ALL, "/pnpm/", "", 200),
];

#[test]
fn every_case_has_its_status_and_its_documented_shape() {
    root_only!("attaches BPF programs");
    netloom_kit::isolated!({
        let served = Served::new();
        let document = document();
        for (method, path, uri, sent, status) in CASES {
            let (found, body) = request_with(served.path(), &method.to_uppercase(), uri, sent);
            assert_eq!(found, *status, "{method} {uri} {sent}: {body}");
            let operation = &document["paths"][path][method];
            let told = operation["responses"].get(status.to_string());
            let told = told.unwrap_or(&operation["responses"]["default"]);
            let schema = super::document::content(told);
            let value: Value = serde_json::from_str(&body).unwrap();
            check(&document, schema, &value, uri).unwrap();
            assert_eq!(value.get("detail").is_some(), *status >= 400, "{method} {uri}: {body}");
            if sent.starts_with('{') && *status < 300 {
                let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                check(&document, schema, &serde_json::from_str(sent).unwrap(), uri).unwrap();
            }
        }
    });
}

#[test]
fn a_session_is_made_where_its_location_says_and_is_there_with_and_without_a_slash() {
    root_only!("attaches BPF programs");
    netloom_kit::isolated!({
        let served = Served::new();
        let head = format!(
            "POST /pnpm HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{GOOD}",
            GOOD.len()
        );
        let answer = super::http::exchange(served.path(), head.as_bytes());
        let text = String::from_utf8(answer).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 201 ") && text.contains("location: /pnpm/1\r\n"),
            "{text}"
        );
        assert!(text.ends_with("{\"id\":1}"), "{text}");
        let started = request_with(served.path(), "PUT", "/pnpm/1/state/", r#""start""#);
        assert_eq!(started, (200, r#"{"id":1,"state":"running"}"#.to_owned()));
        for (with, without) in [
            ("/pnpm/", "/pnpm"),
            ("/pnpm/1/", "/pnpm/1"),
            ("/pnpm/1/measures/", "/pnpm/1/measures"),
            ("/pnpm/1/measures/netif/h1:eth0/", "/pnpm/1/measures/netif/h1:eth0"),
            ("/pnpm/1/measures/flow/0/", "/pnpm/1/measures/flow/0"),
            ("/pnpm/1/measures/netif/h1:eth0/flow/0/", "/pnpm/1/measures/netif/h1:eth0/flow/0"),
            (
                "/pnpm/1/two-way/?near=h1:eth0&far=s1/h1:eth0",
                "/pnpm/1/two-way?near=h1:eth0&far=s1/h1:eth0",
            ),
        ] {
            let [(one, a), (other, b)] = [with, without].map(|p| request(served.path(), "GET", p));
            assert_eq!((one, other), (200, 200), "{with}: {a} {b}");
            assert_eq!(request(served.path(), "PATCH", with).0, 405);
            assert_eq!(request(served.path(), "PATCH", without).0, 405);
        }
        let (status, body) = request(served.path(), "GET", "/pnpm/1/measures?wait_ms=20000");
        let told: Value = serde_json::from_str(&body).unwrap();
        let measures = told["measures"].as_array().unwrap();
        // Two interfaces, both directions, two filters.
        assert_eq!((status, measures.len()), (200, 8), "{body}");
        assert!(measures.iter().all(|m| !m["blocks"].as_array().unwrap().is_empty()), "{body}");
        assert_eq!(request(served.path(), "DELETE", "/pnpm/1/").0, 200);
        assert_eq!(request(served.path(), "GET", "/pnpm").1, "[]");
    });
}

#[test]
fn a_session_above_a_limit_is_told_the_limit() {
    root_only!("attaches BPF programs");
    netloom_kit::isolated!({
        let served = Served::new();
        // At one interface, not marked by two, and in blocks that nobody waits for.
        let body = GOOD
            .replace(r#", {"netif": "s1/h1:eth0"}"#, "")
            .replace(r#", "marking": [{"netif": "h1:eth0"}]"#, "")
            .replace("0.05", "30");
        let create = || request_with(served.path(), "POST", "/pnpm/", &body);
        let start = |id: usize| {
            request_with(served.path(), "PUT", &format!("/pnpm/{id}/state"), r#""start""#)
        };
        let refused = |(status, text): (u16, String), words: &str| {
            let told: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(status, 429, "{text}");
            assert!(told["detail"].as_str().is_some_and(|said| said.contains(words)), "{text}");
        };
        for id in 1..MOST_SESSIONS {
            assert_eq!((create().0, start(id).0), (201, 200), "session {id}");
        }
        assert_eq!(create().0, 201);
        // Other kernels have room for its program.
        match Hook::probe() {
            Hook::Tcx => refused(start(MOST_SESSIONS), "63 BPF programs"),
            _ => assert_eq!(start(MOST_SESSIONS).0, 200),
        }
        refused(create(), &format!("there are {MOST_SESSIONS} already"));
    });
}

#[test]
fn all_that_is_wrong_is_told_with_its_path() {
    let served = Served::new();
    let paths = |body: &str| {
        let (status, text) = request_with(served.path(), "POST", "/pnpm/", body);
        assert_eq!(status, 400, "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        let problems = value["problems"].as_array().unwrap().clone();
        assert!(problems.iter().all(|p| p["message"].is_string()), "{text}");
        let path = |p: &Value| p["path"].as_str().unwrap().to_owned();
        problems.iter().map(path).collect::<Vec<_>>()
    };
    let wrong = json!({"prog_id": 1, "mp": 0, "starter_mark": 8, "next_mark": 64,
        "filters": [{"id": 0, "src_ip": "1.2.3"}, {"id": 0, "colour": 1}],
        "marking": [{"netif": "a b"}]});
    let told =
        ["mp", "mpc", "next_mark", "filters[0].src_ip", "filters[1].colour", "marking[0].netif"];
    assert_eq!(paths(&wrong.to_string()), told);
    assert_eq!(paths("{\"mp\": 1,"), [""]);
}

#[test]
fn an_interface_that_is_not_there_is_a_wrong_field() {
    root_only!("attaches BPF programs");
    netloom_kit::isolated!({
        let served = Served::new();
        let body = GOOD.replace("s1/h1:eth0", "h2:eth0");
        let (status, text) = request_with(served.path(), "POST", "/pnpm/", &body);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (status, &value["problems"][0]["path"]),
            (400, &json!("netifs[1].netif")),
            "{text}"
        );
    });
}

#[test]
fn who_may_not_measure_is_told_what_it_needs() {
    netloom_kit::ordinary_only!("root may");
    let served = Served::new();
    let (status, text) = request_with(served.path(), "POST", "/pnpm/", GOOD);
    assert_eq!(status, 501, "{text}");
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["object"]["kind"], "feature", "{text}");
    assert_eq!(request(served.path(), "GET", "/pnpm/").1, "[]");
}

#[test]
fn configurations_may_be_long_but_not_endless() {
    let served = Served::new();
    for (size, status) in [(8 << 20, 400), ((8 << 20) + 1, 413)] {
        let body = format!("{{\"x\": \"{}\"}}", "y".repeat(size - 9));
        assert_eq!(body.len(), size);
        assert_eq!(request_with(served.path(), "POST", "/pnpm/", &body).0, status, "{size}");
    }
    assert_eq!(
        request_with(served.path(), "POST", "/v1/nodes", &"x".repeat((64 << 10) + 1)).0,
        413
    );
}

/// A request over TCP with these headers.
pub(crate) fn ask(port: u16, line: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn over_tcp_nothing_is_answered_without_the_token() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let token = Token::random().unwrap();
    let probe = Arc::new(Probe::new("host".into(), Arc::new(Host)));
    let server =
        serve_probe(listener, probe, Gate::new(token.clone(), vec!["x".to_owned()])).unwrap();
    let right = format!("Authorization: Bearer {}\r\n", token.text());
    let wrong = format!("Authorization: Bearer {}\r\n", "0".repeat(64));
    for line in ["GET /pnpm/", "POST /pnpm/", "GET /nowhere", "GET /v1/openapi.json"] {
        for headers in ["", &wrong, "Authorization: Basic eDp5\r\n"] {
            let answer = ask(port, line, headers);
            assert!(answer.starts_with("HTTP/1.1 401 "), "{line}: {answer}");
            assert!(answer.contains("www-authenticate: Bearer realm=\"netloom\"\r\n"), "{answer}");
            assert!(!answer.contains(token.text()));
        }
    }
    // The body of a stranger is not waited for.
    let endless = ask(port, "POST /pnpm/", "content-length: 9999999999\r\n");
    assert!(endless.starts_with("HTTP/1.1 401 "), "{endless}");
    let (status, body) = parse(ask(port, "GET /pnpm/", &right).as_bytes());
    assert_eq!((status, body.as_str()), (200, "[]"));
    let (status, body) = parse(ask(port, "GET /v1/openapi.json", &right).as_bytes());
    let document: Value = serde_json::from_str(&body).unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert!(status == 200 && paths.len() == 8 && paths.iter().all(|p| p.starts_with("/pnpm/")));
    assert_eq!(parse(ask(port, "GET /v1/lab", &right).as_bytes()).0, 404);
    server.stop();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the port is closed");
}

/// Numbers that are the same in every run.
struct Dice(SplitMix64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0.below(below)
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.0.index(all.len())]
    }

    fn text(&mut self) -> String {
        let pieces =
            ["1", "%20", "%FF", "%2F", "eth0", "..", "h1:eth0", "%00", "-", "é", "{id}", "a"];
        let count = self.roll(4);
        (0..count)
            .map(|_| *self.one_of(&pieces.each_ref()))
            .collect::<String>()
            .replace('é', "%C3%A9")
    }

    fn id(&mut self) -> String {
        match self.roll(20) {
            0 => self.text(),
            1 => self.roll(u64::MAX).to_string(),
            _ => (1 + self.roll(400)).to_string(),
        }
    }

    fn path(&mut self) -> String {
        let (id, text, flow) = (self.id(), self.text(), self.roll(3));
        let netif = if self.roll(3) == 0 { text.clone() } else { LOOPS[0].to_owned() };
        let path = match self.roll(15) {
            0..=3 => "/pnpm/".to_owned(),
            4 | 5 => format!("/pnpm/{id}"),
            6 | 7 => format!("/pnpm/{id}/state"),
            8 => format!("/pnpm/{id}/measures"),
            9 => format!("/pnpm/{id}/measures/netif/{netif}/"),
            10 => format!("/pnpm/{id}/measures/flow/{flow}/"),
            11 => format!("/pnpm/{id}/measures/netif/{netif}/flow/{flow}/"),
            12 => format!("/pnpm/{text}/{id}"),
            13 => format!("/pnpm/{id}/two-way?near={netif}&far={text}&flow={flow}"),
            _ => format!("/{text}"),
        };
        match self.roll(8) {
            0 => format!("{path}?from={}", self.roll(5)),
            1 => format!("{path}?{text}={id}"),
            2 => format!("{path}/"),
            _ => path,
        }
    }

    /// A configuration, good or not quite.
    fn configuration(&mut self) -> Value {
        let mut body: Value =
            serde_json::from_str(if self.roll(2) == 0 { GOOD } else { SELECTED }).unwrap();
        body["netifs"] = json!([{"netif": LOOPS[0]}]);
        for _ in 0..self.roll(3) {
            let names = [
                "prog_id",
                "mp",
                "mpc",
                "starter_mark",
                "next_mark",
                "filters",
                "match_value",
                "npkts",
                "hash_length",
                "hash_function",
                "netifs",
                "marking",
                "guard",
                "seed",
                "other",
            ];
            let name = self.one_of(&names);
            body[name] = self.value(3);
        }
        body
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.roll(if depth == 0 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.roll(70)),
            2 => json!(self.roll(u64::MAX)),
            3 => json!(-0.5),
            4 => json!(self.text()),
            5 => json!(true),
            6 => json!([self.value(depth - 1), self.value(depth - 1)]),
            7 => json!([{"id": self.roll(3), "dst_ip": "10.0.0.0/8"}, {"netif": self.text()}]),
            _ => json!({"id": self.value(depth - 1), "netif": self.value(depth - 1)}),
        }
    }

    fn body(&mut self) -> Vec<u8> {
        let words: [&[u8]; 6] = [
            br#""start""#,
            br#"{"state": "start"}"#,
            br#""stop""#,
            br#"{"state": "stop"}"#,
            b"",
            b"{",
        ];
        let mut body = match self.roll(10) {
            0..=5 => self.one_of(&words).to_vec(),
            6 | 7 => self.configuration().to_string().into_bytes(),
            8 => self.value(4).to_string().into_bytes(),
            _ => (0..self.roll(200)).map(|_| u8::try_from(self.roll(256)).unwrap()).collect(),
        };
        if self.roll(10) == 0 && !body.is_empty() {
            let at = usize::try_from(self.roll(body.len() as u64)).unwrap();
            body[at] ^= u8::try_from(self.roll(256)).unwrap();
        }
        body
    }
}

/// Whether this is root outside of any user namespace.
fn may_measure() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Reads one answer; its status.
fn answered(stream: &mut UnixStream, head_only: bool) -> Option<u16> {
    let mut head = vec![];
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let length = length.map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; if head_only { 0 } else { length }];
    stream.read_exact(&mut body).ok()?;
    Some(status)
}

#[test]
fn ten_thousand_requests_of_any_kind_are_answered_and_none_is_the_servers_fault() {
    netloom_kit::isolated!({
        let served = Served::new();
        let mut dice = Dice(SplitMix64::new(1));
        let mut stream = connect(served.path());
        let mut seen = std::collections::BTreeMap::new();
        // Processor time, since the machine has other work.
        let before = netloom_kit::worked("self");
        let methods =
            ["GET", "GET", "GET", "POST", "POST", "PUT", "PUT", "DELETE", "PATCH", "HEAD", "BREW"];
        for number in 0..10_000 {
            let (method, path, body) = (dice.one_of(&methods.each_ref()), dice.path(), dice.body());
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
            let shown = || format!("{number}: {method} {path} {}", String::from_utf8_lossy(&body));
            let status = answered(&mut stream, *method == "HEAD")
                .unwrap_or_else(|| panic!("no answer to {}", shown()));
            let refused = status == 501 && !may_measure();
            assert!(status < 500 || refused, "{status} to {}", shown());
            *seen.entry(status).or_insert(0) += 1;
        }
        let took = netloom_kit::worked("self") - before;
        assert!(took < Duration::from_secs(60), "took {took:?}");
        for status in [200, 400, 404, 405, if may_measure() { 201 } else { 501 }] {
            assert!(seen.contains_key(&status), "{seen:?}");
        }
        eprintln!("{seen:?} in {took:?}");
        let (status, list) = request(served.path(), "GET", "/pnpm/");
        assert_eq!(status, 200, "{list}");
    });
}
