//! Topologies of netlab.

use netloom_foreign::{Memory, Options, Verdict, import};

use super::labs::{files, imported, plan, refused, verdict, with_images};

/// The lines of a router's configuration.
fn config(import: &netloom_foreign::Import, node: &str) -> Vec<String> {
    let plan = plan(import);
    let node = &plan.nodes[plan.node(node).unwrap().get()];
    let file = node.files.iter().find(|file| file.path == "/etc/frr/frr.conf").expect("frr.conf");
    let text = match &file.content {
        netloom_model::lab::FileContent::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn has(import: &netloom_foreign::Import, node: &str, lines: &[&str]) {
    let config = config(import, node);
    for line in lines {
        assert!(config.iter().any(|found| found == line), "{node}: {line}: {config:#?}");
    }
}

#[test]
fn addresses_are_those_that_netlab_gives() {
    let import = imported(&files("netlab-policy"), "topology.yml");
    let plan = plan(&import);
    let address = |node: &str, n: usize| {
        let node = &plan.nodes[plan.node(node).unwrap().get()];
        (node.interfaces[n].name.clone(), node.interfaces[n].addresses[0].to_string())
    };
    for (node, n, name, want) in [
        // Loopbacks by number, ends of a pair by name, hosts and their routers by number.
        ("c1", 0, "eth1", "10.1.0.1/30"),
        ("pe1", 0, "eth1", "10.1.0.2/30"),
        ("c1", 1, "eth2", "10.1.0.9/30"),
        ("x1", 0, "eth1", "10.1.0.10/30"),
        ("x1", 1, "eth2", "10.1.0.14/30"),
        ("pe3", 0, "eth1", "10.1.0.13/30"),
        ("p", 0, "eth1", "10.2.0.0/31"),
        ("pe1", 1, "eth2", "10.2.0.1/31"),
        ("p", 1, "eth2", "10.3.0.9/29"),
        ("pe2", 1, "eth2", "10.3.0.10/29"),
        ("c1", 2, "eth3", "172.18.0.1/24"),
        ("h1", 0, "eth1", "172.18.0.9/24"),
        ("h2", 0, "eth1", "172.18.1.10/24"),
    ] {
        assert_eq!(address(node, n), (name.to_owned(), want.to_owned()), "{node}");
    }
    let h1 = &plan.nodes[plan.node("h1").unwrap().get()];
    assert_eq!(h1.routes[0].via.unwrap().to_string(), "172.18.0.1");
    assert!(!h1.forwarding.any() && h1.files.is_empty());
    let mtu = plan.links.iter().find(|link| link.name.starts_with("x1:eth2")).unwrap().mtu;
    assert_eq!(mtu, 1400);
}

#[test]
fn routers_speak_bgp_by_reflectors_and_policies() {
    let import = imported(&files("netlab-policy"), "topology.yml");
    has(
        &import,
        "pe1",
        &[
            "router bgp 65000",
            "bgp router-id 10.0.0.4",
            "neighbor 10.0.0.7 remote-as 65000",
            "neighbor 10.0.0.7 update-source lo",
            "neighbor 10.0.0.7 next-hop-self",
            "neighbor 10.1.0.1 remote-as 65100",
            "neighbor 10.1.0.1 route-map c1-eth1-in in",
            "set local-preference 50",
            "ip ospf cost 10",
            "bandwidth 100",
            "auto-cost reference-bandwidth 1000",
        ],
    );
    let lines = config(&import, "pe1");
    // By the reflector alone, and no OSPF towards the customer.
    assert!(!lines.iter().any(|line| line.starts_with("neighbor 10.0.0.5")), "{lines:#?}");
    let area = lines.iter().filter(|line| line.starts_with("ip ospf area")).count();
    assert_eq!(area, 2, "{lines:#?}");
    has(&import, "rr", &["neighbor 10.0.0.8 route-reflector-client"]);
    has(&import, "x1", &["set as-path prepend 65001 65001"]);
    has(&import, "c1", &["set metric 50", "network 172.18.0.0/24", "network 10.0.0.1/32"]);
}

#[test]
fn links_without_addresses_have_areas_and_templates() {
    let import = imported(&files("netlab-areas"), "topology.yml");
    has(
        &import,
        "a1",
        &[
            "ip address 10.0.0.3/32",
            "ip ospf area 0",
            "ip ospf area 1",
            "ip ospf area 2",
            "ip ospf network point-to-point",
            "ospf router-id 10.0.0.3",
            "area 1 range 192.168.0.0/24",
        ],
    );
    has(&import, "s1", &["ip address 192.168.0.1/32"]);
    assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
}

#[test]
fn what_is_not_carried_says_why() {
    let import = imported(&files("netlab-policy"), "topology.yml");
    let out: Vec<(u32, &str)> =
        import.left_out().map(|item| (item.line, item.item.as_str())).collect();
    assert_eq!(
        out,
        [
            (7, "plugin[1]"),
            (41, "validate.ways.nodes[0]"),
            (42, "validate.ways.devices[0]"),
            (66, "links[9].vlan.access"),
        ],
        "{:#?}",
        import.items
    );
    for item in ["addressing.\"mgmt.ipv4\"", "links[4].bandwidth", "links[9].name", "provider"] {
        assert!(matches!(verdict(&import, item), Verdict::Changed(_)), "{item}");
    }
    let text = "provider: clab\nmodule: [ospf, isis]\ndefaults.device: frr\nnodes:\n  a:\n  b: {device: iosv}\n  c: {box: x, clab.kind: y, mgmt.ipv4: 1.2.3.4}\n  h: {device: linux, config: [t, none], module: []}\nlinks: [a-b, a-c, a-x, [], {a: {ipv4: 77.1.1}, c: , tc: {jitter: 2, loss: lots}}, [a, c, h], c, {type: loopback, c: }]\n";
    let files = Memory::of("topology.yml", text).with("t/linux.j2", "ip link");
    let import = imported(&files, "topology.yml");
    for (item, why) in [
        ("module[1]", "no configuration is made for this module"),
        ("nodes.b.device", "netloom runs no iosv"),
        ("nodes.c.box", "netloom runs no boxes"),
        ("nodes.c.\"clab.kind\"", "only of one of netlab's providers"),
        ("nodes.h.config[0]", "only of routers with FRR"),
        ("nodes.h.config[1]", "no such template beside the topology"),
        ("links[0]", "b is left out: netloom runs no iosv"),
        ("links[2]", "there is no node \"x\""),
        ("links[3]", "no node of the topology is on it"),
        (
            "links[4].a.ipv4",
            "expected an address of IPv4, or a number in the link's prefix, found \"77.1.1\"",
        ),
        ("links[4].tc.jitter", "jitter is around a delay, and there is none"),
        ("links[4].tc.loss", "expected a number, found \"lots\""),
        ("links[7].type", "write `loopback` of the node"),
    ] {
        assert_eq!(verdict(&import, item), Verdict::LeftOut(why.into()), "{item}");
    }
    let plan = plan(&import);
    assert_eq!(plan.switches[0].name, "lan1");
    assert!(import.lab.contains("ends: [\"c:eth4\", nowhere]"), "{}", import.lab);
}

#[test]
fn values_that_are_none_are_told_of_and_reach_no_configuration() {
    let text = "defaults.device: frr\nmodule: [ospf, bgp]\nplugin: [bgp.policy]\nrouter_id: \"1\\n2\"\nnodes:\n  a:\n    bgp: {as: 1, router_id: me}\n    ospf: {area: \"0\\n!\", router_id: 1.2.3}\n    loopback.ipv4: here\n  b: {bgp.as: 2}\n  c: {bgp.as: 1}\nlinks:\n- {a: {bgp.prepend.path: \"1\\n2\"}, b: {bgp.prepend.count: 11}, mtu: 12}\n- {a: , c: , ospf.network_type: odd}\n";
    let import = imported(&Memory::of("topology.yml", text), "topology.yml");
    let address = "expected an address of IPv4";
    for (item, why) in [
        ("router_id", address),
        ("nodes.a.bgp.router_id", address),
        ("nodes.a.ospf.router_id", address),
        ("nodes.a.ospf.area", "expected an area"),
        ("nodes.a.\"loopback.ipv4\"", "expected an address like 10.0.0.1/32"),
        ("links[0].a.\"bgp.prepend.path\"", "expected numbers of systems"),
        ("links[0].b.\"bgp.prepend.count\"", "expected a number from 1 to 10"),
        ("links[0].mtu", "expected a number from 68 to 65535"),
        ("links[1].\"ospf.network_type\"", "expected a kind of network"),
    ] {
        match verdict(&import, item) {
            Verdict::LeftOut(told) => assert!(told.starts_with(why), "{item}: {told}"),
            other => panic!("{item}: {other:?}"),
        }
    }
    has(
        &import,
        "a",
        &["ospf router-id 10.0.0.1", "bgp router-id 10.0.0.1", "ip ospf area 0.0.0.0"],
    );
    let config = config(&import, "a");
    assert!(
        !config.iter().any(|line| line.contains("as-path") || line.contains("odd")),
        "{config:#?}"
    );
}

#[test]
fn groups_make_their_members_and_images_are_theirs() {
    let text = "defaults.device: frr\ngroups:\n  all: {members: [a, b], _auto_create: true, module: [ospf], image: \"frr:9\", role: router}\nnodes:\n  c: {id: 17}\nlinks: [a-b-c]\n";
    let import = with_images(&Memory::of("topology.yml", text), "topology.yml");
    assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
    let plan = plan(&import);
    let names: Vec<&str> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["c", "a", "b"]);
    let a = &plan.nodes[1];
    assert_eq!(a.image.as_ref().unwrap().name, "frr:9");
    assert!(a.setup.is_empty(), "{:?}", a.setup);
    assert_eq!(plan.nodes[0].interfaces[0].addresses[0].to_string(), "172.16.0.17/24");
}

#[test]
fn one_prefix_may_be_that_of_several_links() {
    let text = "provider: clab\ngroups: {_auto_create: true, all: {members: [a, b, m], device: linux}}\ndefaults.devices.linux.image: tool:1\nlinks:\n- {a: , m: {ipv4: False}, prefix: 10.9.0.0/24}\n- {b: , m: {ipv4: False}, prefix.ipv4: 10.9.0.0/24}\n";
    let import = with_images(&Memory::of("topology.yml", text), "topology.yml");
    assert_eq!(import.left_out().count(), 0, "{:?}", import.left_out().collect::<Vec<_>>());
    let plan = plan(&import);
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    assert_eq!(node("a").interfaces[0].addresses[0].to_string(), "10.9.0.1/24");
    assert!(node("m").interfaces.iter().all(|interface| interface.addresses.is_empty()));
    let setup = &node("b").setup[0];
    assert_eq!(setup.join(" "), "ip address add 10.9.0.2/24 dev eth1");
    assert_eq!(node("m").image.as_ref().unwrap().name, "tool:1");
}

#[test]
fn a_choice_of_nodes_takes_the_links_between_them() {
    let only = vec!["a1".into(), "a2".into(), "r2".into()];
    let options = Options { only, ..Options::default() };
    let import = import(&files("netlab-areas"), "topology.yml", &options).unwrap();
    let plan = plan(&import);
    assert_eq!((plan.nodes.len(), plan.links.len()), (3, 2));
    let wanted = |item: &&netloom_foreign::Item| {
        item.verdict == Verdict::LeftOut(netloom_foreign::NOT_CHOSEN.into())
    };
    assert_eq!(import.left_out().filter(wanted).count(), 9, "{:#?}", import.items);
}

#[test]
fn a_node_without_a_device_is_refused() {
    let error = refused("topology.yml", "module: [ospf]\nnodes:\n  a:\n  b:\n");
    assert_eq!(error, "topology.yml:3: error: node \"a\" has no `device`");
}
