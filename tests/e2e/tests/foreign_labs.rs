//! Look-alikes of labs that others have published: each comes up and reaches its whole matrix of pings.
//!
//! That nothing in their files is passed over in silence is tested in `core/foreign`, over the same files.
use std::time::Duration;

use netloom_tests_e2e::{Machine, machine, needs, wait_until, workspace_root};

/// How long routing daemons may take to find each other.
const BOUND: Duration = Duration::from_secs(180);

/// Nodes, each with an address that all others reach.
type Matrix<'a> = &'a [(&'a str, &'a str)];

/// Brings up a lab with the host's programs; returns what is told of it.
fn up(machine: &Machine, path: &str, flags: &[&str]) -> String {
    let path = workspace_root().join("tests/e2e/foreign/labs").join(path);
    let words = ["up", "--host-programs", "--ignore-limits"];
    let words = words.iter().chain(flags).map(AsRef::as_ref).chain([path.as_os_str()]);
    machine.netloom(words).bound(BOUND).finish().code(0).errors()
}

fn reaches(machine: &Machine, node: &str, address: &str) {
    wait_until(&format!("{node} reaches {address}"), BOUND, || {
        let ping = machine.exec(node, &["ping", "-c", "1", "-W", "1", address]).finish();
        ping.status.success().then_some(())
    });
}

fn all_reach(machine: &Machine, matrix: Matrix<'_>) {
    for (node, _) in matrix {
        matrix.iter().for_each(|(_, address)| reaches(machine, node, address));
    }
}

/// A lab that comes up, reaches its matrix and goes.
fn whole(path: &str, matrix: Matrix<'_>) {
    let machine = machine!();
    up(&machine, path, &[]);
    all_reach(&machine, matrix);
    machine.down();
}

#[test]
fn plain_nodes_have_their_properties_and_links() {
    let machine = machine!();
    let told = up(&machine, "linux-nodes/linux-nodes.clab.yml", &[]);
    for line in [
        "topology.nodes.l3.network-mode: left out: a node's network is its own",
        "topology.links[3].type and 4 more: left out: netloom makes no interfaces on the host",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    for address in ["10.4.1.2", "10.4.2.2", "10.4.3.2", "172.20.20.100", "3fff:172:20:20::100"] {
        reaches(&machine, "l1", address);
    }
    for address in ["10.4.1.1", "10.4.2.1", "10.4.3.1", "172.20.20.99", "3fff:172:20:20::99"] {
        reaches(&machine, "l2", address);
    }
    let of = |node: &str, file: &str| machine.exec(node, &["cat", file]).ok().trim().to_owned();
    assert_eq!(of("l1", "/sys/class/net/eth1/mtu"), "2000");
    assert_eq!(of("l2", "/sys/class/net/eth3/address"), "02:00:00:00:00:01");
    assert_eq!(of("l2", "/sys/class/net/eth5/address"), "02:00:00:00:00:05");
    assert_eq!(of("l1", "/test.json"), "{\"a\": \"note\"}");
    wait_until("the command has written its variable", BOUND, || {
        (machine.exec("l1", &["cat", "/tmp/var"]).finish().text() == "MYVAR is SET\n").then_some(())
    });
    machine.down();
}

#[test]
fn nodes_that_wait_for_stages_are_up_together() {
    let machine = machine!();
    let told = up(&machine, "stages/stages.clab.yml", &[]);
    let wait = "changed: no command runs before the whole network is up";
    assert!(told.contains(wait), "{told}");
    all_reach(&machine, &[("node1", "10.5.1.1"), ("node2", "10.5.1.2")]);
    all_reach(&machine, &[("node1", "10.5.2.1"), ("node4", "10.5.2.4")]);
    all_reach(&machine, &[("node2", "10.5.3.2"), ("node4", "10.5.3.4")]);
    machine.down();
}

#[test]
fn a_choice_of_nodes_comes_up_alone() {
    let machine = machine!();
    let filter = ["--strict", "--mgmt", "closed", "--node-filter", "one,two,four"];
    // Images are left out with the host's programs, which --strict refuses; what is not chosen is not a loss.
    let path = workspace_root().join("tests/e2e/foreign/labs/filter/filter.clab.yml");
    let words = ["up", "--host-programs"].iter().chain(&filter).map(AsRef::as_ref);
    let refused = machine.netloom(words.chain([path.as_os_str()])).finish().code(2).errors();
    assert!(refused.contains(": 1 item is left out of the lab"), "{refused}");
    up(&machine, "filter/filter.clab.yml", &["--node-filter", "one,two,four"]);
    all_reach(&machine, &[("one", "10.1.2.1"), ("two", "10.1.2.2")]);
    all_reach(&machine, &[("one", "10.1.4.1"), ("four", "10.1.4.4")]);
    let status = machine.status();
    let names: Vec<&str> =
        status["nodes"].as_array().unwrap().iter().filter_map(|n| n["name"].as_str()).collect();
    assert_eq!(names, ["one", "two", "four"]);
    let interfaces = machine.exec("one", &["ls", "/sys/class/net"]).ok();
    assert_eq!(interfaces.split_whitespace().collect::<Vec<_>>(), ["eth0", "eth1", "eth3", "lo"]);
    // A lab file of netloom's own has no such choice, and says so.
    let own = machine.file("name: own\nnodes: {a: {}, b: {}}\n");
    let words = ["up", "--node-filter", "a"].iter().map(AsRef::as_ref).chain([own.as_os_str()]);
    let refused = machine.netloom(words).finish().code(2).errors();
    assert!(refused.contains("--node-filter chooses nodes of a lab of"), "{refused}");
    machine.down();
}

#[test]
fn routers_of_kind_frr_speak_ospf() {
    needs!("frr");
    let matrix = [("PC1", "192.168.21.2"), ("PC2", "192.168.22.2"), ("PC3", "192.168.23.2")];
    whole("frr01/frr01.clab.yml", &matrix);
}

#[test]
fn routers_speak_isis_by_wires_and_a_segment() {
    needs!("frr");
    let machine = machine!();
    up(&machine, "isis/isis.clab.yml", &[]);
    let matrix: Vec<(String, String)> =
        (1..6).map(|n| (format!("r{n}"), format!("10.20.30.{n}"))).collect();
    let matrix: Vec<(&str, &str)> = matrix.iter().map(|(n, a)| (n.as_str(), a.as_str())).collect();
    all_reach(&machine, &matrix);
    reaches(&machine, "watcher", "172.20.20.11");
    let routes = machine.exec("r1", &["ip", "-4", "route", "show", "proto", "isis"]).ok();
    assert!(routes.contains("10.20.30.5"), "{routes}");
    machine.down();
}

#[test]
fn routers_speak_rip_around_a_ring() {
    needs!("frr");
    let hosts: Vec<(String, String)> =
        (1..6).map(|n| (format!("h{n}"), format!("192.168.7{n}.10"))).collect();
    let hosts: Vec<(&str, &str)> = hosts.iter().map(|(n, a)| (n.as_str(), a.as_str())).collect();
    whole("rip/rip.clab.yml", &hosts);
}

#[test]
fn nodes_have_a_tunnel_between_them() {
    needs!("vxlan");
    let machine = machine!();
    let told = up(&machine, "vxlan/vxlan.clab.yml", &[]);
    let out = "left out: it leads out of the lab by the host's network";
    assert!(told.contains(out), "{told}");
    all_reach(&machine, &[("t1", "10.0.0.1"), ("t2", "10.0.0.2")]);
    // Frames of the inner network are in the outer one's.
    let seen = machine.exec("under", &["cat", "/proc/net/snmp"]).ok();
    let forwarded = seen.lines().filter(|line| line.starts_with("Ip:")).nth(1).unwrap();
    let forwarded: u64 = forwarded.split_whitespace().nth(6).unwrap().parse().unwrap();
    assert!(forwarded >= 4, "{seen}");
    machine.down();
}

#[test]
fn customers_reach_each_other_by_segments() {
    needs!("seg6");
    let machine = machine!();
    up(&machine, "srv6/srv6.clab.yml", &[]);
    all_reach(&machine, &[("ce1", "192.168.101.2"), ("ce2", "192.168.102.2")]);
    // The provider's core knows nothing of the customers' networks.
    let routes = machine.exec("core", &["ip", "-4", "route", "show", "192.168.102.0/24"]).ok();
    assert_eq!(routes, "");
    machine.down();
}

#[test]
fn two_computers_and_three_networks_of_kathara_reach_each_other() {
    whole("kathara-pair", &[("pc1", "10.0.0.1"), ("pc2", "10.0.0.2")]);
    whole("kathara-arp", &[("pc1", "195.11.14.5"), ("pc2", "200.1.1.7"), ("pc3", "200.1.1.3")]);
}

#[test]
fn computers_of_kathara_are_told_their_prefixes() {
    needs!("radvd");
    let machine = machine!();
    up(&machine, "kathara-ipv6", &[]);
    let matrix = [("pc1", "2001:0:0:1:200:ff:fe00:a01"), ("pc2", "2001:0:0:2:200:ff:fe00:a02")];
    all_reach(&machine, &matrix);
    machine.down();
}

#[test]
fn routers_of_kathara_speak_rip_ospf_and_bgp() {
    needs!("frr");
    whole(
        "kathara-rip",
        &[("r1", "100.1.1.1"), ("r2", "100.1.0.9"), ("r3", "100.1.0.13"), ("r4", "100.1.4.1")],
    );
    whole(
        "kathara-areas",
        &[("bb1", "100.0.0.1"), ("bb2", "110.0.0.1"), ("r1", "200.0.0.1"), ("r2", "210.0.0.1")],
    );
    let machine = machine!();
    up(&machine, "kathara-prefixes", &[]);
    let routes =
        |node: &str| machine.exec(node, &["ip", "-4", "route", "show", "proto", "bgp"]).ok();
    wait_until("both tell their networks", BOUND, || {
        let both = [("router1", "200.1.1.0/24"), ("router2", "195.11.14.0/24")];
        both.iter().all(|(node, net)| routes(node).contains(net)).then_some(())
    });
    assert!(!routes("router1").contains("200.1.2.0"), "{}", routes("router1"));
    machine.down();
}

/// The round-trip times of pings, in ms.
fn times(said: &str) -> Vec<f64> {
    let time = |line: &str| line.split("time=").nth(1)?.split(' ').next()?.parse().ok();
    said.lines().filter_map(time).collect()
}

#[test]
fn traffic_control_of_kathara_becomes_impairments() {
    for (lab, said) in [
        ("kathara-tc-delay", "delay 40ms"),
        ("kathara-tc-jitter", "delay 40ms, jitter 5ms uniform"),
        ("kathara-tc-loss", "loss 30%"),
        ("kathara-tc-rate", "rate 256kbit"),
    ] {
        let machine = machine!();
        let told = up(&machine, lab, &[]);
        assert!(told.contains("changed: an impairment of the link of eth"), "{told}");
        reaches(&machine, "pc1", "200.0.0.2");
        reaches(&machine, "pc2", "100.0.0.2");
        let links = machine.netloom(["link", "list"]).finish().code(0).text();
        assert!(links.contains(said), "{lab}: {links}");
        let ping = ["ping", "-c", "40", "-i", "0.01", "-s", "1000", "-W", "2", "200.0.0.2"];
        let pings = machine.exec("pc1", &ping).bound(BOUND).finish().text();
        let times = times(&pings);
        let (least, most) = times
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), t| (least.min(*t), most.max(*t)));
        match lab {
            "kathara-tc-delay" => assert!(least >= 40.0, "{pings}"),
            "kathara-tc-jitter" => assert!(least >= 35.0 && most - least >= 1.0, "{pings}"),
            "kathara-tc-loss" => assert!(times.len() < 40, "{pings}"),
            // 1042 bytes take 32 ms at this rate, and a queue of 10 ms takes no second one.
            _ => assert!(least >= 25.0 || times.len() < 40, "{pings}"),
        }
        machine.down();
    }
}

#[test]
fn scenarios_and_networks_reach_each_other_by_their_routers() {
    needs!("frr");
    whole("core/sample.xml", &[("n11", "10.0.1.20"), ("n12", "10.0.1.21"), ("n14", "10.0.5.10")]);
    whole(
        "imunes/ping.imn",
        &[("pc1", "10.0.0.21"), ("pc2", "10.0.0.22"), ("server", "10.0.2.10")],
    );
}

#[test]
fn areas_of_netlab_have_links_without_addresses() {
    needs!("frr");
    let machine = machine!();
    up(&machine, "netlab-areas", &["--strict"]);
    let matrix = [
        ("s1", "192.168.0.1"),
        ("s2", "192.168.0.2"),
        ("a1", "10.0.0.3"),
        ("a2", "10.0.0.4"),
        ("r2", "10.0.0.5"),
        ("r3", "10.0.0.6"),
    ];
    all_reach(&machine, &matrix);
    // Area 1 is one prefix elsewhere.
    wait_until("the area is one prefix", BOUND, || {
        let routes = machine.exec("r2", &["ip", "-4", "route", "show", "proto", "ospf"]).ok();
        (routes.contains("192.168.0.0/24 ") && !routes.contains("192.168.0.1 ")).then_some(())
    });
    machine.down();
}

#[test]
fn policies_of_netlab_choose_the_way() {
    needs!("frr");
    let machine = machine!();
    let told = up(&machine, "netlab-policy", &[]);
    let line = "links[9].vlan.access: left out: no configuration is made for this module";
    assert!(told.contains(line), "{told}");
    all_reach(&machine, &[("h1", "172.18.0.9"), ("h2", "172.18.1.10")]);
    // By the preferred session, although its path is longer, and longer still by what is prepended.
    wait_until("p goes by pe3", BOUND, || {
        let route = machine.exec("p", &["ip", "route", "get", "172.18.0.9"]).ok();
        route.contains(" dev eth3 ").then_some(())
    });
    let paths = machine.exec("pe3", &["vtysh", "-c", "show bgp ipv4 172.18.0.0/24"]).ok();
    assert!(
        paths.contains("65001 65001 65001 65100") && paths.contains("localpref 200"),
        "{paths}"
    );
    machine.down();
}

#[test]
fn vlans_of_gns3_are_apart_and_cross_a_trunk() {
    let machine = machine!();
    up(&machine, "gns3/vlans.gns3", &["--strict"]);
    all_reach(&machine, &[("PC1", "10.7.0.1"), ("PC3", "10.7.0.3")]);
    all_reach(&machine, &[("PC2", "10.7.0.2"), ("PC4", "10.7.0.4")]);
    for (from, to) in
        [("PC1", "10.7.0.2"), ("PC1", "10.7.0.4"), ("PC4", "10.7.0.3"), ("PC5", "10.7.0.1")]
    {
        let ping = machine.exec(from, &["ping", "-c", "1", "-W", "1", to]).finish().code(1).text();
        assert!(ping.contains(" 0 received"), "{from} {to}: {ping}");
    }
    machine.down();
}

#[test]
fn a_command_that_the_kernel_refuses_is_told_of_in_its_words() {
    let machine = machine!();
    let text = "name: refused\ntopology: {nodes: {a: {kind: linux, exec: [ip link add x type nonsense]}}}\n";
    let file = machine.scratch().file("refused.clab.yml", text);
    let told = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0).errors();
    let line = "node \"a\": exec 1 (ip link add x type nonsense) exited 2\n    Error: Unknown device type.\n";
    assert!(told.contains(line), "{told}");
    machine.down();
}
