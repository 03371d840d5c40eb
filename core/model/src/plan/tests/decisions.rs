//! Names, addresses and routes of small labs, and the labs that cannot be planned.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::build_lab::{LabBuilder, two_sites};
use super::simulator::{Place, Simulator};
use crate::lab::{RouteSpec, Via};
use crate::plan::{LinkSlot, Plan, PlanError, PlannedEnd, Route, plan};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The addresses of a node's first interface.
fn first(plan: &Plan, node: &str) -> Vec<IpNet> {
    plan.nodes[plan.node(node).unwrap()].interfaces[0].addresses.clone()
}

fn routes_of(plan: &Plan, node: &str) -> Vec<Route> {
    plan.nodes[plan.node(node).unwrap()].routes.clone()
}

fn links(plan: &Plan) -> Vec<&str> {
    plan.links.iter().map(|l| l.name.as_str()).collect()
}

fn port(end: &PlannedEnd) -> &str {
    match end {
        PlannedEnd::Port { name, .. } => name,
        other => panic!("{other:?} is not a port"),
    }
}

#[test]
fn links_are_named_by_their_ends() {
    let plan = plan(&two_sites()).unwrap();
    let expected =
        ["h1:eth0--s1", "h2:eth0--s1", "s1--r1:eth0", "r1:eth1--r2:eth0", "r2:eth1--web:eth0"];
    assert_eq!(links(&plan), expected);
    assert_eq!(plan.link("r1:eth1--r2:eth0"), Some(LinkSlot::new(3)));
    assert_eq!(plan.switches[0].bridge, "s1");
    assert_eq!(port(&plan.links[0].ends[1]), "h1-eth0");
}

#[test]
fn names_by_hand_are_stepped_round() {
    let mut lab = LabBuilder::new();
    lab.host("a").host("b").switch("s1").switch("s2");
    lab.link("a", "b").link("a:eth1", "b").link("a", "b:eth0").link("s1", "s2").link("s1", "s2");
    lab.link("a", "host:enp3s0").link("s1", "internet");
    let plan = plan(&lab.lab).unwrap();
    let expected = [
        "a:eth0--b:eth1",
        "a:eth1--b:eth2",
        "a:eth2--b:eth0",
        "s1--s2",
        "s1--s2#2",
        "a:eth3--host:enp3s0",
        "s1--internet",
    ];
    assert_eq!(links(&plan), expected);
    assert_eq!(port(&plan.links[3].ends[1]), "p3b");
    assert_eq!(port(&plan.links[6].ends[0]), "internet");
}

#[test]
fn bridges_get_stand_ins_where_the_kernel_would_refuse() {
    let mut lab = LabBuilder::new();
    lab.host("a-host-with-a-long-name").host("x");
    lab.switch("a-switch-with-a-long-name").switch("br0").switch("all").switch("x-eth0");
    lab.link("a-host-with-a-long-name", "br0").link("x", "br0");
    let plan = plan(&lab.lab).unwrap();
    let bridges: Vec<&str> = plan.switches.iter().map(|s| s.bridge.as_str()).collect();
    assert_eq!(bridges, ["br0.0", "br0", "br2", "x-eth0"]);
    assert_eq!(port(&plan.links[0].ends[1]), "p0b");
    assert_eq!(port(&plan.links[1].ends[1]), "p1b", "x-eth0 is taken");
}

#[test]
fn one_number_in_both_families() {
    let plan = plan(&two_sites()).unwrap();
    let h1 = &plan.nodes[0];
    let low = h1.ipv4().unwrap().to_bits() & 0x7ff;
    assert_eq!(u128::from(low), h1.ipv6().unwrap().to_bits() & u128::from(u64::MAX));
    assert_eq!(first(&plan, "h1")[0].prefix_len(), 21);
    assert_eq!(first(&plan, "h1")[1].prefix_len(), 64);
    let web = first(&plan, "web");
    assert_eq!(web[0].prefix_len(), 30);
    assert!(net("10.128.0.0/9").contains(&web[0]) && net("fd00::/8").contains(&web[1]));
    let r2 = &plan.nodes[3].interfaces[1].addresses;
    assert_eq!(r2[0].addr(), web[0].hosts().next().unwrap(), "the first end has the first number");
}

#[test]
fn further_addresses_never_have_a_nodes_name() {
    let mut lab = LabBuilder::new();
    lab.child("r", Some(4)).child("r/eth1", None).host("x");
    lab.link("r", "x").link("r", "x").link("r:a#b", "x");
    let plan = plan(&lab.lab).unwrap();
    let r = &plan.nodes[0];
    let name = |interface: usize| {
        let address = r.interfaces[interface].addresses[0].addr().to_string();
        let line = plan.hosts.lines().find(|l| l.split('\t').next() == Some(&address)).unwrap();
        line.split('\t').nth(1).unwrap().to_owned()
    };
    assert_eq!([0, 1, 2].map(name), ["r", "eth1-2.r", "a-b.r"]);
}

#[test]
fn what_nodes_have_now_takes_the_place_of_what_was_planned() {
    let plan = plan(&two_sites()).unwrap();
    let now = |list: &'static [(&'static str, &'static str)]| {
        list.iter().map(|(i, a)| (*i, a.parse().unwrap())).collect::<Vec<_>>()
    };
    let text = plan.hosts_with(|node| match node.name.as_str() {
        "h1" => Some(now(&[("eth0", "192.0.2.7"), ("br0", "192.0.2.8"), ("br0", "fd00::8")])),
        "h2" => Some(now(&[])),
        _ => None,
    });
    assert!(text.contains("\n192.0.2.7\th1\n192.0.2.8\tbr0.h1\nfd00::8\th1\n"), "{text}");
    assert!(!text.contains("\th2\n"), "{text}");
    let web = plan.nodes[plan.node("web").unwrap()].ipv4().unwrap();
    assert!(text.contains(&format!("\n{web}\tweb\n")));
}

#[test]
fn an_end_that_is_to_have_no_address_has_none() {
    let lab = |bare: &[(usize, usize)]| {
        let mut lab = two_sites();
        for (link, side) in bare {
            lab.links[*link].bare[*side] = true;
        }
        plan(&lab).unwrap()
    };
    let (all, some) = (lab(&[]), lab(&[(0, 0), (3, 0), (3, 1)]));
    let addresses = |plan: &Plan, name: &str| -> Vec<_> {
        let node = &plan.nodes[plan.node(name).unwrap()];
        node.interfaces.iter().map(|i| i.addresses.clone()).collect()
    };
    assert_eq!(addresses(&some, "h1"), [vec![]]);
    let h1 = &some.nodes[some.node("h1").unwrap()];
    assert!(h1.routes.is_empty() && !some.hosts.contains("\th1\n"), "{}", some.hosts);
    // Others have theirs, and no routes lead over the link without addresses.
    for name in ["h2", "web"] {
        assert_eq!(addresses(&some, name), addresses(&all, name));
    }
    assert_eq!(addresses(&some, "r1")[0], addresses(&all, "r1")[0]);
    assert_eq!(addresses(&some, "r1")[1], []);
    let r1 = &some.nodes[some.node("r1").unwrap()];
    assert!(r1.routes.is_empty(), "{:?}", r1.routes);
}

#[test]
fn hosts_file_has_every_address_and_a_name_stands_for_one_a_family() {
    let plan = plan(&two_sites()).unwrap();
    let web = &plan.nodes[4];
    assert!(plan.hosts.starts_with("127.0.0.1\tlocalhost\n::1\tlocalhost"));
    assert!(plan.hosts.contains(&format!("\n{}\tweb\n", web.ipv4().unwrap())));
    assert!(plan.hosts.contains(&format!("\n{}\tweb\n", web.ipv6().unwrap())));
    // r1 and r2 have two interfaces each.
    assert_eq!(plan.hosts.lines().count(), 2 + 7 * 2);
    let r2 = &plan.nodes[plan.node("r2").unwrap()];
    for (interface, name) in r2.interfaces.iter().zip(["r2", "eth1.r2"]) {
        for address in &interface.addresses {
            let line = format!("\n{}\t{name}\n", address.addr());
            assert!(plan.hosts.contains(&line), "{line:?} in {}", plan.hosts);
        }
    }
}

#[test]
fn prefixes_by_hand_are_filled_up() {
    let mut lab = LabBuilder::new();
    lab.host("a").host("b").host("c").router("r").switch("s");
    lab.link("r", "a").address(1, "10.9.0.2/24").address(1, "fd00:9::5/64");
    lab.link("r", "b").subnet("10.9.1.0/31").subnet("fd00:9:1::/127");
    lab.link("r", "s").address(0, "192.168.7.1/24").link("c", "s");
    let plan = plan(&lab.lab).unwrap();
    let r = &plan.nodes[3].interfaces;
    assert_eq!(first(&plan, "a"), [net("10.9.0.2/24"), net("fd00:9::5/64")]);
    assert_eq!(r[0].addresses, [net("10.9.0.1/24"), net("fd00:9::1/64")]);
    assert_eq!(r[1].addresses, [net("10.9.1.0/31"), net("fd00:9:1::/127")]);
    assert_eq!(first(&plan, "b"), [net("10.9.1.1/31"), net("fd00:9:1::1/127")]);
    assert_eq!(first(&plan, "c")[0].trunc(), net("192.168.7.0/24"));
    Simulator::new(&plan).check_all();
}

#[test]
fn a_taken_number_is_stepped_over() {
    let mut lab = LabBuilder::new();
    lab.host("a").host("b").link("a", "b").address(1, "10.9.0.1/30");
    let plan = plan(&lab.lab).unwrap();
    assert_eq!(first(&plan, "a")[0], net("10.9.0.2/30"));
}

#[test]
fn a_family_without_a_pool_has_addresses_by_hand_only() {
    let mut lab = LabBuilder::new();
    lab.host("a").host("b").host("c");
    lab.link("a", "b").link("b", "c").address(0, "10.0.0.1/24");
    lab.lab.pool.ipv4 = None;
    let plan = plan(&lab.lab).unwrap();
    assert!(first(&plan, "a").iter().all(|a| a.addr().is_ipv6()));
    assert_eq!(first(&plan, "c")[0], net("10.0.0.2/24"));
}

#[test]
fn automatic_prefixes_keep_out_of_those_by_hand() {
    // Half of the switches' region, and all of the upper half but one block.
    let mut lab = LabBuilder::new();
    lab.router("r").host("h").host("x").switch("a").switch("b").switch("big");
    lab.switch_subnet("big", "10.0.0.0/10").link("h", "big").link("r", "a").link("r", "b");
    lab.link("r", "x").subnet("10.128.0.0/10");
    lab.link("r", "h");
    let plan = plan(&lab.lab).unwrap();
    let r = &plan.nodes[0].interfaces;
    for automatic in [&r[0], &r[1]] {
        assert!(net("10.64.0.0/10").contains(&automatic.addresses[0]));
    }
    assert!(net("10.192.0.0/10").contains(&r[3].addresses[0]));
    Simulator::new(&plan).check_all();
}

#[test]
fn another_variant_has_other_prefixes_of_the_same_pool() {
    let of = |variant| {
        let mut lab = two_sites();
        lab.pool.variant = variant;
        plan(&lab).unwrap()
    };
    let prefixes = |plan: &Plan| -> HashSet<IpNet> {
        let interfaces = plan.nodes.iter().flat_map(|node| &node.interfaces);
        interfaces.flat_map(|interface| &interface.addresses).map(IpNet::trunc).collect()
    };
    let usual = prefixes(&of(0));
    let other = prefixes(&of(1));
    assert_eq!(usual.len(), other.len());
    assert!(usual.is_disjoint(&other), "{usual:?} {other:?}");
    let pools = [net("10.0.0.0/8"), net("fd00::/8")];
    assert!(other.iter().all(|prefix| pools.iter().any(|pool| pool.contains(prefix))));
    // Nothing is said where nothing was chosen, as before there was a choice.
    assert!(!serde_json::to_string(&of(0)).unwrap().contains("variant"));
    assert_eq!(of(1).scheme.unwrap().pool.variant, 1);
}

#[test]
fn a_busy_owner_has_several_blocks() {
    let mut lab = LabBuilder::new();
    lab.router("hub").router("far").link("hub", "far");
    for i in 0..400 {
        lab.host(&format!("h{i}")).link(&format!("h{i}"), "hub");
    }
    let plan = plan(&lab.lab).unwrap();
    let blocks: Vec<IpNet> = routes_of(&plan, "far").iter().map(|r| r.to).collect();
    assert_eq!(blocks.iter().filter(|b| b.prefix_len() == 22).count(), 2);
    assert_eq!(blocks.iter().filter(|b| b.prefix_len() == 48).count(), 1);
    let simulator = Simulator::new(&plan);
    for node in &plan.nodes {
        assert!(simulator.walk(Place::Node(1), node.ipv4().unwrap().into()).is_ok());
    }
}

#[test]
fn hosts_prefer_the_door_and_keep_the_way_to_routers() {
    let mut lab = LabBuilder::new();
    lab.host("h").router("r").host("far").host("alone").switch("s");
    lab.link("h", "s").link("r", "s").link("r", "far").link("s", "internet");
    lab.link("alone", "internet");
    let plan = plan(&lab.lab).unwrap();
    let PlannedEnd::Internet { addresses: door } = &plan.links[3].ends[1] else { panic!() };
    let h = routes_of(&plan, "h");
    assert_eq!((h[0].to, h[0].via), (net("0.0.0.0/0"), Some(door[0].addr())));
    assert_eq!(h[1].to, net("10.0.0.0/8"));
    assert!(plan.nodes.iter().all(|n| n.internet));
    let back = plan.ways_back();
    assert!(back.iter().any(|way| way.to.contains(&first(&plan, "far")[0])));
    assert!(back.iter().all(|way| way.door == LinkSlot::new(3)), "{back:?}");
    Simulator::new(&plan).check_all();
}

/// Each knows the way to what is behind the other, too.
#[test]
fn what_is_behind_two_doors_is_reached_by_the_nearer_one() {
    let mut lab = LabBuilder::new();
    lab.host("a").router("r1").router("r2").host("b");
    lab.link("r1", "internet")
        .link("r1", "r2")
        .link("r1", "a")
        .link("r2", "b")
        .link("r2", "internet");
    let plan = plan(&lab.lab).unwrap();
    let back = plan.ways_back();
    let prefixes: HashSet<IpNet> = back.iter().map(|way| way.to).collect();
    assert_eq!(prefixes.len(), back.len(), "one way each: {back:?}");
    let door_of = |node: &str| {
        let address = first(&plan, node)[0];
        let way = back
            .iter()
            .filter(|way| way.to.contains(&address))
            .max_by_key(|way| way.to.prefix_len());
        way.map(|way| way.door.get())
    };
    assert_eq!([door_of("a"), door_of("b")], [Some(0), Some(4)]);
    for door in [0, 4] {
        let PlannedEnd::Internet { addresses } = &plan.links[door].ends[1] else { panic!() };
        assert!(addresses.iter().all(|own| !prefixes.contains(&own.trunc())), "{back:?}");
    }
    Simulator::new(&plan).check_all();
}

/// A router would send packets for a block in which it has no address back by its default route.
#[test]
fn a_block_in_which_its_owner_has_no_address_leads_nowhere() {
    let mut lab = LabBuilder::new();
    lab.router("r").router("other").switch("s");
    lab.link("s", "internet").link("r", "s").link("other", "s").link("r", "internet").bare(0);
    let plan = plan(&lab.lab).unwrap();
    let PlannedEnd::Internet { addresses: door } = &plan.links[3].ends[1] else { panic!() };
    assert!(!door.is_empty());
    let simulator = Simulator::new(&plan);
    for address in door {
        let leads = |r: &Route| r.to.prefix_len() > 0 && r.to.contains(&address.addr());
        assert!(!routes_of(&plan, "other").iter().any(leads), "{address}");
        simulator.check_no_circle(address.hosts().nth(1).unwrap());
    }
    simulator.check_all();
}

#[test]
fn islands_of_routers_are_told_apart() {
    let mut lab = LabBuilder::new();
    lab.host("h").router("r1").router("r2").host("a").host("b");
    lab.link("h", "r1").link("h", "r2").link("r1", "a").link("r2", "b").link("r2", "internet");
    let plan = plan(&lab.lab).unwrap();
    let h = routes_of(&plan, "h");
    assert_eq!(h[0].interface, 1, "the default goes where the door is");
    assert!(h[1].interface == 0 && h[1].to.prefix_len() == 22);
    assert!(!plan.nodes[3].internet && plan.nodes[4].internet);
    Simulator::new(&plan).check_all();
}

#[test]
fn without_routing_there_are_no_routes() {
    let mut lab = two_sites();
    lab.routing = false;
    assert!(plan(&lab).unwrap().nodes.iter().all(|n| n.routes.is_empty()));
}

fn spec(to: Option<&str>, via: Option<Via>, dev: Option<&str>) -> RouteSpec {
    RouteSpec { to: to.map(net), via, dev: dev.map(str::to_owned) }
}

#[test]
fn routes_by_hand_are_resolved() {
    let mut lab = LabBuilder::new();
    lab.host("h").router("r").link("h", "r").address(0, "10.9.0.1/24");
    lab.routes(
        "h",
        vec![
            spec(None, Some(Via::Node("r".into())), None),
            spec(Some("192.0.2.0/24"), Some(Via::Address(ip("10.9.0.2"))), None),
            spec(Some("198.51.100.0/24"), None, Some("eth0")),
        ],
    );
    let plan = plan(&lab.lab).unwrap();
    let r = first(&plan, "r");
    let expected = [
        (net("0.0.0.0/0"), Some(r[0].addr())),
        (net("::/0"), Some(r[1].addr())),
        (net("192.0.2.0/24"), Some(ip("10.9.0.2"))),
        (net("198.51.100.0/24"), None),
    ];
    let h: Vec<_> = routes_of(&plan, "h").iter().map(|r| (r.to, r.via)).collect();
    assert_eq!(h, expected);
}

/// The error of a lab, as text.
fn refused(lab: &LabBuilder) -> String {
    plan(&lab.lab).unwrap_err().to_string()
}

#[test]
fn routes_by_hand_that_lead_nowhere_are_refused() {
    let refused_with = |route: RouteSpec| {
        let mut lab = LabBuilder::new();
        lab.host("h").router("r").router("q").link("h", "r").link("r", "q");
        refused(lab.routes("h", vec![route]))
    };
    assert_eq!(
        refused_with(spec(None, Some(Via::Node("q".into())), None)),
        r#"node "h": route to default: next hop "q" shares no segment with it"#
    );
    assert_eq!(
        refused_with(spec(Some("192.0.2.0/24"), Some(Via::Address(ip("10.0.0.1"))), None)),
        r#"node "h": route to 192.0.2.0/24: next hop 10.0.0.1 shares no segment with it"#
    );
    assert_eq!(
        refused_with(spec(Some("192.0.2.0/24"), Some(Via::Address(ip("fd00::1"))), None)),
        r#"node "h": route to 192.0.2.0/24: next hop fd00::1 is of the other address family"#
    );
    assert_eq!(
        refused_with(spec(None, None, Some("eth7"))),
        r#"node "h": route to default: no interface "eth7""#
    );
    assert_eq!(
        refused_with(spec(None, None, None)),
        r#"node "h": route to default: needs a next hop or an interface with an address"#
    );
}

#[test]
fn impossible_addresses_are_refused() {
    let two = || {
        let mut lab = LabBuilder::new();
        lab.host("a").host("b").host("c").switch("s").switch("t").link("a", "b");
        lab
    };
    assert_eq!(
        refused(two().address(0, "10.9.0.1/24").address(1, "10.9.0.1/24")),
        r#"interface "b:eth0": address 10.9.0.1 is already that of interface "a:eth0""#
    );
    assert_eq!(
        refused(two().address(0, "10.9.0.1/32").link("b", "c").address(0, "10.9.0.1/32")),
        r#"interface "b:eth1": address 10.9.0.1 is already that of interface "a:eth0""#
    );
    assert_eq!(
        refused(two().address(0, "10.9.0.255/24")),
        r#"interface "a:eth0": 10.9.0.255/24 is the network or broadcast address of its prefix"#
    );
    assert_eq!(
        refused(two().subnet("10.9.0.0/24").link("b", "c").address(0, "10.9.0.7/16")),
        r#"link "a:eth0--b:eth0": its prefix 10.9.0.0/24 overlaps that of link "b:eth1--c:eth0"; routes cannot tell them apart"#
    );
    assert_eq!(
        refused(
            two()
                .switch_subnet("s", "10.1.0.0/24")
                .switch_subnet("t", "10.2.0.0/24")
                .link("s", "t")
        ),
        r#"switch "t": its segment has the subnet 10.1.0.0/24 already, not 10.2.0.0/24"#
    );
    assert_eq!(
        refused(
            two().switch_subnet("s", "10.1.0.0/30").link("a", "s").link("b", "s").link("c", "s")
        ),
        r#"interface "c:eth0": no free address is left in 10.1.0.0/30; give its segment a larger subnet"#
    );
}

#[test]
fn exhausted_pools_name_who_got_nothing() {
    let mut lab = LabBuilder::new();
    lab.lab.pool.ipv4 = Some("10.5.0.0/16".parse().unwrap());
    lab.host("a").host("b").link("a", "b");
    lab.switch("s").switch_subnet("s", "10.5.128.0/17").link("b", "s");
    // Half a pool is taken by hand: what is left for the link is a small block.
    let small = plan(&lab.lab).expect("there is room");
    assert_eq!(small.nodes[0].interfaces[0].addresses[0], net("10.5.119.169/30"));
    lab.switch("t").switch_subnet("t", "10.5.96.0/19").link("b", "t");
    assert_eq!(
        refused(&lab),
        r#"link "a:eth0--b:eth0": no free prefix is left in the address pool 10.5.0.0/16; give it a subnet by hand"#
    );
    lab.lab.pool.ipv4 = Some("10.5.0.0/17".parse().unwrap());
    let too_small = PlanError::PoolTooSmall { pool: net("10.5.0.0/17"), longest: 16 };
    assert_eq!(plan(&lab.lab).unwrap_err(), too_small);
}

#[test]
fn a_bridge_has_so_many_ports() {
    let mut lab = LabBuilder::new();
    lab.switch("s");
    for i in 0..1024 {
        lab.host(&format!("h{i}")).link(&format!("h{i}"), "s");
    }
    assert_eq!(refused(&lab), r#"switch "s": 1024 ports, it has at most 1023"#);
    lab.lab.links.pop();
    let plan = plan(&lab.lab).unwrap();
    assert_eq!(plan.nodes[0].interfaces[0].mtu, 1500);
}

#[test]
fn mtu_comes_from_the_link_else_the_switch() {
    let mut lab = LabBuilder::new();
    lab.host("a").host("b").switch("s").link("a", "s").link("b", "s");
    lab.lab.switches[0].mtu = Some(9000);
    lab.lab.links[1].mtu = Some(1400);
    let plan = plan(&lab.lab).unwrap();
    let mtus: Vec<u32> = plan.links.iter().map(|l| l.mtu).collect();
    assert_eq!((mtus, plan.switches[0].mtu), (vec![9000, 1400], 9000));
}
