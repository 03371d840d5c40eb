//! What stands between the host, nodes and members of a switch, and what does not: the facts of docs/guide/walls.md that no
//! other test shows.

use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{machine, needs, pair, wait_until};

/// Calls on a port of the loopback and on an abstract socket; tells whether somebody is there.
const CALL: &str = r"
import socket, sys
def answers(family, address):
    try:
        socket.socket(family).connect(address)
        return True
    except OSError:
        return False
print(answers(socket.AF_INET, ('127.0.0.1', int(sys.argv[1]))), answers(socket.AF_UNIX, '\0' + sys.argv[2]))
";

#[test]
fn without_a_door_nobody_listens_to_a_node() {
    needs!("python3");
    let machine = machine!();
    machine.up(&pair(""));
    let tcp = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = tcp.local_addr().expect("an address").port().to_string();
    let name = format!("netloom-between-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _unix = UnixListener::bind_addr(&address).expect("listen");
    assert_eq!(machine.python("a", CALL, &[&port, &name]).ok(), "False False\n");
    machine.down();
}

#[test]
fn a_node_reads_what_its_maker_reads_unless_it_has_another_root() {
    let machine = machine!();
    let secret = machine.scratch().path().join("secret");
    let mut file = std::fs::File::create(&secret).expect("make a file");
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).expect("close it");
    file.write_all(b"the maker's\n").expect("write");
    let root = machine.scratch().path().join("root");
    std::fs::create_dir(&root).expect("make a directory");
    let path = secret.to_str().expect("a path in UTF-8");
    machine.up(&format!("name: reads\nnodes: {{a: {{}}, b: {{root: {}}}}}\n", root.display()));
    assert_eq!(machine.exec("a", &["cat", path]).ok(), "the maker's\n");
    // There is not even a program to look with.
    let seen = format!("/proc/{}/root{path}", machine.init("b"));
    assert!(!std::path::Path::new(&seen).exists(), "{seen}");
    machine.down();
}

/// Tells of a frame of a kind that nobody else sends.
const WATCH: &str = r"
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
s.bind(('eth0', 0x88b5))
print('watches', flush=True)
print(s.recv(100)[6:12].hex())
";

/// Sends one from an address that is nobody's.
const FORGE: &str = r"
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(('eth0', 0))
s.send(b'\xff' * 6 + b'\x02\0\0\0\0\x77' + b'\x88\xb5' + b'x' * 46)
";

#[test]
fn where_no_address_is_locked_any_may_be_used() {
    needs!("python3");
    for kind in ["kernel", "shm"] {
        let machine = machine!();
        machine.up(&format!(
            "name: forged\nnodes: {{a: {{}}, b: {{}}}}\nswitches: {{s: {{kind: {kind}}}}}\n\
             links: [[a, s], [b, s]]\n"
        ));
        machine.answers("a", "b");
        let mut watcher = Held::start(machine.python("b", WATCH, &[]));
        assert_eq!(watcher.line(), "watches");
        machine.python("a", FORGE, &[]).ok();
        assert_eq!(watcher.line(), "020000000077", "{kind}");
        machine.down();
    }
}

#[test]
fn a_parent_may_end_what_runs_in_its_children() {
    let machine = machine!();
    machine.up(
        "name: parent\nnodes: {p: {children: {nodes: {c: {run: [[tail, -f, /dev/null]]}}}}, q: {}}\n",
    );
    let end = "for p in /proc/[0-9]*; do read name <$p/comm; test $name = tail && kill -9 ${p#/proc/}; done";
    let running = || {
        let node = machine.node("p/c");
        node["programs"].as_array().is_some_and(|all| all.iter().any(|p| p["ended"] == false))
    };
    // A neighbour does not even see it.
    machine.exec("q", &["sh", "-c", end]).finish().code(1);
    assert!(running());
    machine.exec("p", &["sh", "-c", end]).finish();
    wait_until("it has ended", SOON, || (!running()).then_some(()));
    machine.down();
}
