//! `netloom measure`: the hop that loses is named, with the count that its wire has; nothing is left.

use std::time::Duration;

use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::transfer::Transfer;
use netloom_tests_e2e::{
    Machine, Run, is_root, kill, machine, root_only, signal, skip, workspace_root,
};
use rustix::process::Signal;
use serde_json::Value;

/// The demo's two sites without IPv6, so that nothing is sent that is not asked for.
const LAB: &str = "
name: ways
pool: {ipv6: none}
nodes:
  h1: {sysctls: &quiet {net.ipv6.conf.default.disable_ipv6: 1, net.ipv6.conf.all.disable_ipv6: 1}}
  h2: {sysctls: *quiet}
  r1: {forwarding: true, sysctls: *quiet}
  r2: {forwarding: true, sysctls: *quiet}
  web: {sysctls: *quiet}
  alone: {}
switches: {s1: {}}
links:
  - [h1, s1]
  - [h2, s1]
  - [s1, r1]
  - ['r1:eth1', r2]
  - [r2, web]
";

const LOSSY: &str = "r1:eth1--r2:eth0";
const SLOW: &str = "r2:eth1--web:eth0";

/// Sends this many datagrams, one a millisecond; prints what it sent.
const SEND: &str = r#"
import socket, sys, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.connect((sys.argv[1], 5002))
for number in range(int(sys.argv[2])):
    to.send(number.to_bytes(4, 'big') * 25)
    time.sleep(0.001)
print('sent')
"#;

/// Takes datagrams and tells the type of service of each.
const TAKE: &str = r#"
import socket
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
at.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
at.bind(('0.0.0.0', 5002))
print('listens', flush=True)
while True:
    data, more, _, _ = at.recvmsg(2000, 64)
    print(more[0][2][0], flush=True)
"#;

/// Brings the lab up so that all know their neighbours, and a receiver at `web`.
fn up(machine: &Machine) -> Held {
    machine.up(LAB);
    machine.answers("h1", "web");
    machine.keep_neighbours(&["h1", "r1", "r2", "web"]);
    let mut taker = Held::start(machine.python("web", TAKE, &[]));
    assert_eq!(taker.line(), "listens");
    taker
}

fn measure(machine: &Machine, words: &str) -> Run {
    let all = ["measure"].into_iter().chain(words.split(' '));
    machine.netloom(all).bound(Duration::from_secs(120))
}

/// Interrupts a measurement when all was sent, however long that took; what it says to the end of its block.
fn ended(measure: Held) -> String {
    signal(measure.pid(), Signal::INT);
    measure.rest()
}

fn send(machine: &Machine, packets: u32) {
    let count = packets.to_string();
    assert_eq!(machine.python("h1", SEND, &["web", &count]).ok(), "sent\n");
}

/// Packets that the wire of a link lost in the direction of its first end, by chance.
fn ledger(machine: &Machine, link: &str) -> u64 {
    let lost = machine.link(link)["wire"]["directions"][0]["lost"].clone();
    lost.get("loss").map_or(0, number)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Lines of this type, from a node.
fn lines(text: &str, kind: &str, from: &str) -> Vec<Value> {
    let all = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    all.filter(|line: &Value| line["type"] == kind && line["from"] == from).collect()
}

fn hops(total: &Value) -> &Vec<Value> {
    total["hops"].as_array().expect("hops")
}

#[test]
fn the_lossy_hop_is_named_with_its_wire_s_own_count() {
    root_only!("puts wires into links that were made without one");
    let machine = machine!();
    let _taker = up(&machine);
    machine.ok(&format!("link set {LOSSY} --end a --loss 3%"));
    machine.ok(&format!("link set {SLOW} --end a --delay 10ms"));
    let mut measure = Held::start(measure(&machine, "h1 web --json --samples 4096"));
    let head: Value = serde_json::from_str(&measure.line()).expect("JSON");
    let points = head["ways"][0]["points"].as_array().expect("points");
    let names: Vec<&str> = points.iter().filter_map(|p| p["name"].as_str()).collect();
    let expected = "h1:eth0 s1/h1:eth0 s1/r1:eth0 r1:eth0 r1:eth1 r2:eth0 r2:eth1 web:eth0";
    assert_eq!(names.join(" "), expected);
    let before = ledger(&machine, LOSSY);
    send(&machine, 2000);
    let text = ended(measure);
    let lost = ledger(&machine, LOSSY) - before;
    assert!((20..120).contains(&lost), "3 % of 2000: {lost}");
    let total = &lines(&text, "total", "h1")[0];
    assert_eq!(total["complete"], true, "{total}");
    assert_eq!((number(&total["way"]["sent"]), number(&total["way"]["lost"])), (2000, lost));
    let mut told = 0;
    for hop in hops(total) {
        let lossy = hop["hop"] == format!("link {LOSSY}");
        assert_eq!(number(&hop["lost"]), if lossy { lost } else { 0 }, "{hop}");
        assert_eq!(hop["gained"], 0, "{hop}");
        told += u64::from(lossy);
    }
    assert_eq!(told, 1);
    let slow = hops(total).last().expect("hops");
    assert_eq!(slow["hop"], format!("link {SLOW}"));
    let p50 = slow["sampled"]["p50_ns"]["value"].as_f64().expect("a delay");
    let late = machine.link(SLOW)["wire"]["directions"][0]["late_us"][1].as_f64().expect("late");
    let most = 11e6 + late * 1e3;
    assert!((9.99e6..most).contains(&p50), "{p50} ns of 10 ms, late {late} us");
    // Every block is told alone, and they are the sum.
    let blocks = lines(&text, "block", "h1");
    let sent: u64 = blocks.iter().map(|block| number(&block["way"]["sent"])).sum();
    assert_eq!((number(&total["blocks"]), sent), (u64::try_from(blocks.len()).unwrap(), 2000));
    let back = &lines(&text, "total", "web")[0];
    assert_eq!(back["way"]["sent"], 0);
    machine.down();
}

/// 20 ms there and 8 ms back: ARTT is their sum, TWAJ is there minus back; in JSON, in the table, and over REST.
#[test]
fn both_ways_together_have_a_round_trip_and_a_difference() {
    root_only!("puts wires into links that were made without one");
    let machine = machine!();
    let _taker = up(&machine);
    machine.ok(&format!("link set {SLOW} --end a --delay 20ms"));
    machine.ok(&format!("link set {SLOW} --end b --delay 8ms"));
    let pings = ["ping", "-4", "-q", "-c", "40", "-i", "0.02", "web"];
    // Figures of these wires, without what the machine adds: as late as the wire itself says, and 5 ms for all other hops.
    let right = |figures: &Value| {
        let late = |at: usize| {
            machine.link(SLOW)["wire"]["directions"][at]["late_us"][1].as_f64().expect("late") * 1e3
        };
        let [artt, twaj] = ["artt_ns", "twaj_ns"].map(|name| figures[name].as_f64().expect(name));
        let (there, back) = (late(0), late(1));
        let slack = 5e6;
        assert!((28e6 - 1e4..28e6 + there + back + slack).contains(&artt), "{artt} {there} {back}");
        assert!(
            (12e6 - back - slack..12e6 + there + slack).contains(&twaj),
            "{twaj} {there} {back}"
        );
    };
    let mut json = Held::start(measure(&machine, "h1 web --json --proto icmp"));
    json.line();
    machine.exec("h1", &pings).ok();
    let text = ended(json);
    let total = &lines(&text, "two_way_total", "h1")[0];
    assert_eq!((&total["to"], &total["complete"]), (&"web".into(), &true.into()), "{total}");
    assert_eq!(
        total["artt_all_ns"],
        Value::Null,
        "times of all packets are kept by program 1: {total}"
    );
    right(&total["sampled"]);
    let blocks = lines(&text, "two_way", "h1");
    let found = blocks.iter().find(|block| block["sampled"] != Value::Null);
    right(&found.expect("a block with packets")["sampled"]);
    assert!(lines(&text, "two_way_total", "web").is_empty(), "one for both directions");
    let mut table = Held::start(measure(&machine, "h1 web --quiet --proto icmp"));
    assert!(table.line().starts_with("h1 -> web and back, IPv4: 7 hops"));
    machine.exec("h1", &pings).ok();
    let text = ended(table);
    let rows: Vec<&str> = text.lines().collect();
    let head = rows.iter().position(|row| *row == "there and back together: h1 <-> web");
    let head = head.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(rows[head + 1].split("  ").collect::<Vec<_>>(), ["ARTT ms", "TWAJ ms"], "{text}");
    let cells: Vec<f64> = rows[head + 2].split_whitespace().map(|c| c.parse().unwrap()).collect();
    right(&serde_json::json!({"artt_ns": cells[0] * 1e6, "twaj_ns": cells[1] * 1e6}));
    // One direction alone has none.
    let mut alone = Held::start(measure(&machine, "h1 web --json --one-way"));
    alone.line();
    send(&machine, 20);
    let text = ended(alone);
    assert!(!text.contains("two_way"), "{text}");
    machine.down();
}

#[test]
fn what_is_lost_behind_a_switch_is_the_link_s() {
    root_only!("puts wires into links that were made without one");
    let machine = machine!();
    let _taker = up(&machine);
    // Frames to the router are taken by the wire where they leave the bridge.
    machine.ok("link set s1--r1:eth0 --end a --loss 5%");
    let mut measure = Held::start(measure(&machine, "h1 web --json --one-way"));
    measure.line();
    let before = ledger(&machine, "s1--r1:eth0");
    send(&machine, 1000);
    let text = ended(measure);
    let lost = ledger(&machine, "s1--r1:eth0") - before;
    let total = &lines(&text, "total", "h1")[0];
    assert!(lost > 5 && lines(&text, "total", "web").is_empty());
    for hop in hops(total) {
        let lossy = hop["hop"] == "link s1--r1:eth0";
        assert_eq!(number(&hop["lost"]), if lossy { lost } else { 0 }, "{hop}");
    }
    machine.down();
}

#[test]
fn segments_that_offload_leaves_together_are_counted_one_by_one() {
    root_only!("loads BPF programs");
    let machine = machine!();
    let _taker = up(&machine);
    let words = "h1 web --json --proto tcp --dst-port 5001";
    let mut measure = Held::start(measure(&machine, words));
    measure.line();
    let mut transfer = Transfer::start(&machine, "h1", "web");
    transfer.more(20 << 10);
    transfer.settle();
    transfer.finish();
    let text = ended(measure);
    for from in ["h1", "web"] {
        let blocks = lines(&text, "block", from);
        let sum = |point: usize, what: &str| -> u64 {
            blocks
                .iter()
                .map(|b| number(b["points"][point]["record"].pointer(what).expect("it")))
                .sum()
        };
        let (packets, bytes) = (sum(0, "/all/packets"), sum(0, "/bytes"));
        assert!(packets > 100, "{packets} packets from {from}");
        for point in 1..8 {
            assert_eq!((sum(point, "/all/packets"), sum(point, "/bytes")), (packets, bytes));
        }
        let total = &lines(&text, "total", from)[0];
        assert_eq!((number(&total["way"]["sent"]), &total["way"]["lost"]), (packets, &0.into()));
        assert_eq!(total["complete"], true, "{total}");
        if from == "h1" {
            // 20 MiB in segments of 1448 bytes at most, whatever frames they were in.
            assert!(packets >= (20 << 20) / 1448 && bytes > 20 << 20, "{packets} {bytes}");
        }
    }
    machine.down();
}

#[test]
fn it_ends_by_interrupt_when_the_block_is_closed() {
    root_only!("loads BPF programs");
    let machine = machine!();
    let _taker = up(&machine);
    let mut measure = Held::start(measure(&machine, "h1 web --json"));
    measure.line();
    send(&machine, 300);
    let text = ended(measure);
    let total = &lines(&text, "total", "h1")[0];
    assert_eq!((&total["complete"], number(&total["way"]["sent"])), (&true.into(), 300), "{total}");
    assert_eq!(total["way"]["lost"], 0);
    machine.down();
}

#[test]
fn killed_it_leaves_nothing() {
    root_only!("loads BPF programs");
    let machine = machine!();
    let mut taker = up(&machine);
    let mut measure = Held::start(measure(&machine, "h1 web --json"));
    measure.line();
    send(&machine, 1);
    let marked = taker.line();
    assert!(marked == "32" || marked == "64", "one of the marks: {marked}");
    kill(measure.pid());
    measure.child().wait().expect("wait for it");
    send(&machine, 1);
    assert_eq!(taker.line(), "0");
    machine.down();
}

#[test]
fn csv_has_a_line_for_each_block_and_hop() {
    root_only!("loads BPF programs");
    let machine = machine!();
    let _taker = up(&machine);
    let words = "h1 web --csv --one-way --flow 5002/udp";
    let text = measure(&machine, &format!("{words} --for 1s --period 500ms")).ok();
    assert_eq!(text.lines().count(), 1 + 2 * 2 * 8, "blocks, flows, hops and the way\n{text}");
    let mut measure = Held::start(measure(&machine, words));
    let head = measure.line();
    let columns: Vec<&str> = head.split(',').collect();
    send(&machine, 200);
    let text = ended(measure);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| columns.iter().position(|c| *c == name).expect("a column");
    assert!(!rows.is_empty() && rows.len().is_multiple_of(2 * 8), "{text}");
    assert!(rows.iter().all(|row| row.len() == columns.len() && row[column("from")] == "h1"));
    let sent = |flow: &str| -> u64 {
        let of = |row: &&Vec<&str>| row[column("flow")] == flow && row[column("hop")] == "way";
        rows.iter()
            .filter(of)
            .map(|row| row[column("sent")].parse::<u64>().expect("a number"))
            .sum()
    };
    assert_eq!((sent("*->5002/udp"), sent("rest")), (200, 0));
    machine.down();
}

/// Measures until pings of both families are answered: 50 by IPv4 and 70 by IPv6.
fn measured(machine: &Machine, words: &str) -> (String, String) {
    let mut measure = Held::start(measure(machine, words));
    let head = measure.line();
    for (family, count) in [("-4", "50"), ("-6", "70")] {
        let ping = ["ping", family, "-q", "-i", "0.01", "-c", count, "-W", "30", "web"];
        machine.exec("h1", &ping).ok();
    }
    (head, ended(measure))
}

#[test]
fn both_families_are_measured_or_it_says_how_much_is_left_out() {
    root_only!("loads BPF programs");
    let machine = machine!();
    machine.up(
        "{name: both, nodes: {h1: {}, r1: {forwarding: true}, web: {}}, links: [[h1, r1], [r1, web]]}",
    );
    ["-4", "-6"].iter().for_each(|family| machine.answers_by(family, "h1", "web"));
    for (narrow, families, sent, left_out) in [
        ("", &[4, 6][..], 120, None),
        (" -4", &[4], 50, Some((6, 140))),
        (" -6", &[6], 70, Some((4, 100))),
        (" -6 --one-way --proto icmp", &[6], 70, Some((4, 50))),
    ] {
        let (head, text) = measured(&machine, &format!("h1 web --json{narrow}"));
        let head: Value = serde_json::from_str(&head).expect("JSON");
        let addresses = head["ways"][0]["addresses"].as_array().expect("addresses");
        assert_eq!(addresses.len(), families.len(), "{head}");
        for from in ["h1", "web"] {
            for total in lines(&text, "total", from) {
                assert_eq!(total["families"], serde_json::json!(families), "{total}");
                assert_eq!(
                    (number(&total["way"]["sent"]), &total["complete"]),
                    (sent, &true.into())
                );
                assert!(hops(&total).iter().all(|hop| hop["lost"] == 0), "{total}");
            }
        }
        let told = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let told: Vec<_> = told
            .filter(|line| line["type"] == "left_out")
            .map(|line| (number(&line["family"]), number(&line["packets"])))
            .collect();
        assert_eq!(told, left_out.into_iter().collect::<Vec<_>>(), "{narrow}");
    }
    // In words, and nothing where nothing is left out.
    let (head, text) = measured(&machine, "h1 web --quiet -4");
    assert!(head.starts_with("h1 -> web and back, IPv4: 3 hops, "), "{head}");
    assert!(text.ends_with("140 IPv6 packets not measured; use -6, or leave out -4\n"), "{text}");
    let (head, text) = measured(&machine, "h1 web --quiet");
    assert!(head.starts_with("h1 -> web and back, IPv4 and IPv6: 3 hops, "), "{head}");
    assert!(text.contains("lost: none of 120 packets (h1 -> web)"), "{text}");
    assert!(!text.contains("not measured"), "{text}");
    machine.down();
}

/// A datagram socket of IPv6 that is connected before anything is measured: sends when a line comes.
const SEND_SIX: &str = r#"
import socket, sys, time
to = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
to.bind(('::', 4000))
to.connect(socket.getaddrinfo(sys.argv[1], 5002, socket.AF_INET6)[0][4])
print('ready', flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    to.send(number.to_bytes(4, 'big') * 25)
    time.sleep(0.001)
print('sent', flush=True)
"#;

/// Takes as many and tells how often each traffic class came.
const TAKE_SIX: &str = r#"
import collections, json, socket, sys
at = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
at.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
at.bind(('::', 5002))
print('listens', flush=True)
classes = collections.Counter()
for _ in range(int(sys.argv[1])):
    _, more, _, _ = at.recvmsg(2000, 64)
    classes[int.from_bytes(more[0][2][:4], sys.byteorder)] += 1
print(json.dumps(classes), flush=True)
"#;

#[test]
fn flows_of_ipv6_are_found_by_their_sockets_and_marked() {
    root_only!("loads BPF programs");
    let machine = machine!();
    machine.up(
        "{name: six, nodes: {h1: {}, r1: {forwarding: true}, web: {}}, links: [[h1, r1], [r1, web]]}",
    );
    machine.answers_by("-6", "h1", "web");
    let mut taker = Held::start(machine.python("web", TAKE_SIX, &["400"]));
    assert_eq!(taker.line(), "listens");
    let mut sender = Held::start(machine.python("h1", SEND_SIX, &["web", "400"]));
    assert_eq!(sender.line(), "ready");
    let words = "h1 web -6 --flows --json";
    let mut measure = Held::start(measure(&machine, words));
    let head: Value = serde_json::from_str(&measure.line()).expect("JSON");
    assert_eq!(head["flows"], serde_json::json!(["4000->5002/udp", "rest"]));
    let input = sender.child().stdin.as_mut().expect("stdin is piped");
    std::io::Write::write_all(input, b"\n").expect("a line");
    assert_eq!(sender.line(), "sent");
    let classes: std::collections::BTreeMap<String, u64> =
        serde_json::from_str(&taker.line()).expect("JSON");
    // DSCP 8 and 16, and no packet without a mark.
    assert!(classes.keys().all(|class| class == "32" || class == "64"), "{classes:?}");
    assert_eq!(classes.values().sum::<u64>(), 400);
    let text = ended(measure);
    let totals = lines(&text, "total", "h1");
    let total = totals.iter().find(|total| total["flow"] == "4000->5002/udp").expect("the flow");
    assert_eq!((&total["complete"], number(&total["way"]["sent"])), (&true.into(), 400), "{total}");
    assert_eq!(hops(total).len(), 3, "{total}");
    for hop in hops(total) {
        assert_eq!((&hop["lost"], &hop["gained"]), (&0.into(), &0.into()), "{hop}");
    }
    machine.down();
}

#[test]
fn interfaces_are_counted_as_a_file_says() {
    root_only!("loads BPF programs");
    let machine = machine!();
    let _taker = up(&machine);
    let body = r#"{"prog_id": 1, "mp": 1, "mpc": 3600, "starter_mark": 8, "next_mark": 16,
                   "filters": [{"id": 7, "proto": "udp", "dst_port": 5002}]}"#;
    let file = machine.scratch().file("session.json", body);
    let words = format!("h1:eth0 r2 --mark --json --config {}", file.display());
    let mut measure = Held::start(measure(&machine, &words));
    let head: Value = serde_json::from_str(&measure.line()).expect("JSON");
    assert_eq!((&head["clock"]["name"], &head["probe"]), (&"monotonic".into(), &"ways".into()));
    send(&machine, 300);
    let text = ended(measure);
    let packets = |netif: &str, direction: &str| -> u64 {
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let of = |r: &Value| r["netif"] == netif && r["direction"] == direction && r["flow"] == 7;
        records.filter(of).map(|r| number(&r["all"]["packets"])).sum()
    };
    for (netif, direction, expected) in [
        ("h1:eth0", "egress", 300),
        ("h1:eth0", "ingress", 0),
        ("r2:eth0", "ingress", 300),
        ("r2:eth1", "egress", 300),
        ("r2:eth1", "ingress", 0),
    ] {
        assert_eq!(packets(netif, direction), expected, "{netif} {direction}\n{text}");
    }
    let wrong = machine
        .scratch()
        .file("wrong.json", body.replace("\"mp\": 1", "\"mp\": 0").replace("16", "8"));
    let words = format!("measure h1:eth0 --config {}", wrong.display());
    machine.refused(&words, 2, &["mp: must be 0.01", "next_mark: "]);
    machine.down();
}

#[test]
fn the_host_s_own_interface_is_counted_without_a_lab() {
    root_only!("loads BPF programs");
    let _kept = netloom_kit::tai_kept();
    let machine = machine!();
    let to = std::net::UdpSocket::bind("127.0.0.1:0").expect("bind");
    let address = to.local_addr().expect("an address");
    let body = format!(
        r#"{{"prog_id": 1, "mp": 0.5, "mpc": 3600, "starter_mark": 8, "next_mark": 16,
            "filters": [{{"id": 3, "proto": "udp", "dst_ip": "127.0.0.1", "dst_port": {}}}]}}"#,
        address.port()
    );
    let file = machine.scratch().file("session.json", &body);
    let words = format!("host:lo --mark --json --config {}", file.display());
    let mut session = Held::start(measure(&machine, &words));
    let head: Value = serde_json::from_str(&session.line()).expect("JSON");
    assert_eq!(head["clock"]["name"], "tai", "as other hosts have it: {head}");
    let from = std::net::UdpSocket::bind("127.0.0.1:0").expect("bind");
    for _ in 0..50 {
        from.send_to(b"counted", address).expect("send");
    }
    let text = ended(session);
    let mut counted = [0, 0];
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        if record["flow"] == 3 {
            let place = usize::from(record["direction"] == "ingress");
            counted[place] += number(&record["all"]["packets"]);
        }
    }
    assert_eq!(counted, [50, 50], "{text}");
    // One of two blocks ends by itself.
    machine.scratch().file("session.json", body.replace("3600", "2"));
    let text = measure(&machine, &words).ok();
    assert!(text.lines().count() > 1, "{text}");
    machine.untouched();
}

#[test]
fn what_cannot_be_measured_is_told() {
    let machine = machine!();
    machine.up(LAB);
    machine.refused("measure h1", 2, &["two nodes"]);
    machine.refused("measure h1 h1", 2, &["\"h1\" is named twice"]);
    machine.refused("measure h1 wep", 1, &["node \"wep\": not in lab"]);
    machine.refused("measure h1 alone", 2, &["node \"alone\" has no IPv4 address"]);
    machine.refused("measure h1 web -6", 2, &["has no IPv6 address; try -4"]);
    machine.refused(
        "measure h1 web --period 100ms --guard 50ms",
        2,
        &["--guard: ", "half a period"],
    );
    machine.refused("measure h1 web --flow web", 2, &["is not a flow"]);
    if !is_root() {
        machine.refused("measure h1 web", 3, &["measure: not available here", "CAP_BPF"]);
        machine.down();
        skip!("root-only: loads BPF programs");
    }
    let r1 = |words: &str| {
        machine.exec("r1", &["sh", "-c", words]).ok();
    };
    // The kernel's refusal is the same for each.
    r1("sysctl -w net.ipv4.ip_forward=0");
    machine.refused("measure h1 web", 1, &["come by \"eth0\": it does not forward"]);
    r1("sysctl -w net.ipv4.ip_forward=1 net.ipv4.conf.eth0.rp_filter=1");
    r1("ip route add $(getent ahostsv4 h1 | head -n 1 | cut -d' ' -f 1)/32 dev eth1");
    machine.refused("measure h1 web", 1, &["by another interface, and rp_filter is on"]);
    r1("ip route del $(getent ahostsv4 h1 | head -n 1 | cut -d' ' -f 1)/32 dev eth1");
    r1("ip rule add pref 5 iif eth0 prohibit");
    machine.refused("measure h1 web", 1, &["it has a route, and does not tell why"]);
    r1("ip rule del pref 5; ip route flush root 0/0 table main");
    machine.refused("measure h1 web", 1, &["node \"r1\" has no route to"]);
    machine.exec("h1", &["ip", "route", "del", "default"]).ok();
    machine.refused("measure h1 web", 1, &["way from h1 to web: node \"h1\" has no route to"]);
    machine.down();
}

#[test]
fn the_example_finds_what_the_wire_lost() {
    root_only!("puts a wire into a link that was made without one");
    let machine = machine!();
    let binary = netloom_kit::Binary::find();
    let done = Run::new(workspace_root().join("examples/measure-two-sites.sh"))
        .args(["6"])
        .env("NETLOOM", binary.path())
        .bound(Duration::from_secs(120))
        .finish()
        .code(0);
    assert_eq!(done.text().matches(": the same").count(), 2, "{done}");
    machine.untouched();
}
