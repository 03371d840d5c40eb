//! Others' controllers on our OpenFlow switches, in labs: os-ken, faucet, ovs-testcontroller, ovs-ofctl.

use std::time::Duration;

use netloom_kit::{Scratch, needs, workspace_root};
use netloom_tests_peers::{At, Controlled, wait_until};

/// Longest wait for what happens at once.
const SOON: Duration = Duration::from_secs(60);
const CONTROLLER: &str = ", controllers: [node:c0]";

fn file(name: &str) -> String {
    let path = workspace_root().join("tests/peers/controllers").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn os_ken_teaches_a_switch_whose_entries_outlive_it() {
    needs!("os-ken");
    let python = Controlled::environment("os-ken", "python");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let lab = Controlled::up(&scratch, CONTROLLER);
    assert!(!lab.answers(At::A, At::B, 1), "nothing passes a switch without entries");
    let python = python.to_str().expect("UTF-8");
    let learning = workspace_root().join("examples/openflow-learning.py");
    let learning = learning.to_str().expect("UTF-8");
    let controller = lab.controller(&[python, learning]);
    lab.connected(1);
    lab.reach(At::A, At::B);
    lab.reach(At::C, At::A);
    // One for all packets, and one for each direction between those that have met.
    let shown = wait_until("entries for what was learnt", SOON, || {
        let shown = lab.shown();
        (shown.entries == 5).then_some(shown)
    });
    assert!(!shown.standalone, "{shown:?}");
    drop(controller);
    lab.connected(0);
    // Nobody else can have them pass.
    lab.reach(At::A, At::B);
    assert!(!lab.answers(At::B, At::C, 1), "nobody teaches it any more");
}

#[test]
fn faucet_keeps_vlans_apart() {
    needs!("faucet");
    let faucet = Controlled::environment("faucet", "faucet");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let lab = Controlled::up(&scratch, CONTROLLER);
    let folder = faucet.parent().and_then(std::path::Path::to_str).expect("its folder");
    let (path, config) =
        (format!("PATH={folder}:/usr/bin:/bin"), format!("FAUCET_CONFIG={}", file("faucet.yaml")));
    let mut words = vec!["env", &path, &config, "FAUCET_LOG=STDOUT", "FAUCET_EVENT_SOCK="];
    words.extend(["FAUCET_EXCEPTION_LOG=STDERR", "FAUCET_CONFIG_STAT_RELOAD=0"]);
    words.extend(["FAUCET_PROMETHEUS_ADDR=127.0.0.1", "faucet"]);
    words.push("--ryu-ofp-listen-host=127.0.0.1");
    let _controller = lab.controller(&words);
    lab.connected(1);
    lab.reach(At::A, At::B);
    lab.reach(At::B, At::A);
    assert!(!lab.answers(At::A, At::C, 2), "c is in another VLAN: {:?}", lab.shown());
    lab.reach(At::A, At::B);
}

#[test]
fn ovs_testcontroller_teaches_a_switch_of_either_version() {
    needs!("ovs-testcontroller");
    for version in ["1.0", "1.3"] {
        let scratch = Scratch::new();
        let _guard = scratch.guard();
        let lab = Controlled::up(&scratch, &format!("{CONTROLLER}, versions: [{version}]"));
        let words = ["env", "OVS_RUNDIR=/tmp", "ovs-testcontroller", "ptcp:6653:127.0.0.1"];
        let _controller = lab.controller(&words);
        lab.connected(1);
        lab.reach(At::A, At::B);
        lab.reach(At::B, At::C);
        lab.reach(At::C, At::A);
        wait_until("entries for what was learnt", SOON, || (lab.shown().entries > 3).then_some(()));
    }
}

#[test]
fn ovs_ofctl_changes_and_reads_tables_that_are_obeyed_at_once() {
    needs!("ovs-ofctl");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let lab = Controlled::up(&scratch, "");
    for version in ["OpenFlow10", "OpenFlow13"] {
        lab.ofctl(version, "add-flow", &["in_port=1,actions=output:2"]);
        lab.ofctl(version, "add-flow", &["in_port=2,actions=output:1"]);
        lab.reach(At::A, At::B);
        let flows = lab.ofctl(version, "dump-flows", &[]);
        assert!(flows.contains("in_port=1 actions=output:2"), "{flows}");
        assert!(!flows.contains("n_packets=0,"), "both entries were used: {flows}");
        lab.ofctl(version, "mod-flows", &["in_port=2,actions=drop"]);
        assert!(!lab.answers(At::A, At::B, 1), "{version}: an entry says that answers are dropped");
        let ports = lab.ofctl(version, "show", &[]);
        assert!(ports.contains("1(a:eth0)") && ports.contains("3(c:eth0)"), "{ports}");
        let counts = lab.ofctl(version, "dump-ports", &[]);
        assert!(counts.contains("3 ports"), "{counts}");
        lab.ofctl(version, "del-flows", &[]);
        assert_eq!(lab.shown().entries, 0, "{version}");
    }
}

#[test]
fn ovs_ofctl_makes_groups_and_meters() {
    needs!("ovs-ofctl");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let lab = Controlled::up(&scratch, "");
    let ofctl = |verb: &str, words: &[&str]| lab.ofctl("OpenFlow13", verb, words);
    ofctl("add-group", &["group_id=7,type=all,bucket=output:2,bucket=output:3"]);
    ofctl("add-meter", &["meter=3,kbps,stats,band=type=drop,rate=100000"]);
    ofctl("add-flow", &["in_port=1,actions=meter:3,group:7"]);
    ofctl("add-flow", &["actions=output:1"]);
    lab.reach(At::A, At::B);
    lab.reach(At::A, At::C);
    let groups = ofctl("dump-groups", &[]);
    assert!(groups.contains("group_id=7,type=all,bucket=actions=output:2"), "{groups}");
    let counts = ofctl("dump-group-stats", &[]);
    assert!(counts.contains("group_id=7") && !counts.contains("packet_count=0,"), "{counts}");
    let meters = ofctl("dump-meters", &[]);
    assert!(meters.contains("meter=3 kbps") && meters.contains("rate=100000"), "{meters}");
    let counts = ofctl("meter-stats", &[]);
    assert!(counts.contains("meter:3 flow_count:1"), "{counts}");
    ofctl("mod-group", &["group_id=7,type=all,bucket=output:3"]);
    assert!(!lab.answers(At::A, At::B, 1), "the group no longer has b's port");
    lab.reach(At::A, At::C);
    // With a group its entries go.
    ofctl("del-groups", &["group_id=7"]);
    ofctl("del-meters", &[]);
    let shown = lab.shown();
    assert_eq!((shown.entries, shown.groups, shown.meters), (1, 0, 0), "{shown:?}");
}

#[test]
fn ovs_ofctl_monitors_packets_that_are_for_controllers() {
    needs!("ovs-ofctl");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let lab = Controlled::up(&scratch, "");
    lab.ofctl("OpenFlow13", "add-flow", &["actions=CONTROLLER:65535,NORMAL"]);
    let mut monitor = lab.monitor();
    wait_until("the monitor is connected", SOON, || {
        let shown = lab.shown();
        (!shown.connections.is_empty()).then_some(())
    });
    wait_until("a packet is shown", SOON, || {
        // Packets also go their way.
        lab.reach(At::A, At::B);
        assert!(monitor.is_alive(), "{}", lab.monitored());
        lab.monitored().contains("OFPT_PACKET_IN").then_some(())
    });
}
