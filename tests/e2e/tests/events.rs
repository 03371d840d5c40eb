//! `netloom events` and the stream of a lab: changes, counters, and a lab whose process is killed, adopted and taken down.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, kill, machine, pair, wait_until};
use serde_json::Value;

/// A program that prints JSON, an object a line.
struct Stream(Held);

impl Stream {
    fn of(machine: &Machine) -> Stream {
        Stream(Held::start(machine.netloom(["events", "--json"])))
    }

    fn event(&mut self) -> Value {
        serde_json::from_str(&self.0.line()).expect("a line is JSON")
    }

    /// The next event that is wanted.
    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.event();
            if wanted(&event) {
                return event;
            }
        }
    }
}

fn named<'v>(list: &'v Value, name: &str) -> Option<&'v Value> {
    list.as_array()?.iter().find(|one| one["name"] == name)
}

const LINK: &str = "a:eth0--b:eth0";

#[test]
fn what_is_changed_is_told_once_and_counters_follow() {
    let machine = machine!();
    machine.up(&pair("run: [[sh, -c, 'until test -e /tmp/end; do sleep 0.05; done; exit 3']]"));
    let mut stream = Stream::of(&machine);
    let first = stream.event();
    assert_eq!((first["kind"].as_str(), first.get("missed")), (Some("snapshot"), None));
    assert_eq!(first["lab"]["state"], "up");
    assert_eq!(first["nodes"].as_array().map(Vec::len), Some(2));
    assert_eq!(named(&first["links"], LINK).expect("the link")["up"], true);

    machine.answers("a", "b");
    machine.exec("a", &["ping", "-4", "-c", "5", "-i", "0.05", "-W", "30", "b"]).ok();
    let counted = |event: &Value| {
        let link = named(&event["counters"]["links"], LINK)?;
        link["packets"].as_array()?.iter().map(Value::as_u64).min()?
    };
    let mut seen = counted(&first);
    let status = machine.status();
    let sent = status["nodes"][0]["interfaces"][0]["traffic"]["tx_packets"].as_u64();
    while seen < sent.min(Some(5)) {
        seen = counted(&stream.event()).or(seen);
    }

    machine.netloom(["link", "set", "a:eth0", "--delay", "10ms"]).ok();
    // Its link is made again for the wire, which a reading may find half done.
    stream.until(|event| {
        named(&event["links"], LINK)
            .is_some_and(|link| link["wire"]["directions"][0]["impairments"]["delay"] == "10ms")
    });
    machine.netloom(["link", "set", LINK, "--down"]).ok();
    stream.until(|event| named(&event["links"], LINK).is_some_and(|link| link["down"] == true));

    machine.exec("a", &["touch", "/tmp/end"]).ok();
    let ended =
        stream.until(|event| named(&event["nodes"], "a").is_some_and(|a| a["state"] == "degraded"));
    assert_eq!(named(&ended["nodes"], "a").expect("the node")["programs"][0]["exit_code"], 3);
    machine.netloom(["node", "create", "c"]).ok();
    stream.until(|event| named(&event["nodes"], "c").is_some());
    machine.netloom(["node", "delete", "c"]).ok();
    stream.until(|event| event["gone"]["nodes"][0] == "c");
    machine.netloom(["down"]).finish().code(0);
    stream.0.rest();
    machine.down();
}

/// Reads from a stream up to the end of the first event of this kind.
fn first(from: &mut impl BufRead, kind: &str) -> Value {
    let mut line = String::new();
    while line != format!("event: {kind}\n") {
        line.clear();
        assert!(from.read_line(&mut line).expect("a line") > 0, "it ended before");
    }
    line.clear();
    from.read_line(&mut line).expect("a line");
    serde_json::from_str(line.strip_prefix("data: ").expect("data")).expect("JSON")
}

#[test]
fn a_port_passes_the_stream_on() {
    let machine = machine!();
    machine.up(&pair(""));
    let mut held = Held::start(machine.netloom(["-l", "pair", "serve", "--listen", "127.0.0.1:0"]));
    let (serving, how) = (held.line(), held.line());
    let address = serving.split('/').nth(2).expect("an address");
    let key = how.split('\'').nth(1).expect("a header");
    let connect = |key: &str| {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(SOON)).expect("set a time");
        let head = format!(
            "GET /v1/events HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n{key}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("ask");
        BufReader::new(stream)
    };
    let mut stream = connect(key);
    assert_eq!(first(&mut stream, "snapshot")["lab"]["name"], "pair");
    machine.netloom(["link", "set", LINK, "--down"]).ok();
    while named(&first(&mut stream, "change")["links"], LINK).is_none() {}
    // Without the token nothing is told.
    let mut refused = String::new();
    connect("x: y").read_line(&mut refused).expect("an answer");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    // The end of the lab ends the stream.
    machine.netloom(["down"]).finish().code(0);
    stream.read_to_end(&mut vec![]).expect("an end");
    drop(held);
    machine.down();
}

#[test]
fn a_lab_whose_process_is_killed_is_heard_again_once_it_is_adopted() {
    let machine = machine!();
    let file = machine.file(&pair(""));
    machine.up_file(&file);
    let pid = machine.status()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let mut stream = Stream::of(&machine);
    let mut text = Held::start(machine.netloom(["events"]));
    assert_eq!(stream.event()["lab"]["pid"].as_i64(), pid.map(i64::from));
    assert!(text.line().ends_with(" lab pair: up, 2 nodes, 1 link"));
    kill(pid.expect("a pid"));
    for listener in [&mut stream.0, &mut text] {
        let told = listener.error_line();
        assert!(told.contains("lab \"pair\": its process has ended; waiting"), "{told}");
    }
    machine.up_file(&file);
    let again = stream.until(|event| event["kind"] == "snapshot");
    assert_eq!(again["missed"], true);
    assert_ne!(again["lab"]["pid"].as_i64(), pid.map(i64::from));
    // A busy machine may have told before that it is behind.
    while !text.line().ends_with(" events were missed; this is how it is now") {}
    machine.netloom(["down"]).finish().code(0);
    stream.0.rest();
    text.rest();
    machine.down();
}

#[test]
fn a_killed_node_is_told_at_once_and_one_in_many_is_told_too() {
    let machine = machine!();
    let nodes: String = (0..70).map(|n| format!("  n{n}: {{}}\n")).collect();
    let links: String = (0..70).map(|n| format!("  - [n{n}, s]\n")).collect();
    machine.up(&format!("name: many\nnodes:\n{nodes}switches: {{s: {{}}}}\nlinks:\n{links}"));
    let mut stream = Stream::of(&machine);
    let first = stream.event();
    assert_eq!(first["nodes"].as_array().map(Vec::len), Some(70));
    let pid = |name: &str| {
        let pid = named(&first["nodes"], name).expect("it is there")["pid"].as_i64();
        i32::try_from(pid.expect("a pid")).expect("a pid")
    };
    kill(pid("n69"));
    stream.until(|event| named(&event["nodes"], "n69").is_some_and(|node| node["state"] == "dead"));
    machine.answers("n0", "n1");
    machine.exec("n0", &["ping", "-4", "-c", "3", "-i", "0.05", "-W", "30", "n1"]).ok();
    // At the port of the switch and in the node.
    for node in ["n0", "n1"] {
        let link = format!("{node}:eth0--s");
        stream.until(|event| {
            let packets =
                named(&event["counters"]["links"], &link).map(|link| link["packets"].clone());
            packets.is_some_and(|p| p[0].as_u64() >= Some(3) && p[1].as_u64() >= Some(3))
        });
    }
    drop(stream);
    machine.down();
}

#[test]
fn events_need_a_lab_and_one_that_is_named_where_there_are_several() {
    let machine = machine!();
    machine.netloom(["events"]).finish().code(1).says("no lab is running");
    machine.up(&pair(""));
    machine.up(&pair("").replace("name: pair", "name: other"));
    machine.netloom(["events"]).finish().code(2).says("several labs run (other, pair)");
    machine.netloom(["events", "third"]).finish().code(1).says("third");
    let mut one = Held::start(machine.netloom(["events", "other"]));
    assert!(one.line().ends_with(" lab other: up, 2 nodes, 1 link"));
    wait_until("the other one goes", SOON, || {
        machine.netloom(["down", "pair"]).finish().code(0);
        Some(())
    });
    machine.netloom(["down", "other"]).finish().code(0);
    one.rest();
    machine.down();
}
