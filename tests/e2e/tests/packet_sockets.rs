//! What packet sockets see of a wire, at every form of link: the sender's end what it sent, the receiver's what arrived.

use std::collections::BTreeMap;
use std::io::Write;

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, machine, root_only, wait_until};
use serde_json::Value;

/// Nodes that send nothing by themselves, a pair of them for each form of link. Those of the first have the wire.
const LAB: &str = "
name: seen
routing: none
pool: {ipv6: none}
nodes:
  da: {sysctls: &quiet {net.ipv6.conf.default.disable_ipv6: 1, net.ipv6.conf.all.disable_ipv6: 1}}
  db: {sysctls: *quiet}
  ka: {sysctls: *quiet}
  kb: {sysctls: *quiet}
  sa: {sysctls: *quiet}
  sb: {sysctls: *quiet}
  oa: {sysctls: *quiet}
  ob: {sysctls: *quiet}
switches: {k: {}, s: {kind: shm}, o: {kind: openflow}}
links:
  - [da, db]
  - [ka, k]
  - [kb, k]
  - [sa, s]
  - [sb, s]
  - [oa, o]
  - [ob, o]
";

/// The link with the wire, and the nodes at both ends of the path.
const PATHS: [(&str, [&str; 2]); 4] = [
    ("da:eth0--db:eth0", ["da", "db"]),
    ("ka:eth0--k", ["ka", "kb"]),
    ("sa:eth0--s", ["sa", "sb"]),
    ("oa:eth0--o", ["oa", "ob"]),
];

/// A packet socket for everything at eth0, told by lines what to send. `send FROM COUNT` sends numbered frames, `end`
/// a last one. When the last one of the other end has come it says what it saw: `[out, number, nanoseconds, intact]` each.
/// A socket whose interface has gone is opened again. `past` sends past the interface's own queueing discipline.
const SOCKET: &str = r#"
import json, os, select, socket, struct, sys, time
me, again = int(sys.argv[1]), 0
def is_up():
    try: return int(open('/sys/class/net/eth0/flags').read(), 16) & 1
    except OSError: return False
def opened():
    until = time.monotonic() + 30
    while not is_up() and time.monotonic() < until: time.sleep(0.005)
    at = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    at.bind(('eth0', 0))
    at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
    at.setsockopt(socket.SOL_SOCKET, 35, 1)
    return at
def frame(of, kind, number):
    head = b'\xff' * 6 + bytes([2, 0, 0, 0, 0, of]) + b'\x88\xb5' + bytes([of, kind]) + number.to_bytes(2, 'big')
    return head + bytes(600 - len(head))
def is_ready():
    # A veth is, when the kernel's linkwatch has given it its discipline; nobody tells of a tap.
    try: return open('/sys/class/net/eth0/operstate').read().strip() in ('up', 'unknown')
    except OSError: return False
def send(data, past=False):
    until = time.monotonic() + 30
    while not is_ready() and time.monotonic() < until: time.sleep(0.005)
    to = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    to.bind(('eth0', 0))
    if past: to.setsockopt(263, 20, 1)
    for one in data: to.send(one)
at, seen, words = opened(), [], b''
print('open', flush=True)
while True:
    ready, _, _ = select.select([at, 0], [], [])
    if at in ready:
        try:
            data, more, _, to = at.recvmsg(2000, 256)
        except OSError:
            at, again = opened(), again + 1
            continue
        seconds, nanos = struct.unpack('qq', more[0][2][:16])
        out, of, kind = to[2] == 4, data[14], data[15]
        if kind == 2 and of != me and not out and data == frame(of, 2, 0):
            print(json.dumps({'seen': seen, 'again': again}), flush=True)
            seen = []
        elif not (kind == 2 and out):
            number = int.from_bytes(data[16:18], 'big')
            seen.append([out, number, seconds * 10**9 + nanos, data == frame(of, 1, number)])
        continue
    read = os.read(0, 4096)
    if not read: break
    words += read
    while b'\n' in words:
        line, words = words.split(b'\n', 1)
        line = line.decode().split()
        if line[0] == 'send': send([frame(me, 1, n) for n in range(int(line[1]))], 'past' in line)
        else: send([frame(me, 2, 0)])
        print('sent', flush=True)
"#;

/// How many frames are sent.
const COUNT: u64 = 20;

/// What one end saw.
struct Seen {
    sent: Vec<(u64, u64)>,
    came: Vec<(u64, u64)>,
    broken: usize,
    again: u64,
}

impl Seen {
    fn of(line: &str) -> Seen {
        let told: Value = serde_json::from_str(line).expect("what it saw");
        let all = told["seen"].as_array().expect("a list");
        let number = |of: &Value, at: usize| of[at].as_u64().expect("a number");
        let intact = |of: &&Value, out: bool| of[0] == out && of[3] == true;
        let those = |out: bool| {
            all.iter()
                .filter(|of| intact(of, out))
                .map(|of| (number(of, 1), number(of, 2)))
                .collect()
        };
        let broken = all.iter().filter(|of| of[3] == false).count();
        let again = told["again"].as_u64().expect("a count");
        Seen { sent: those(true), came: those(false), broken, again }
    }

    fn numbers(&self) -> Vec<u64> {
        self.came.iter().map(|(number, _)| *number).collect()
    }
}

/// The packet sockets at both ends of a path, whose wire is in `link`.
struct Path<'m> {
    machine: &'m Machine,
    link: &'m str,
    ends: [Held; 2],
}

impl<'m> Path<'m> {
    fn open(machine: &'m Machine, link: &'m str, nodes: [&str; 2]) -> Path<'m> {
        let mut ends = [0, 1]
            .map(|side| Held::start(machine.python(nodes[side], SOCKET, &[["0", "1"][side]])));
        ends.iter_mut().for_each(|end| assert_eq!(end.line(), "open"));
        Path { machine, link, ends }
    }

    fn say(&mut self, side: usize, words: &str) {
        let input = self.ends[side].child().stdin.as_mut().expect("its input");
        writeln!(input, "{words}").expect("it reads");
        assert_eq!(self.ends[side].line(), "sent");
    }

    fn set(&self, what: &str) {
        self.machine.ok(&format!("link set {} {what}", self.link));
    }

    /// The counts of a direction: offered, sent, held.
    fn counts(&self, side: usize) -> [u64; 3] {
        let wire = self.machine.link(self.link)["wire"].clone();
        ["offered_packets", "sent_packets", "held_packets"]
            .map(|key| wire["directions"][side][key].as_u64().unwrap_or(0))
    }

    /// What both ends see of frames that `side` sends while this is set. The wire counts each once.
    fn with(&mut self, what: &str, side: usize, past: &str) -> ([Seen; 2], u64) {
        self.set(&format!("--clear {what}"));
        let before = self.counts(side);
        self.say(side, &format!("send {COUNT} {past}"));
        let after = wait_until("the wire has decided", SOON, || {
            let now = self.counts(side);
            (now[0] - before[0] >= COUNT && now[2] == 0).then_some(now)
        });
        assert_eq!(after[0] - before[0], COUNT, "{} {what}: each is offered once", self.link);
        (self.end(), after[1] - before[1])
    }

    /// What both ends have seen until now; nothing is impaired from then on.
    fn end(&mut self) -> [Seen; 2] {
        self.set("--clear");
        self.say(0, "end");
        let last = Seen::of(&self.ends[1].line());
        self.say(1, "end");
        [Seen::of(&self.ends[0].line()), last]
    }
}

/// Waits until all is ready between two nodes, which do not ask for each other again.
fn meet(machine: &Machine, nodes: [&str; 2]) {
    machine.answers(nodes[0], nodes[1]);
    machine.keep_neighbours(&nodes);
}

fn each_once() -> Vec<u64> {
    (0..COUNT).collect()
}

/// Each impairment, in both directions.
fn all_impairments(path: &mut Path<'_>) {
    for side in [0, 1] {
        let link = path.link;
        let mut seen = |what: &str, past: &str| {
            let (mut both, sent) = path.with(what, side, past);
            if side == 1 {
                both.reverse();
            }
            let [from, to] = both;
            let arrived = to.came.len() + to.broken;
            // What the wire let go, which is also all that a cable would have brought.
            assert_eq!(arrived as u64, sent, "{link} {what} from {side}");
            assert!(from.came.is_empty() && to.sent.is_empty(), "{link} {what} from {side}");
            if past.is_empty() {
                let sent: Vec<u64> = from.sent.iter().map(|(number, _)| *number).collect();
                assert_eq!(sent, each_once(), "{link} {what} from {side}: the sender's end");
            }
            (from, to)
        };
        for past in ["", "past"] {
            assert!(seen("--loss 100%", past).1.numbers().is_empty(), "{link} {past}");
        }
        let (_, to) = seen("--loss 50% --seed 3", "");
        let kept = to.numbers();
        assert!(kept.len() < 20 && !kept.is_empty() && kept.is_sorted(), "{link}: {kept:?}");
        let late = |from: &Seen, to: &Seen| -> Vec<u64> {
            let sent: BTreeMap<u64, u64> = from.sent.iter().copied().collect();
            to.came.iter().map(|(number, at)| at.saturating_sub(sent[number]) / 1_000_000).collect()
        };
        for what in ["--delay 40ms", "--delay 50ms --jitter 10ms,uniform"] {
            let (from, to) = seen(what, "");
            assert_eq!(to.numbers(), each_once(), "{link} {what}");
            assert!(late(&from, &to).iter().all(|ms| *ms >= 39), "{link} {what}");
        }
        let mut twice: Vec<u64> = seen("--duplicate 100%", "").1.numbers();
        twice.sort_unstable();
        let two: Vec<u64> = (0..COUNT).flat_map(|number| [number, number]).collect();
        assert_eq!(twice, two, "{link}");
        assert!(seen("--corrupt 100%", "").1.numbers().is_empty(), "{link}: each is broken");
        let mut order = seen("--delay 40ms --reorder 50% --seed 3", "").1.numbers();
        assert!(!order.is_sorted(), "{link}: {order:?}");
        order.sort_unstable();
        assert_eq!(order, each_once(), "{link}");
        // 20 frames of 600 bytes: 96,000 bits. The first may come late, and nearer to the last, on a busy machine.
        let (from, to) = seen("--rate 1mbit", "");
        assert_eq!(to.numbers(), each_once(), "{link}");
        let took = to.came[19].1 - from.sent[0].1;
        assert!(took >= 80_000_000, "{link}: {took} ns");
        // While they are sent some leave: one in 48 ms.
        let (from, to) = seen("--rate 100kbit --queue 4", "");
        let (few, sending) = (to.numbers(), from.sent[19].1 - from.sent[0].1);
        let most = 8 + sending / 48_000_000;
        assert!((4..=most).contains(&(few.len() as u64)), "{link}: {few:?}, sent in {sending} ns");
        assert!(seen("--mtu 500", "").1.numbers().is_empty(), "{link}");
    }
}

#[test]
fn sockets_see_what_a_cable_brings_where_the_file_has_a_wire() {
    let machine = machine!();
    let wired = PATHS.iter().fold(LAB.to_owned(), |lab, (link, _)| {
        let [one, other] = link.split_once("--").map(<[&str; 2]>::from).expect("two ends");
        let ends =
            format!("[{}, {}]", one.trim_end_matches(":eth0"), other.trim_end_matches(":eth0"));
        lab.replace(&format!("- {ends}"), &format!("- {{ends: {ends}, delay: 1ms}}"))
    });
    machine.up(&wired);
    for (link, nodes) in PATHS {
        meet(&machine, nodes);
        all_impairments(&mut Path::open(&machine, link, nodes));
    }
    machine.down();
}

/// What belongs to an interface: its address, what it may carry, and what it is called.
fn looks(machine: &Machine, node: &str) -> String {
    let words = "cat /sys/class/net/eth0/address /sys/class/net/eth0/ifindex /sys/class/net/eth0/mtu; \
                 ip -4 -o addr show eth0; ip -4 route";
    machine.exec(node, &["sh", "-ec", words]).ok()
}

#[test]
fn a_living_link_gets_its_first_wire_before_both_ends() {
    let machine = machine!();
    machine.up(LAB);
    for (link, nodes) in PATHS {
        for node in nodes {
            let words = "ip link set eth0 mtu 1400; ip addr add 10.99.0.1/24 brd + dev eth0; \
                         ip route add 10.98.0.0/16 dev eth0 metric 7";
            machine.exec(node, &["sh", "-ec", words]).ok();
        }
        meet(&machine, nodes);
        let before = nodes.map(|node| looks(&machine, node));
        let mut path = Path::open(&machine, link, nodes);
        for side in [0, 1] {
            let (mut both, _) = path.with("--loss 100% --delay 5ms", side, "");
            if side == 1 {
                both.reverse();
            }
            assert!(both[1].numbers().is_empty(), "{link} from {side}");
            assert_eq!(both[0].sent.len() as u64, COUNT, "{link} from {side}");
            assert!(both[0].again + both[1].again <= 1, "{link}: one end at most is recreated");
        }
        assert_eq!(nodes.map(|node| looks(&machine, node)), before, "{link}");
    }
    machine.down();
}

#[test]
fn a_cable_that_is_out_brings_nothing_and_its_wire_is_there_when_it_is_in() {
    let machine = machine!();
    machine.up(LAB);
    let (link, nodes) = PATHS[0];
    machine.ok(&format!("link set {link} --down"));
    // The first wire of a link that is down.
    machine.ok(&format!("link set {link} --loss 100%"));
    let carrier = |node: &str| {
        machine.exec(node, &["sh", "-c", "cat /sys/class/net/eth0/carrier || echo 0"]).ok().trim()
            == "1"
    };
    assert!(!nodes.iter().any(|node| carrier(node)));
    machine.ok(&format!("link set {link} --up"));
    wait_until("both have a carrier", SOON, || {
        nodes.iter().all(|node| carrier(node)).then_some(())
    });
    let mut path = Path::open(&machine, link, nodes);
    for side in [0, 1] {
        let (both, _) = path.with("--loss 100%", side, "");
        assert!(both[1 - side].numbers().is_empty());
    }
    machine.ok(&format!("link set {link} --delay 1ms --down"));
    machine.ok(&format!("link set {link} --up"));
    wait_until("both have a carrier", SOON, || {
        nodes.iter().all(|node| carrier(node)).then_some(())
    });
    assert_eq!(path.with("--delay 2ms", 0, "").0[1].numbers(), each_once());
    machine.down();
}

#[test]
fn a_first_wire_by_a_changed_file_leaves_the_link_where_it_is() {
    let machine = machine!();
    let plain = LAB;
    let file = machine.file(plain);
    machine.up_file(&file);
    let before = ["da", "db"].map(|node| looks(&machine, node));
    let mut transfer = netloom_tests_e2e::transfer::Transfer::start(&machine, "da", "db");
    transfer.more(512);
    std::fs::write(&file, plain.replace("- [da, db]", "- {ends: [da, db], loss: 1%, delay: 1ms}"))
        .expect("write");
    let told = machine.ok(&format!("apply {}", file.display())).text();
    assert!(told.contains("~ link da:eth0--db:eth0: "), "{told}");
    transfer.more(512);
    transfer.settle();
    transfer.finish();
    assert_eq!(["da", "db"].map(|node| looks(&machine, node)), before);
    machine.down();
}

#[test]
fn an_unimpaired_direction_passes_without_the_wires_process() {
    root_only!("an ordinary user's wire carries both directions");
    let machine = machine!();
    machine.up("name: half\nnodes: {a: {}, b: {}}\nlinks: [{ends: [a, b], a: {delay: 1ms}}]\n");
    machine.answers("a", "b");
    let wire = machine.link("a:eth0--b:eth0")["wire"].clone();
    assert!(wire["directions"][0]["offered_packets"].as_u64() > Some(0), "{wire}");
    assert!(wire["directions"][1].is_null(), "{wire}");
    machine.down();
}
