//! Plans of labs are sound; each kind of contradiction is reported.

use proptest::prelude::*;

use super::*;
use crate::plan::tests::property::any_lab;
use crate::plan::{LinkId, plan};

fn of(text: &str) -> Plan {
    plan(&crate::parse("t.yaml", text.as_bytes(), "t").unwrap()).unwrap()
}

const LAB: &str = "
nodes:
  a: {children: {limit: 4, nodes: {b: {limits: {memory: 64MiB}}}}, env: {A: b}, files: {/etc/x: y}, ports: ['8080:80'], run: [[true]],
    health: {tcp: 80}, exec: [[true]], binds: {/mnt/a: /tmp}, sysctls: {net.ipv4.tcp_ecn: 1}, loopback: 10.9.9.9}
  r: {kind: router, ospf: true, config: {ripd: x.conf}}
  v: {kind: vm, kernel: /k, memory: 64MiB}
switches: {s: {}, m: {kind: shm, ports: {prog: {vlan: 7}}}, o: {kind: openflow}}
links: [[a, s], [a, a/b], [r, s], [a/b, m], {ends: [r, o], delay: 5ms}, [a, o], [v, m], [a, nowhere], [a, internet]]
slices: {one: {controllers: node:a, switches: {o: [{vlan: 5}]}}}
";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_of_labs_are_sound(lab in any_lab()) {
        prop_assert_eq!(plan(&lab.lab).ok().and_then(|plan| plan.problem()), None);
    }
}

#[test]
fn a_plan_of_everything_is_sound_and_stays_so_as_json() {
    let plan = of(LAB);
    assert_eq!(plan.problem(), None);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap().problem(), None);
}

/// A contradiction, and a part of what is said of it.
type Wrong = (fn(&mut Plan), &'static str);

fn a(plan: &mut Plan) -> &mut PlannedNode {
    let at = plan.node("a").unwrap();
    &mut plan.nodes[at]
}

const WRONG: &[Wrong] = &[
    (|p| a(p).parent = Some(Slot::new(0)), "comes before the one that it lives in"),
    (|p| p.nodes[1].parent = Some(Slot::new(1)), "comes before the one that it lives in"),
    (|p| p.nodes[1].parent = Some(Slot::new(usize::MAX)), "comes before the one that it lives in"),
    (|p| p.nodes[2].parent = Some(Slot::new(0)), "does not live in the parent that its name gives"),
    (|p| p.nodes[1].parent = None, "does not live in the parent that its name gives"),
    (|p| a(p).children = None, "has no `children`"),
    (|p| a(p).children = Some(u32::MAX), "children: 4294967295 is not from 0 to"),
    (|p| p.nodes[3].name = "r".to_owned(), "two of the name"),
    (|p| a(p).name = "x/".repeat(9), "name"),
    (|p| a(p).id = p.nodes[2].id, "two of the id"),
    (|p| a(p).id = NodeId::CORE, "was never given away"),
    (|p| p.next_id = NodeId::new(usize::MAX), "more ids were given away"),
    (|p| a(p).interfaces[0].link = LinkSlot::new(1 << 40), "is not an end of its link"),
    (|p| a(p).interfaces[0].link = LinkSlot::new(2), "is not an end of its link"),
    (|p| a(p).interfaces[0].name = "..".to_owned(), "is reserved"),
    (|p| a(p).interfaces[1].name = "eth0".to_owned(), "two of the interface"),
    (|p| a(p).interfaces[1].index = 2, "two of the index"),
    (|p| a(p).interfaces[1].index = u32::MAX, "index or mtu"),
    (|p| a(p).interfaces[1].index = 1, "index or mtu"),
    (|p| a(p).interfaces[0].mtu = 0, "index or mtu"),
    (|p| a(p).routes[0].interface = 99, "leads nowhere"),
    (|p| a(p).routes[0].via = Some("fe80::1".parse().unwrap()), "a next hop of the other family"),
    (|p| a(p).routes[0].to = "10.0.0.1/8".parse().unwrap(), "bits that are not of the network"),
    (
        |p| a(p).interfaces[0].addresses[0] = "::/0".parse().unwrap(),
        "address ::/0 is not for hosts",
    ),
    (|p| a(p).loopback[0] = "224.0.0.1/4".parse().unwrap(), "is for multicast"),
    (|p| a(p).env.push(("A".to_owned(), String::new())), "two of the variable"),
    (|p| a(p).env.insert(0, ("B".to_owned(), String::new())), "not in the order"),
    (|p| a(p).env[0].0 = "A=".to_owned(), "cannot name a variable"),
    (|p| a(p).env[0].1 = "\0".to_owned(), "NUL"),
    (|p| a(p).files[0].path = "/../x".to_owned(), "must not hold `..`"),
    (|p| a(p).files[0].mode = u32::MAX, "more than permission bits"),
    (|p| a(p).binds[0].to = "/proc/x".to_owned(), "the node's own"),
    (|p| a(p).sysctls[0].0 = "net/../kernel/core_pattern".to_owned(), "is not a sysctl of a node"),
    (|p| a(p).sysctls[0].0 = "kernel/core_pattern".to_owned(), "is not a sysctl of a node"),
    (|p| a(p).run[0].command.clear(), "names no program"),
    (|p| a(p).setup.push(vec![]), "names no program"),
    (|p| a(p).ready.timeout = std::time::Duration::MAX, "longer than any"),
    (|p| a(p).exec[0].timeout = std::time::Duration::MAX, "longer than any"),
    (|p| a(p).health.as_mut().unwrap().interval = std::time::Duration::ZERO, "health"),
    (|p| a(p).health.as_mut().unwrap().retries = 0, "health"),
    (|p| a(p).ports[0].port = 0, "a port is 0"),
    (
        |p| p.nodes[2].ports = p.nodes[0].ports.clone(),
        "port 8080:80: it, or all addresses, is published",
    ),
    (
        |p| {
            let every = ["0.0.0.0:81:1", "127.0.0.1:81:2"].map(|text| text.parse().unwrap());
            p.nodes[2].ports = every.to_vec();
        },
        "port 127.0.0.1:81:2: it, or all addresses",
    ),
    (|p| a(p).loopback = vec!["10.0.0.1/32".parse().unwrap(); 300], "300 loopback addresses"),
    (|p| a(p).storage = Some(0), "storage: 0 is not from"),
    (|p| p.nodes[1].limits.memory = Some(0), "limits.memory: 0 is not from"),
    (|p| p.switches[0].name = "a".to_owned(), "two of the name"),
    (|p| p.switches[0].bridge = String::new(), "has no name"),
    (|p| p.switches[0].index = FIRST_PORT, "a bridge's index is"),
    (|p| p.switches[0].index = 1, "a bridge's index is 1"),
    (|p| p.switches[0].mtu = 1, "mtu 1 is not from"),
    (|p| shm(p).arena = 0, "arena"),
    (
        |p| {
            shm(p).ports.values_mut().next().unwrap().vlan =
                Some(crate::kinds::shm::PortVlan::Access(0))
        },
        "a VLAN",
    ),
    (|p| openflow(p).tables = 0, "tables"),
    (|p| openflow(p).max_entries = u32::MAX, "tables, max-entries"),
    (|p| openflow(p).versions.clear(), "versions"),
    (|p| p.links[0].name = p.links[1].name.clone(), "two of the link"),
    (|p| p.links[0].name = "x".repeat(601), "its name cannot be one"),
    (|p| p.links[0].id = p.links[1].id, "two of the link's id"),
    (|p| p.links[0].id = LinkId::new(usize::MAX), "was never given away"),
    (|p| p.links[0].mtu = u32::MAX, "mtu"),
    (
        |p| p.links[0].ends[0] = PlannedEnd::Node { node: Slot::new(9), interface: 0 },
        "is not an end of its link",
    ),
    (
        |p| p.links[0].ends[1] = PlannedEnd::Node { node: Slot::new(9), interface: 0 },
        "an end of it is not there",
    ),
    (|p| p.links[0].ends[1] = p.links[0].ends[0].clone(), "joins an interface to itself"),
    (|p| p.links[2].ends[1] = p.links[0].ends[1].clone(), "two of the port"),
    (|p| p.links[4].impairments[0].mtu = Some(1), "mtu: 1 is less"),
    (|p| router(p).grace = u32::MAX, "grace"),
    (|p| router(p).ospf.as_mut().unwrap().area = "0\n shutdown".to_owned(), "is not an area"),
    (|p| drop(router(p).config.insert("../x".to_owned(), "y".into())), "is not a daemon of FRR"),
    (|p| machine(p).memory = u64::MAX, "cannot have this much memory"),
    (|p| machine(p).cpus = 0, "cannot have this much memory or this many processors"),
    (|p| scheme(p).pool.ipv4 = Some("10.0.0.0/30".parse().unwrap()), "large enough"),
    (|p| scheme(p).blocks[0].1 = "10.0.0.0/32".parse().unwrap(), "is not in the pool"),
    (|p| scheme(p).blocks[0].1 = "192.0.2.0/24".parse().unwrap(), "is not in the pool"),
    (
        |p| assert!(scheme(p).routed_by_hand.insert(NodeId::new(1 << 20))),
        "has routes by hand and is not there",
    ),
    (|p| scheme(p).next_link = LinkId::new(usize::MAX), "more ids were given away"),
    (|p| scheme(p).next_link = LinkId::new(1), "was never given away"),
    (|p| p.slices.push(p.slices[0].clone()), "two of the slice"),
    (|p| p.slices[0].name = "\n".to_owned(), "name"),
    (|p| drop(p.slices[0].switches.insert("none".to_owned(), vec![])), "there is no switch"),
];

fn scheme(plan: &mut Plan) -> &mut Scheme {
    plan.scheme.as_mut().unwrap()
}

fn router(plan: &mut Plan) -> &mut crate::kinds::router::Router {
    match &mut plan.nodes[2].kind {
        crate::kinds::NodeKind::Router(router) => router,
        other => panic!("{other:?}"),
    }
}

fn machine(plan: &mut Plan) -> &mut crate::kinds::vm::Machine {
    match &mut plan.nodes[3].kind {
        crate::kinds::NodeKind::Vm(machine) => machine,
        other => panic!("{other:?}"),
    }
}

fn shm(plan: &mut Plan) -> &mut crate::kinds::shm::ShmSwitch {
    match &mut plan.switches[1].kind {
        crate::kinds::SwitchKind::Shm(options) => options,
        other => panic!("{other:?}"),
    }
}

fn openflow(plan: &mut Plan) -> &mut crate::kinds::openflow::OpenflowSwitch {
    match &mut plan.switches[2].kind {
        crate::kinds::SwitchKind::Openflow(options) => options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_contradiction_is_told() {
    let told_otherwise = WRONG.iter().enumerate().filter_map(|(at, (wrong, words))| {
        let mut plan = of(LAB);
        wrong(&mut plan);
        let problem = plan.problem();
        let told = problem.as_deref().is_some_and(|problem| problem.contains(words));
        (!told).then(|| format!("{at}, {words:?}: {problem:?}"))
    });
    let all: Vec<String> = told_otherwise.collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}
