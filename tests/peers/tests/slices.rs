//! Controllers of others in slices of one switch: os-ken and faucet on ours, as examples/ has them, and Open vSwitch's
//! userspace switch behind a slicer that runs for itself; LLDP and TLS through a slicer.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_kit::{Scratch, needs, root_only, wait_until, workspace_root};
use netloom_tests_peers::{Controlled, Running};
use serde_json::Value;

/// Longest wait for a controller: on a busy machine Python takes its time.
const PATIENCE: Duration = Duration::from_secs(180);

fn answers(scratch: &Scratch, from: &str, to: &str) -> bool {
    let words = ["exec", from, "--", "ping", "-4", "-c", "1", "-W", "1", to];
    scratch.netloom(words).finish().status.code() == Some(0)
}

fn reach(scratch: &Scratch, from: &str, to: &str) {
    wait_until(&format!("{from} reaches {to}"), PATIENCE, || {
        answers(scratch, from, to).then_some(())
    });
}

/// A slice's part of the lab's only switch.
fn slice(scratch: &Scratch, name: &str) -> Value {
    let shown = scratch.netloom(["slice", "show", "--json"]).finish().code(0).json();
    let all = shown["slices"].as_array().expect("slices").clone();
    all.into_iter().find(|slice| slice["name"] == name).expect("the slice")["switches"][0].clone()
}

fn connected(scratch: &Scratch, name: &str) {
    wait_until(&format!("{name} is controlled"), PATIENCE, || {
        let slice = slice(scratch, name);
        let connected = slice["controllers"][0]["connected"] == Value::Bool(true);
        (connected && slice["rules"].as_u64() > Some(0)).then_some(())
    });
}

fn flows(scratch: &Scratch, switch: &str) -> String {
    scratch.netloom(["flow", "dump", switch, "--plain"]).finish().code(0).text()
}

#[test]
fn os_ken_and_faucet_share_a_switch_and_see_nothing_of_each_other() {
    needs!("os-ken", "faucet");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let file = workspace_root().join("examples/slices.yaml");
    scratch.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0);
    for name in ["red", "blue"] {
        connected(&scratch, name);
    }
    for (from, to) in [("h1", "h2"), ("h3", "h4"), ("h2", "h1"), ("h4", "h3")] {
        reach(&scratch, from, to);
    }
    for (from, to) in [("h1", "h3"), ("h4", "h2"), ("h5", "h1")] {
        assert!(!answers(&scratch, from, to), "{from} reaches {to}");
    }
    let ports = |name: &str| {
        let ports = slice(&scratch, name)["ports"].as_array().expect("ports").clone();
        ports.iter().map(|port| (port["number"].clone(), port["real"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(ports("red"), [(1.into(), 1.into()), (2.into(), 2.into())]);
    assert_eq!(ports("blue"), [(1.into(), 3.into()), (2.into(), 4.into())]);
    // Each has its own entries: those of faucet push VLAN tags, those of os-ken do not.
    let (red, blue) = (flows(&scratch, "s1@red"), flows(&scratch, "s1@blue"));
    assert!(blue.contains("push_vlan") && !red.contains("push_vlan"), "{red}{blue}");
    assert!(red.contains("actions=CONTROLLER"), "{red}");
    for one in [&red, &blue] {
        assert!(!one.contains("in_port=3") && !one.contains("output:4"), "{one}");
    }
    // The switch itself has all of them, narrowed to the slices' ports.
    let all = flows(&scratch, "s1");
    assert!(all.contains("in_port=1") && all.contains("in_port=3"), "{all}");
    scratch.netloom(["slice", "stats"]).finish().code(0);
    the_slicer_is_killed(&scratch);
    scratch.netloom(["down"]).finish().code(0);
}

/// The lab starts it again, and the controllers theirs.
fn the_slicer_is_killed(scratch: &Scratch) {
    let pid = || {
        let shown = scratch.netloom(["slice", "show", "--json"]).finish();
        (shown.status.code() == Some(0)).then(|| shown.json()["pid"].as_u64()).flatten()
    };
    let old = pid().expect("its process");
    let killed = Command::new("kill").args(["-KILL", &old.to_string()]).status().expect("kill");
    assert!(killed.success());
    wait_until("another slicer", PATIENCE, || pid().filter(|new| *new != old));
    for name in ["red", "blue"] {
        connected(scratch, name);
    }
    reach(scratch, "h1", "h2");
    reach(scratch, "h3", "h4");
    assert!(!answers(scratch, "h1", "h3"));
}

/// Open vSwitch in the network of a node, with these interfaces as its ports. Its arguments are its folder and the ports.
const OVS: &str = r#"
set -eu
folder=$1
shift
export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
socket="unix:$folder/db.sock"
ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
setpriv --pdeathsig TERM ovsdb-server "$folder/conf.db" --remote="p$socket" &
until [ -S "$folder/db.sock" ]; do kill -0 $!; sleep 0.02; done
ovs-vsctl --no-wait --db="$socket" init
setpriv --pdeathsig TERM ovs-vswitchd "$socket" --disable-system &
ovs-vsctl --timeout=60 --db="$socket" add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure \
    protocols=OpenFlow10,OpenFlow13 other-config:datapath-id=0000000000000001
number=1
for port in "$@"; do
ovs-vsctl --timeout=60 --db="$socket" add-port br0 "$port" -- set interface "$port" ofport_request=$number
number=$((number + 1))
done
touch "$folder/ready"
exec sleep infinity
"#;

/// Open vSwitch in the node `o` of a lab, with four stations at its ports.
struct Vswitch<'a> {
    scratch: &'a Scratch,
    /// The init of its node.
    pid: String,
    folder: PathBuf,
    _process: Running,
}

impl<'a> Vswitch<'a> {
    fn up(scratch: &'a Scratch) -> Vswitch<'a> {
        let node = |n| format!("  h{n}: {{setup: [[ip, addr, add, 10.99.9.{n}/24, dev, eth0]]}}\n");
        let link = |n| format!("  - {{ends: [h{n}, o], addresses: none}}\n");
        let (nodes, links) =
            ((1..=4).map(node).collect::<String>(), (1..=4).map(link).collect::<String>());
        let text = format!("name: ovs\nnodes:\n{nodes}  o: {{}}\nlinks:\n{links}");
        let file = scratch.file("ovs.yaml", text);
        scratch.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0);
        let status = scratch.netloom(["status", "--json"]).finish().code(0).json();
        let nodes = status["nodes"].as_array().expect("nodes");
        let node = nodes.iter().find(|node| node["name"] == "o").expect("the node");
        let pid = node["pid"].as_u64().expect("its init").to_string();
        let folder = scratch.path().join("ovs");
        std::fs::create_dir(&folder).expect("make a folder");
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-n", "sh", "-c", OVS, "sh"]).arg(&folder);
        command.args(["eth0", "eth1", "eth2", "eth3"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut process =
            Running(command.stderr(Stdio::null()).spawn().expect("start Open vSwitch"));
        wait_until("Open vSwitch is ready", PATIENCE, || {
            assert!(process.is_alive(), "it has ended");
            folder.join("ready").exists().then_some(())
        });
        Vswitch { scratch, pid, folder, _process: process }
    }

    /// A program in the network of its node.
    fn beside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.pid, "-n"]).arg(program).stdin(Stdio::null());
        command.env("NETLOOM_RUNTIME_DIR", self.scratch.runtime_dir());
        command
    }

    /// Tells it something by ovs-vsctl.
    fn set(&self, words: &[&str]) {
        let socket = format!("--db=unix:{}", self.folder.join("db.sock").display());
        netloom_kit::Run::new("ovs-vsctl")
            .args(["--timeout=60", &socket])
            .args(words)
            .finish()
            .code(0);
    }

    fn ping(&self, from: &str, to: &str) -> bool {
        let words = ["exec", from, "--", "ping", "-c", "1", "-w", "5", to];
        self.scratch.netloom(words).finish().status.code() == Some(0)
    }
}

/// A slicer that runs with this file beside Open vSwitch, once its virtual switches are there.
fn slicer(vswitch: &Vswitch<'_>, file: &Path, words: &[&str]) -> Running {
    let binary = netloom_kit::Binary::find();
    let mut command = vswitch.beside(binary.path());
    command.args(["slice", "run"]).arg(file).args(words);
    let mut slicer = Running(command.spawn().expect("start the slicer"));
    let stem = file.file_stem().expect("a name");
    let sockets = vswitch.scratch.runtime_dir().join(".slices").join(stem);
    wait_until("its virtual switches are there", PATIENCE, || {
        assert!(slicer.is_alive(), "the slicer has ended");
        let shown = vswitch.scratch.netloom([
            "slice".as_ref(),
            "show".as_ref(),
            file.as_os_str(),
            "--json".as_ref(),
        ]);
        let shown = shown.finish();
        let there = shown.status.code() == Some(0)
            && shown.json()["switches"][0]["connected"] == Value::Bool(true);
        (there && sockets.join("blue.core").exists()).then_some(())
    });
    slicer
}

fn shown(scratch: &Scratch, file: &Path) -> Value {
    let words = ["slice".as_ref(), "show".as_ref(), file.as_os_str(), "--json".as_ref()];
    scratch.netloom(words).finish().code(0).json()
}

#[test]
fn open_vswitch_is_sliced_by_a_slicer_that_runs_for_itself() {
    needs!("ovs-vswitchd", "ovs-ofctl", "nsenter", "setpriv");
    root_only!("Open vSwitch's userspace switch makes a tap");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let vswitch = Vswitch::up(&scratch);
    let policy = scratch.file(
        "campus.yaml",
        "switches: {core: {datapath: 0x1, ports: {one: 1, two: 2}}}\nslices:\n  \
         red: {switches: {core: {ports: [one, two]}}}\n  blue: {switches: {core: {ports: [3, 4]}}}\n",
    );
    let target = format!("unix:{}", vswitch.folder.join("br0.mgmt").display());
    let running = slicer(&vswitch, &policy, &["--switch", &target]);
    let sockets = scratch.runtime_dir().join(".slices/campus");
    let ofctl = |slice: &str, verb: &str, words: &[&str]| {
        let socket = format!("unix:{}", sockets.join(format!("{slice}.core")).display());
        netloom_kit::Run::new("ovs-ofctl")
            .args(["-O", "OpenFlow13", verb, &socket])
            .args(words)
            .finish()
    };
    for slice in ["red", "blue"] {
        ofctl(slice, "add-flow", &["in_port=1,actions=output:2"]).code(0);
        ofctl(slice, "add-flow", &["in_port=2,actions=output:1"]).code(0);
    }
    let ping = |from: &str, to: &str| vswitch.ping(from, to);
    wait_until("red's stations reach each other", PATIENCE, || {
        ping("h1", "10.99.9.2").then_some(())
    });
    assert!(ping("h3", "10.99.9.4"), "blue's do");
    assert!(!ping("h1", "10.99.9.3"), "red's reach blue's");
    let flows = ofctl("red", "dump-flows", &[]).code(0).text();
    assert!(flows.contains("in_port=1") && !flows.contains("in_port=3"), "{flows}");
    // A port of nobody's, or another's, is none of its ports.
    let refused = ofctl("red", "add-flow", &["in_port=1,actions=output:3"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("OFPBAC_BAD_OUT_PORT"), "{said}");
    let shown = shown(&scratch, &policy);
    assert_eq!(shown["switches"][0]["version"], "OpenFlow 1.3", "{shown}");
    assert_eq!(shown["slices"][0]["switches"][0]["refused"], 1, "{shown}");
    drop(running);
    assert!(ping("h1", "10.99.9.2"), "the switch forwards on without its slicer");
}

/// The files of the tests of TLS.
const SECRETS: [(&str, &[u8]); 5] = [
    ("authority.pem", include_bytes!("../../../parts/flow/tests/tls/authority.pem")),
    ("controller.pem", include_bytes!("../../../parts/flow/tests/tls/controller.pem")),
    ("controller-key.pem", include_bytes!("../../../parts/flow/tests/tls/controller-key.pem")),
    ("switch.pem", include_bytes!("../../../parts/flow/tests/tls/switch.pem")),
    ("switch-key.pem", include_bytes!("../../../parts/flow/tests/tls/switch-key.pem")),
];

/// One of them, where it is its owner's alone.
fn secret(scratch: &Scratch, name: &str) -> String {
    let (_, bytes) = SECRETS.iter().find(|(known, _)| *known == name).expect("a file");
    let path = scratch.path().join(name);
    std::fs::write(&path, bytes).expect("write it");
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("make it private");
    path.to_str().expect("UTF-8").to_owned()
}

/// Streams in both slices, which go on while `disturb` does something; none of their packets is lost.
fn none_lost(scratch: &Scratch, disturb: impl FnOnce()) {
    let stream = |from: &str, to: &str| {
        let ping = ["ping", "-q", "-i", "0.002", "-c", "2000", "-W", "5", to];
        let run = scratch.netloom(["exec", from, "--"].iter().chain(&ping));
        run.bound(PATIENCE).finish().code(0).text()
    };
    let reports = std::thread::scope(|scope| {
        let streams =
            [scope.spawn(|| stream("h1", "10.99.9.2")), scope.spawn(|| stream("h3", "10.99.9.4"))];
        disturb();
        streams.map(|stream| stream.join().expect("the stream ends"))
    });
    for report in reports {
        assert!(report.contains("2000 packets transmitted, 2000 received"), "{report}");
    }
}

/// Controllers of Open vSwitch's own, each in a slice of an Open vSwitch that is reached by TLS; the slicer is killed.
#[test]
fn two_controllers_share_an_open_vswitch_by_tls_and_lose_nothing_with_the_slicer() {
    needs!("ovs-vswitchd", "ovs-testcontroller", "nsenter", "setpriv");
    root_only!("Open vSwitch's userspace switch makes a tap");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let vswitch = Vswitch::up(&scratch);
    let policy = scratch.file(
        "shared.yaml",
        "switches: {core: {datapath: 0x1}}\nslices:\n  \
         red: {controllers: tcp:127.0.0.1:7001, switches: {core: {ports: [1, 2]}}}\n  \
         blue: {controllers: tcp:127.0.0.1:7002, switches: {core: {ports: [3, 4]}}}\n",
    );
    let _controllers = ["7001", "7002"].map(|port| {
        let mut command = vswitch.beside("ovs-testcontroller");
        command.env("OVS_RUNDIR", scratch.path()).arg(format!("ptcp:{port}:127.0.0.1"));
        Running(command.stderr(Stdio::null()).spawn().expect("start a controller"))
    });
    let [authority, certificate, key] = ["authority.pem", "controller.pem", "controller-key.pem"]
        .map(|name| secret(&scratch, name));
    let files = ["--authorities", &authority, "--certificate", &certificate, "--key", &key];
    let words = [&["--switch", "ptls:6653:127.0.0.1"], &files[..]].concat();
    vswitch.set(&[
        "set-ssl",
        &secret(&scratch, "switch-key.pem"),
        &secret(&scratch, "switch.pem"),
        &authority,
    ]);
    vswitch.set(&["set-controller", "br0", "ssl:127.0.0.1:6653"]);
    vswitch.set(&["set", "controller", "br0", "max_backoff=1000"]);
    let running = slicer(&vswitch, &policy, &words);
    for (from, to) in [("h1", "10.99.9.2"), ("h3", "10.99.9.4")] {
        wait_until("a controller teaches its slice", PATIENCE, || {
            vswitch.ping(from, to).then_some(())
        });
    }
    assert!(!vswitch.ping("h1", "10.99.9.3") && !vswitch.ping("h4", "10.99.9.2"));
    // The questions for another's station came to its own controller alone, and left by its ports alone.
    let before = shown(&scratch, &policy);
    for slice in [0, 1] {
        let slice = &before["slices"][slice]["switches"][0];
        assert!(slice["packet_ins"].as_u64() > Some(0) && slice["refused"] == 0, "{slice}");
        assert!(slice["rules"].as_u64() > Some(1), "{slice}");
    }
    none_lost(&scratch, || {
        let mut running = running;
        for _ in 0..2 {
            drop(running);
            running = slicer(&vswitch, &policy, &words);
            let resumed = shown(&scratch, &policy)["switches"][0]["resumed"].clone();
            assert!(resumed["rules"].as_u64() > Some(3), "{resumed}");
            assert_eq!(
                (&resumed["made"], &resumed["removed"]),
                (&0.into(), &0.into()),
                "{resumed}"
            );
        }
    });
    assert!(!vswitch.ping("h1", "10.99.9.3"));
}

/// Three switches in a row: one link between them is shared, by VLAN, the other is red's alone. Red's controller is reached
/// by TLS.
const LINKS: &str = "
name: links
nodes: {h1: {}, h2: {}, c2: {}}
switches:
  s1: {kind: openflow, datapath: 0x1, versions: [1.3]}
  s2: {kind: openflow, datapath: 0x2, versions: [1.3]}
  s3: {kind: openflow, datapath: 0x3, versions: [1.3]}
links:
  - [h1, s1]
  - {ends: [s1, s2], name: shared}
  - {ends: [s2, s3], name: own}
  - [h2, s3]
slices:
  red:
    controllers: 'tls:127.0.0.1:PORT'
    tls: {authorities: AUTHORITY, certificate: CERTIFICATE, key: KEY, name: controller}
    switches:
      s1: [{ports: h1}, {ports: shared, vlan: 10}]
      s2: [{ports: shared, vlan: 10}, {ports: own}]
      s3: {ports: [own, h2]}
  blue:
    controllers: 'node:c2'
    switches: {s1: {ports: shared, vlan: 20}, s2: {ports: shared, vlan: 20}}
";

/// Links as a slice's controller says them, in both directions; the slice's number is in the upper 16 bits of its switches'.
fn both_ways(slice: u64, links: &[[(u64, u32); 2]]) -> BTreeSet<String> {
    let end = |(switch, port): (u64, u32)| format!("{:x}.{port}", slice << 48 | switch);
    let both = |[one, other]: &[(u64, u32); 2]| {
        [(*one, *other), (*other, *one)].map(|(from, to)| format!("{} {}", end(from), end(to)))
    };
    links.iter().flat_map(both).collect()
}

#[test]
fn os_ken_finds_the_links_of_its_slice_alone_and_speaks_tls() {
    needs!("os-ken");
    let python = Controlled::environment("os-ken", "python");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = free.local_addr().expect("its address").port().to_string();
    drop(free);
    let secret = |name: &str| secret(&scratch, name);
    let text = LINKS.replace("PORT", &port).replace("AUTHORITY", &secret("authority.pem"));
    let text = text.replace("CERTIFICATE", &secret("switch.pem"));
    let file = scratch.file("links.yaml", text.replace("KEY", &secret("switch-key.pem")));
    scratch.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0);
    let script = workspace_root().join("tests/peers/controllers/topology.py");
    let said = |slice: &str| scratch.path().join(format!("{slice}.links"));
    let start = |mut command: Command, slice: &str| {
        let out = File::create(said(slice)).expect("a file");
        command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
        Running(command.spawn().expect("start a controller"))
    };
    let mut secure = Command::new(&python);
    secure.arg(&script).args(["--ofp-listen-host", "127.0.0.1", "--ofp-ssl-listen-port", &port]);
    secure.args([
        "--ctl-privkey",
        &secret("controller-key.pem"),
        "--ctl-cert",
        &secret("controller.pem"),
    ]);
    secure.args(["--ca-certs", &secret("authority.pem")]);
    let mut inside = Command::new(netloom_kit::Binary::find().path());
    inside.args(["exec", "c2", "--"]).arg(&python).arg(&script);
    inside
        .args(["--ofp-listen-host", "127.0.0.1"])
        .env("NETLOOM_RUNTIME_DIR", scratch.runtime_dir());
    let _controllers = [start(secure, "red"), start(inside, "blue")];
    let links = |slice: &str| -> BTreeSet<String> {
        std::fs::read_to_string(said(slice))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let red = both_ways(1, &[[(1, 2), (2, 1)], [(2, 2), (3, 1)]]);
    let blue = both_ways(2, &[[(1, 1), (2, 1)]]);
    for (slice, wanted) in [("red", &red), ("blue", &blue)] {
        wait_until(&format!("{slice}'s links"), PATIENCE, || {
            links(slice).is_superset(wanted).then_some(())
        });
    }
    // Neither has found another's, nor one that is not there.
    assert_eq!((links("red"), links("blue")), (red, blue));
    scratch.netloom(["down"]).finish().code(0);
}
