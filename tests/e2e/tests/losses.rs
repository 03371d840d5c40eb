//! A lab counts every frame that it loses: sent frames equal received and lost ones, exactly.

use std::io::Write;

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, Run, machine, needs, root_only, wait_until};
use serde_json::Value;

/// Frames of a flood.
const SENT: u64 = 40_000;

/// Sends this many datagrams to `b` from one processor when it has read a line, and prints how many its kernel took. One socket
/// would wait: what is in the receive queue is still its own.
const SEND: &str = r#"
import os, socket, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
to = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]
for one in to: one.connect(('b', 6001))
print('ready', flush=True)
sys.stdin.readline()
sent = 0
for number in range(int(sys.argv[1])):
    sent += to[number % 16].send(b'f' * 200) // 200
print(sent)
"#;

/// Opens the port. On each line of its input it prints how many datagrams it has read: all that came if its argument is
/// `reads`, else those that fit a small buffer until then.
const RECEIVE: &str = r#"
import socket, sys, threading
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
reads = sys.argv[1] == 'reads'
if not reads: at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
at.bind(('0.0.0.0', 6001))
count = 0
def read():
    global count
    while True:
        at.recv(300)
        count += 1
if reads: threading.Thread(target=read, daemon=True).start()
else: at.setblocking(False)
print('listens', flush=True)
for _ in sys.stdin:
    try:
        if not reads: read()
    except BlockingIOError: pass
    print(count, flush=True)
"#;

/// Gives the thread that receives for the node of process `argv[1]`, found by its group, to the sender's processor.
const BESIDE: &str = r#"
import os, sys
def read(path):
    try: return open(path).read()
    except OSError: return ''
def groups(pid):
    return {line for line in read(f'/proc/{pid}/cgroup').split('\n') if line and not line.endswith(':/')}
own = groups(sys.argv[1])
threads = [int(pid) for pid in os.listdir('/proc') if pid.isdigit()
    and read(f'/proc/{pid}/comm').startswith('napi/') and groups(pid) & own]
for thread in threads: os.sched_setaffinity(thread, {min(os.sched_getaffinity(0))})
print(len(threads))
"#;

/// Nodes that send nothing unasked, which would be lost beside the datagrams: IPv6's reports of groups, and answers to
/// ARP's probe of a neighbour, five seconds after its first use.
const SILENT: &str = "x-silent: &silent {sysctls: {net.ipv6.conf.all.disable_ipv6: 1, \
     net.ipv4.neigh.eth0.delay_first_probe_time: 3600}}\n";

/// A sender that goes before the receiver.
const NODES: &str = "nodes:\n  a: {<<: *silent, limits: {weight: 10000}}\n  b: {<<: *silent, charge-receive: true, limits: {weight: 1}}\n";

fn loss(view: &Value, cause: &str) -> u64 {
    let all = view["drops"].as_array().expect("causes").iter();
    all.filter(|drop| drop["cause"] == cause).filter_map(|drop| drop["packets"].as_u64()).sum()
}

/// A number of the only interface of a node.
fn of_interface(view: &Value, key: &str) -> u64 {
    view["interfaces"][0]["traffic"][key].as_u64().unwrap_or_else(|| panic!("{view}"))
}

struct Flooded {
    read: u64,
    view: Value,
}

/// Floods `b`, and waits until what was sent is received and lost. `beside`: the thread that receives for it gets little
/// time meanwhile.
fn flood(machine: &Machine, how: &str, beside: bool, lost: impl Fn(&Value) -> u64) -> Flooded {
    let ask = |held: &mut Held| {
        let input = held.child().stdin.as_mut().expect("stdin is piped");
        input.write_all(b"\n").expect("ask it");
    };
    let mut receiver = Held::start(machine.python("b", RECEIVE, &[how]));
    assert_eq!(receiver.line(), "listens");
    machine.answers("a", "b");
    let count = SENT.to_string();
    let mut sender = Held::start(machine.python("a", SEND, &[&count]));
    assert_eq!(sender.line(), "ready");
    if beside {
        let pid = machine.init("b").to_string();
        let run = Run::new("python3").args(["-c", BESIDE, &pid]);
        assert_eq!(run.ok().trim(), "1", "its thread is found");
    }
    ask(&mut sender);
    assert_eq!(sender.rest().trim(), count);
    if beside {
        machine.ok("node set b weight=100");
    }
    let flooded = wait_until("all is received or lost", SOON, || {
        ask(&mut receiver);
        let read: u64 = receiver.line().parse().expect("a number");
        let view = machine.node("b");
        let known = read + lost(&view);
        assert!(known <= SENT, "{read} and more were lost than sent: {view}");
        (known == SENT).then_some(Flooded { read, view })
    });
    receiver.rest();
    flooded
}

/// Frames that a link lost between two interfaces, by the end that sent.
fn on_link(link: &Value, from: &str) -> u64 {
    let all = link["lost"].as_array().expect("losses").iter();
    let wanted = all.filter(|loss| loss["from"] == from && loss["cause"] == "interface");
    wanted.filter_map(|loss| loss["packets"].as_u64()).sum()
}

#[test]
fn what_a_full_receive_queue_loses_at_a_switch_is_told() {
    root_only!("receive work is moved by root");
    let machine = machine!();
    machine.up(&format!(
        "name: full\npool: {{ipv6: none}}\n{SILENT}{NODES}switches: {{s: {{}}}}\nlinks: [[a, s], [b, s]]\n"
    ));
    let lost = |view: &Value| loss(view, "queue") + loss(view, "socket_buffer");
    let Flooded { read, view } = flood(&machine, "reads", true, lost);
    let queue = loss(&view, "queue");
    assert!(queue > 0, "{read} were read: {view}");
    assert_eq!(of_interface(&view, "rx_lost"), queue, "{view}");
    assert_eq!(on_link(&machine.link("b:eth0"), "s"), queue);
    assert_eq!(on_link(&machine.link("a:eth0"), "a:eth0"), 0);
    let shown = machine.ok("node show b").text();
    assert!(shown.contains(&format!("{queue} (queue)")), "{shown}");
    let shown = machine.ok("link show b:eth0").text();
    assert!(shown.contains(&format!("{queue} from s (interface)")), "{shown}");
    let table = machine.ok("status").text();
    let row = table.lines().find(|line| line.starts_with("b:eth0")).expect("a row");
    assert_eq!(row.split_whitespace().next_back(), Some(queue.to_string().as_str()), "{table}");
    machine.down();
}

#[test]
fn what_a_full_receive_queue_loses_at_a_neighbour_is_told() {
    root_only!("receive work is moved by root");
    let machine = machine!();
    machine.up(&format!("name: full\npool: {{ipv6: none}}\n{SILENT}{NODES}links: [[a, b]]\n"));
    let at_sender = || of_interface(&machine.node("a"), "tx_lost");
    let lost = |view: &Value| at_sender() + loss(view, "socket_buffer");
    flood(&machine, "reads", true, lost);
    let queue = at_sender();
    assert!(queue > 0);
    assert_eq!(on_link(&machine.link("a:eth0"), "a:eth0"), queue);
    machine.down();
}

#[test]
fn what_a_full_receive_queue_loses_behind_a_wire_is_told() {
    root_only!("receive work is moved by root");
    let machine = machine!();
    // The wire is in the other direction.
    let links = "links: [{ends: [a, b], b: {delay: 1us}}]\n";
    machine.up(&format!("name: full\npool: {{ipv6: none}}\n{SILENT}{NODES}{links}"));
    let lost = |view: &Value| loss(view, "queue") + loss(view, "socket_buffer");
    let Flooded { read, view } = flood(&machine, "reads", true, lost);
    let queue = loss(&view, "queue");
    assert!(queue > 0, "{read} were read: {view}");
    assert_eq!(of_interface(&view, "rx_lost"), queue, "{view}");
    assert_eq!(on_link(&machine.link("a:eth0"), "a:eth0"), queue);
    machine.down();
}

/// Sends 50 frames of a protocol that no node has (0x88b5, for local experiments: IEEE 802) to all, by the interface `argv[1]`.
const UNCLAIMED: &str = r#"
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
for _ in range(50): out.send(bytes.fromhex('ffffffffffff02000000000188b5') + bytes(46))
"#;

#[test]
fn a_frame_of_a_protocol_that_nobody_has_is_not_lost() {
    needs!("python3");
    let machine = machine!();
    machine
        .up("name: strange\npool: {ipv6: none}\nswitches: {s: {}}\nnodes: {a: {}, b: {}, c: {}}\n\
         links: [[a, b], ['a:eth1', s], [s, c]]\n");
    for (interface, other) in [("eth0", "b"), ("eth1", "c")] {
        let received = || of_interface(&machine.node(other), "rx_packets");
        let before = received();
        machine.exec("a", &["python3", "-c", UNCLAIMED, interface]).finish().code(0);
        wait_until("all frames arrive", SOON, || (received() >= before + 50).then_some(()));
        assert_eq!(of_interface(&machine.node(other), "rx_lost"), 0);
    }
    for link in ["a:eth0", "a:eth1", "c:eth0"] {
        assert_eq!(machine.link(link)["lost"], serde_json::json!([]), "{link}");
    }
    let told = machine.ok("status").text();
    assert!(!told.contains("dropped: "), "{told}");
    machine.down();
}

#[test]
fn what_no_program_reads_is_told() {
    let machine = machine!();
    machine.up(&format!(
        "name: deaf\npool: {{ipv6: none}}\n{SILENT}nodes: {{a: *silent, b: *silent}}\nswitches: {{s: {{}}}}\nlinks: [[a, s], [b, s]]\n",
    ));
    let lost = |view: &Value| loss(view, "socket_buffer") + of_interface(view, "rx_lost");
    let Flooded { view, .. } = flood(&machine, "deaf", false, lost);
    let unread = loss(&view, "socket_buffer");
    assert!(unread > 0, "{view}");
    let shown = machine.ok("status").text();
    assert!(shown.contains(&format!("b dropped: {unread} (socket-buffer)")), "{shown}");
    machine.down();
}

#[test]
fn what_a_nodes_own_discipline_drops_is_told() {
    let machine = machine!();
    machine.up("name: shaped\npool: {ipv6: none}\nnodes: {a: {}, b: {}}\nlinks: [[a, b]]\n");
    let tc = ["tc", "qdisc", "add", "dev", "eth0", "root", "bfifo", "limit", "1"];
    machine.exec("b", &tc).finish().code(0);
    // What `a` asks is not sent before the kernel has given its interface its discipline: asked again.
    wait_until("answers are dropped", SOON, || {
        machine.exec("a", &["ping", "-c", "3", "-i", "0.2", "-W", "1", "b"]).finish().code(1);
        (loss(&machine.node("b"), "discipline") > 0).then_some(())
    });
    machine.down();
}

#[test]
fn parts_of_cpu_time_are_the_whole() {
    let machine = machine!();
    machine.up("name: parts-of-time\nnodes: {a: {}, b: {}}\nlinks: [[a, b]]\n");
    let work = "import time\nwhile time.process_time() < 0.3: sum(range(1000))";
    machine.python("a", work, &[]).ok();
    let view = machine.node("a");
    let ns = |key: &str| view[key].as_str().and_then(|text| text.parse::<u64>().ok());
    if let Some(all) = ns("cpu_ns") {
        let parts = ["cpu_user_ns", "cpu_system_ns", "cpu_receive_ns"];
        let sum: u64 = parts.iter().filter_map(|part| ns(part)).sum();
        assert_eq!(sum, all, "{view}");
        assert!(all >= 300_000_000, "{view}");
    }
    machine.down();
}
