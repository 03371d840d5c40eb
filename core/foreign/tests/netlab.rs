//! Topologies of netlab.

use netloom_foreign::{Memory, Options, Verdict, import};

use super::labs::{files, imported, plan, refused, verdict, with_images};

/// The lines of a router's configuration.
pub(crate) fn config(import: &netloom_foreign::Import, node: &str) -> Vec<String> {
    let plan = plan(import);
    let node = &plan.nodes[plan.node(node).unwrap().get()];
    let file = node.files.iter().find(|file| file.path == "/etc/frr/frr.conf").expect("frr.conf");
    let text = match &file.content {
        netloom_model::lab::FileContent::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    text.lines().map(|line| line.trim().to_owned()).collect()
}

pub(crate) fn has(import: &netloom_foreign::Import, node: &str, lines: &[&str]) {
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

/// The addresses of an interface, those of commands included.
pub(crate) fn address_of(import: &netloom_foreign::Import, node: &str, iface: &str) -> Vec<String> {
    let plan = plan(import);
    let node = &plan.nodes[plan.node(node).unwrap().get()];
    let own = node.interfaces.iter().find(|own| own.name == iface).expect("the interface");
    let mut found: Vec<String> = own.addresses.iter().map(|net| net.to_string()).collect();
    let given = node.setup.iter().filter(|words| words.len() == 6 && words[5] == iface);
    found.extend(given.filter(|words| words[1] == "address").map(|words| words[3].clone()));
    found
}

pub(crate) fn topology(text: &str) -> netloom_foreign::Import {
    imported(
        &Memory::of("topology.yml", format!("provider: clab\ndefaults.device: frr\n{text}")),
        "topology.yml",
    )
}

/// Says of ends (`NODE:INTERFACE ADDRESS`) whether they have these addresses alone; `-` is none.
pub(crate) fn have(import: &netloom_foreign::Import, ends: &[&str]) {
    for end in ends {
        let (end, want) = end.split_once(' ').unwrap();
        let (node, iface) = end.split_once(':').unwrap();
        let want: Vec<&str> = want.split(' ').filter(|word| *word != "-").collect();
        assert_eq!(address_of(import, node, iface), want, "{end}: {}", import.lab);
    }
}

#[test]
fn numbers_that_nodes_have_are_taken_before_others_are_given() {
    // As netlab 26.10 gives them: no two nodes have one loopback.
    let import = topology("nodes: {a: , b: {id: 1}, c: }\nlinks: [a-b-c]\n");
    for (node, want) in [("a", "172.16.0.2/24"), ("b", "172.16.0.1/24"), ("c", "172.16.0.3/24")] {
        assert_eq!(address_of(&import, node, "eth1"), [want], "{node}");
    }
    assert!(import.lab.contains("pool: {ipv4: none, ipv6: none}"), "{}", import.lab);
}

#[test]
fn addresses_of_small_prefixes_go_by_the_order_of_ends() {
    let import = topology(
        "nodes: {a: {id: 40}, b: {id: 41}, h: {device: linux}}\nlinks:\n- {b: , a: , h: , prefix: 192.168.5.8/29}\n- {b: , a: , type: lan, prefix: 192.168.6.0/31}\n- {a: , prefix: 192.168.7.1/32}\n- {a: , h: , prefix: 192.168.8.0/31}\n- {b: , a: , prefix: {ipv4: 192.168.9.0/24, allocation: sequential}}\n",
    );
    for (node, iface, want) in [
        ("b", "eth1", "192.168.5.9/29"),
        ("a", "eth1", "192.168.5.10/29"),
        ("h", "eth1", "192.168.5.11/29"),
        ("a", "eth2", "192.168.6.0/31"),
        ("b", "eth2", "192.168.6.1/31"),
        ("a", "eth3", "192.168.7.1/32"),
        ("a", "eth4", "192.168.8.0/31"),
        ("b", "eth3", "192.168.9.1/24"),
        ("a", "eth5", "192.168.9.2/24"),
    ] {
        assert_eq!(address_of(&import, node, iface), [want], "{node}:{iface}");
    }
}

// networklab 26.10, third seed of `cargo xtask oracles netlab`: case 55.
#[test]
fn a_host_has_the_loopback_that_a_key_with_dots_asks_for() {
    let import = topology(
        "addressing.core: {ipv4: 10.7.0.0/24, prefix: 31}\nnodes: {r: {role: host, loopback.pool: core}, s: }\nlinks: [r-s]\n",
    );
    assert!(import.lab.contains("loopback: [\"10.7.0.1/31\"]"), "{}", import.lab);
    assert_eq!(verdict(&import, "nodes.r.\"loopback.pool\""), Verdict::Carried);
}

// networklab 26.10, second seed of `cargo xtask oracles netlab`: case 180.
#[test]
fn the_only_address_of_a_prefix_is_its_nodes_whatever_it_says() {
    let import = topology(
        "nodes: {h: {device: linux}, r: }\nlinks:\n- {h: {ipv4: false}, prefix: 192.168.98.1/32}\n- {r: {ipv4: 7}, prefix: \
         192.168.98.2/32}\n",
    );
    have(&import, &["h:eth1 192.168.98.1/32", "r:eth1 192.168.98.2/32"]);
    assert!(matches!(verdict(&import, "links[0].h.ipv4"), Verdict::Changed(_)));
}

#[test]
fn pools_of_links_go_by_their_nodes_and_not_by_their_type() {
    let import = topology(
        "addressing: {loopback: {ipv4: 10.0.0.0/16, prefix: 29}}\nprefix: {away: {pool: lan}}\nnodes: {a: , b: , h: {device: linux}}\nlinks:\n- {a: , b: , type: lan}\n- {a: , h: , type: p2p}\n- {a: , b: , prefix: away}\n",
    );
    assert_eq!(address_of(&import, "a", "eth1"), ["10.1.0.1/30"]);
    assert_eq!(address_of(&import, "h", "eth1"), ["172.16.1.2/24"]);
    assert_eq!(address_of(&import, "b", "eth2"), ["172.16.0.2/24"]);
    let plan = plan(&import);
    let loopback = &plan.nodes[0].loopback;
    assert!(format!("{loopback:?}").contains("10.0.0.9/29"), "{loopback:?}");
}

#[test]
fn unnumbered_is_so_whatever_it_says_and_that_is_told() {
    let import = topology("nodes: [a, b]\nlinks: [{a: , b: , unnumbered: false}]\n");
    assert_eq!(address_of(&import, "a", "eth1"), ["10.0.0.1/32"]);
    assert!(matches!(verdict(&import, "links[0].unnumbered"), Verdict::Changed(_)));
}

#[test]
fn groups_go_by_name_and_those_within_others_first() {
    let text = "nodes: {a: , b: , h1: {device: linux}, h2: {device: linux}}\ngroups:\n  z: {members: [a], mtu: 1400}\n  b0: {members: [z, b], mtu: 1300}\n  hosts: {members: ['h?'], mtu: 1350}\n  frr: {mtu: 1200}\n  all: {mtu: 1250}\nlinks: [a-b, h1-h2, a-h1]\n";
    let import = topology(text);
    let plan = plan(&import);
    // `all` is the first by name, and what gives first counts.
    assert!(plan.links.iter().all(|link| link.mtu == 1250), "{}", import.lab);
    let import = topology(&text.replace("  all: {mtu: 1250}\n", ""));
    let plan = super::labs::plan(&import);
    let mtus: Vec<u32> = plan.links.iter().map(|link| link.mtu).collect();
    assert_eq!(mtus, [1400, 1350, 1400]);
    let setup = |name: &str| {
        let node = &plan.nodes[plan.node(name).unwrap().get()];
        node.setup.iter().map(|words| words.join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(setup("b"), ["ip link set eth1 mtu 1300"]);
    assert_eq!(setup("h1"), ["ip link set eth2 mtu 1350"]);
}

#[test]
fn interfaces_have_the_names_and_numbers_of_the_topology() {
    let import = topology(
        "nodes: [a, b]\nlinks:\n- {a: {ifindex: 2}, b: {ifname: up1}}\n- {a: , b: , disable: true}\n- a-b\n- a-b\n",
    );
    let plan = plan(&import);
    let names =
        |n: usize| plan.nodes[n].interfaces.iter().map(|i| i.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(0), ["eth2", "eth1", "eth3"]);
    assert_eq!(names(1), ["up1", "eth2", "eth3"]);
    assert!(matches!(verdict(&import, "links[1].disable"), Verdict::Changed(_)));
}

#[test]
fn a_hosts_gateway_is_on_the_first_link_whose_router_has_an_address() {
    let import = topology(
        "nodes: {r: , s: , h: {device: linux}, g: {device: linux}}\nlinks:\n- h-g\n- {r: {ipv4: false}, h: }\n- {s: , h: }\n",
    );
    let plan = plan(&import);
    let h = &plan.nodes[plan.node("h").unwrap().get()];
    assert_eq!(h.routes[0].via.unwrap().to_string(), "172.16.2.2");
}

#[test]
fn routing_is_off_where_netlab_has_it_off() {
    let import = topology(
        "module: [ospf, bgp]\nbgp.as: 1\nnodes: {r: , s: , h: {device: linux}, x: {loopback: false}}\nlinks:\n- {r: , s: , role: external}\n- {r: , h: , role: core}\n- {s: , h: }\n- {s: , r: , prefix: false}\n- {x: , prefix: false}\n",
    );
    let r = config(&import, "r");
    let areas = r.iter().filter(|line| line.starts_with("ip ospf area")).count();
    assert_eq!(areas, 2, "{r:#?}");
    // One router at a link with a role of its own is not a stub.
    assert!(
        !r.iter().any(|line| line.contains("passive") || line.starts_with("network 172")),
        "{r:#?}"
    );
    has(
        &import,
        "s",
        &["ip ospf passive", "ip ospf network point-to-point", "network 172.16.1.0/24"],
    );
    assert!(!config(&import, "x").iter().any(|line| line.contains("ospf")));
}

#[test]
fn times_and_shares_of_traffic_are_netlab_s() {
    let import = topology(
        "nodes: [a, b]\nlinks:\n- {a: {tc.delay: 20ms}, b: , tc: {jitter: 1, delay: 1s}}\n- {a: , b: , tc.reorder: 5}\n- {a: , tc.delay: 1}\n",
    );
    assert!(
        import.lab.contains(
            "a: {delay: 20ms, jitter: 1ms uniform}, b: {delay: 1000ms, jitter: 1ms uniform}"
        ),
        "{}",
        import.lab
    );
    assert!(matches!(verdict(&import, "links[1].\"tc.reorder\""), Verdict::LeftOut(_)));
}

// networklab 26.10 of random topologies: cases 22 and 65. Interfaces take `ospf.passive` from node and topology.
#[test]
fn interfaces_are_passive_where_node_or_topology_says_so() {
    let import = topology(
        "module: [ospf]\nospf.passive: true\nnodes:\n  r1:\n  r2: {ospf.passive: false}\nlinks:\n- r1-r2\n- \
         r1: {ospf.passive: false}\n  r2:\n",
    );
    let passive =
        |node: &str| config(&import, node).iter().filter(|line| line.contains("passive")).count();
    assert_eq!((passive("r1"), passive("r2")), (1, 0), "{}", import.lab);
    let text = config(&import, "r1").join("\n");
    assert!(text.contains("point-to-point\nip ospf passive\n!\ninterface eth2"), "{text}");
    assert_eq!(verdict(&import, "\"ospf.passive\""), Verdict::Carried);
}

// networklab 26.10 of random topologies: case 185. A host with FRR runs the modules that it names itself, and does not forward.
#[test]
fn a_host_with_frr_runs_its_own_modules() {
    let import = topology(
        "nodes:\n  r1: {module: [ospf]}\n  d: {role: host, module: [ospf]}\n  h: {device: linux}\nlinks: [r1-d, r1-h, d-h]\n",
    );
    has(&import, "d", &["ospf router-id 10.0.0.2", "ip ospf area 0.0.0.0"]);
    let passive =
        |node: &str| config(&import, node).iter().filter(|line| line.contains("passive")).count();
    assert_eq!((passive("r1"), passive("d")), (1, 1), "{}", import.lab);
    let made = plan(&import);
    let node = |name: &str| &made.nodes[made.node(name).unwrap().get()];
    assert!(node("d").routes.iter().any(|route| route.via.is_some()), "{}", import.lab);
    assert!(import.lab.matches("forwarding: true").count() == 1, "{}", import.lab);
    let import = topology("module: [ospf]\nnodes:\n  r1:\n  d: {role: host}\nlinks: [r1-d]\n");
    assert!(!import.lab.contains("10.0.0.2"), "{}", import.lab);
}

// networklab 26.10 of random topologies: cases 67, 158 and 160 of `cargo xtask oracles netlab`.
#[test]
fn interfaces_without_addresses_speak_no_protocol() {
    let import = topology(
        "module: [ospf]\naddressing.p2p.unnumbered: true\nnodes:\n  x1:\n  core: \
         {loopback: false}\nlinks: [core-x1]\n",
    );
    has(&import, "x1", &["ip ospf area 0.0.0.0"]);
    assert!(!import.lab.contains("core.conf"), "{}", import.lab);
    let bare = plan(&import);
    assert!(bare.nodes[bare.node("core").unwrap().get()].files.is_empty());
    let import = topology(
        "module: [bgp]\nnodes:\n  b: {bgp.as: 65000}\n  a: {bgp.as: 65002}\nlinks:\n- \
         b: {ipv4: false}\n  a:\n",
    );
    let lines = config(&import, "b");
    assert!(!lines.iter().any(|line| line.starts_with("neighbor")), "{lines:?}");
}

#[test]
fn a_loopback_takes_the_prefixes_of_its_pool_up_to_its_number() {
    let import = topology(
        "addressing.core: {ipv4: 10.7.0.0/24, prefix: 31}\nnodes:\n  a:\n  c:\n  pe2: \
         {loopback.pool: core}\n  h1: {device: linux, id: 4}\nlinks:\n- {pool: core, h1: }\n",
    );
    assert_eq!(address_of(&import, "h1", "eth1"), ["10.7.0.6/31"]);
}

// networklab 26.10, `addressing.setup_pools` and `get_nth_ip_from_prefix`.
#[test]
fn pools_of_defaults_and_pools_as_text_have_their_lengths() {
    let import = topology(
        "defaults.addressing: {p2p: {ipv4: 10.31.0.0/16}, lan: {ipv4: 10.32.0.0/16, prefix: 25}}\naddressing.lan.ipv4: \
         10.33.0.0/16\nnodes: {a: , b: , h: {device: linux}}\nlinks:\n- a-b\n- {a: {ipv4: -2}, h: }\n",
    );
    for (node, iface, want) in [
        ("a", "eth1", "10.31.0.1/30"),
        ("a", "eth2", "10.33.0.126/25"),
        ("h", "eth1", "10.33.0.3/25"),
    ] {
        assert_eq!(address_of(&import, node, iface), [want], "{node} {iface}");
    }
    // A prefix alone takes the place of all that the pool has otherwise, its length among it.
    let import = topology("addressing.p2p: 10.9.0.0/16\nnodes: [a, b]\nlinks: [a-b]\n");
    assert_eq!(address_of(&import, "b", "eth1"), ["10.9.0.2/24"]);
}

// networklab 26.10, `augment/nodes.py`: numbers of nodes are from 1 to 150, unless a default says otherwise, and each is one
// node's.
#[test]
fn numbers_that_netlab_refuses_are_told() {
    let nodes =
        "nodes: {a: {id: 151}, b: {id: 0}, c: {id: 7}, d: {id: 7}, e: {id: x}}\nlinks: [a-b-c-e]\n";
    let import = topology(nodes);
    let why = |item: &str| match verdict(&import, item) {
        Verdict::Carried => "carried".to_owned(),
        Verdict::Changed(why) | Verdict::LeftOut(why) => why,
    };
    for (node, want) in [
        ("a", "netlab itself refuses numbers above 150"),
        ("b", "expected a number from 1 to 150"),
        ("c", "carried"),
        ("d", "netlab itself refuses a number that another node has"),
        ("e", "expected a number from 1 to 150"),
    ] {
        let why = why(&format!("nodes.{node}.id"));
        assert!(why.starts_with(want), "{node}: {why}");
    }
    have(&import, &["a:eth1 172.16.0.151/24", "b:eth1 172.16.0.1/24", "e:eth1 172.16.0.2/24"]);
    let import = topology(&format!("defaults.const.MAX_NODE_ID: 300\n{nodes}"));
    assert_eq!(verdict(&import, "nodes.a.id"), Verdict::Carried);
    assert_eq!(verdict(&import, "\"defaults.const.MAX_NODE_ID\""), Verdict::Carried);
    // Also of those that have none of their own.
    let many: String = (0..152).map(|n| format!("  n{n}:\n")).collect();
    let import = topology(&format!("nodes:\n{many}links: [n0-n1]\n"));
    let found: Vec<_> = import.items.iter().filter(|item| item.item.contains("number")).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let line =
        "topology.yml:154: the number of n150: changed: netlab itself has no numbers above 150";
    assert!(found[0].to_string().starts_with(line), "{}", found[0]);
}
