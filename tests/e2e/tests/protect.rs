//! Flood protection: a node gets its budget and no more, others keep theirs; receiving is accounted for.
//!
//! All of it needs programs in the kernel. Bounds are those of the token bucket, not of the machine's
//! speed: a flood is known to be one because frames of it were dropped.

use std::time::{Duration, Instant};

use netloom_tests_e2e::live::{Held, SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, assert_same, machine, ordinary_only, root_only, wait_until};
use serde_json::Value;

/// Frames a second that `victim` may be sent.
const BUDGET: u64 = 2000;

const LAB: &str = "
name: floods
pool: {ipv6: none}
nodes:
  flooder: {}
  modest: {}
  victim: {protect: {packets: 2000/s}}
switches: {s: {}}
links:
  - [flooder, s]
  - [modest, s]
  - [victim, s]
";

/// Sends datagrams of 200 bytes to `victim` as fast as it can until its input ends, and prints how many.
const FLOOD: &str = r#"
import socket, sys, threading
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.connect(('victim', 6001))
print('sends', flush=True)
sent = 0
while not over.is_set():
    for _ in range(50):
        try: to.send(b'f' * 200)
        except OSError: continue
        sent += 1
print(sent)
"#;

/// The same from a packet socket that goes past the sender's own queues: IPv4 frames with UDP in them.
const RAW_FLOOD: &str = r#"
import socket, struct, subprocess, sys, threading
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
address = socket.gethostbyname('victim')
ping = ['ping', '-c', '1', '-W', '30', address]
subprocess.run(ping, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
neighbour = subprocess.run(['ip', 'neigh', 'show', address], check=True, capture_output=True).stdout.split()
mac = bytes.fromhex(neighbour[neighbour.index(b'lladdr') + 1].decode().replace(':', ''))
to = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
to.bind(('eth0', 0))
to.setsockopt(263, 20, 1)
udp = struct.pack('!HHHH', 9, 6001, 108, 0) + b'r' * 100
head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 128, 0, 0, 64, 17, 0, b'\n\1\1\1', socket.inet_aton(address))
words = struct.unpack('!10H', head)
total = sum(words)
total = (total & 0xffff) + (total >> 16)
head = head[:10] + struct.pack('!H', ~(total + (total >> 16)) & 0xffff) + head[12:]
frame = mac + to.getsockname()[4] + b'\x08\x00' + head + udp
print('sends', flush=True)
sent = 0
while not over.is_set():
    for _ in range(50):
        try: to.send(frame)
        except OSError: continue
        sent += 1
print(sent)
"#;

/// What came to a protected node, from its view: passed, dropped.
fn came(view: &Value) -> [u64; 2] {
    let of = |key: &str| view["protect"][key].as_u64().unwrap_or_else(|| panic!("{view}"));
    [of("passed_packets"), of("dropped_packets")]
}

/// The same of one sender.
fn from(view: &Value, sender: &str) -> [u64; 2] {
    let senders = view["protect"]["senders"].as_array().expect("senders");
    let found = senders.iter().find(|s| s["sender"] == sender).unwrap_or_else(|| panic!("{view}"));
    ["passed_packets", "dropped_packets"].map(|key| found[key].as_u64().expect("a number"))
}

/// Frames that an interface has received.
fn received(view: &Value) -> u64 {
    view["interfaces"][0]["traffic"]["rx_packets"].as_u64().expect("a number")
}

/// What a flood came to.
struct Flood {
    passed: u64,
    dropped: u64,
    sent: u64,
    /// How long it took in all.
    took: Duration,
}

/// Floods for this long, and then until this many frames have passed and some were dropped: how many of what was due did
/// pass depends on how often the flooder had a turn.
fn flood(machine: &Machine, program: &str, seconds: u64, least: u64) -> Flood {
    let [passed, dropped] = came(&machine.node("victim"));
    let since = || {
        let now = came(&machine.node("victim"));
        [now[0] - passed, now[1] - dropped]
    };
    let start = Instant::now();
    let mut flooder = Held::start(machine.python("flooder", program, &[]));
    assert_eq!(flooder.line(), "sends");
    wait_until("the flood is one, and its budget comes", SOON, || {
        let long = start.elapsed() >= Duration::from_secs(seconds);
        let [passed, dropped] = since();
        (long && passed >= least && dropped > 0).then_some(())
    });
    let sent = flooder.rest().trim().parse().expect("a number");
    let [passed, dropped] = since();
    Flood { passed, dropped, sent, took: start.elapsed() }
}

/// How many frames a budget lets through in a time: the bucket holds no more than a second's.
fn most(budget: u64, time: Duration) -> u64 {
    let milliseconds = u64::try_from(time.as_millis()).expect("a short time");
    budget + budget * milliseconds / 1000 + 100
}

#[test]
fn a_flooded_node_gets_its_budget_and_no_more() {
    root_only!("floods are stopped by programs in the kernel");
    let machine = machine!();
    machine.up(LAB);
    // What is sent to a neighbour who does not answer yet is dropped before it is counted.
    machine.answers("flooder", "victim");
    for program in [FLOOD, RAW_FLOOD] {
        let before = received(&machine.node("victim"));
        let Flood { passed, dropped, sent, took } = flood(&machine, program, 2, BUDGET);
        assert!(passed <= most(BUDGET, took), "{passed} passed in {took:?} at {BUDGET} a second");
        // That it came is seen by the node itself.
        assert!(received(&machine.node("victim")) - before <= most(BUDGET, took));
        // Beside the flood there were the two who looked each other up.
        assert!(
            passed + dropped >= sent && passed + dropped < sent + 20,
            "{passed} {dropped} {sent}"
        );
    }
    let view = machine.node("victim");
    let [_, dropped] = from(&view, "flooder:eth0");
    assert_eq!(dropped, came(&view)[1], "{view}");
    let causes = view["drops"].as_array().expect("causes");
    let told = causes.iter().find(|c| c["cause"] == "protect").expect("a cause");
    assert_eq!(told["packets"], dropped, "{view}");
    let shown = machine.ok("node show victim").text();
    assert!(shown.contains("2000/s") && shown.contains("flooder:eth0"), "{shown}");
    machine.down();
}

#[test]
fn on_an_openflow_switch_a_flood_is_stopped_as_well() {
    root_only!("floods are stopped by programs in the kernel");
    let machine = machine!();
    machine.up(&LAB.replace("s: {}", "s: {kind: openflow}"));
    let Flood { passed, dropped, took, .. } = flood(&machine, FLOOD, 2, BUDGET);
    assert!(passed <= most(BUDGET, took), "{passed} passed in {took:?} at {BUDGET} a second");
    assert!(dropped > 0);
    let view = machine.node("victim");
    assert_eq!(from(&view, "flooder:eth0")[1], came(&view)[1], "{view}");
    machine.down();
}

/// Sends this many numbered datagrams to `victim`, one each 5 ms, a tenth of the budget.
const PACED: &str = r#"
import socket, sys, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.connect(('victim', 6002))
for number in range(int(sys.argv[1])):
    to.send(b'%d' % number)
    time.sleep(0.005)
"#;

/// Prints how many datagrams came that `modest` sent, once the last or none for 30 s came.
const LISTEN: &str = r#"
import socket, sys
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
at.bind(('0.0.0.0', 6002))
print('listens', flush=True)
last, seen = int(sys.argv[1]) - 1, set()
try:
    while last not in seen:
        seen.add(int(at.recv(100)))
        at.settimeout(30)
except TimeoutError: pass
print(len(seen))
"#;

#[test]
fn who_sends_his_share_loses_nothing_beside_a_flood() {
    root_only!("floods are stopped by programs in the kernel");
    let machine = machine!();
    machine.up(LAB);
    let mut listener = Held::start(machine.python("victim", LISTEN, &["400"]));
    assert_eq!(listener.line(), "listens");
    machine.answers("modest", "victim");
    let mut flooder = Held::start(machine.python("flooder", FLOOD, &[]));
    assert_eq!(flooder.line(), "sends");
    machine.python("modest", PACED, &["400"]).finish().code(0);
    assert_eq!(listener.rest(), "400\n");
    drop(flooder);
    let view = machine.node("victim");
    assert_eq!(from(&view, "modest:eth0")[1], 0, "{view}");
    assert!(from(&view, "modest:eth0")[0] >= 400, "{view}");
    assert!(from(&view, "flooder:eth0")[1] > 0, "{view}");
    machine.down();
}

#[test]
fn a_budget_changes_while_it_is_used() {
    root_only!("floods are stopped by programs in the kernel");
    let machine = machine!();
    machine.up(LAB);
    for budget in [300, 5000] {
        machine.ok(&format!("node set victim packets={budget}/s"));
        assert_eq!(machine.node("victim")["protect"]["packets"], budget);
        let Flood { passed, took, .. } = flood(&machine, FLOOD, 2, 1);
        // Unused budget from before may be spent, too.
        let bound = most(budget, took) + BUDGET;
        assert!(passed <= bound, "{passed} passed in {took:?} at {budget} a second");
    }
    // A budget of bytes: frames have 242.
    machine.ok("node set victim packets=none bytes=100kB/s");
    let Flood { passed, took, .. } = flood(&machine, FLOOD, 2, 1);
    assert!(passed * 242 <= most(100_000, took) + 242 * 5000, "{passed} {took:?}");
    machine.ok("node set victim bytes=none");
    assert!(machine.node("victim")["protect"].is_null());
    let before = received(&machine.node("victim"));
    let sent: u64 = {
        let mut flooder = Held::start(machine.python("flooder", FLOOD, &[]));
        assert_eq!(flooder.line(), "sends");
        wait_until("more has come than any budget lets through", SOON, || {
            (received(&machine.node("victim")) - before > 10_000).then_some(())
        });
        flooder.rest().trim().parse().expect("a number")
    };
    assert!(received(&machine.node("victim")) - before >= sent, "nothing stands in the way");
    machine.ok("node set victim packets=1000/s");
    flood(&machine, FLOOD, 1, 1);
    machine.down();
}

#[test]
fn protection_stands_without_the_lab_process() {
    root_only!("floods are stopped by programs in the kernel");
    let machine = machine!();
    let file = machine.file(LAB);
    machine.up_file(&file);
    let Flood { sent, .. } = flood(&machine, FLOOD, 1, 1);
    let before = machine.node("victim");
    kill_and_wait(machine.lab_process());
    machine.up_file(&file);
    let view = machine.node("victim");
    assert!(came(&view)[1] >= came(&before)[1] && came(&view)[1] <= sent, "{view}");
    let Flood { passed, took, .. } = flood(&machine, FLOOD, 1, 1);
    assert!(passed <= most(BUDGET, took), "{passed} passed in {took:?}");
    machine.ok("node set victim packets=none");
    assert!(machine.node("victim")["protect"].is_null());
    machine.down();
}

#[test]
fn a_node_without_a_switch_is_protected_too() {
    root_only!("floods are stopped by programs in the kernel");
    let machine = machine!();
    machine.up("pool: {ipv6: none}\nnodes: {flooder: {}, victim: {protect: {packets: 500/s}}}\n\
         links: [[flooder, victim]]\n");
    let Flood { passed, sent, took, .. } = flood(&machine, FLOOD, 2, 1);
    assert!(passed <= most(500, took), "{passed} of {sent} passed in {took:?}");
    let view = machine.node("victim");
    assert_eq!(from(&view, "flooder:eth0")[1], came(&view)[1], "{view}");
    machine.down();
}

/// The lab with a switch in shared memory, among whose nodes the kernel forwards, and the switch's processes what it does not know.
fn shared_memory(victim: &str) -> String {
    LAB.replace("{s: {}}", "{s: {kind: shm}}").replace("protect: {packets: 2000/s}", victim)
}

#[test]
fn a_node_on_a_shared_memory_switch_is_protected_from_the_file_and_while_it_runs() {
    root_only!("floods are stopped by programs in the kernel");
    for later in [false, true] {
        let machine = machine!();
        let budget = if later { "" } else { "protect: {packets: 2000/s}, charge-receive: false" };
        machine.up(&shared_memory(budget));
        let shown = machine.exec("victim", &["ip", "-d", "link", "show", "eth0"]).ok();
        assert!(shown.contains("veth"), "{shown}");
        if later {
            machine.ok("node set victim packets=2000/s");
        }
        machine.answers("modest", "victim");
        let before = received(&machine.node("victim"));
        let Flood { passed, took, .. } = flood(&machine, FLOOD, 1, 1);
        assert!(passed <= most(BUDGET, took), "{passed} passed in {took:?}");
        let view = machine.node("victim");
        // An interface counts what comes to it; the node's programs get what passed.
        assert!(received(&view) - before >= passed, "{view}");
        assert_eq!(from(&view, "flooder:eth0")[1], came(&view)[1], "{view}");
        assert!(from(&view, "modest:eth0")[0] > 0, "{view}");
        machine.ok("node set victim packets=none");
        assert!(machine.node("victim")["protect"].is_null());
        machine.answers("flooder", "victim");
        machine.down();
    }
}

#[test]
fn a_node_behind_a_wire_is_protected_before_the_wire() {
    root_only!("floods are stopped by programs in the kernel");
    let with_switch = LAB
        .replace("[victim, s]", "{ends: [victim, s], delay: 1ms}")
        .replace("[flooder, s]", "{ends: [flooder, s], delay: 1ms}");
    let without = "name: floods\npool: {ipv6: none}\nnodes: {flooder: {}, victim: {protect: {packets: \
                   2000/s}}}\nlinks: [{ends: [flooder, victim], delay: 1ms}]\n";
    for lab in [with_switch.as_str(), without] {
        let machine = machine!();
        machine.up(lab);
        let before = received(&machine.node("victim"));
        let Flood { passed, took, .. } = flood(&machine, FLOOD, 1, 1);
        assert!(passed <= most(BUDGET, took), "{passed} passed in {took:?}");
        let view = machine.node("victim");
        if lab != without {
            assert!(received(&view) - before <= most(BUDGET, took), "{view}");
        }
        assert_eq!(from(&view, "flooder:eth0")[1], came(&view)[1], "{view}");
        machine.down();
    }
}

#[test]
fn neighbours_that_come_later_enter_by_a_gate_too() {
    root_only!("floods are stopped by programs in the kernel");
    let machine = machine!();
    machine.up(&LAB.replace("  - [flooder, s]\n", ""));
    machine.ok("link create flooder s");
    let Flood { passed, took, .. } = flood(&machine, FLOOD, 1, 1);
    assert!(passed <= most(BUDGET, took), "{passed} passed in {took:?}");
    machine.ok("node set victim packets=none");
    machine.answers("flooder", "victim");
    machine.ok("node set victim packets=2000/s");
    flood(&machine, FLOOD, 1, 1);
    machine.ok("link delete flooder:eth0");
    machine.answers("modest", "victim");
    machine.down();
}

/// Opens the port that is flooded and never reads, until its input ends.
const DEAF: &str = r#"
import socket, sys
at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at.bind(('0.0.0.0', 6001))
print('open', flush=True)
sys.stdin.read()
"#;

#[test]
fn a_budget_follows_what_a_node_keeps_up_with() {
    root_only!("floods are stopped by programs in the kernel");
    let machine = machine!();
    let file = machine.file(&LAB.replace("{packets: 2000/s}", "auto"));
    machine.up_file(&file);
    let auto = || {
        let view = machine.node("victim");
        assert_eq!(view["protect"]["auto"], true, "{view}");
        view["protect"]["auto_packets"].as_u64()
    };
    assert_eq!(auto(), None);
    let mut deaf = Held::start(machine.python("victim", DEAF, &[]));
    assert_eq!(deaf.line(), "open");
    let mut flooder = Held::start(machine.python("flooder", FLOOD, &[]));
    assert_eq!(flooder.line(), "sends");
    wait_until("the budget is what is read, or the least", SOON, || {
        auto().filter(|budget| *budget < 1_000_000)
    });
    let shown = machine.ok("node show victim").text();
    assert!(shown.contains("auto, now "), "{shown}");
    // The next lab process follows on.
    kill_and_wait(machine.lab_process());
    machine.up_file(&file);
    wait_until("it is found again", SOON, auto);
    // Not above what is given beside it.
    machine.ok("node set victim packets=500/s");
    flood(&machine, FLOOD, 1, 1);
    machine.ok("node set victim protect=off");
    assert!(machine.node("victim")["protect"].is_null());
    machine.ok("node set victim protect=700/s");
    assert_eq!(machine.node("victim")["protect"]["packets"], 700);
    machine.ok("node set victim protect=none");
    flooder.rest();
    machine.down();
}

#[test]
fn receiving_counts_as_the_receivers_own_work() {
    root_only!("receive work is moved by root");
    let machine = machine!();
    machine.up(&LAB.replace("protect: {packets: 2000/s}", "charge-receive: true"));
    let read = |view: &Value| {
        ["cpu_ns", "cpu_receive_ns"]
            .map(|key| view[key].as_str().and_then(|text| text.parse::<u64>().ok()))
            .map(|ns| ns.unwrap_or_else(|| panic!("{view}")))
    };
    let of_flooder = machine.node("flooder");
    assert!(of_flooder["cpu_receive_ns"].is_null(), "{of_flooder}");
    let before = read(&machine.node("victim"));
    let mut flooder = Held::start(machine.python("flooder", FLOOD, &[]));
    assert_eq!(flooder.line(), "sends");
    let [all, receiving] = wait_until("a flood has cost its receiver 30 ms", SOON, || {
        let after = read(&machine.node("victim"));
        let spent = [after[0] - before[0], after[1] - before[1]];
        (spent[1] > 30_000_000).then_some(spent)
    });
    flooder.rest();
    assert!(all * 100 >= receiving * 80, "{all} ns in all, {receiving} ns of them on receiving");
    machine.ok("node set victim charge-receive=false");
    assert!(machine.node("victim")["cpu_receive_ns"].is_null());
    machine.answers("flooder", "victim");
    machine.ok("node set victim charge-receive=true");
    machine.answers("flooder", "victim");
    machine.down();
}

#[test]
fn a_user_without_rights_is_told() {
    ordinary_only!("root can protect nodes");
    let machine = machine!();
    let file = machine.file(LAB);
    machine.netloom(["up", file.to_str().expect("a path")]).finish().code(3).says("root");
    assert_same(machine.before());
    machine.up(&LAB.replace("protect: {packets: 2000/s}", ""));
    machine.refused("node set victim packets=100/s", 3, &["root"]);
    machine.answers("flooder", "victim");
    machine.down();
}
