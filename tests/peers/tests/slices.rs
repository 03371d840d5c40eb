//! Controllers of others in slices of one switch: os-ken and faucet on ours, as examples/ has them, and Open vSwitch's
//! userspace switch behind a slicer that runs for itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_kit::{Scratch, is_root, needs, wait_until, workspace_root};
use netloom_tests_peers::{Controlled, Running, skip};
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
    let installed = |name, program| {
        Controlled::environment(name, program).is_some_and(|path| Path::exists(&path))
    };
    if !installed("os-ken", "python") {
        skip!("peer:os-ken: not installed");
    }
    if !installed("faucet", "faucet") {
        skip!("peer:faucet: not installed");
    }
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

#[test]
fn open_vswitch_is_sliced_by_a_slicer_that_runs_for_itself() {
    needs!("ovs-vswitchd", "ovs-ofctl", "nsenter", "setpriv");
    if !is_root() {
        skip!("root-only: Open vSwitch's userspace switch makes a tap");
    }
    let scratch = Scratch::new();
    let _guard = scratch.guard();
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
    let mut ovs = Running(command.stderr(Stdio::null()).spawn().expect("start Open vSwitch"));
    wait_until("Open vSwitch is ready", PATIENCE, || {
        assert!(ovs.is_alive(), "it has ended");
        folder.join("ready").exists().then_some(())
    });
    let policy = scratch.file(
        "campus.yaml",
        "switches: {core: {datapath: 0x1, ports: {one: 1, two: 2}}}\nslices:\n  \
         red: {switches: {core: {ports: [one, two]}}}\n  blue: {switches: {core: {ports: [3, 4]}}}\n",
    );
    let mut command = Command::new(netloom_kit::Binary::find().path());
    command.args(["slice", "run"]).arg(&policy).arg("--switch");
    command.arg(format!("unix:{}", folder.join("br0.mgmt").display()));
    command.env("NETLOOM_RUNTIME_DIR", scratch.runtime_dir()).stdin(Stdio::null());
    let mut slicer = Running(command.spawn().expect("start the slicer"));
    let sockets = scratch.runtime_dir().join(".slices/campus");
    wait_until("its virtual switches are there", PATIENCE, || {
        assert!(slicer.is_alive(), "the slicer has ended");
        sockets.join("blue.core").exists().then_some(())
    });
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
    let ping = |from: &str, to: &str| {
        let words = ["exec", from, "--", "ping", "-c", "1", "-W", "1", to];
        scratch.netloom(words).finish().status.code() == Some(0)
    };
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
    let shown = scratch
        .netloom(["slice".as_ref(), "show".as_ref(), policy.as_os_str(), "--json".as_ref()])
        .finish()
        .code(0)
        .json();
    assert_eq!(shown["switches"][0]["version"], "OpenFlow 1.3", "{shown}");
    assert_eq!(shown["slices"][0]["switches"][0]["refused"], 1, "{shown}");
    drop(slicer);
    assert!(ping("h1", "10.99.9.2"), "the switch forwards on without its slicer");
}
