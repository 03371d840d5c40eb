//! OpenFlow switches: with and without controllers, changed by `netloom flow`, killed, with links that come and go.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use netloom_tests_e2e::capturing::{Capturing, read_pcapng};
use netloom_tests_e2e::live::{Held, SOON, kill_and_wait};
use netloom_tests_e2e::transfer::Transfer;
use netloom_tests_e2e::{Machine, Run, is_root, machine, wait_until};
use serde_json::{Value, json};

const LAB: &str = "
name: flow
nodes: {a: {}, b: {}, c: {}}
switches: {s: {kind: openflow}}
links: [[a, s], [b, s], [c, s]]
";

/// The same, with nothing forwarded that no flow entry forwards.
fn secure() -> String {
    LAB.replace("kind: openflow", "kind: openflow, fail: secure")
}

fn show(machine: &Machine) -> Value {
    machine.ok("switch show s --json").json()["flow"].clone()
}

fn pid(machine: &Machine) -> i32 {
    i32::try_from(show(machine)["pid"].as_i64().expect("a pid")).expect("a pid")
}

/// Numbers and names of the ports.
fn ports(machine: &Machine) -> Vec<(u64, String)> {
    let shown = show(machine);
    let port = |port: &Value| {
        let name = port["name"].as_str().expect("a name").to_owned();
        (port["number"].as_u64().expect("a number"), name)
    };
    shown["ports"].as_array().expect("ports").iter().map(port).collect()
}

fn named(all: &[(u64, &str)]) -> Vec<(u64, String)> {
    all.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
}

/// The flow entries: text and packets.
fn dump(machine: &Machine) -> Vec<(String, u64)> {
    let told = machine.ok("flow dump s --json").json();
    let entry = |entry: &Value| {
        let text = entry["flow"].as_str().expect("a text").to_owned();
        (text, entry["packets"].as_u64().expect("a count"))
    };
    told.as_array().expect("entries").iter().map(entry).collect()
}

/// Whether one node reaches another that should not.
fn reaches_now(machine: &Machine, from: &str, to: &str) -> bool {
    let ping = machine.exec(from, &["ping", "-4", "-c", "1", "-W", "1", to]);
    ping.finish().status.code() == Some(0)
}

/// Waits until the process of the switch is another one, and answers.
fn wait_for_another(machine: &Machine, before: i32) {
    wait_until("the switch has another process", SOON, || {
        let pid = show(machine)["pid"].as_i64()?;
        (pid != i64::from(before)).then_some(())
    });
}

#[test]
fn without_a_controller_it_is_an_ordinary_switch() {
    let machine = machine!();
    machine.up(LAB);
    machine.all_reach_all();
    let mut transfer = Transfer::start(&machine, "a", "b");
    transfer.more(20_000);
    transfer.settle();
    transfer.finish();
    assert_eq!(ports(&machine), named(&[(1, "a:eth0"), (2, "b:eth0"), (3, "c:eth0")]));
    let status = machine.status()["switches"][0].clone();
    let of = &status["openflow"];
    assert_eq!((&status["kind"], &of["running"]), (&json!("openflow"), &json!(true)), "{status}");
    assert_eq!(of["datapath"].as_str().map(str::len), Some(16), "{status}");
    let text = machine.ok("status").text();
    assert!(text.contains("OPENFLOW") && text.contains("FORWARDS BY"), "{text}");
    // An ordinary user's frames go through packet sockets, and it is told that others are faster.
    assert!(is_root() || text.contains("packet sockets: slower"), "{text}");
    assert!(machine.ok("graph").text().contains("OpenFlow"));
    machine.down();
}

#[test]
fn flow_entries_decide_who_reaches_whom() {
    let machine = machine!();
    machine.up(&secure());
    assert!(!reaches_now(&machine, "a", "b"));
    machine.ok("flow add s in_port=a,actions=output:b in_port=b:eth0,actions=output:1");
    machine.answers("a", "b");
    assert!(!reaches_now(&machine, "a", "c"));
    // Forwarded packets are counted, at entries and at ports.
    let entries = dump(&machine);
    assert_eq!(entries[0].0, "priority=32768,in_port=1,actions=output:2");
    assert_eq!(entries[1].0, "priority=32768,in_port=2,actions=output:1");
    assert!(entries.iter().all(|(_, packets)| *packets > 0), "{entries:?}");
    let counted = machine.ok("flow ports s --json").json();
    assert!(counted[1]["sent_packets"].as_u64() > Some(0), "{counted}");
    assert_eq!(counted[2]["sent_packets"], 0, "{counted}");
    // A trace tells which entry decides.
    let trace = machine.ok("flow trace s in_port=1,icmp").text();
    for part in ["priority=32768,in_port=1,actions=output:2", "leaves by", "2 b:eth0"] {
        assert!(trace.contains(part), "{trace}");
    }
    // Why nothing takes a frame where nobody makes entries.
    let missed = machine.ok("flow trace s in_port=c,arp").text();
    let why = "controllers  the switch has none: entries come from `netloom flow add` alone";
    assert!(missed.contains("no entry matches") && missed.contains(why), "{missed}");
    assert!(!trace.contains("controllers"), "{trace}");
    for words in ["in_port=c:eth0,arp", "in_port=c,arp", "--port c --frame 00"] {
        let trace = machine.ok(&format!("flow trace s {words} --json")).json();
        assert_eq!((&trace["port"], &trace["sent"]), (&json!(3), &json!([])), "{trace}");
    }
    // Names are known wherever an entry has them.
    machine.ok("flow mod s in_port=b,actions=output:a");
    assert_eq!(machine.ok("flow dump s in_port=b --json").json()[0]["actions"], "output:1");
    assert_eq!(machine.ok("flow dump s out_port=b --json").json()[0]["match"], "in_port=1");
    // Higher priority goes before; less is what is deleted.
    machine.ok("flow add s priority=40000,icmp,actions=drop");
    assert!(!reaches_now(&machine, "a", "b"));
    machine.ok("flow mod s icmp,actions=NORMAL");
    machine.answers("a", "b");
    machine.ok("flow del s out_port=2");
    assert_eq!(dump(&machine).len(), 2);
    let plain = machine.ok("flow dump s --plain").text();
    machine.ok("flow del s --all");
    assert!(!reaches_now(&machine, "a", "b"));
    // Dumped entries can be added again.
    machine.netloom(["flow", "add", "s", "-"]).input(plain.clone()).finish().code(0);
    assert_eq!(machine.ok("flow dump s --plain").text(), plain);
    machine.down();
}

#[test]
fn groups_and_meters_are_added_shown_and_deleted() {
    let machine = machine!();
    machine.up(&secure());
    machine.ok("flow groups s add group_id=7,type=all,bucket=output:1,bucket=output:b");
    machine.ok("flow meters s add meter=5,pktps,band=type=drop,rate=1000000");
    machine.ok("flow add s in_port=3,actions=meter:5,group:7 in_port=2,actions=output:3");
    machine.answers("c", "b");
    let groups = machine.ok("flow groups s --json").json();
    assert_eq!(
        (&groups[0]["group_id"], &groups[0]["references"]),
        (&json!(7), &json!(1)),
        "{groups}"
    );
    assert!(groups[0]["packets"].as_u64() > Some(0), "{groups}");
    let meters = machine.ok("flow meters s --json").json();
    assert_eq!((&meters[0]["meter_id"], &meters[0]["flows"]), (&json!(5), &json!(1)), "{meters}");
    let again = "flow groups s add group_id=7,type=all,bucket=output:1";
    machine.refused(again, 1, &["group 1: the switch refuses it", "OFPGMFC_GROUP_EXISTS"]);
    // What sends to a group goes with it.
    machine.ok("flow groups s del group_id=7");
    assert_eq!(dump(&machine).len(), 1);
    machine.ok("flow meters s del meter=all");
    assert!(machine.ok("flow meters s").text().contains("no meters"));
    machine.down();
}

/// What a meter's rate and burst do not cover is remarked: its share is right to 2 %, of packets and of bits of a paced sender.
#[test]
fn a_meter_remarks_what_is_beyond_its_rate() {
    let _kept = netloom_kit::tai_kept();
    let machine = machine!();
    machine.up(&secure());
    for (meter, unit, rate) in [(1, "pktps", 500), (2, "kbps", 4000)] {
        // A stall of the machine of up to four seconds takes no token from the bucket.
        let burst = 4 * rate;
        let band = format!("band=type=dscp_remark,rate={rate},burst_size={burst},prec_level=1");
        machine.ok(&format!("flow meters s add meter={meter},{unit},burst,{band}"));
        machine.ok(&format!(
            "flow add s ip,in_port=a,actions=set_field:10->ip_dscp,goto_table:1 \
             table=1,ip,actions=meter:{meter},goto_table:2 \
             table=2,ip,ip_dscp=10,actions=output:b table=2,ip,ip_dscp=12,actions=output:b"
        ));
        let taken = Capturing::start(&machine, "b:eth0", &format!("meter-{meter}.pcapng"));
        // 8 s at 1,000 frames of 1,000 bytes a second.
        let sent = machine
            .netloom("generate a:eth0 --to b -c 8000 --rate 1kpps --size 1000 --json".split(' '));
        sent.finish().code(0);
        // All frames of a meter come through the switch's process, so some may come later; on a busy machine some find no room in its
        // queue, which does not concern the meter.
        let mut known = 0;
        wait_until("no more are counted", SOON, || {
            let entries = machine.ok("flow dump s table=2 --json").json();
            let packets = entries.as_array()?.iter().filter_map(|entry| entry["packets"].as_u64());
            let before = std::mem::replace(&mut known, packets.sum());
            (known > 1000 && known == before).then_some(())
        });
        taken.stop();
        let file = machine.scratch().path().join(format!("meter-{meter}.pcapng"));
        let frames = read_pcapng(&file).packets.into_iter();
        let frames: Vec<_> = frames.filter(|frame| frame.length >= 900).collect();
        let (rate, burst) = (f64::from(rate), f64::from(burst));
        let (mut tokens, mut before) = (burst, frames[0].time);
        let (mut all, mut remarked, mut right) = (0.0, 0.0, 0.0);
        for frame in &frames {
            // The switch may have its turn late, and its bucket is not more than full then.
            let passed = Duration::from_nanos(frame.time.saturating_sub(before));
            tokens = (tokens + rate * passed.as_secs_f64()).min(burst);
            before = frame.time;
            let cost = if unit == "pktps" { 1.0 } else { f64::from(frame.length) * 8.0 / 1000.0 };
            all += cost;
            match tokens >= cost {
                true => tokens -= cost,
                false => right += cost,
            }
            // DSCP 12 in the field of RFC 2474.
            remarked += if frame.bytes[15] >> 2 == 12 { cost } else { 0.0 };
        }
        let off = (remarked - right).abs() / all;
        assert!(off < 0.02, "{unit}: {remarked} of {all} are remarked, {right} is right");
        machine.ok("flow del s --all");
    }
    machine.down();
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let machine = machine!();
    machine.up("
name: wrong
nodes: {a: {}, b: {}}
switches: {s: {kind: openflow, tables: 2, max-entries: 2}, k: {}, m: {kind: shm}, old: {kind: openflow, versions: 1.0}}
links: [[a, s], [b, s]]
");
    // Nothing is sent if anything cannot be read.
    let text = "arp,actions=flood\n# a comment\ntable=x,actions=drop\n\nfoo,actions=drop\n";
    let add =
        |text: &str| machine.netloom(["flow", "add", "s", "-"]).input(text.to_owned()).finish();
    add(text).code(2).says("standard input:3: `table`").says("standard input:5: `foo`");
    assert!(dump(&machine).is_empty());
    // The switch takes what it can, and what it refuses is told.
    let text = "table=0,arp,actions=flood\ntable=7,actions=drop\nip,actions=output:2\n\nudp,actions=drop\n";
    let told = add(text).code(1);
    told.says("standard input:2: the switch refuses it: there is no such table")
        .says("standard input:5: the switch refuses it: the table is full (OFPFMFC_TABLE_FULL)");
    assert_eq!(dump(&machine).len(), 2);
    let file = machine.scratch().path().join("flows.txt");
    std::fs::write(&file, "ip,actions=group:9\n").expect("a file");
    let done = machine.netloom(
        ["flow", "add", "s", "--json", "--file"]
            .iter()
            .map(std::ffi::OsStr::new)
            .chain([file.as_os_str()]),
    );
    let told = done.finish().code(1).json();
    assert_eq!(told["done"], 0, "{told}");
    assert_eq!(told["refused"][0]["reason"], "OFPBAC_BAD_OUT_GROUP", "{told}");
    for (words, code, parts) in [
        ("flow add s in_port=z,actions=drop", 2, &["no port \"z\"", "a:eth0, b:eth0"][..]),
        ("flow dump none", 1, &["switch \"none\"", "not in lab"]),
        ("flow dump k", 2, &["kind kernel", "kind openflow"]),
        ("flow dump m", 2, &["kind shm", "kind openflow"]),
        ("flow dump unix:/nowhere", 1, &["unix:/nowhere: connect"]),
        ("flow dump ftp:host", 2, &["unix:PATH", "tcp:ADDRESS"]),
        ("flow trace s arp", 2, &["in_port="]),
        ("flow trace s in_port=9,arp", 2, &["9"]),
        ("flow trace s in_port=z,arp", 2, &["no port \"z\"", "a:eth0, b:eth0"]),
        ("flow trace unix:/nowhere arp", 2, &["switch of a lab"]),
        ("flow groups old", 1, &["OpenFlow 1.0 has no groups"]),
        ("flow add old table=1,actions=drop", 2, &["OpenFlow 1.0"]),
        ("switch vlan s 1 access 7", 2, &["switch \"s\"", "netloom flow"]),
        ("switch mirror s", 2, &["switch \"s\"", "netloom flow"]),
        ("switch mac s", 2, &["switch \"s\"", "netloom flow"]),
        ("switch port s 1 learn=off", 2, &["switch \"s\"", "netloom flow"]),
        ("plug lo s", 1, &["an OpenFlow switch has this name", "kind shm"]),
        ("switch port s 9", 1, &["there is none; it has a:eth0, b:eth0"]),
        ("switch delete s", 1, &["links of the lab end in it"]),
    ] {
        machine.refused(words, code, parts);
    }
    machine.down();
}

#[test]
fn links_and_switches_come_and_go() {
    let machine = machine!();
    machine.up(LAB);
    machine.ok("link delete b:eth0");
    assert_eq!(ports(&machine), named(&[(1, "a:eth0"), (3, "c:eth0")]));
    machine.answers("a", "c");
    machine.ok("link create b s");
    machine.ok("link create s a");
    let all = named(&[(1, "a:eth0"), (2, "b:eth0"), (3, "c:eth0"), (4, "a:eth1")]);
    assert_eq!(ports(&machine), all);
    machine.answers("b", "c");
    machine.ok("link set b:eth0 --down");
    wait_until("the port is told down", SOON, || {
        (show(&machine)["ports"][1]["up"] == json!(false)).then_some(())
    });
    machine.ok("link set b:eth0 --up");
    wait_until("the port is told up", SOON, || {
        (show(&machine)["ports"][1]["up"] == json!(true)).then_some(())
    });
    machine.all_reach_all();
    // A node that dies and is recreated has its port back.
    kill_and_wait(machine.init("c"));
    machine.up(LAB);
    assert_eq!(ports(&machine), all);
    machine.answers("c", "a");
    // Another switch.
    machine.ok("switch create t kind=openflow fail=secure datapath=0x2a");
    machine.ok("link create b t");
    let shown = machine.ok("switch show t --json").json();
    assert_eq!(shown["flow"]["ports"][0]["name"], "b:eth1", "{shown}");
    assert_eq!(shown["openflow"]["datapath"], "000000000000002a", "{shown}");
    machine.ok("link delete b:eth1");
    machine.ok("switch delete t");
    machine.refused("switch create u kind=openflow controllers=node:z", 2, &["no node \"z\""]);
    machine.down();
}

#[test]
fn a_new_lab_process_finds_the_switch_as_it_is() {
    let machine = machine!();
    machine.up(&secure());
    machine.ok("flow add s in_port=1,actions=output:2 in_port=2,actions=output:1");
    let mut transfer = Transfer::start(&machine, "a", "b");
    transfer.more(500);
    let (switch, lab) = (pid(&machine), machine.lab_process());
    kill_and_wait(lab);
    transfer.more(500);
    transfer.settle();
    // Without its lab process a switch still takes flow entries.
    machine.ok("flow add s arp,in_port=3,actions=drop");
    machine.up(&secure());
    assert_eq!(pid(&machine), switch);
    assert_eq!((dump(&machine).len(), ports(&machine).len()), (3, 3));
    transfer.more(500);
    transfer.settle();
    transfer.finish();
    machine.down();
}

#[test]
fn a_killed_process_comes_back_with_its_tables() {
    let machine = machine!();
    machine.up(&secure());
    machine.ok("flow groups s add group_id=1,type=all,bucket=output:2");
    machine.ok("flow add s in_port=1,actions=group:1 in_port=2,actions=output:1 cookie=7,arp,in_port=3,actions=drop");
    let mut transfer = Transfer::start(&machine, "a", "b");
    transfer.more(500);
    transfer.settle();
    let plain = machine.ok("flow dump s --plain").text();
    for _ in 0..3 {
        let before = pid(&machine);
        kill_and_wait(before);
        wait_for_another(&machine, before);
        assert_eq!(machine.ok("flow dump s --plain").text(), plain);
        assert_eq!(ports(&machine).len(), 3);
        transfer.more(500);
        transfer.settle();
    }
    // No process is there: the next command starts it.
    let before = pid(&machine);
    kill_and_wait(machine.lab_process());
    kill_and_wait(before);
    machine.up(&secure());
    wait_for_another(&machine, before);
    assert_eq!(machine.ok("flow dump s --plain").text(), plain);
    assert_eq!(machine.ok("flow groups s --json").json()[0]["group_id"], 1);
    transfer.more(500);
    transfer.settle();
    transfer.finish();
    machine.down();
}

/// A controller of its own: it greets, floods everything by one entry, and answers echoes.
const CONTROLLER: &str = r#"
import socket, struct
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", 6653))
server.listen()
def whole(peer, length):
    data = b""
    while len(data) < length:
        part = peer.recv(length - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data
while True:
    peer, _ = server.accept()
    try:
        peer.sendall(struct.pack("!BBHI", 4, 0, 8, 1))
        flood = struct.pack("!HHIH6x", 0, 16, 0xfffffffb, 0)
        body = struct.pack("!QQBBHHHIIIH2xHH4xHH4x", 7, 0, 0, 0, 0, 0, 1, 0xffffffff, 0xffffffff, 0xffffffff, 0,
            1, 4, 4, 8 + len(flood)) + flood
        peer.sendall(struct.pack("!BBHI", 4, 14, 8 + len(body), 2) + body)
        while True:
            version, kind, length, xid = struct.unpack("!BBHI", whole(peer, 8))
            rest = whole(peer, length - 8)
            if kind == 2:
                peer.sendall(struct.pack("!BBHI", 4, 3, length, xid) + rest)
    except ConnectionError:
        peer.close()
"#;

#[test]
fn a_controller_is_reached_inside_its_node() {
    let machine = machine!();
    let lab = "
name: ctl
nodes:
  a: {}
  b: {}
  c0:
    files: {/controller.py: {from: controller.py}}
    run: [{command: [python3, /controller.py], restart: always}]
    ready: {tcp: 6653}
switches: {s: {kind: openflow, controllers: ['node:c0', 'unix:/nowhere/c.sock']}}
links: [[a, s], [b, s]]
";
    let file = machine.scratch().path().join("controller.py");
    std::fs::write(file, CONTROLLER).expect("a file");
    let file: PathBuf = machine.scratch().path().join("ctl.yaml");
    std::fs::write(&file, lab).expect("a file");
    let connected = |wanted: bool| {
        wait_until("the controller is, or is not, connected", SOON, || {
            let all = machine.status()["switches"][0]["openflow"]["controllers"].clone();
            let mine = all.as_array()?.iter().find(|c| c["controller"] == "node:c0:6653")?.clone();
            (mine["connected"] == json!(wanted)).then_some(())
        });
    };
    machine.up_file(&file);
    connected(true);
    wait_until("the other one has been tried", SOON, || {
        let all = machine.status()["switches"][0]["openflow"]["controllers"].clone();
        let other = all.as_array()?.iter().find(|c| c["connected"] == json!(false))?.clone();
        assert_eq!(other["controller"], "unix:/nowhere/c.sock", "{all}");
        other["reason"].is_string().then_some(())
    });
    wait_until("the controller's entry is there", SOON, || {
        (dump(&machine).len() == 1).then_some(())
    });
    assert_eq!(dump(&machine)[0].0, "cookie=0x7,priority=1,actions=FLOOD");
    machine.answers("a", "b");
    // Its node dies: the entries stay, and the switch does not keep the node's network.
    kill_and_wait(machine.init("c0"));
    connected(false);
    machine.answers("a", "b");
    machine.ok("flow del s --all");
    machine.up_file(&file);
    connected(true);
    // It makes its entry once for each connection.
    wait_until("the controller's entry is there again", SOON, || {
        (dump(&machine).len() == 1).then_some(())
    });
    // The switch is asked for nothing by that.
    machine.ok("flow del s --all");
    assert!(!reaches_now(&machine, "a", "b"));
    machine.down();
}

#[test]
fn a_controller_on_the_host_is_reached() {
    let machine = machine!();
    let controller = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = controller.local_addr().expect("its address").port();
    machine
        .up(&LAB.replace("kind: openflow", &format!("kind: openflow, controllers: 'host:{port}'")));
    for _ in 0..2 {
        let (mut switch, _) = controller.accept().expect("the switch comes");
        switch.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).expect("a hello");
        let mut hello = [0; 2];
        switch.read_exact(&mut hello).expect("its hello");
        assert_eq!(hello, [4, 0]);
        wait_until("the controller is connected", SOON, || {
            let all = machine.status()["switches"][0]["openflow"]["controllers"].clone();
            (all[0]["connected"] == json!(true)).then_some(())
        });
        // The next process of the switch comes, too; this one is not let try again.
        kill_and_wait(pid(&machine));
        drop(switch);
    }
    machine.down();
}

#[test]
fn what_happens_is_told_to_whoever_monitors() {
    let machine = machine!();
    machine.up(&secure());
    machine.ok("flow add s arp,in_port=1,actions=controller send_flow_rem,udp,actions=drop");
    let monitor = machine.netloom(["flow", "monitor", "s", "--count", "2"]);
    let mut monitor = Held::start(monitor.bound(Duration::from_secs(300)));
    // It is told from some moment on.
    wait_until("the monitor is connected", SOON, || {
        let others = show(&machine)["connections"].as_array().map_or(0, Vec::len);
        (others > 0).then_some(())
    });
    let ping = Held::start(machine.exec("a", &["ping", "-4", "-q", "-i", "0.2", "b"]));
    let line = monitor.line();
    assert!(
        line.starts_with("packet-in port 1, table 0, action, ") && line.contains("arp"),
        "{line}"
    );
    drop(ping);
    monitor.line();
    monitor.rest();
    machine.down();
}

/// Runs of programs that other projects made, if they are here.
fn ofctl(machine: &Machine) -> Option<Run> {
    let program = netloom_tests_e2e::program("ovs-ofctl")?;
    let socket = machine.status()["switches"][0]["openflow"]["socket"].as_str()?.to_owned();
    Some(
        Run::new(program).args(["-O", "OpenFlow13", "dump-flows"]).args([format!("unix:{socket}")]),
    )
}

#[test]
fn the_socket_that_status_tells_speaks_openflow() {
    let machine = machine!();
    machine.up(LAB);
    machine.ok("flow add s in_port=1,actions=output:2");
    let socket =
        machine.status()["switches"][0]["openflow"]["socket"].as_str().expect("a path").to_owned();
    let plain = machine.ok(&format!("flow dump unix:{socket} --plain")).text();
    assert_eq!(plain, machine.ok("flow dump s --plain").text());
    let old = machine.ok("flow dump s --plain --openflow 1.0").text();
    assert!(old.contains("in_port=1,actions=output:2"), "{old}");
    if let Some(run) = ofctl(&machine) {
        assert!(run.finish().code(0).text().contains("in_port=1 actions=output:2"));
    }
    machine.down();
}

#[test]
fn impairments_of_the_file_are_met_once_in_each_direction() {
    let machine = machine!();
    machine.up("
name: impaired
nodes: {a: {}, b: {}}
switches: {s: {kind: openflow}}
links: [{ends: [a, s], delay: 10ms}, [b, s]]
");
    machine.answers("a", "b");
    let ping = machine.exec("a", &["ping", "-4", "-c", "3", "-i", "0.2", "-W", "30", "b"]).ok();
    assert!(ping.contains("3 received") && !ping.contains("DUP"), "{ping}");
    let least = ping.rsplit_once("= ").and_then(|(_, times)| times.split('/').next());
    let least: f64 = least.and_then(|time| time.parse().ok()).expect("the shortest round trip");
    assert!(least >= 20.0, "{ping}");
    // It is changed as in any link that has one.
    machine.ok("link set a:eth0 --delay 30ms");
    machine.answers("a", "b");
    let ping = machine.exec("a", &["ping", "-4", "-c", "1", "-W", "30", "b"]).ok();
    let least = ping.rsplit_once("= ").and_then(|(_, times)| times.split('/').next());
    let least: f64 = least.and_then(|time| time.parse().ok()).expect("the round trip");
    assert!(least >= 40.0, "{ping}");
    machine.down();
}

#[test]
fn frames_are_captured_at_its_ports() {
    let machine = machine!();
    machine.up(LAB);
    let file = machine.scratch().path().join("s.pcapng");
    let words = ["capture", "switch:s", "--count", "2", "-w"];
    let run = machine.netloom(words.iter().map(std::ffi::OsStr::new).chain([file.as_os_str()]));
    let mut capture = Held::start(run.bound(Duration::from_secs(300)));
    capture.error_line();
    let ping = Held::start(machine.exec("a", &["ping", "-4", "-q", "-i", "0.2", "b"]));
    capture.rest();
    drop(ping);
    assert!(std::fs::metadata(&file).expect("a capture").len() > 0);
    machine.down();
}

#[test]
fn a_port_has_the_number_of_the_file_and_comes_in_the_place_of_another() {
    let machine = machine!();
    let lab = secure().replace("[a, s], [b, s]", "{ends: [a, s], port: {s: 65279}}, [b, s]");
    machine.up(&lab);
    let numbered = || {
        let mut all = ports(&machine);
        all.sort();
        all
    };
    assert_eq!(numbered(), named(&[(1, "b:eth0"), (2, "c:eth0"), (65279, "a:eth0")]));
    machine.ok("flow add s in_port=65279,actions=output:1 in_port=1,actions=output:65279");
    machine.answers("a", "b");
    // Another link gets a number that one has which goes: its port is there afterwards. The others stay.
    let other = lab.replace("[b, s]", "{ends: [\"b:up\", s], port: {s: 1}}");
    let file = machine.file(&other);
    let words = ["apply", "--yes", file.to_str().expect("a path in UTF-8")];
    machine.netloom(words).bound(SOON).finish().code(0);
    assert_eq!(numbered(), named(&[(1, "b:up"), (2, "c:eth0"), (65279, "a:eth0")]));
    // The new interface has another hardware address, which its neighbour has to learn.
    machine.answers("b", "a");
    machine.down();
}
