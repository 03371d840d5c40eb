//! Measurements over REST as the source has them: its configurations as they are, by curl, over TCP with a
//! token and on a lab's socket; counts equal the sent packets; errors are reported; nothing is left.
//!
//! `a` sends over the router `p` and a bridge to `b`, to and from the addresses of the source's examples.

use std::path::{Path, PathBuf};

use netloom_tests_e2e::live::{Held, SOON, gone};
use netloom_tests_e2e::{
    Finished, Machine, Run, descendants, is_root, kill, machine, needs, root_only, signal,
    wait_until, workspace_root,
};
use serde_json::{Value, json};

const LAB: &str = "
name: probes
pool: {ipv6: none}
nodes:
  a: {privileged: true}
  p: {forwarding: true, privileged: true}
  b: {}
switches:
  s: {}
links:
  - {ends: [a, p], addresses: {a: 10.1.0.1/24, p: 10.1.0.2/24}}
  - {ends: [p, s], addresses: {p: 10.2.0.1/24}}
  - {ends: [b, s], addresses: {b: 10.2.0.2/24}}
";

/// The source's addresses: where they are, and the way to them.
const ADDRESSES: [(&str, &str); 8] = [
    ("a", "address add 1.2.3.4/32 dev lo"),
    ("a", "route add 5.6.7.8 via 10.1.0.2"),
    ("a", "route add 163.162.95.238 via 10.1.0.2"),
    ("p", "route add 5.6.7.8 via 10.2.0.2"),
    ("p", "route add 163.162.95.238 via 10.2.0.2"),
    ("p", "route add 1.2.3.4 via 10.1.0.1"),
    ("b", "address add 5.6.7.8/32 dev lo"),
    ("b", "address add 163.162.95.238/32 dev lo"),
];

/// Sends this many datagrams of each of the two filters, some each few milliseconds.
const SEND: &str = r"
import socket, sys, time
def open(address):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.bind(address)
    return out
one, other = open(('1.2.3.4', 9)), open(('10.1.0.1', 0))
for number in range(int(sys.argv[1])):
    one.sendto(b'x' * 64, ('5.6.7.8', 9))
    other.sendto(b'y' * 64, ('163.162.95.238', 4000))
    if number % 4 == 3: time.sleep(0.01)
";

fn world() -> Machine {
    let machine = Machine::new();
    machine.up(LAB);
    for (node, words) in ADDRESSES {
        let words: Vec<&str> = ["ip"].into_iter().chain(words.split(' ')).collect();
        machine.exec(node, &words).finish().code(0);
    }
    // Sent packets wait nowhere for a neighbour's answer.
    machine.answers("a", "10.2.0.2");
    machine.keep_neighbours(&["a", "p", "b"]);
    machine
}

fn send(machine: &Machine, count: u32) {
    machine.python("a", SEND, &[&count.to_string()]).finish().code(0);
}

/// A `netloom serve` that runs in a node, or a lab's socket, asked by curl.
struct Api<'m> {
    machine: &'m Machine,
    /// Where curl runs; outside of all nodes if not given.
    node: Option<&'m str>,
    url: String,
    /// Arguments that let it in.
    key: Vec<String>,
    held: Option<Held>,
}

impl<'m> Api<'m> {
    /// Starts a probe in a node.
    fn in_node(machine: &'m Machine, node: &'m str) -> Api<'m> {
        let run = machine.inside(node, ["serve", "--listen", "127.0.0.1:0"]);
        Api::of(machine, Some(node), run)
    }

    /// What a server says when it serves.
    fn of(machine: &'m Machine, node: Option<&'m str>, run: Run) -> Api<'m> {
        let mut held = Held::start(run);
        let (serving, how) = (held.line(), held.line());
        let url = serving.strip_prefix("serving ").and_then(|rest| rest.split(';').next());
        let url = url.unwrap_or_else(|| panic!("says {serving:?}"));
        let base = url.split('/').take(3).collect::<Vec<_>>().join("/");
        assert!(!base.ends_with(":0"), "{serving}");
        let header = how.split('\'').nth(1).unwrap_or_else(|| panic!("says {how:?}"));
        let key = vec!["-H".to_owned(), header.to_owned()];
        Api { machine, node, url: base, key, held: Some(held) }
    }

    /// The socket of the lab.
    fn of_lab(machine: &'m Machine) -> Api<'m> {
        let socket = machine.scratch().runtime_dir().join("probes/api.sock");
        let key = vec!["--unix-socket".to_owned(), socket.display().to_string()];
        Api { machine, node: None, url: "http://lab".to_owned(), key, held: None }
    }

    fn curl(&self, key: &[String], words: &[&str], path: &str) -> (u16, String) {
        let url = format!("{}{path}", self.url);
        let mut all: Vec<&str> = vec!["curl", "-sS", "-g", "-w", "\n%{http_code}"];
        all.extend(key.iter().map(String::as_str));
        all.extend(words);
        all.push(&url);
        let done: Finished = match self.node {
            Some(node) => self.machine.exec(node, &all),
            None => Run::new(all[0]).args(&all[1..]),
        }
        .finish()
        .code(0);
        let text = done.text();
        let (body, status) = text.rsplit_once('\n').expect("a line with the status");
        (status.parse().expect("a status"), body.to_owned())
    }

    /// A request whose answer is JSON.
    fn ask(&self, words: &[&str], path: &str) -> (u16, Value) {
        let (status, body) = self.curl(&self.key, words, path);
        let value = serde_json::from_str(&body);
        (status, value.unwrap_or_else(|e| panic!("{words:?} {path}: {status} {e}: {body}")))
    }

    fn get(&self, path: &str) -> Value {
        let (status, value) = self.ask(&[], path);
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    /// Prepares a session; its path.
    fn prepare(&self, file: &Path) -> String {
        let data = format!("@{}", file.display());
        let (status, made) = self.ask(&["-X", "POST", "--data-binary", &data], "/pnpm/");
        assert_eq!(status, 201, "{}: {made}", file.display());
        format!("/pnpm/{}", made["id"])
    }

    fn put(&self, session: &str, state: &str) -> (u16, Value) {
        let body = format!("{{\"state\": \"{state}\"}}");
        self.ask(&["-X", "PUT", "-d", &body], &format!("{session}/state"))
    }

    fn start(&self, session: &str) {
        let (status, answer) = self.put(session, "start");
        assert_eq!((status, &answer["state"]), (200, &json!("running")), "{answer}");
    }

    fn delete(&self, session: &str) {
        let (status, answer) = self.ask(&["-X", "DELETE"], session);
        assert_eq!(status, 200, "{answer}");
    }

    /// The process that serves.
    fn pid(&self) -> i32 {
        let serves = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).nth(1) == Some(b"serve")
        };
        let found: Vec<i32> = descendants(self.held.as_ref().expect("it runs").pid())
            .into_iter()
            .filter(serves)
            .collect();
        assert_eq!(found.len(), 1, "one server");
        found[0]
    }

    /// Stops it as Ctrl-C does.
    fn stop(mut self) {
        signal(self.pid(), rustix::process::Signal::INT);
        let held = self.held.take().expect("it runs");
        assert_eq!(held.rest(), "");
    }
}

/// A configuration of the source's.
fn example(name: &str) -> PathBuf {
    workspace_root().join("tests/e2e/pnpm").join(name)
}

/// The first one with short blocks and other fields. Blocks are so long that a busy machine keeps to their times: the
/// guard is how late a packet may come, and a thread that has no turn for two blocks more leaves one unread.
fn short(machine: &Machine, name: &str, fields: &Value) -> PathBuf {
    let text = std::fs::read_to_string(example("program-1.json")).expect("read the example");
    let mut body: Value = serde_json::from_str(&text).expect("it is JSON");
    for (field, value) in [("mp", json!(2)), ("mpc", json!(3600)), ("guard", json!(0.9))] {
        body[field] = value;
    }
    for (field, value) in fields.as_object().expect("fields") {
        body[field] = value.clone();
    }
    machine.scratch().file(name, body.to_string())
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// Packets of a filter that a direction of an interface counted in all blocks.
fn packets(measures: &Value, netif: &str, direction: &str, flow: u64) -> u64 {
    let is = |m: &&Value| m["netif"] == netif && m["direction"] == direction && m["flow"] == flow;
    let found = list(&measures["measures"]).iter().find(is);
    let found = found.unwrap_or_else(|| panic!("{netif} {direction} {flow}: {measures}"));
    let blocks = list(&found["blocks"]);
    blocks.iter().map(|block| block["all"]["packets"].as_u64().expect("a number")).sum()
}

#[test]
fn the_sources_configurations_are_taken_as_they_are() {
    needs!("curl");
    root_only!("attaches BPF programs");
    let _kept = netloom_kit::tai_kept();
    let machine = world();
    let api = Api::in_node(&machine, "p");
    for (name, netifs) in [
        ("program-1.json", &["lo", "eth0", "eth1"][..]),
        ("program-2.json", &["lo", "eth0", "eth1"]),
        ("program-3.json", &["lo", "eth0", "eth1"]),
        ("netifs.json", &["eth0", "eth1"]),
    ] {
        let session = api.prepare(&example(name));
        api.start(&session);
        assert_eq!(api.get(&session)["state"], "running", "{name}");
        send(&machine, 4);
        let all = api.get(&format!("{session}/measures"));
        let measures = list(&all["measures"]);
        assert_eq!(measures.len(), netifs.len() * 2 * 2, "{name}: {all}");
        let is_of = |m: &Value| netifs.iter().any(|netif| m["netif"] == **netif);
        assert!(measures.iter().all(is_of), "{name}: {all}");
        for (path, count) in [
            ("measures/netif/eth0/", 4),
            ("measures/netif/eth1", 4),
            ("measures/flow/1/", netifs.len() * 2),
            ("measures/netif/eth1/flow/0/", 2),
        ] {
            let some = api.get(&format!("{session}/{path}"));
            assert_eq!(list(&some["measures"]).len(), count, "{name}: {some}");
        }
        let (status, answer) = api.put(&session, "stop");
        assert_eq!((status, &answer["state"]), (200, &json!("ended")), "{name}");
        assert_eq!(api.get(&format!("{session}/measures"))["state"], "ended", "{name}");
        api.delete(&session);
        assert_eq!(api.ask(&[], &format!("{session}/measures")).0, 404, "{name}");
    }
    api.stop();
    machine.down();
}

#[test]
fn every_packet_that_was_sent_is_counted_once_in_its_block() {
    needs!("curl");
    root_only!("attaches BPF programs");
    let _kept = netloom_kit::tai_kept();
    let machine = world();
    let (marker, observer) = (Api::in_node(&machine, "a"), Api::in_node(&machine, "p"));
    let marking = json!({"netifs": [{"netif": "eth0"}], "marking": [{"netif": "eth0"}]});
    let marks = marker.prepare(&short(&machine, "marks.json", &marking));
    let netifs = json!({"netifs": [{"netif": "eth0"}, {"netif": "eth1"}]});
    let looks = observer.prepare(&short(&machine, "looks.json", &netifs));
    marker.start(&marks);
    observer.start(&looks);
    // Once both have a block, both count all that comes.
    let first = |api: &Api<'_>, session: &str| {
        let told = api.get(&format!("{session}/measures?wait_ms=30000"));
        assert!(!list(&told["measures"][0]["blocks"]).is_empty(), "{told}");
    };
    first(&marker, &marks);
    first(&observer, &looks);
    send(&machine, 400);
    // Each of the two reads its blocks by itself.
    let all_at = |api: &Api<'_>, session: &str, netif: &str| {
        wait_until("blocks with all packets are closed", SOON, || {
            let told = api.get(&format!("{session}/measures"));
            assert!(told["trouble"].is_null(), "{told}");
            let all = [0, 1].iter().all(|flow| packets(&told, netif, "egress", *flow) >= 400);
            all.then_some(told)
        })
    };
    let measures = all_at(&observer, &looks, "eth1");
    let sent = all_at(&marker, &marks, "eth0");
    for flow in [0, 1] {
        assert_eq!(packets(&sent, "eth0", "egress", flow), 400);
        assert_eq!(packets(&measures, "eth0", "ingress", flow), 400, "{measures}");
        assert_eq!(packets(&measures, "eth1", "egress", flow), 400, "{measures}");
        assert_eq!(packets(&measures, "eth0", "egress", flow), 0);
    }
    let blocks = |told: &Value, at: usize| -> Vec<(String, u64, String)> {
        let blocks = list(&told["measures"][at]["blocks"]).iter();
        let number = |v: &Value| v.as_u64().expect("a number");
        let read = |b: &Value| {
            (b["begin"].to_string(), number(&b["all"]["packets"]), b["colour"].to_string())
        };
        let with: Vec<_> = blocks.map(read).filter(|(_, packets, _)| *packets > 0).collect();
        assert!(!with.is_empty(), "{told}");
        with
    };
    // Both hosts have the same packets in the same blocks: a:eth0 egress, p:eth0 ingress, p:eth1 egress.
    assert_eq!(blocks(&sent, 2), blocks(&measures, 0));
    assert_eq!(blocks(&sent, 2), blocks(&measures, 6));
    drop((marker, observer));
    machine.down();
}

/// 20 ms there and 8 ms back, by the lab's own socket: ARTT is their sum, TWAJ their difference, of all packets.
#[test]
fn two_interfaces_are_compared_in_both_directions() {
    needs!("curl");
    root_only!("attaches BPF programs");
    let machine = world();
    machine.ok("link set a:eth0--p:eth0 --end a --delay 20ms");
    machine.ok("link set a:eth0--p:eth0 --end b --delay 8ms");
    let api = Api::of_lab(&machine);
    let ends = json!([{"netif": "a:eth0"}, {"netif": "b:eth0"}]);
    let fields =
        json!({"filters": [{"id": 4, "proto": "icmp"}], "netifs": ends.clone(), "marking": ends});
    let session = api.prepare(&short(&machine, "both.json", &fields));
    api.start(&session);
    let path = format!("{session}/two-way?near=a:eth0&far=b:eth0&flow=4");
    let first = api.get(&format!("{path}&wait_ms=30000"));
    let from = first["blocks"][0]["block"].as_u64().expect("a block");
    // On a busy machine a question and its answer may be of two blocks, or a block be incomplete: then more are sent.
    let mut sent = 0;
    let block = wait_until("a block with whole pings is closed", SOON, || {
        let ping = ["ping", "-q", "-c", "20", "-i", "0.02", "-W", "30", "10.2.0.2"];
        machine.exec("a", &ping).finish().code(0);
        sent += 20;
        let told = wait_until("blocks with all packets are closed", SOON, || {
            let told = api.get(&format!("{path}&from={from}"));
            let back = list(&told["blocks"]).iter().filter_map(|b| b["back"]["sent"].as_u64());
            (back.sum::<u64>() >= sent).then_some(told)
        });
        let whole = |b: &&Value| {
            b["back"]["sent"] != 0
                && b["there"]["sent"] == b["back"]["sent"]
                && b["complete"] == true
        };
        list(&told["blocks"]).iter().find(whole).cloned()
    });
    let (there, back) = (&block["there"], &block["back"]);
    assert_eq!((&there["lost"], &back["lost"]), (&json!(0), &json!(0)), "{block}");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{block}"));
    let [there, back] = [there, back].map(|way| number(&way["owad_all_ns"]["value"]));
    // A wire tells how late it was at worst.
    let late = |at: usize| {
        let wire = machine.link("a:eth0--p:eth0")["wire"].clone();
        wire["directions"][at]["late_us"][1].as_f64().expect("late") * 1e3
    };
    assert!((20e6..60e6 + late(0)).contains(&there), "{block}");
    assert!((8e6..48e6 + late(1)).contains(&back), "{block}");
    assert!((number(&block["both"]["artt_all_ns"]["value"]) - (there + back)).abs() < 1.0);
    assert!((number(&block["both"]["twaj_all_ns"]["value"]) - (there - back)).abs() < 1.0);
    api.delete(&session);
    machine.down();
}

#[test]
fn nothing_is_left_of_a_probe_that_was_killed() {
    needs!("curl");
    root_only!("attaches BPF programs");
    let _kept = netloom_kit::tai_kept();
    let machine = world();
    let marker = Api::in_node(&machine, "a");
    let marking = json!({"netifs": [{"netif": "eth0"}], "marking": [{"netif": "eth0"}]});
    let marks = marker.prepare(&short(&machine, "marks.json", &marking));
    marker.start(&marks);
    let pid = marker.pid();
    let observer = Api::in_node(&machine, "p");
    let netifs = json!({"netifs": [{"netif": "eth0"}]});
    let looks = observer.prepare(&short(&machine, "looks.json", &netifs));
    observer.start(&looks);
    marker.get(&format!("{marks}/measures?wait_ms=30000"));
    let unmarked = || {
        let told = observer.get(&format!("{looks}/measures"));
        told["spots"][0]["counts"]["unmarked"].as_u64().expect("a number")
    };
    send(&machine, 8);
    assert_eq!(unmarked(), 0);
    kill(pid);
    wait_until("the probe is gone", SOON, || gone(pid).then_some(()));
    // Sent again until some come without marks: a busy machine may drop any of them.
    wait_until("packets come as they are", SOON, || {
        send(&machine, 8);
        (unmarked() > 0).then_some(())
    });
    drop((marker, observer));
    machine.down();
}

#[test]
fn what_is_wrong_is_told_and_who_has_no_token_is_told_nothing() {
    needs!("curl");
    let machine = machine!();
    machine.up(LAB);
    let api = Api::in_node(&machine, "p");
    let wrong = vec!["-H".to_owned(), format!("Authorization: Bearer {}", "0".repeat(64))];
    for key in [vec![], wrong] {
        let (status, body) = api.curl(&key, &["-i"], "/pnpm/");
        assert_eq!(status, 401, "{body}");
        assert!(
            body.to_lowercase().contains("www-authenticate: bearer realm=\"netloom\""),
            "{body}"
        );
        assert_eq!(api.curl(&key, &["-X", "POST", "-d", "{}"], "/pnpm/").0, 401);
    }
    let post = |body: &str| api.ask(&["-X", "POST", "--data-binary", body], "/pnpm/");
    let (status, told) = post(
        r#"{"prog_id": 1, "mp": 30, "mpc": 20, "starter_mark": 8, "next_mark": 99,
            "filters": [{"id": 0, "dst_ip": "163.162.95"}, {"id": 0, "proto": "udq"}]}"#,
    );
    let paths: Vec<&str> =
        list(&told["problems"]).iter().filter_map(|p| p["path"].as_str()).collect();
    assert_eq!(status, 400, "{told}");
    assert_eq!(paths, ["next_mark", "filters[0].dst_ip", "filters[1].proto", "mpc"], "{told}");
    let (status, told) = post("{\"prog_id\": 1,\n \"mp\" 30}");
    assert!(status == 400 && told["detail"].to_string().contains("line 2"), "{told}");
    for path in ["/pnpm/7", "/pnpm/7/measures", "/pnpm/7/measures/netif/eth0/flow/1/", "/other"] {
        assert_eq!(api.ask(&[], path).0, 404, "{path}");
    }
    assert_eq!(api.ask(&["-X", "DELETE"], "/pnpm/7").0, 404);
    assert_eq!(api.put("/pnpm/7", "start").0, 404);
    assert_eq!(api.ask(&["-X", "PATCH"], "/pnpm/").0, 405);
    assert_eq!(api.get("/pnpm/"), json!([]));
    let long = machine.scratch().file("long.json", vec![b' '; (8 << 20) + 1]);
    let long = format!("@{}", long.display());
    assert_eq!(api.ask(&["-X", "POST", "--data-binary", &long], "/pnpm/").0, 413);
    if is_root() {
        let session = api.prepare(&example("netifs.json"));
        assert_eq!(api.put(&session, "stop").0, 409);
        api.start(&session);
        assert_eq!(api.put(&session, "start").0, 409);
        assert_eq!(api.put(&session, "pause").0, 400);
        for path in ["measures/netif/eth7/", "measures/netif/lo/flow/0/", "measures/flow/2/"] {
            assert_eq!(api.ask(&[], &format!("{session}/{path}")).0, 404, "{path}");
        }
        assert_eq!(api.put(&session, "stop").0, 200);
        assert_eq!(api.put(&session, "stop").0, 409);
        assert_eq!(api.put(&session, "start").0, 409);
    } else {
        let (status, told) = post(&std::fs::read_to_string(example("netifs.json")).expect("read"));
        assert_eq!((status, &told["object"]["kind"]), (501, &json!("feature")), "{told}");
    }
    api.stop();
    machine.down();
}

#[test]
fn a_token_is_kept_in_a_file_of_its_own() {
    needs!("curl");
    let machine = machine!();
    let file = machine.scratch().path().join("token");
    let start = || {
        let args = ["serve", "--listen", "127.0.0.1:0", "--token-file", "token"];
        let mut held = Held::start(machine.netloom(args));
        let (serving, how) = (held.line(), held.line());
        assert!(how.contains("cat 'token'"), "{how}");
        let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().expect("the file"));
        assert_eq!(mode & 0o7777, 0o600);
        // What it says works as it is.
        let shell = Run::new("/bin/sh").args(["-c", &how]).dir(machine.scratch().path());
        assert_eq!(shell.finish().code(0).text(), "[]", "{serving}");
        std::fs::read_to_string(&file).expect("read the token")
    };
    let (first, second) = (start(), start());
    assert!(first.trim().len() == 64 && first == second);
    let refused = |says: &str, code: i32| {
        let args = ["serve", "--listen", "127.0.0.1:0", "--token-file", "token"];
        machine.netloom(args).finish().code(code).says(says);
    };
    std::fs::write(&file, "short\n").expect("write");
    refused("has no token", 1);
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&file, all).expect("chmod");
    refused("chmod 600", 1);
    machine.untouched();
}

#[test]
fn a_lab_is_measured_by_the_names_of_its_interfaces() {
    needs!("curl");
    root_only!("attaches BPF programs");
    let machine = world();
    let lab = Api::of_lab(&machine);
    let everywhere = lab.prepare(&short(&machine, "all.json", &json!({})));
    let points = lab.get(&everywhere);
    let names: Vec<&str> =
        list(&points["points"]).iter().filter_map(|p| p["netif"].as_str()).collect();
    for name in ["a:eth0", "p:eth0", "p:eth1", "b:eth0", "s/p:eth1", "s/b:eth0"] {
        assert_eq!(names.iter().filter(|n| **n == name).count(), 2, "{points}");
    }
    lab.delete(&everywhere);
    let ends = json!({
        "netifs": [{"netif": "a:eth0"}, {"netif": "s/p:eth1"}, {"netif": "s/b:eth0"}, {"netif": "b:eth0"}],
        "marking": [{"netif": "a:eth0"}]
    });
    let session = lab.prepare(&short(&machine, "ends.json", &ends));
    lab.start(&session);
    lab.get(&format!("{session}/measures?wait_ms=30000"));
    send(&machine, 100);
    let told = wait_until("blocks with all packets are closed", SOON, || {
        let told = lab.get(&format!("{session}/measures/flow/1/"));
        (packets(&told, "b:eth0", "ingress", 1) >= 100).then_some(told)
    });
    assert_eq!(told["clock"]["name"], "monotonic", "{told}");
    for (netif, direction) in [
        ("a:eth0", "egress"),
        ("s/p:eth1", "ingress"),
        ("s/b:eth0", "egress"),
        ("b:eth0", "ingress"),
    ] {
        assert_eq!(packets(&told, netif, direction, 1), 100, "{netif}: {told}");
    }
    let one = lab.get(&format!("{session}/measures/netif/s%2Fp%3Aeth1/flow/1/"));
    assert_eq!(packets(&one, "s/p:eth1", "ingress", 1), 100);

    let run = machine.netloom(["serve", "-l", "probes", "--listen", "127.0.0.1:0"]);
    let port = Api::of(&machine, None, run);
    assert_eq!(port.get("/v1/lab")["name"], "probes");
    assert_eq!(port.get(&format!("{session}/measures"))["state"], "running");
    assert_eq!(port.curl(&[], &[], "/v1/lab").0, 401);
    // The lab goes with its sessions in the midst of it.
    machine.netloom(["down", "probes"]).finish().code(0);
    assert_eq!(port.ask(&[], "/v1/lab").0, 503);
    drop(port);
    machine.untouched();
}
