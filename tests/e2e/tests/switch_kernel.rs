//! Ports of shared-memory switches among which the kernel forwards: what is known passes there, and each change is obeyed by
//! the next frame.

use netloom_tests_e2e::live::{Held, SOON, kill_and_wait};
use netloom_tests_e2e::transfer::Transfer;
use netloom_tests_e2e::{Machine, machine, root_only, wait_until};
use serde_json::Value;

const LAB: &str = "
name: kernel
nodes: {a: {}, b: {}, c: {}}
switches: {s: {kind: shm}}
links:
  - [a, s]
  - [b, s]
  - [c, s]
";

/// Frames of tests are between addresses of their own, so that nothing else moves them.
const A: &str = "02000000000a";
const B: &str = "02000000000b";

/// Prints the numbers of the tests' frames that come to a node.
const WATCH: &str = "
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
s.bind(('eth0', 0x88b5))
print('watches', flush=True)
while True:
  f, at = s.recvfrom(2048)
  if at[2] != 4: print(int.from_bytes(f[14:18], 'big'), flush=True)
";

/// Sends numbered frames: to, from, the first number, how many.
const SEND: &str = "
import socket, sys, time
to, source, first, count = bytes.fromhex(sys.argv[1]), bytes.fromhex(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(('eth0', 0))
for number in range(first, first + count):
  s.send(to + source + b'\\x88\\xb5' + number.to_bytes(4, 'big') + b'x' * 42)
  time.sleep(0.0005)
";

struct World {
    machine: Machine,
    /// At b and c.
    watchers: [Held; 2],
    /// All that came there.
    known: [Vec<u64>; 2],
    next: u64,
}

impl World {
    fn up(machine: Machine) -> World {
        machine.up(LAB);
        let watch = |node: &str| {
            let mut held = Held::start(machine.python(node, WATCH, &[]));
            assert_eq!(held.line(), "watches");
            held
        };
        let watchers = ["b", "c"].map(watch);
        World { machine, watchers, known: [vec![], vec![]], next: 1 }
    }

    /// Sends numbered frames, of which the last number is returned.
    fn send(&mut self, node: &str, to: &str, from: &str, count: u64) -> u64 {
        let (first, count) = (self.next.to_string(), count.to_string());
        self.machine.python(node, SEND, &[to, from, &first, &count]).ok();
        self.next += count.parse::<u64>().expect("a number");
        self.next - 1
    }

    /// The numbers that come to b or c (0 or 1), up to this one.
    fn seen(&mut self, at: usize, last: u64) -> Vec<u64> {
        let mut all = vec![];
        while all.last() != Some(&last) {
            all.push(self.watchers[at].line().parse().expect("a number"));
        }
        self.known[at].extend(&all);
        all
    }

    /// Lets a talk to b's address until the kernel forwards it.
    fn begin(&mut self) {
        let before = in_kernel(&self.machine, "a:eth0", "sent");
        self.send("b", A, B, 1);
        wait_until("the kernel forwards from a to b", SOON, || {
            let last = self.send("a", B, A, 20);
            self.seen(0, last);
            (in_kernel(&self.machine, "a:eth0", "sent") > before).then_some(())
        });
    }
}

fn counters(machine: &Machine, port: &str) -> Value {
    let shown = machine.ok("switch show s --json").json();
    let ports = shown["ports"].as_array().expect("ports").iter();
    let found = ports.filter(|p| p["name"] == port).map(|p| p["counters"].clone()).next();
    found.unwrap_or_else(|| panic!("no port {port}: {shown}"))
}

/// Frames that the kernel forwarded of a port (`sent`) or to it (`received`).
fn in_kernel(machine: &Machine, port: &str, what: &str) -> u64 {
    let counters = counters(machine, port);
    counters[format!("{what}_in_kernel")].as_u64().unwrap_or_else(|| panic!("{port}: {counters}"))
}

#[test]
fn known_frames_pass_in_the_kernel_and_are_counted_at_their_ports() {
    root_only!("attaches BPF programs");
    let mut world = World::up(machine!());
    world.begin();
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
    let before = ["a:eth0", "b:eth0"].map(|port| counters(&world.machine, port));
    let last = world.send("a", B, A, 500);
    let seen = world.seen(0, last);
    assert_eq!(seen[seen.len() - 500..], (last - 499..=last).collect::<Vec<u64>>());
    let after = ["a:eth0", "b:eth0"].map(|port| counters(&world.machine, port));
    let more = |at: usize, name: &str| number(&after[at], name) - number(&before[at], name);
    assert_eq!((more(0, "sent_in_kernel"), more(1, "received_in_kernel")), (500, 500));
    // Nodes send a little of their own, too.
    assert!(more(0, "sent_frames") >= 500 && more(1, "received_bytes") >= 500 * 60);
    // Streams of super-frames, whose checksums are unfinished.
    let mut transfer = Transfer::start(&world.machine, "a", "b");
    transfer.more(20_000);
    transfer.settle();
    transfer.finish();
    let after = counters(&world.machine, "a:eth0");
    assert!(number(&after, "sent_in_kernel") > number(&before[0], "sent_in_kernel") + 600);
    assert!(number(&after, "sent_super") > 0, "{after}");
    drop(world.watchers);
    world.machine.down();
}

#[test]
fn rules_hold_for_frames_that_passed_in_the_kernel() {
    root_only!("attaches BPF programs");
    let mut world = World::up(machine!());
    world.begin();
    // b leaves the VLAN of a: frames for its address go to all others in it.
    world.machine.ok("switch vlan s b:eth0 access 20");
    let first = world.next;
    let last = world.send("a", B, A, 100);
    // b's first frame went to all, too.
    let seen = world.seen(1, last);
    assert!(
        seen.ends_with(&(first..=last).collect::<Vec<u64>>()),
        "c gets what goes to all: {seen:?}"
    );
    world.machine.ok("switch vlan s b:eth0 access 1");
    world.begin();
    let end = world.send("a", B, A, 1);
    world.seen(0, end);
    assert!(
        !world.known[0].iter().any(|number| (first..=last).contains(number)),
        "b got {first} and more"
    );
    // a is locked to another address: the next frame is dropped.
    let before = counters(&world.machine, "a:eth0");
    world.machine.ok("switch port s a:eth0 lock=02:00:00:00:00:77");
    let (first, last) = (world.next, world.next + 49);
    world.send("a", B, A, 50);
    let refused = |of: &Value| of["dropped_spoofed"].as_u64().unwrap_or(0);
    wait_until("they are dropped as spoofed", SOON, || {
        let after = counters(&world.machine, "a:eth0");
        (refused(&after) >= refused(&before) + 50).then_some(())
    });
    world.machine.ok("switch port s a:eth0 lock=none");
    let end = world.send("a", B, A, 1);
    world.seen(0, end);
    assert!(
        !world.known[0].iter().any(|number| (first..=last).contains(number)),
        "b got {first} and more"
    );
    drop(world.watchers);
    world.machine.down();
}

#[test]
fn a_mirror_that_begins_sees_every_frame() {
    root_only!("attaches BPF programs");
    let mut world = World::up(machine!());
    world.begin();
    world.machine.ok("switch mirror s add --to c:eth0 --from b:eth0 --direction out");
    let before = in_kernel(&world.machine, "a:eth0", "sent");
    let last = world.send("a", B, A, 200);
    let copies = world.seen(1, last);
    assert_eq!(copies[copies.len() - 200..], (last - 199..=last).collect::<Vec<u64>>());
    assert_eq!(in_kernel(&world.machine, "a:eth0", "sent"), before);
    world.machine.ok("switch mirror s delete 1");
    world.begin();
    drop(world.watchers);
    world.machine.down();
}

#[test]
fn frames_follow_a_station_that_moves() {
    root_only!("attaches BPF programs");
    let mut world = World::up(machine!());
    world.begin();
    // To a alone: nobody else learns of it.
    world.send("c", A, B, 1);
    wait_until("frames come to c", SOON, || {
        world.send("a", B, A, 1);
        let to_c = in_kernel(&world.machine, "c:eth0", "received");
        (to_c > 0).then_some(())
    });
    let last = world.send("a", B, A, 10);
    assert!(world.seen(1, last).ends_with(&[last - 1, last]));
    drop(world.watchers);
    world.machine.down();
}

#[test]
fn the_kernel_forwards_while_the_switch_is_replaced() {
    root_only!("attaches BPF programs");
    let mut world = World::up(machine!());
    let switch = world.machine.ok("switch show s --json").json()["pid"].as_i64().expect("a pid");
    let switch = i32::try_from(switch).expect("a pid");
    // A sender that needs nobody but the kernel: it says when it has sent.
    let send = SEND.replace("for number", "sys.stdin.readline()\nfor number")
        + "print('sent', flush=True)\n";
    let first = world.next + 100_000;
    let begin = first.to_string();
    let mut sender = Held::start(world.machine.python("a", &send, &[B, A, &begin, "200"]));
    let second = first + 200;
    let begin = second.to_string();
    let mut later = Held::start(world.machine.python("a", &send, &[B, A, &begin, "1000"]));
    world.begin();
    let before = in_kernel(&world.machine, "a:eth0", "sent");
    // Without its lab process nobody starts another.
    kill_and_wait(world.machine.lab_process());
    kill_and_wait(switch);
    let go = |sender: &mut Held| {
        use std::io::Write;
        let input = sender.child().stdin.as_mut().expect("its input");
        input.write_all(b"go\n").expect("tell it");
    };
    go(&mut sender);
    assert_eq!(sender.line(), "sent");
    let seen = world.seen(0, first + 199);
    assert_eq!(seen[seen.len() - 200..], (first..first + 200).collect::<Vec<u64>>());
    // While another process takes the programs over, no frame is lost, by whichever way it comes.
    go(&mut later);
    world.machine.up(LAB);
    assert_eq!(later.line(), "sent");
    assert!(in_kernel(&world.machine, "a:eth0", "sent") >= before + 200);
    let mut missing: std::collections::BTreeSet<u64> = (second..second + 1000).collect();
    while !missing.is_empty() {
        missing.remove(&world.watchers[0].line().parse().expect("a number"));
    }
    world.begin();
    drop(world.watchers);
    world.machine.down();
}
