//! Wires: what a link does to packets, changed under living connections, exact, and again after a kill.

use std::collections::BTreeMap;
use std::time::Duration;

use netloom_tests_e2e::live::{Held, SOON, gone, kill_and_wait};
use netloom_tests_e2e::transfer::Transfer;
use netloom_tests_e2e::{Machine, kill, machine, needs, wait_until, with_command_line};
use serde_json::Value;

const LINK: &str = "a:eth0--b:eth0";

/// Two nodes without IPv6, so that nothing is sent that is not asked for. The link has a wire from the start.
const LAB: &str = "
name: wired
pool: {ipv6: none}
nodes:
  a: {sysctls: &quiet {net.ipv6.conf.default.disable_ipv6: 1, net.ipv6.conf.all.disable_ipv6: 1}}
  b: {sysctls: *quiet}
links:
  - {ends: [a, b], delay: 1ms}
";

/// The same with nothing on the link.
fn plain() -> String {
    LAB.replace("{ends: [a, b], delay: 1ms}", "[a, b]")
}

fn set(machine: &Machine, what: &str) {
    machine.ok(&format!("link set {LINK} {what}"));
}

/// Changes that lose nothing.
const CHANGES: [&str; 8] = [
    "--delay 5ms",
    "--rate 100mbit --queue 2000",
    "--delay 12ms --jitter 2ms",
    "--clear",
    "--delay 3ms --end a",
    "--rate 300mbit --queue 2000 --end b",
    "--delay 6ms --duplicate 2% --reorder 2% --seed 3",
    "--clear --delay 1ms",
];

#[test]
fn a_connection_outlives_every_change() {
    let machine = machine!();
    machine.up(LAB);
    let mut transfer = Transfer::start(&machine, "a", "b");
    for _ in 0..4 {
        for change in CHANGES {
            transfer.more(512);
            set(&machine, change);
            transfer.settle();
        }
    }
    transfer.finish();
    machine.down();
}

#[test]
fn a_wire_is_put_in_and_taken_out_under_a_connection() {
    let machine = machine!();
    machine.up(&plain());
    let mut transfer = Transfer::start(&machine, "a", "b");
    assert!(machine.link(LINK)["wire"].is_null());
    for number in 0..10 {
        transfer.more(2048);
        set(&machine, &format!("--delay {}ms", 1 + number));
        transfer.settle();
        assert_eq!(machine.link(LINK)["wire"]["state"], "running");
        transfer.more(2048);
        set(&machine, "--clear");
        transfer.settle();
    }
    transfer.finish();
    machine.down();
}

/// What an expression matches is lost and counted under its own name, and all else passes.
#[test]
fn an_expression_breaks_one_protocol() {
    needs!("libpcap");
    let machine = machine!();
    machine.up(&LAB.replace("delay: 1ms", "drop: icmp and src host a"));
    let ping =
        || machine.exec("b", &["ping", "-4", "-c", "2", "-i", "0.1", "-W", "1", "a"]).finish();
    // Of questions that come late, for the neighbour was asked for first, the answers are lost late.
    wait_until("answers are lost", SOON, || {
        ping().code(1);
        let [.., dropped, lost] = totals(&machine, "drop");
        assert_eq!(dropped, lost, "nothing but the answers");
        (dropped >= 2).then_some(())
    });
    let mut transfer = Transfer::start(&machine, "a", "b");
    transfer.more(512);
    transfer.settle();
    transfer.finish();
    let set = |expression| machine.netloom(["link", "set", LINK, "--drop", expression]).finish();
    set("icmp and").code(2).says("drop: filter \"icmp and\": compile");
    set("1%").code(2).says("write loss: 1%");
    // The old one is there still.
    ping().code(1);
    set("tcp or dst host b and udp").code(0);
    machine.answers("b", "a");
    set("none").code(0);
    assert!(machine.link(LINK)["wire"]["directions"][0]["impairments"].get("drop").is_none());
    machine.down();
}

/// An expression that libpcap does not take, or takes for minutes, changes nothing, and others go on.
#[test]
fn a_wrong_expression_is_refused_before_anything_changes() {
    needs!("libpcap");
    let machine = machine!();
    let with_c = LAB.replace("links:", "  c: {}\nlinks:");
    machine.up(&with_c);
    let ports: Vec<String> = (1..800).map(|port| port.to_string()).collect();
    let long = format!("port {}", ports.join("||"));
    for (expression, words) in [("icmp and", "compile"), (&long, "words, of at most 160")] {
        let file = machine.file(&LAB.replace("delay: 1ms", &format!("drop: \"{expression}\"")));
        let apply = ["apply", "--yes", file.to_str().expect("UTF-8")];
        machine.netloom(apply).finish().code(2).says(words);
        machine.ok("node show c");
        let directions = machine.link(LINK)["wire"]["directions"].clone();
        assert!(directions[0]["impairments"].get("drop").is_none(), "{directions}");
        let words = ["link", "set", LINK, "--drop", expression];
        machine.netloom(words).finish().code(2).says("drop: filter");
    }
    let unknown = ["link", "set", LINK, "--drop", "host nothing.example"];
    machine.netloom(unknown).finish().code(2).says("write an address, or the name of a node");
    set(&machine, "--delay 2ms");
    machine.down();
}

/// Sends this many numbered datagrams of 100 bytes to `b`.
const NUMBERS: &str = r#"
import socket, sys
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.connect(('b', 5002))
for number in range(int(sys.argv[1])): to.send(number.to_bytes(4, 'big') * 25)
"#;

/// Prints the numbers of datagrams as they come, a line each; 10 s without one end it.
const COUNT: &str = r#"
import socket, sys
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
at.bind(('0.0.0.0', 5002))
print('listens', flush=True)
while True:
    data = at.recv(2000)
    print(int.from_bytes(data[:4], 'big') if data[:4] * 25 == data else 'broken', flush=True)
"#;

/// The totals of the direction from `a`, with those lost for this cause.
fn totals(machine: &Machine, cause: &str) -> [u64; 5] {
    let direction = machine.link(LINK)["wire"]["directions"][0].clone();
    let lost: u64 = direction["lost"].as_object().expect("an object").values().map(number).sum();
    let of = |key: &str| number(&direction[key]);
    // The ledger closes at every moment.
    let [offered, sent, held] = ["offered_packets", "sent_packets", "held_packets"].map(of);
    assert_eq!(offered + of("duplicated"), sent + lost + held, "{direction}");
    [offered, sent, held, direction["lost"].get(cause).map_or(0, number), lost]
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Both ends know each other's stations for good, so that nobody asks for them again, and nothing is on its way.
fn meet(machine: &Machine) {
    machine.answers("a", "b");
    machine.keep_neighbours(&["a", "b"]);
}

#[test]
fn a_pattern_takes_exactly_what_it_says() {
    let machine = machine!();
    machine.up(LAB);
    meet(&machine);
    let mut counter = Held::start(machine.python("b", COUNT, &[]));
    assert_eq!(counter.line(), "listens");
    machine.netloom(["link", "set", LINK, "--end", "a", "--clear", "--loss", "pattern ..x.x"]).ok();
    let before = totals(&machine, "loss");
    machine.python("a", NUMBERS, &["500"]).finish().code(0);
    let came: Vec<u32> = (0..300).map(|_| counter.line().parse().expect("whole")).collect();
    // What comes behind the last that is sent is lost a moment later.
    let after = wait_until("all have passed", SOON, || {
        Some(totals(&machine, "loss")).filter(|now| now[0] - before[0] >= 500 && now[2] == 0)
    });
    assert_eq!(after[0] - before[0], 500);
    assert_eq!([after[1] - before[1], after[3] - before[3]], [300, 200]);
    assert_eq!([after[2], after[4] - after[3]], [0, before[4] - before[3]]);
    // The pattern goes round in circles from wherever it stood.
    let lost: Vec<u32> = (0..500).filter(|n| !came.contains(n)).collect();
    let fits = |start: u32| {
        let bad = |n: &u32| matches!((n + start) % 5, 2 | 4);
        (0..500).filter(bad).eq(lost.iter().copied())
    };
    assert!((0..5).any(fits), "lost: {lost:?}");
    assert!(came.is_sorted());
    drop(counter);
    machine.down();
}

/// What became of the first this many packets from `a`: fate and copies, with the numbers that came.
fn fates(count: usize) -> (Vec<(String, bool)>, BTreeMap<u32, usize>) {
    let machine = Machine::new();
    machine.up(LAB);
    meet(&machine);
    let mut counter = Held::start(machine.python("b", COUNT, &[]));
    assert_eq!(counter.line(), "listens");
    set(&machine, "--end a --clear --loss 20% --duplicate 10% --seed 42");
    let mut follower = Held::start(machine.netloom(["link", "fates", LINK, "--json"]));
    let mut echo = Held::start(machine.python("a", &COUNT.replace("5002", "5003"), &[]));
    assert_eq!(echo.line(), "listens");
    // A packet the other way that is followed says that the follower is there.
    let back = NUMBERS.replace("'b', 5002", "'a', 5003");
    let (told, hear) = std::sync::mpsc::channel();
    let read = std::thread::spawn(move || {
        let mut seen = vec![];
        while seen.len() < count {
            let line: Value = serde_json::from_str(&follower.line()).expect("a line of JSON");
            if line["end"] == 0 {
                let text = line["fate"].as_str().expect("a fate").to_owned();
                seen.push((text, line["duplicated"] == true));
            } else {
                // Nobody may be waiting any more.
                let _ = told.send(());
            }
        }
        seen
    });
    wait_until("the follower follows", SOON, || {
        machine.python("b", &back, &["1"]).finish().code(0);
        hear.recv_timeout(Duration::from_millis(100)).ok()
    });
    machine.python("a", NUMBERS, &[&count.to_string()]).finish().code(0);
    let seen = read.join().expect("the reader");
    let copies = |(fate, twice): &(String, bool)| match fate.as_str() {
        "sent" => 1 + usize::from(*twice),
        _ => 0,
    };
    let mut came = BTreeMap::new();
    for _ in 0..seen.iter().map(copies).sum() {
        *came.entry(counter.line().parse().expect("whole")).or_insert(0) += 1;
    }
    for (number, one) in (0_u32..).zip(&seen) {
        assert_eq!(
            came.get(&number).copied().unwrap_or(0),
            copies(one),
            "packet {number}: {one:?}"
        );
    }
    drop((counter, echo));
    machine.down();
    (seen, came)
}

#[test]
fn the_same_seed_gives_the_same_fates() {
    let machine = machine!();
    let (first, numbers) = fates(400);
    let lost = first.iter().filter(|(fate, _)| fate == "loss").count();
    assert!((40..120).contains(&lost), "{lost} of 400 lost at 20 %");
    assert!(first.iter().any(|(_, twice)| *twice));
    let (second, again) = fates(400);
    assert_eq!(first, second);
    assert_eq!(numbers, again);
    machine.untouched();
}

/// The round-trip time of a ping from one node to the other, in milliseconds.
fn round_trip(machine: &Machine, from: &str, to: &str) -> f64 {
    let words = ["ping", "-4", "-c", "1", "-W", "30", to];
    let text = machine.exec(from, &words).ok();
    let least = text.lines().find_map(|l| l.strip_prefix("rtt min/avg/max/mdev = "));
    least.and_then(|l| l.split('/').next()).and_then(|l| l.parse().ok()).expect("ping's summary")
}

/// Pings until a round trip takes less than this many milliseconds: on a busy machine one may take longer. None may
/// take less than `least`.
fn takes(machine: &Machine, from: &str, to: &str, least: f64, most: f64) {
    wait_until(&format!("a round trip from {from} to {to} below {most} ms"), SOON, || {
        let took = round_trip(machine, from, to);
        assert!(took >= least, "{took} ms from {from} to {to}");
        (took < most).then_some(())
    });
}

#[test]
fn one_direction_is_impaired_alone() {
    let machine = machine!();
    machine.up(LAB);
    meet(&machine);
    set(&machine, "--clear");
    set(&machine, "--end a --delay 60ms");
    let wire = machine.link(LINK)["wire"].clone();
    assert_eq!(wire["directions"][0]["impairments"]["delay"], "60ms", "{wire}");
    assert!(wire["directions"][1]["impairments"].get("delay").is_none(), "{wire}");
    // Once, not twice.
    takes(&machine, "a", "b", 60.0, 120.0);
    takes(&machine, "b", "a", 60.0, 120.0);
    set(&machine, "--end b --delay 50ms");
    assert!(round_trip(&machine, "a", "b") >= 110.0);
    // An end can be named as the one that sends.
    machine.ok("link set a:eth0 --delay none");
    takes(&machine, "a", "b", 50.0, 100.0);
    machine.down();
}

#[test]
fn nonsense_is_refused_with_the_links_name() {
    let machine = machine!();
    machine.up(LAB);
    let before = machine.link(LINK)["wire"]["directions"][0]["impairments"].clone();
    let wrong = [
        ["--delay", "1h", "delay"],
        ["--delay", "5", "delay"],
        ["--delay", "fast", "delay"],
        ["--loss", "101%", "loss"],
        ["--loss=-1%", "--seed=1", "loss"],
        ["--loss", "pattern", "loss"],
        ["--loss", "pattern ab", "loss"],
        ["--duplicate", "200%", "duplicate"],
        ["--rate", "0", "rate"],
        ["--rate", "10", "rate"],
        ["--queue", "-5ms", "queue"],
        ["--mtu", "1", "mtu"],
        ["--jitter", "1ms,round", "jitter"],
    ];
    for [flag, value, key] in wrong {
        let done = machine.netloom(["link", "set", LINK, flag, value]).finish().code(2);
        if !flag.contains("queue") {
            done.says(LINK).says(key);
        }
    }
    machine.refused(&format!("link set {LINK}"), 2, &["--delay"]);
    machine.refused(&format!("link set {LINK} --delay 1ms --end c"), 2, &["c"]);
    machine.refused("link set a:eth7 --delay 1ms", 1, &["a:eth7"]);
    machine.refused("link show nothing", 1, &["nothing"]);
    assert_eq!(machine.link(LINK)["wire"]["directions"][0]["impairments"], before);
    machine.down();
}

/// The process that carries this lab's wires.
fn wire_process(machine: &Machine) -> Option<i32> {
    let folder = machine.scratch().runtime_dir().join("wired");
    let folder = folder.to_str().expect("a path");
    let ours = with_command_line(folder);
    with_command_line("wire-process").into_iter().find(|pid| ours.contains(pid) && !gone(*pid))
}

#[test]
fn a_killed_wire_process_is_told_and_started_again() {
    let machine = machine!();
    machine.up(LAB);
    let mut transfer = Transfer::start(&machine, "a", "b");
    for round in 1..=3 {
        transfer.more(1024);
        let pid = wire_process(&machine).expect("a process of wires");
        kill_and_wait(pid);
        let again = || {
            let wire = machine.link(LINK)["wire"].clone();
            (wire["restarts"] == round && wire["state"] == "running").then_some(())
        };
        wait_until("it runs again and that is told", SOON, again);
        assert_ne!(wire_process(&machine), Some(pid));
        transfer.settle();
    }
    let shown = machine.link(LINK)["wire"]["directions"][0]["impairments"].clone();
    assert_eq!(shown["delay"], "1ms");
    transfer.finish();
    machine.down();
}

#[test]
fn wires_carry_on_without_the_lab_process() {
    let machine = machine!();
    let file = machine.file(LAB);
    machine.up_file(&file);
    set(&machine, "--delay 30ms --end a");
    let mut transfer = Transfer::start(&machine, "a", "b");
    let before = totals(&machine, "loss");
    let carrier = wire_process(&machine);
    kill_and_wait(machine.lab_process());
    transfer.more(1024);
    transfer.settle();
    machine.up_file(&file);
    assert_eq!(wire_process(&machine), carrier);
    let wire = machine.link(LINK)["wire"].clone();
    assert_eq!(wire["state"], "running", "{wire}");
    assert_eq!(wire["directions"][0]["impairments"]["delay"], "30ms", "{wire}");
    assert!(totals(&machine, "loss")[0] > before[0], "counts go on");
    set(&machine, "--delay 1ms");
    transfer.more(1024);
    transfer.settle();
    transfer.finish();
    machine.down();
}

#[test]
fn wires_are_put_in_anew_when_both_processes_were_killed() {
    let machine = machine!();
    let file = machine.file(LAB);
    machine.up_file(&file);
    set(&machine, "--delay 30ms --end b");
    for lab_first in [true, false] {
        let carrier = wire_process(&machine).expect("a process of wires");
        let lab = machine.lab_process();
        let order = if lab_first { [lab, carrier] } else { [carrier, lab] };
        order.into_iter().for_each(kill);
        wait_until("both are gone", SOON, || (gone(lab) && gone(carrier)).then_some(()));
        machine.up_file(&file);
        wait_until("the wire runs", SOON, || {
            (machine.link(LINK)["wire"]["state"] == "running").then_some(())
        });
        assert!(round_trip(&machine, "a", "b") >= 31.0);
        set(&machine, "--delay 20ms --end a");
        assert!(round_trip(&machine, "a", "b") >= 50.0);
        set(&machine, "--delay 1ms --end a");
    }
    machine.down();
}
