//! User namespaces of nodes in labs of root: which nodes have their own, and which do not.

use std::path::Path;

use netloom_kit::Binary;
use netloom_tests_e2e::{Machine, Run, lacks, machine, needs, root_only};

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
        lacks!("userns", "doctor says that nodes get none");
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

/// Settings of several kinds: of the network, of all interfaces, of one, and those that the kernel checks
/// against users and groups or against loaded modules.
const SETTINGS: [(&str, &str); 9] = [
    ("net.ipv4.tcp_ecn", "1"),
    ("net.ipv4.ping_group_range", "0\t100"),
    ("net.ipv4.ip_local_port_range", "20000\t30001"),
    ("net.ipv4.tcp_congestion_control", "reno"),
    ("net.ipv4.conf.all.arp_ignore", "2"),
    ("net.ipv4.neigh.eth0.ucast_solicit", "5"),
    ("net.ipv6.neigh.eth0.retrans_time_ms", "700"),
    ("net.ipv6.conf.eth0.hop_limit", "9"),
    ("net.unix.max_dgram_qlen", "77"),
];

#[test]
fn an_ordinary_node_gets_the_settings_that_a_privileged_one_gets() {
    root_only!("an ordinary user's lab has one user namespace for all nodes");
    let machine = machine!();
    let list: Vec<String> =
        SETTINGS.iter().map(|(key, value)| format!("{key}: \"{value}\"")).collect();
    let settings = list.join(", ");
    machine.up(&format!(
        "name: set\nnodes:\n  a: {{sysctls: &set {{{settings}}}}}\n  b: {{privileged: true, sysctls: *set}}\n\
         links: [[a, b]]\n"
    ));
    for node in ["a", "b"] {
        for (key, value) in SETTINGS {
            let path = format!("/proc/sys/{}", key.replace('.', "/"));
            assert_eq!(machine.exec(node, &["cat", &path]).ok().trim(), value, "{node} {key}");
        }
    }
    machine.down();
}

#[test]
fn a_setting_that_the_kernel_hides_is_named_with_what_helps() {
    root_only!("in an ordinary user's lab no node has it");
    let machine = machine!();
    if !told(machine.netloom(["doctor", "--json"])) {
        lacks!("userns", "doctor says that nodes get none");
    }
    let key = "net.core.xfrm_larval_drop";
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    let lab = |privileged: bool| {
        let node = format!("{{privileged: {privileged}, sysctls: {{{key}: 0}}}}");
        format!("name: hidden\nnodes: {{x: {node}}}\n")
    };
    let file = machine.file(&lab(false));
    let refused = machine.netloom(["up", Path::to_str(&file).expect("a path")]).finish().code(1);
    refused.says("node \"x\"").says(key).says("`privileged: true`");
    // A kernel without IPsec has it nowhere.
    if Path::new(&path).exists() {
        machine.up(&lab(true));
        assert_eq!(machine.exec("x", &["cat", &path]).ok(), "0\n");
        machine.down();
    }
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
    needs!("python3");
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
