//! User namespaces of nodes in labs of root: who has one of his own, and what is without.

use std::path::Path;

use netloom_kit::Binary;
use netloom_tests_e2e::{Machine, Run, machine, program, root_only, skip};

const LAB: &str = "
name: bounded
nodes:
  a: {}
  b: {}
  p: {children: {limit: 2, nodes: {c: {}}}}
  trusted: {privileged: true, children: {nodes: {d: {}}}}
links: [[a, b]]
";

/// The user namespace of a program in a node.
fn user_namespace(run: Run) -> String {
    run.ok().trim().to_owned()
}

fn of_node(machine: &Machine, node: &str) -> String {
    user_namespace(machine.exec(node, &["readlink", "/proc/self/ns/user"]))
}

fn of_host() -> String {
    let own = std::fs::read_link("/proc/self/ns/user").expect("a user namespace");
    own.to_string_lossy().into_owned()
}

/// Whether `doctor` found that nodes get user namespaces.
fn told(doctor: Run) -> bool {
    let features = doctor.finish().code(0).json();
    let all = features.as_array().or(features["features"].as_array()).expect("a list");
    let own = all.iter().find(|f| f["feature"] == "user namespaces of nodes").expect("the feature");
    own["available"].as_bool().expect("a verdict")
}

#[test]
fn an_ordinary_node_has_a_user_namespace_of_its_own() {
    root_only!("an ordinary user's lab has one for all nodes");
    let machine = machine!();
    if !told(machine.netloom(["doctor", "--json"])) {
        skip!("no-userns: this kernel refuses user namespaces to root");
    }
    machine.up(LAB);
    let of = |node: &str| of_node(&machine, node);
    let host = of_host();
    let mut own = ["a", "b", "p", "trusted/d"].map(of).to_vec();
    assert!(!own.contains(&host), "{own:?} {host}");
    own.sort_unstable();
    own.dedup();
    assert_eq!(own.len(), 4, "{own:?}");
    assert_eq!(of("p/c"), of("p"), "a child lives in its parent's");
    assert_eq!(of("trusted"), host);
    // A child made later, and a program that keeps the caller's files.
    machine.inside("p", ["node", "create", "later"]).finish().code(0);
    assert_eq!(of("p/later"), of("p"));
    let keeping = ["exec", "--no-root", "a", "--", "readlink", "/proc/self/ns/user"];
    assert_eq!(user_namespace(machine.netloom(keeping)), host);
    // Each number stands for itself.
    for map in ["/proc/self/uid_map", "/proc/self/gid_map"] {
        let shown = machine.exec("a", &["cat", map]).ok();
        let here = std::fs::read_to_string(map).expect("a map");
        let counts = |text: &str| -> Vec<[String; 3]> {
            let fields = |l: &str| l.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            text.lines().filter_map(|l| fields(l).try_into().ok()).collect()
        };
        let (shown, here) = (counts(&shown), counts(&here));
        assert!(shown.iter().all(|[inside, outside, _]| inside == outside), "{shown:?}");
        assert_eq!(shown.len(), here.len(), "{shown:?} {here:?}");
    }
    machine.down();
}

/// Runs a program whose processes may not make user namespaces (seccomp(2)).
const FORBID: &str = r"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
unshare = {'x86_64': 272, 'aarch64': 97}[os.uname().machine]
program = b''.join(struct.pack('<HBBI', *one) for one in (
    (0x20, 0, 0, 0), (0x15, 0, 3, unshare), (0x20, 0, 0, 16), (0x45, 0, 1, 0x10000000),
    (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_char_p)]
assert libc.prctl(22, 2, ctypes.byref(Program(6, program)), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn where_the_kernel_refuses_them_nodes_live_in_the_hosts() {
    root_only!("an ordinary user's lab cannot do without");
    if program("python3").is_none() {
        skip!("peer:python3: not installed");
    }
    let machine = machine!();
    let binary = Binary::find();
    let forbidden = |args: &[&str]| {
        let head = ["-c", FORBID, binary.path().to_str().expect("a path")];
        let run = Run::new("python3").args(head.iter().chain(args));
        run.env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
            .dir(machine.scratch().path())
    };
    assert!(!told(forbidden(&["doctor", "--json"])));
    let file = machine.file(LAB);
    forbidden(&["up", Path::to_str(&file).expect("a path")]).finish().code(0);
    for node in ["a", "p", "p/c", "trusted/d"] {
        assert_eq!(of_node(&machine, node), of_host(), "{node}");
    }
    machine.exec("a", &["ip", "link", "set", "eth0", "mtu", "1400"]).finish().code(0);
    machine.down();
}
