//! Limits of sockets: exact under a storm, whatever becomes of a descriptor, changed while it runs.

use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, assert_same, machine, ordinary_only, pair, root_only};

/// Skips the test where sockets cannot be limited.
macro_rules! needs_socket_limits {
    () => {
        root_only!("sockets are limited by a program in the kernel");
    };
}

/// Fifty processes open sockets of all kinds at once, round after round, until each was refused;
/// prints the sums that differ from the limit, and the refusals.
const STORM: &str = r#"
import errno, os, socket, sys
ROUNDS, LIMIT, MANY = int(sys.argv[1]), int(sys.argv[2]), 50
KINDS = [(f, k) for f in (socket.AF_INET, socket.AF_INET6) for k in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
children = []
for number in range(MANY):
    go, told = os.pipe(), os.pipe()
    if os.fork() == 0:
        while os.read(go[0], 1) == b"o":
            held, refused = [], 0
            while not refused and len(held) <= LIMIT:
                try: held.append(socket.socket(*KINDS[(number + len(held)) % 4]))
                except OSError as error: refused = error.errno
            os.write(told[1], b"%d %d" % (len(held), refused))
            os.read(go[0], 1)
            for one in held: one.close()
            os.write(told[1], b"-")
        os._exit(0)
    children.append((go[1], told[0]))
wrong, names = [], set()
for _ in range(ROUNDS):
    for go, _ in children: os.write(go, b"o")
    said = [tuple(map(int, os.read(told, 64).split())) for _, told in children]
    for go, _ in children: os.write(go, b"c")
    for _, told in children: os.read(told, 1)
    total = sum(opened for opened, _ in said)
    if total != LIMIT: wrong.append(total)
    names |= {errno.errorcode.get(refused, "none") for _, refused in said}
for go, _ in children: os.write(go, b"e")
for _ in children: os.wait()
print(len(wrong), wrong[:5], *sorted(names))
"#;

#[test]
fn a_storm_gets_exactly_the_limit_every_time() {
    needs_socket_limits!();
    let machine = machine!();
    machine.up(&pair("limits: {sockets: 40}"));
    assert_eq!(machine.python("a", STORM, &["100", "40"]).ok(), "0 [] ENFILE\n");
    let node = machine.node("a");
    assert_eq!(node["sockets_counted"], 0, "{node}");
    // Each of the fifty was refused once a round.
    assert_eq!(node["sockets_refused"], 5000, "{node}");
    assert_eq!(node["limits"]["sockets"], 40, "{node}");
    let free = machine.node("b");
    assert!(free["sockets_counted"].is_null() && free["limits"]["sockets"].is_null(), "{free}");
    machine.down();
}

/// Opens sockets until refused; `family` and `kind` are of the first argument.
const OPEN_ALL: &str = r#"
import socket
def fill(family=socket.AF_INET, kind=socket.SOCK_DGRAM, most=200):
    held = []
    try:
        while len(held) < most: held.append(socket.socket(family, kind))
    except OSError as error: assert error.errno == 23, error
    return held
"#;

/// The output of a program in node `a`, which has `fill`.
fn in_a(machine: &Machine, code: &str) -> String {
    machine.python("a", &format!("{OPEN_ALL}{code}"), &[]).ok()
}

#[test]
fn closing_frees_and_families_count_alike() {
    needs_socket_limits!();
    let machine = machine!();
    machine.up(&pair("limits: {sockets: 10}"));
    let code = "
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        held = fill(family, kind)
        print(len(held), end=' ')
        for one in held[:3]: one.close()
        held = held[3:] + fill(socket.AF_INET6)
        print(len(held), end=' ')
        for one in held: one.close()
print()";
    assert_eq!(in_a(&machine, code), "10 10 10 10 10 10 10 10 \n");
    // What never leaves the machine does not count.
    let code = "
held = fill()
print(len(fill(socket.AF_UNIX)), len([socket.socketpair() for _ in range(50)]), len(held), len(fill()))";
    assert_eq!(in_a(&machine, code), "200 50 10 0\n");
    // Killed, a process leaves nothing that counts.
    in_a(
        &machine,
        "held = fill()\nimport os\nif os.fork() == 0: os.kill(os.getpid(), 9)\nos.wait()",
    );
    assert_eq!(in_a(&machine, "print(len(fill()))"), "10\n");
    assert_eq!(machine.node("a")["sockets_counted"], 0);
    machine.down();
}

#[test]
fn copies_of_a_descriptor_are_one_socket() {
    needs_socket_limits!();
    let machine = machine!();
    machine.up(&pair("limits: {sockets: 5}"));
    let code = "
import os
first = [socket.socket() for _ in range(3)]
copies = [os.dup(first[0].fileno()) for _ in range(20)]
print(len(fill()), end=' ')
here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
child = os.fork()
if child == 0:
    socket.send_fds(there, [b'x'], [one.fileno() for one in first] * 10)
    there.recv(1)
    os._exit(0)
_, passed, _, _ = socket.recv_fds(here, 1, 60)
print(len(passed), len(fill()), end=' ')
# A socket lives as long as one copy: the child's are the last.
for one in first: one.close()
for fd in copies + passed: os.close(fd)
print(len(fill()), end=' ')
here.send(b'x')
os.waitpid(child, 0)
print(len(fill()))";
    assert_eq!(in_a(&machine, code), "2 30 2 2 5\n");
    machine.down();
}

#[test]
fn accepted_connections_neither_count_nor_free() {
    needs_socket_limits!();
    let machine = machine!();
    machine.up(&pair("limits: {sockets: 4}"));
    let code = "
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
kept = []
for number in range(40):
    client = socket.socket()
    client.connect(listener.getsockname())
    taken, _ = listener.accept()
    if number % 2: kept.append(taken)
    else: taken.close()
    client.close()
print(len(fill()), end=' ')
for one in kept: one.close()
print(len(fill()), end=' ')
listener.close()
print(len(fill()))";
    assert_eq!(in_a(&machine, code), "3 3 4\n");
    assert_eq!(machine.node("a")["sockets_counted"], 0);
    machine.down();
}

/// Opens sockets as it is told: `+` opens one, `-` closes one; answers each with how many it has.
const OPENER: &str = r#"
import socket, sys
held = []
for line in sys.stdin:
    for sign in line.strip():
        try:
            if sign == '+': held.append(socket.socket())
            else: held.pop().close()
        except OSError as error: assert error.errno == 23, error
    print(len(held), flush=True)
"#;

/// An opener in a node.
struct Opener(Held);

impl Opener {
    fn start(machine: &Machine, node: &str) -> Opener {
        Opener(Held::start(machine.python(node, OPENER, &[])))
    }

    /// How many it has after this.
    fn told(&mut self, signs: &str) -> String {
        use std::io::Write;
        let input = self.0.child().stdin.as_mut().expect("stdin is piped");
        writeln!(input, "{signs}").expect("write to the opener");
        self.0.line()
    }
}

#[test]
fn a_limit_changes_under_those_who_hold_sockets() {
    needs_socket_limits!();
    let machine = machine!();
    machine.up(&pair("limits: {sockets: 6}"));
    let mut opener = Opener::start(&machine, "a");
    assert_eq!(opener.told("++++++++"), "6");
    let node = machine.node("a");
    assert_eq!(
        (&node["sockets_counted"], &node["sockets_refused"]),
        (&6.into(), &2.into()),
        "{node}"
    );
    // More than is allowed stays open, and that is said.
    let done = machine.ok("node set a sockets=4");
    let said = format!("{}{}", done.text(), done.errors());
    assert!(said.contains('6') && said.contains("limit 4"), "{done}");
    assert_eq!(machine.node("a")["limits"]["sockets"], 4);
    assert_eq!(opener.told("+"), "6");
    assert_eq!(opener.told("--+"), "4");
    assert_eq!(opener.told("-+"), "4");
    machine.ok("node set a sockets=9");
    assert_eq!(opener.told("++++++++++"), "9");
    machine.ok("node set a sockets=none");
    assert_eq!(opener.told("++++++++++"), "19");
    assert!(machine.node("a")["sockets_counted"].is_null());
    drop(opener);
    machine.down();
}

#[test]
fn what_was_open_before_a_limit_is_left_out_of_it() {
    needs_socket_limits!();
    let machine = machine!();
    machine.up(&pair(""));
    let mut opener = Opener::start(&machine, "a");
    assert_eq!(opener.told("++++++"), "6");
    let done = machine.ok("node set a sockets=3");
    let said = format!("{}{}", done.text(), done.errors());
    assert!(said.contains("open before"), "{done}");
    assert_eq!(opener.told("++++"), "9");
    // Closing the old ones frees nothing.
    assert_eq!(opener.told("---------"), "0");
    assert_eq!(opener.told("+++++"), "3");
    assert_eq!(machine.node("a")["sockets_counted"], 3);
    drop(opener);
    machine.down();
}

#[test]
fn a_childs_sockets_count_for_its_parent() {
    needs_socket_limits!();
    let machine = machine!();
    machine.up("nodes:\n  p:\n    limits: {sockets: 8}\n    children:\n      limit: 2\n      \
         nodes: {c: {limits: {sockets: 5}}, d: {}}\n");
    let mut above = Opener::start(&machine, "p");
    let mut child = Opener::start(&machine, "p/c");
    let mut other = Opener::start(&machine, "p/d");
    assert_eq!(child.told("++++++++"), "5");
    assert_eq!(other.told("++"), "2");
    assert_eq!(above.told("+++"), "1");
    assert_eq!(other.told("+"), "2");
    assert_eq!(machine.node("p")["sockets_counted"], 8);
    assert_eq!(child.told("---"), "2");
    assert_eq!(other.told("++++++"), "5");
    drop((above, child, other));
    machine.refused("node set p/d sockets=9", 2, &["p/d", "sockets", "8"]);
    machine.down();
}

#[test]
fn a_limit_survives_the_lab_process() {
    needs_socket_limits!();
    let machine = machine!();
    let file = machine.file(&pair("limits: {sockets: 3}"));
    machine.up_file(&file);
    let mut opener = Opener::start(&machine, "a");
    assert_eq!(opener.told("++"), "2");
    netloom_tests_e2e::live::kill_and_wait(machine.lab_process());
    assert_eq!(opener.told("++"), "3");
    machine.up_file(&file);
    assert_eq!(machine.node("a")["sockets_counted"], 3);
    assert_eq!(opener.told("-++"), "3");
    machine.ok("node set a sockets=5");
    assert_eq!(opener.told("+++"), "5");
    drop(opener);
    machine.down();
}

#[test]
fn a_user_without_rights_is_told() {
    ordinary_only!("root can limit sockets");
    let machine = machine!();
    let file = machine.file(&pair("limits: {sockets: 10}"));
    let file = file.to_str().expect("a path");
    machine.netloom(["up", file]).finish().code(3).says("--ignore-limits");
    assert_same(machine.before());
    machine.netloom(["up", file, "--ignore-limits"]).finish().code(0);
    machine.refused("node set b sockets=5", 3, &[]);
    machine.down();
}
