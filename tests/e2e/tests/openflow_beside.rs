//! OpenFlow switches with what netloom does to any switch: wires, measuring, protection's and doors' tests are beside
//! those of bridges. Their process is killed under traffic, too.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use netloom_tests_e2e::live::{Held, SOON, kill_and_wait};
use netloom_tests_e2e::transfer::Transfer;
use netloom_tests_e2e::{Machine, Run, machine, root_only, signal, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Nobody speaks IPv6, so that little is sent that is not asked for.
const LAB: &str = "
name: beside
pool: {ipv6: none}
nodes:
  a: {sysctls: &quiet {net.ipv6.conf.default.disable_ipv6: 1, net.ipv6.conf.all.disable_ipv6: 1}}
  b: {sysctls: *quiet}
switches: {s: {kind: openflow}}
links: [[a, s], [s, b]]
";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn show(machine: &Machine) -> Value {
    machine.ok("switch show s --json").json()["flow"].clone()
}

/// Its process, if it answers.
fn process(machine: &Machine) -> Option<i32> {
    show(machine)["pid"].as_i64().map(|pid| i32::try_from(pid).expect("a pid"))
}

fn pid(machine: &Machine) -> i32 {
    process(machine).expect("the switch has a process")
}

/// Packets and bytes of each entry.
fn counters(machine: &Machine) -> Vec<[u64; 2]> {
    let told = machine.ok("flow dump s --json").json();
    let count = |entry: &Value| ["packets", "bytes"].map(|key| number(&entry[key]));
    told.as_array().expect("entries").iter().map(count).collect()
}

/// Waits for another process of the switch, with the same entries, whose counters have not become smaller; they.
fn next(machine: &Machine, before: i32, entries: &str, counted: &[[u64; 2]]) -> Vec<[u64; 2]> {
    wait_until("the switch has another process", SOON, || {
        process(machine).filter(|pid| *pid != before)
    });
    assert_eq!(machine.ok("flow dump s --plain").text(), entries);
    let now = counters(machine);
    let grown = |(now, then): (&[u64; 2], &[u64; 2])| now[0] >= then[0] && now[1] >= then[1];
    assert!(now.iter().zip(counted).all(grown), "{counted:?} became {now:?}");
    now
}

#[test]
fn a_transfer_goes_on_while_its_process_is_killed() {
    root_only!("programs in the kernel forward without the process");
    let machine = machine!();
    let lab = LAB.replace("kind: openflow", "kind: openflow, fail: secure");
    machine.up(&lab);
    machine.ok("flow groups s add group_id=1,type=indirect,bucket=output:b");
    machine.ok("flow add s in_port=a,actions=group:1 in_port=b,actions=output:a");
    let entries = machine.ok("flow dump s --plain").text();
    let mut transfer = Transfer::start(&machine, "a", "b");
    transfer.more(1000);
    transfer.settle();
    wait_until("results are kept in the kernel", SOON, || {
        let plane = show(&machine)["plane"].clone();
        assert!(plane["slower"].is_null(), "{plane}");
        (number(&plane["entries"]) >= 2).then_some(())
    });
    // There is neither a process of the switch nor anybody who would start one.
    let (mut counted, before) = (counters(&machine), pid(&machine));
    kill_and_wait(machine.lab_process());
    kill_and_wait(before);
    transfer.more(20_000);
    transfer.settle();
    machine.up(&lab);
    let now = next(&machine, before, &entries, &counted);
    // What passed meanwhile is counted.
    assert!(now[0][1] >= counted[0][1] + (20_000 << 10), "{counted:?} became {now:?}");
    counted = now;
    // It is killed while frames pass, and another is there soon.
    for _ in 0..5 {
        let before = pid(&machine);
        transfer.more(20_000);
        kill_and_wait(before);
        counted = next(&machine, before, &entries, &counted);
        transfer.settle();
    }
    transfer.more(1000);
    transfer.settle();
    transfer.finish();
    // All of it, and nothing twice: headers of frames are less than a tenth.
    let (now, sent) = (counters(&machine), 122_000 << 10);
    assert!((sent..sent / 10 * 11).contains(&now[0][1]), "{now:?} of {sent}");
    machine.down();
}

/// The shortest round trip in milliseconds, and how many packets were answered.
fn ping(machine: &Machine, wait: &str) -> (f64, bool) {
    let ping = machine.exec("a", &["ping", "-4", "-c", "2", "-i", "0.2", "-W", wait, "b"]).finish();
    let text = ping.text();
    let least = text.rsplit_once("= ").and_then(|(_, times)| times.split('/').next());
    let least = least.and_then(|time| time.parse().ok()).unwrap_or_default();
    (least, text.contains("2 received"))
}

/// The same once all on the way is open: a link that has come or got a wire passes frames some time after that.
fn answered(machine: &Machine) -> (f64, bool) {
    machine.answers("a", "b");
    ping(machine, "30")
}

#[test]
fn wires_are_put_into_its_running_links() {
    root_only!("puts wires into links that were made without one");
    let machine = machine!();
    machine.up(LAB);
    assert!(answered(&machine).1);
    machine.ok("link set a:eth0 --delay 20ms");
    let (least, all) = answered(&machine);
    assert!(all && least >= 20.0, "{least} ms");
    // Frames to b are lost behind the switch.
    machine.ok("link set s--b:eth0 --end a --loss 100%");
    assert!(!ping(&machine, "1").1);
    machine.ok("link set s--b:eth0 --clear");
    machine.ok("link set a:eth0 --clear");
    assert!(answered(&machine).1);
    machine.down();
}

/// More ports than are attached in the way that costs frames least.
const MANY: &str = "
name: many
pool: {ipv6: none}
nodes: {a: {}, b: {}, 'h{i}': {for: {i: 1..36}}}
switches: {s: {kind: openflow}}
links: [{for: {i: 1..36}, ends: ['h{i}', s]}, [a, s], [s, b]]
";

#[test]
fn all_of_many_ports_are_alike() {
    root_only!("loads BPF programs");
    let machine = machine!();
    machine.up(MANY);
    assert!(answered(&machine).1);
    machine.answers("h1", "b");
    machine.ok("link set a:eth0 --delay 20ms");
    let (least, all) = answered(&machine);
    assert!(all && least >= 20.0, "{least} ms");
    machine.ok("link set a:eth0 --clear");
    machine.answers("a", "b");
    machine.ok("flow add s priority=9,in_port=a,icmp,actions=output:b");
    machine.ok("flow add s priority=9,in_port=b,icmp,actions=output:a");
    let entries = machine.ok("flow dump s --plain").text();
    let (before, counted) = (pid(&machine), counters(&machine));
    kill_and_wait(before);
    next(&machine, before, &entries, &counted);
    assert!(ping(&machine, "30").1);
    let now = counters(&machine);
    assert_eq!([now[0][0], now[1][0]], [2, 2], "{now:?}");
    machine.ok("link delete a:eth0");
    machine.down();
}

/// Sends this many datagrams to `b`, one a millisecond.
const SEND: &str = r#"
import socket, sys, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.connect(('b', 5002))
for number in range(int(sys.argv[1])):
    to.send(b'd' * 100)
    time.sleep(0.001)
"#;

/// Receives them.
const TAKE: &str = r#"
import socket
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
at.bind(('0.0.0.0', 5002))
print('listens', flush=True)
while True: at.recv(2000)
"#;

#[test]
fn the_hop_that_loses_is_named_by_measuring() {
    root_only!("loads BPF programs");
    let machine = machine!();
    machine.up(LAB);
    assert!(answered(&machine).1);
    machine.keep_neighbours(&["a", "b"]);
    let mut taker = Held::start(machine.python("b", TAKE, &[]));
    assert_eq!(taker.line(), "listens");
    machine.ok("link set s--b:eth0 --end a --loss 5%");
    let words = ["measure", "a", "b", "--json", "--one-way"];
    let mut measure = Held::start(machine.netloom(words).bound(Duration::from_secs(120)));
    let head: Value = serde_json::from_str(&measure.line()).expect("JSON");
    let points = head["ways"][0]["points"].as_array().expect("points");
    let names: Vec<&str> = points.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["a:eth0", "s/a:eth0", "s/b:eth0 (wire)", "b:eth0"]);
    let lost = || {
        let lost = machine.link("s--b:eth0")["wire"]["directions"][0]["lost"].clone();
        lost.get("loss").map_or(0, number)
    };
    let before = lost();
    machine.python("a", SEND, &["1000"]).ok();
    signal(measure.pid(), Signal::INT);
    let text = measure.rest();
    // What was in the wire when all was sent has passed it.
    let lost = lost() - before;
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let total = lines.into_iter().find(|line| line["type"] == "total").expect("a total");
    assert_eq!((number(&total["way"]["sent"]), number(&total["way"]["lost"])), (1000, lost));
    assert!(lost > 5, "{total}");
    for hop in total["hops"].as_array().expect("hops") {
        let lossy = hop["hop"] == "link s--b:eth0";
        assert_eq!(number(&hop["lost"]), if lossy { lost } else { 0 }, "{hop}");
        assert_eq!(hop["gained"], 0, "{hop}");
    }
    machine.down();
}

#[test]
fn it_is_linked_with_switches_of_other_kinds() {
    let machine = machine!();
    machine.up("
name: kinds
nodes: {a: {}, b: {}, c: {}, d: {}}
switches: {s: {kind: openflow, datapath: 1}, t: {kind: openflow, datapath: 2}, k: {}, m: {kind: shm}}
links: [[a, s], [s, t], [b, t], [t, k], [c, k], [k, m], [d, m]]
");
    machine.all_reach_all();
    let ports = show(&machine)["ports"].clone();
    let names: Vec<&Value> =
        ports.as_array().expect("ports").iter().map(|port| &port["name"]).collect();
    assert_eq!(names.len(), 2, "{ports}");
    assert_eq!(names[0], &json!("a:eth0"), "{ports}");
    machine.down();
}

/// A controller by TLS, at a free port that it prints: it says hello, and what the switch said, for each connection.
const SECURE: &str = r#"
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.verify_mode = ssl.CERT_REQUIRED
context.load_verify_locations('authority.pem')
context.load_cert_chain('controller.pem', 'controller-key.pem')
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], flush=True)
kept = []
while True:
    plain, _ = server.accept()
    try:
        peer = context.wrap_socket(plain, server_side=True)
        peer.sendall(bytes([4, 0, 0, 8, 0, 0, 0, 1]))
        print('hello', peer.recv(8)[0], flush=True)
        kept.append(peer)
    except (OSError, IndexError):
        plain.close()
"#;

/// Certificates whose keys are in the repository, too, and protect nothing.
const CERTIFICATES: [(&str, &str); 5] = [
    ("authority.pem", include_str!("../../../parts/flow/tests/tls/authority.pem")),
    ("controller.pem", include_str!("../../../parts/flow/tests/tls/controller.pem")),
    ("controller-key.pem", include_str!("../../../parts/flow/tests/tls/controller-key.pem")),
    ("switch.pem", include_str!("../../../parts/flow/tests/tls/switch.pem")),
    ("switch-key.pem", include_str!("../../../parts/flow/tests/tls/switch-key.pem")),
];

#[test]
fn a_controller_is_reached_by_tls_with_the_file_s_certificates() {
    let machine = machine!();
    let folder = machine.scratch().path().to_owned();
    for (name, text) in CERTIFICATES {
        std::fs::write(folder.join(name), text).expect("a certificate");
    }
    let run = Run::new("python3").args(["-c", SECURE]).dir(&folder);
    let mut controller = Held::start(run.bound(Duration::from_secs(300)));
    let port: u16 = controller.line().parse().expect("a port");
    let lab = |name: &str| {
        machine.file(&format!(
            "name: secure\nnodes: {{a: {{}}}}\nlinks: [[a, s]]\nswitches:\n  s:\n    kind: openflow\n    \
             controllers: 'tls:127.0.0.1:{port}'\n    tls: {{authorities: authority.pem, \
             certificate: switch.pem, key: switch-key.pem, name: {name}}}\n"
        ))
    };
    // Paths are relative to the file; files are read before anything is made.
    let key = folder.join("switch-key.pem");
    let mode = |mode| std::fs::set_permissions(&key, Permissions::from_mode(mode)).expect("a mode");
    mode(0o644);
    let up = |file: &Path| machine.netloom(["up".as_ref(), file.as_os_str()]).finish();
    up(&lab("controller"))
        .code(1)
        .says("switch \"s\": tls")
        .says("switch-key.pem")
        .says("chmod 600");
    mode(0o600);
    // Another name than that in the controller's certificate.
    up(&lab("elsewhere")).code(0);
    let status = || machine.status()["switches"][0]["openflow"]["controllers"][0].clone();
    wait_until("it says why it is not connected", SOON, || {
        let reason = status()["reason"].as_str()?.to_owned();
        reason.contains("elsewhere").then_some(())
    });
    machine.ok("down");
    up(&lab("controller")).code(0);
    assert_eq!(controller.line(), "hello 4");
    wait_until("the controller is connected", SOON, || {
        (status()["connected"] == json!(true)).then_some(())
    });
    machine.down();
}
