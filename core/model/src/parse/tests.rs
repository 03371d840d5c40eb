//! Valid lab files and their meaning.

use super::*;
use crate::lab::{End, FileContent, NodeSpec, Restart, Via};
use crate::plan::Slot;

fn lab(text: &str) -> Lab {
    parse("t.yaml", text.as_bytes(), "t").unwrap_or_else(|e| panic!("{e}"))
}

fn errors(text: &str) -> String {
    match parse("t.yaml", text.as_bytes(), "t") {
        Ok(lab) => panic!("no error in {lab:?}"),
        Err(e) => e.to_string(),
    }
}

/// The fault of a node's body.
pub(super) fn errors_of_node(body: &str) -> Vec<String> {
    let text = format!("nodes: {{a: {{{body}}}}}");
    match crate::parse("f", text.as_bytes(), "f") {
        Ok(_) => vec![],
        Err(e) => e.list.into_iter().map(|d| d.message).collect(),
    }
}

fn env<'l>(node: &'l Node, name: &str) -> Option<&'l str> {
    node.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn names(lab: &Lab) -> Vec<&str> {
    lab.nodes.iter().map(|n| n.name.as_str()).collect()
}

#[test]
fn the_demo_is_read() {
    let lab = lab(include_str!("../../../../examples/two-sites.yaml"));
    assert_eq!(lab.name, "two-sites");
    assert_eq!(names(&lab), ["h1", "h2", "r1", "r2", "web"]);
    assert_eq!(lab.nodes[4].run[0].command[3], "80");
    assert_eq!(lab.nodes[4].files[0].content, FileContent::Text("hello\n".into()));
    assert_eq!(lab.nodes[4].ready.tcp, [80]);
    assert!(lab.nodes[2].forwarding.any() && !lab.nodes[0].forwarding.any());
    assert_eq!(lab.links.len(), 5);
    assert_eq!(lab.links[3].ends[0], End::Node { node: 2, iface: Some("eth1".into()) });
    assert_eq!(lab.links[0].ends[1], End::Switch { switch: 0 });
    assert!(lab.routing && lab.pool.ipv4.is_some() && lab.pool.ipv6.is_some());
}

#[test]
fn every_key_of_a_node_is_read() {
    let lab = lab("
nodes:
  a:
    forwarding: true
    limits: {cpu: 1.5, memory: 256MiB, processes: 100}
    root: images/alpine
    run: [[sleep, 1], {command: [web, 80], restart: on-failure}]
    env: {PORT: 80, EMPTY: ''}
    files:
      /etc/a: \"{x} stays\\n\"
      /etc/b: {from: b.txt, mode: 0755}
    ready: {tcp: [80, 443], exec: [test, -f, /x], file: /run/up, timeout: 1m}
    sysctls: {net.ipv4.tcp_ecn: 1}
    routes:
      - {to: default, via: b}
      - {to: 10.9.0.0/16, via: 10.0.0.1, dev: eth0}
  b:
links: [[a, b]]
");
    let a = &lab.nodes[0];
    assert_eq!(
        (a.limits.cpu_milli, a.limits.memory, a.limits.processes),
        (Some(1500), Some(256 << 20), Some(100))
    );
    assert_eq!(a.root.as_deref(), Some(std::path::Path::new("images/alpine")));
    assert_eq!(a.run[1].command, ["web", "80"]);
    assert_eq!((a.run[0].restart, a.run[1].restart), (Restart::Never, Restart::OnFailure));
    assert_eq!((env(a, "PORT").unwrap(), env(a, "EMPTY").unwrap()), ("80", ""));
    assert_eq!(a.files[0].content, FileContent::Text("{x} stays\n".into()));
    assert_eq!((a.files[0].mode, a.files[1].mode), (0o644, 0o755));
    assert_eq!(a.files[1].content, FileContent::From("b.txt".into()));
    assert_eq!((a.ready.tcp.as_slice(), a.ready.timeout.as_secs()), ([80, 443].as_slice(), 60));
    assert_eq!((a.ready.exec.as_ref().unwrap().len(), a.ready.files[0].as_str()), (3, "/run/up"));
    assert_eq!(a.sysctls["net.ipv4.tcp_ecn"], "1");
    let routes = a.routes.as_ref().unwrap();
    assert_eq!((routes[0].to, &routes[0].via), (None, &Some(Via::Node("b".into()))));
    assert_eq!((routes[1].to.unwrap().prefix_len(), routes[1].dev.as_deref()), (16, Some("eth0")));
    let plain = NodeSpec { name: "b".into(), ..NodeSpec::default() };
    assert_eq!(lab.nodes[1], plain.into());
}

#[test]
fn a_route_leads_by_an_interface_as_it_is_called() {
    let file = |dev: &str| {
        format!(
            "nodes: {{a: {{routes: [{{to: 10.9.0.0/16, dev: {dev}}}]}}, b: {{}}}}\nlinks: [[a, b], [a, b]]\n"
        )
    };
    for dev in ["eth0", "eth1"] {
        lab(&file(dev));
    }
    for dev in ["eth2", "eth01", "eth+1", "eth"] {
        let told = errors(&file(dev));
        assert!(told.contains(&format!("node \"a\" has no interface \"{dev}\"")), "{told}");
    }
}

#[test]
fn ends_may_have_no_address() {
    let lab = lab("
nodes: {a: , b: }
switches: {s: {subnet: 10.0.0.0/30}}
links:
  - {ends: [a, b], addresses: none}
  - {ends: [a, b], addresses: {'b': none, a: 10.1.0.1/24}}
  - {ends: [a, s], addresses: none}
  - {ends: [a, s], addresses: {a: none}}
  - [a, s]
  - [b, s]
");
    let bare: Vec<[bool; 2]> = lab.links.iter().map(|l| l.bare).collect();
    let none = [false; 2];
    assert_eq!(bare, [[true, true], [false, true], [true, false], [true, false], none, none]);
}

#[test]
fn routing_is_a_word_or_a_map() {
    let read = |routing: &str| {
        let lab = lab(&format!("nodes: {{a: }}\n{routing}\n"));
        (lab.routing, lab.ecmp)
    };
    for (text, expected) in [
        ("", (true, true)),
        ("routing: auto", (true, true)),
        ("routing: none", (false, true)),
        ("routing: {ecmp: false}", (true, false)),
        ("routing: {mode: none}", (false, true)),
        ("routing: {mode: auto, ecmp: true}", (true, true)),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn links_and_switches_are_read() {
    let lab = lab("
pool: {ipv4: none, ipv6: 'fd12::/16'}
routing: none
nodes: {a: , b: , c: }
switches: {s1: {kind: kernel, subnet: [10.1.0.0/24, 'fd00:1::/64'], mtu: 9000}, s2: }
links:
  - {ends: ['a:net0', b], name: trunk, addresses: {'a:net0': [10.2.0.1/30, 'fd00:2::1/64'], b: 10.2.0.2/30}, mtu: 1400}
  - {ends: [s1, c], addresses: {c: 10.1.0.7/24}}
  - [s1, s2]
  - ['host:eth7', s2]
  - {ends: [internet, a], subnet: 10.3.0.0/24}
");
    assert!(lab.pool.ipv4.is_none() && !lab.routing);
    assert_eq!(lab.pool.ipv6.unwrap().to_string(), "fd12::/16");
    assert_eq!((lab.switches[0].subnets.len(), lab.switches[0].mtu), (2, Some(9000)));
    let trunk = &lab.links[0];
    assert_eq!((trunk.name.as_deref(), trunk.mtu), (Some("trunk"), Some(1400)));
    assert_eq!((trunk.addresses[0].len(), trunk.addresses[1].len()), (2, 1));
    assert_eq!(lab.links[1].addresses[1][0].to_string(), "10.1.0.7/24");
    assert_eq!(lab.links[3].ends, [End::Host { iface: "eth7".into() }, End::Switch { switch: 1 }]);
    assert_eq!(lab.links[4].ends[0], End::Internet);
    assert_eq!(lab.links[4].subnets.len(), 1);
}

#[test]
fn for_runs_over_ranges_counts_and_lists() {
    let lab = lab("
nodes:
  'a{x}': {for: {x: 2..4}}
  'b{i}{j}': {for: {i: 3, j: i+1..2}}
  'c-{k}': {for: {k: [left, right]}, forwarding: \"{k == 'left'}\"}
  'd{x}{y}': {for: {x: '0..y', y: 2}, if: 'x != y'}
  'e{x}': {for: {x: 1..0+x0, x0: [1]}}
");
    let expected = ["a2", "a3", "a4", "b01", "b02", "b12", "c-left", "c-right", "d01", "e1"];
    assert_eq!(names(&lab), expected);
    assert!(lab.nodes[6].forwarding.any() && !lab.nodes[7].forwarding.any());
}

#[test]
fn every_text_of_a_repeated_entry_is_filled_in_and_no_other() {
    let lab = lab("
nodes:
  'h{x}':
    for: {x: 1..2}
    env: {'N{x}': 'v{x * 10}', JSON: '{{\"a\": {x}}}'}
    limits: {processes: '{x + 1}'}
    run: [[echo, '{x % 2}', 7]]
  plain: {env: {JSON: '{\"a\": 1}'}}
links:
  - {for: {x: 1..2}, ends: ['h{x}:e{x}', plain], name: 'l{x}', mtu: '{1400 + x}'}
");
    let h2 = &lab.nodes[1];
    assert_eq!((env(h2, "N2").unwrap(), env(h2, "JSON").unwrap()), ("v20", "{\"a\": 2}"));
    assert_eq!((h2.limits.processes, h2.run[0].command[1].as_str()), (Some(3), "0"));
    assert_eq!(env(&lab.nodes[2], "JSON").unwrap(), "{\"a\": 1}");
    assert_eq!((lab.links[1].name.as_deref(), lab.links[1].mtu), (Some("l2"), Some(1402)));
}

#[test]
fn indices_run_in_order_of_dependence_then_of_writing() {
    let lab = lab("nodes: {'n{a}{b}{c}': {for: {a: 'c..1', b: 2, c: 2}}}");
    // b comes first, then c; a needs c and is the innermost.
    assert_eq!(names(&lab), ["n000", "n100", "n101", "n010", "n110", "n111"]);
}

#[test]
fn the_name_comes_from_the_file_when_it_gives_none() {
    let text = b"nodes: {a: }";
    assert_eq!(parse("x/my-lab.yaml", text, "my-lab").unwrap().name, "my-lab");
    let error = parse("x/my lab.yaml", text, "my lab").unwrap_err().to_string();
    assert!(
        error.starts_with("x/my lab.yaml:1:1: error: lab name \"my lab\" holds \" \""),
        "{error}"
    );
    assert!(error.contains("help: give the lab a name"), "{error}");
}

#[test]
fn aliases_carry_bodies_between_nodes() {
    let lab = lab("
x-router: &router {forwarding: true, env: {A: 1}}
nodes:
  r1: *router
  r2: {<<: *router, env: {B: 2}}
");
    assert!(lab.nodes[0].forwarding.any() && lab.nodes[1].forwarding.any());
    assert!(env(&lab.nodes[1], "B").is_some() && env(&lab.nodes[1], "A").is_none());
}

#[test]
fn a_switch_takes_1023_links_and_no_more() {
    let text = |n: usize| {
        format!(
            "nodes: {{'n{{x}}': {{for: {{x: {n}}}}}}}\nswitches: {{s: }}\nlinks: [{{for: {{x: {n}}}, ends: ['n{{x}}', s]}}]"
        )
    };
    assert_eq!(lab(&text(1023)).links.len(), 1023);
    let error = errors(&text(1024));
    assert!(error.contains("switch \"s\" has more than 1023 links (with x=1023)"), "{error}");
}

#[test]
fn sizes_are_bounded() {
    assert_eq!(lab("nodes: {'n{x}': {for: {x: 65536}}}").nodes.len(), MAX_NODES);
    assert!(errors("nodes: {'n{x}': {for: {x: 65537}}}").contains("more than 65536 nodes"));
    let error =
        errors("nodes: {a: , b: }\nlinks: [{for: {x: 300000}, ends: ['a:e{x}', 'b:e{x}']}]");
    assert!(error.contains("more than 262144 links"), "{error}");
}

#[test]
fn a_recording_has_a_bound() {
    let of = |text: &str| lab(&format!("nodes: {{a: }}\n{text}")).record.map(|record| record.keep);
    assert_eq!(of(""), None);
    assert_eq!(of("record: false"), None);
    assert_eq!(of("record: true"), Some(2 << 30));
    assert_eq!(of("record: {}"), Some(2 << 30));
    assert_eq!(of("record: {keep: 4MiB}"), Some(4 << 20));
    for (text, expected) in [
        ("record: 2GiB", "found \"2GiB\"\n  help: write record: {keep: 2GiB}"),
        ("record: perhaps", "record: expected true or false"),
        ("record: {keep: 4MB}", "record.keep: at least 4MiB is needed"),
        ("record: {keep: much}", "record.keep"),
        ("record: {most: 1GiB}", "most"),
    ] {
        let told = errors(&format!("nodes: {{a: }}\n{text}"));
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn sysctls_stay_below_net() {
    for (key, good) in [
        ("net.ipv4.tcp_ecn", true),
        ("net/ipv4/conf/eth0.1/rp_filter", true),
        ("net", false),
        ("net.", false),
        ("net..x", false),
        ("net/../kernel/x", false),
        ("net/ipv4/./x", false),
        ("kernel.hostname", false),
        ("network.x", false),
    ] {
        let text = format!("nodes: {{a: {{sysctls: {{{key}: 1}}}}}}");
        assert_eq!(parse("t", text.as_bytes(), "t").is_ok(), good, "{key}");
    }
}

#[test]
fn work_on_expressions_is_bounded() {
    let text = format!(
        "nodes: {{'n{{a}}': {{for: {{a: 100, b: 1000}}, if: '{}b < 0'}}}}",
        "a + ".repeat(120)
    );
    let error = errors(&text);
    assert!(
        error.contains("1:23: error: this `for` makes more than one file may ask for"),
        "{error}"
    );
}

#[test]
fn a_repeated_entry_reports_each_place_once() {
    let error = errors("nodes: {'n{x}': {for: {x: 100}, root: '', limits: {cpu: '{x-5}%'}}}");
    assert!(error.contains("nodes.n0.root: empty (with x=0)"), "{error}");
    assert!(error.contains("found \"-5%\" (with x=0)"), "{error}");
    assert!(error.ends_with("t.yaml: 2 errors"), "{error}");
}

#[test]
fn protection_is_a_word_a_rate_or_a_map() {
    for (text, packets, auto, bounds) in [
        ("auto", None, Some(true), true),
        ("off", None, Some(false), false),
        ("50k/s", Some(50_000), None, true),
        ("7", Some(7), None, true),
        ("{auto: true, packets: 9}", Some(9), Some(true), true),
        ("{auto: false, packets: 9}", Some(9), Some(false), true),
    ] {
        let protect = lab(&format!("nodes: {{a: {{protect: {text}}}}}\n")).nodes[0].protect;
        assert_eq!((protect.packets, protect.auto), (packets, auto), "{text}");
        assert_eq!(!protect.is_empty(), bounds, "{text}");
    }
}

#[test]
fn bounds_of_a_node_are_read() {
    let lab = lab("
nodes:
  a:
    limits: {weight: 300, sockets: 500}
    protect: {packets: 200k/s, bytes: 1GB/s}
    charge-receive: false
  b: {protect: {bytes: 1.5 MiB/s}}
");
    let [a, b] = &lab.nodes[..] else { panic!() };
    assert_eq!((a.limits.weight, a.limits.sockets), (Some(300), Some(500)));
    assert_eq!((a.protect.packets, a.protect.bytes), (Some(200_000), Some(1_000_000_000)));
    assert_eq!((a.charge_receive, b.charge_receive), (false, true));
    assert_eq!((b.protect.packets, b.protect.bytes), (None, Some(1_572_864)));
}

#[test]
fn children_follow_their_parents() {
    let lab = lab("
nodes:
  t:
    children:
      nodes:
        a: {children: {limit: 7, nodes: {x: , y: {children: }}}}
        b: {limits: {cpu: 50%}, routes: [{to: default, via: t/a}]}
  z: {children: {limit: 3}}
switches: {s: }
links:
  - [t, 't/a:up']
  - {ends: [t/a, t/b], addresses: {t/b: 10.1.0.2/24, 't/a': 10.1.0.1/24}}
  - [t/a/x, s]
");
    assert_eq!(names(&lab), ["t", "t/a", "t/a/x", "t/a/y", "t/b", "z"]);
    let parents: Vec<_> = lab.nodes.iter().map(|n| n.parent).collect();
    assert_eq!(
        parents,
        [None, Some(0), Some(1), Some(1), Some(0), None].map(|at| at.map(Slot::new))
    );
    let limits: Vec<_> = lab.nodes.iter().map(|n| n.children).collect();
    assert_eq!(limits, [Some(4), Some(7), None, Some(0), None, Some(3)]);
    assert_eq!(lab.links[0].ends[1], End::Node { node: 1, iface: Some("up".into()) });
    assert_eq!(lab.links[1].addresses[1][0].to_string(), "10.1.0.2/24");
    assert!(crate::plan::plan(&lab).is_ok());
}

#[test]
fn children_stand_in_the_scope_of_indices_around_them() {
    let lab = lab("
nodes:
  't{i}':
    for: {i: 1..2}
    children:
      limit: '{i * 10}'
      nodes:
        one: {env: {OF: 't{i}', TEXT: '{{}}'}}
        'n{j}':
          for: {j: 'i..2', k: 'j..2'}
          if: k == 2
          limits: {processes: '{10 * i + j}'}
          children: {nodes: {'{k}-{i}{j}': {for: {l: [only]}}}}
  plain: {children: {nodes: {'p{x}': {for: {x: 2}}}}}
");
    let expected =
        ["t1", "t1/one", "t1/n1", "t1/n1/2-11", "t1/n2", "t1/n2/2-12", "t2", "t2/one", "t2/n2"];
    assert_eq!(names(&lab)[..9], expected);
    assert_eq!(lab.nodes[4].limits.processes, Some(12));
    assert_eq!(
        (env(&lab.nodes[1], "OF").unwrap(), env(&lab.nodes[1], "TEXT").unwrap()),
        ("t1", "{}")
    );
    assert_eq!((lab.nodes[0].children, lab.nodes[6].children), (Some(10), Some(20)));
}

#[test]
fn errors_in_repeated_children_come_once_with_all_indices() {
    let error = errors(
        "
nodes:
  't{i}':
    for: {i: 1..3}
    children:
      nodes:
        'n{j}': {for: {j: 1..3}, root: '', env: {A: '{1 / (i - i)}'}}
        m: {limits: {processes: '{i - 2}'}}
        'o{k}': {for: {i: 2}, env: {A: '{k}'}}
",
    );
    assert!(error.contains("7:53: error: 1 / 0 has no value (with i=1, j=1)"), "{error}");
    assert!(error.contains("found -1 (with i=1)"), "{error}");
    assert!(error.contains("for: \"i\" is an index of the `for` around this one"), "{error}");
    assert!(error.ends_with("t.yaml: 3 errors"), "{error}");
}

#[test]
fn nesting_is_bounded_in_depth_number_and_work() {
    let nest = |depth: usize| {
        let open = "{n: {children: {nodes: ".repeat(depth - 1);
        format!("nodes: {open}{{n: }}{}", "}}}".repeat(depth - 1))
    };
    assert_eq!(lab(&nest(8)).nodes[7].name, "n/n/n/n/n/n/n/n");
    assert!(errors(&nest(9)).contains("nodes live in each other 8 deep at most"));
    let many = "nodes: {'a{x}': {for: {x: 300}, children: {nodes: {'b{y}': {for: {y: 300}}}}}}";
    assert!(errors(many).contains("more than 65536 nodes"));
    let body = format!("env: {{A: {}}}", "x".repeat(50_000));
    let work = format!(
        "nodes: {{'a{{x}}': {{for: {{x: 30000}}, children: {{nodes: {{b: {{for: {{y: 1}}, if: y > 1, {body}}}}}}}}}}}"
    );
    let error = errors(&work);
    assert!(error.contains("makes more than one file may ask for"), "{error}");
    let long = format!("nodes: {{{}: {{children: {{nodes: {{b: }}}}}}}}", "a".repeat(252));
    assert!(errors(&long).contains("at most 253 are allowed"));
}

#[test]
fn impairments_are_read_for_both_directions_and_for_one() {
    use netloom_impair::{Bursts, Distribution, Impairments, Jitter, Loss, Queue, Share};
    use std::time::Duration;
    let lab = lab("
nodes: {a: , b: }
switches: {s: }
links:
  - ends: [a, b]
    delay: 10ms
    rate: 1gbit
    seed: 18446744073709551615
    loss: {random: 0.1%, correlation: 25%}
    mtu: 1400
    a: {rate: none, jitter: {spread: 2ms, distribution: uniform}, loss: {pattern: ..x}, mtu: 1300}
    b: {queue: 100, loss: {bursts: {enter: 1%, leave: 25%, good: 0.5%}}, duplicate: 1%}
  - {ends: ['host:eth7', s], delay: 1ms, queue: 5ms}
  - {ends: [internet, a], loss: 1%}
  - [a, s]
");
    const P: u32 = 10_000_000;
    let delay = Duration::from_millis(10);
    let jitter = Jitter {
        spread: Duration::from_millis(2),
        distribution: Distribution::Uniform,
        correlation: Share::NONE,
    };
    let bursts =
        Bursts { enter: Share(P), leave: Share(25 * P), bad: Share::ALL, good: Share(P / 2) };
    let [a, b] = &lab.links[0].impairments;
    let both = Impairments { delay, seed: Some(u64::MAX), ..Impairments::default() };
    let expected = Impairments {
        jitter: Some(jitter),
        loss: Some(Loss::Pattern(vec![false, false, true])),
        mtu: Some(1300),
        ..both.clone()
    };
    assert_eq!(*a, expected);
    let expected = Impairments {
        rate: Some(1_000_000_000),
        queue: Some(Queue::Packets(100)),
        loss: Some(Loss::Bursts(bursts)),
        duplicate: Share(P),
        ..both
    };
    assert_eq!(*b, expected);
    assert_eq!(lab.links[0].mtu, Some(1400));
    assert_eq!(lab.links[1].impairments[0], lab.links[1].impairments[1]);
    assert!(!lab.links[2].impairments[1].is_none() && lab.links[3].impairments[0].is_none());
}

#[test]
fn switches_in_shared_memory() {
    use crate::kinds::SwitchKind;
    use crate::kinds::shm::{
        MirrorDirection, OWN_ADDRESS, PortVlan, ShmMirror, ShmPort, ShmSwitch, VdeFolder,
    };
    let text = "
nodes: {a: , b: , c: }
switches:
  k: {}
  s: {kind: shm}
  t:
    kind: shm
    mode: 660
    group: 12
    arena: 1MiB
    ageing: 5m
    ports:
      a: {vlan: 7, lock: [own, '02:00:00:00:00:0A']}
      'b:x': {trunk: [20..29, '3, 4'], native: 1, number: 9}
      k: {trunk: all}
      tag: {qinq: 20, cvlans: [3, '7..9'], tpid: 0x9100}
      all: {qinq: 21}
      internet: {lock: '02:00:00:00:00:01'}
      'host:eth7':
      probe: {owner: nobody}
    mirrors:
      - {from: [a, internet], to: probe, direction: out, filter: 'udp,vlan 7'}
      - {from: 'b:x', to: c, filter: all}
links: [[a, t], ['b:x', t], [k, t], [internet, t], ['host:eth7', t], [t, c], [c, s], [s, t]]
";
    let lab = lab(text);
    assert_eq!(lab.switches[0].kind, SwitchKind::Bridge);
    assert_eq!(lab.switches[1].kind, SwitchKind::Shm(ShmSwitch::default()));
    let port = |lock: &[&str], vlan| ShmPort {
        lock: lock.iter().map(|l| (*l).to_owned()).collect(),
        vlan,
        ..ShmPort::default()
    };
    let trunk = |native, allowed: &str| Some(PortVlan::Trunk { native, allowed: allowed.into() });
    let qinq = |vlan, cvlans: Option<&str>, tpid: &str| {
        Some(PortVlan::Qinq { vlan, cvlans: cvlans.map(str::to_owned), tpid: tpid.into() })
    };
    let ports = [
        ("a:eth0", port(&[OWN_ADDRESS, "02:00:00:00:00:0a"], Some(PortVlan::Access(7)))),
        ("b:x", ShmPort { number: Some(9), ..port(&[], trunk(Some(1), "3-4,20-29")) }),
        ("k--t", port(&[], trunk(None, "all"))),
        ("tag", port(&[], qinq(20, Some("3,7-9"), "0x9100"))),
        ("all", port(&[], qinq(21, None, "0x88a8"))),
        ("internet--t", port(&["02:00:00:00:00:01"], None)),
        ("host:eth7", ShmPort::default()),
        ("probe", ShmPort { owner: Some("nobody".into()), ..ShmPort::default() }),
    ];
    let mirror = |from: &[&str], direction, to: &str, filter: &str| ShmMirror {
        from: from.iter().map(|f| (*f).to_owned()).collect(),
        direction,
        to: to.into(),
        filter: filter.into(),
    };
    let expected = ShmSwitch {
        mode: 0o660,
        group: Some("12".into()),
        arena: 1 << 20,
        ageing: 300,
        ports: ports.into_iter().map(|(name, port)| (name.to_owned(), port)).collect(),
        mirrors: vec![
            mirror(&["a:eth0", "internet--t"], MirrorDirection::Out, "probe", "vlan 7, udp"),
            mirror(&["b:x"], MirrorDirection::Both, "c:eth0", ""),
        ],
        vde: VdeFolder::None,
    };
    assert_eq!(lab.switches[2].kind.as_shm(), Some(&expected));

    let plan = crate::plan::plan(&lab).unwrap();
    let mac = netloom_bridge::Mac(plan.nodes[0].interfaces[0].mac).to_string();
    let mut planned = expected;
    planned.ports.get_mut("a:eth0").unwrap().lock[0] = mac;
    assert_eq!(plan.switches[2].kind, SwitchKind::Shm(planned));
    assert_eq!(plan.switches[0].kind, SwitchKind::Bridge);
}

#[test]
fn a_switch_in_shared_memory_has_255_ports() {
    let text = |links: usize| {
        format!(
            "nodes: {{'n{{i}}': {{for: {{i: {links}}}}}}}\n\
             switches: {{s: {{kind: shm, ports: {{probe: }}}}}}\n\
             links: [{{for: {{i: {links}}}, ends: ['n{{i}}', s]}}]"
        )
    };
    assert_eq!(lab(&text(254)).links.len(), 254);
    let error = errors(&text(255));
    assert!(error.contains("\"s\" has 256 ports, one of kind shm at most 255"), "{error}");
}

#[test]
fn switches_that_controllers_program() {
    use crate::kinds::openflow::{DatapathId, FailMode, OpenflowSwitch, OpenflowVersion, TlsFiles};
    let text = "
nodes: {a: , b: , c0: {children: {nodes: {x: }}}}
switches:
  s: {kind: openflow}
  t:
    kind: openflow
    controllers: [node:c0, 'node:c0/x:7', host, 'tls:[fd00::1]:6654']
    versions: [1.3, 1.0, '1.3']
    datapath: 0x2a
    tables: 2
    max-entries: 1000
    auxiliary: 2
    tls: {authorities: ca.pem, certificate: s.pem, key: s.key, name: c0.example}
  u: {kind: openflow, controllers: tcp:10.0.0.5, fail: standalone, versions: 1.0}
links: [[a, s], [s, b], [s, t], [t, a]]
";
    let lab = lab(text);
    let of = |at: usize| lab.switches[at].kind.as_openflow().unwrap();
    assert_eq!(*of(0), OpenflowSwitch::default());
    assert_eq!(of(0).fail, FailMode::Standalone);
    let controllers = ["node:c0:6653", "node:c0/x:7", "host:6653", "tls:[fd00::1]:6654"];
    let expected = OpenflowSwitch {
        datapath: DatapathId::new(42),
        controllers: controllers.map(|text| text.parse().unwrap()).to_vec(),
        fail: FailMode::Secure,
        versions: vec![OpenflowVersion::V10, OpenflowVersion::V13],
        tables: 2,
        max_entries: 1000,
        auxiliary: 2,
        tls: Some(TlsFiles {
            authorities: "ca.pem".into(),
            certificate: Some("s.pem".into()),
            key: Some("s.key".into()),
            name: Some("c0.example".into()),
        }),
    };
    assert_eq!(*of(1), expected);
    assert_eq!((of(2).fail, of(2).versions.len()), (FailMode::Standalone, 1));

    let plan = crate::plan::plan(&lab).unwrap();
    let numbers = |plan: &crate::plan::Plan| {
        let ends = plan.links.iter().flat_map(|link| &link.ends);
        let numbers = ends.filter_map(|end| match end {
            crate::plan::PlannedEnd::Port { switch, number, .. } => Some((switch.get(), *number)),
            _ => None,
        });
        numbers.collect::<Vec<_>>()
    };
    let all = [(0, Some(1)), (0, Some(2)), (0, Some(3)), (1, Some(1)), (1, Some(2))];
    assert_eq!(numbers(&plan), all);
    let datapath = |at: usize| plan.switches[at].kind.as_openflow().unwrap().datapath.unwrap();
    assert_eq!(datapath(1).get(), 42);
    // Controllers know a switch by it, for ever.
    assert_eq!(datapath(0).to_string(), "00008490568d2b93");
    assert_ne!(datapath(0), datapath(2));
}

#[test]
fn port_numbers_stay_while_links_come_and_go() {
    use crate::plan::{LinkSlot, NewEnd, NewLink, PlannedEnd, Slot, SwitchSlot};
    let text = "nodes: {a: , b: , c: }\nswitches: {s: {kind: openflow}, k: {}}\n\
                links: [[a, s], [b, s], [c, s], [a, k]]";
    let mut plan = crate::plan::plan(&lab(text)).unwrap();
    let link = |node: usize, switch: usize| NewLink {
        name: None,
        ends: [
            NewEnd::Switch(SwitchSlot::new(switch)),
            NewEnd::Node { node: Slot::new(node), iface: None, there: vec![] },
        ],
        addresses: [vec![], vec![]],
        bare: [false, false],
        macs: [None; 2],
        mtu: None,
        impairments: Default::default(),
    };
    let number = |plan: &crate::plan::Plan, at: usize| {
        plan.links[LinkSlot::new(at)].ends.iter().find_map(|end| match end {
            PlannedEnd::Port { number, .. } => Some(*number),
            _ => None,
        })
    };
    plan.remove_link(LinkSlot::new(1)).unwrap();
    assert_eq!([0, 1].map(|at| number(&plan, at)), [Some(Some(1)), Some(Some(3))]);
    for (node, expected) in [(1, Some(2)), (1, Some(4))] {
        let slot = plan.add_link(link(node, 0)).unwrap();
        assert_eq!(number(&plan, slot.get()), Some(expected));
    }
    let slot = plan.add_link(link(1, 1)).unwrap();
    assert_eq!(number(&plan, slot.get()), Some(None));
}

#[test]
fn a_link_says_which_number_its_port_has() {
    let lab =
        "nodes: {a: , b: , c: }\nswitches: {s: {kind: openflow}, k: {}, m: {kind: shm}}\nlinks:\n";
    let with = |links: &str| parse("t", format!("{lab}{links}").as_bytes(), "t");
    let good = with(
        "  - [a, s]\n  - {ends: [b, s], port: {s: 1}}\n  - {ends: [s, c], port: {s: 65279}}\n",
    );
    let plan = crate::plan::plan(&good.unwrap()).unwrap();
    let ends = plan.links.iter().flat_map(|link| &link.ends);
    let numbers: Vec<u32> = ends.filter_map(|end| Some(plan.port_number(end)?.1)).collect();
    assert_eq!((numbers, plan.problem()), (vec![2, 1, 65279], None));
    for (links, said) in [
        (
            "  - {ends: [a, s], port: {s: 0}}\n",
            "links[0].port.s: expected a whole number from 1 to 65279, found 0",
        ),
        (
            "  - {ends: [a, s], port: {s: 65280}}\n",
            "links[0].port.s: expected a whole number from 1 to 65279, found 65280",
        ),
        (
            "  - {ends: [a, s], port: {a: 2}}\n",
            "port: \"a\": only a switch of kind openflow takes it",
        ),
        (
            "  - {ends: [a, k], port: {k: 2}}\n",
            "port: \"k\": only a switch of kind openflow takes it",
        ),
        (
            "  - {ends: [a, m], port: {m: 2}}\n",
            "port: \"m\": only a switch of kind openflow takes it",
        ),
        ("  - {ends: [a, s], port: {x: 2}}\n", "port: \"x\" is not an end of link [a, s]"),
        (
            "  - {ends: [a, s], port: 2}\n",
            "links[0].port: expected a map from switches to port numbers",
        ),
        (
            "  - {ends: [a, s], port: {s: 2}}\n  - {ends: [b, s], port: {s: 2}}\n",
            "port: \"s\" has a port 2 on line 4",
        ),
    ] {
        let errors = with(links).unwrap_err().to_string();
        assert!(errors.contains(said), "{links}: {errors}");
    }
}

proptest::proptest! {
    #[test]
    fn errors_always_have_a_place(text in "(nodes|links|switches|a|b|for|x|children|limits|loss|delay|1%|[-:{}\\[\\],*&'\" \n0-9]){0,40}") {
        if let Err(errors) = parse("t", text.as_bytes(), "t") {
            proptest::prop_assert!(!errors.list.is_empty());
            proptest::prop_assert!(errors.list.iter().all(|e| e.line > 0 && e.column > 0));
            proptest::prop_assert!(errors.list.is_sorted_by_key(|e| (e.line, e.column)));
        }
    }

    #[test]
    fn a_range_has_both_its_ends(first in -20..20_i64, length in 0..30_i64) {
        let last = first + length;
        let text = format!("nodes: {{'n{{x+100}}': {{for: {{x: {first}..{last}}}}}}}");
        let lab = lab(&text);
        let expected: Vec<String> = (first..=last).map(|x| format!("n{}", x + 100)).collect();
        proptest::prop_assert_eq!(names(&lab), expected);
    }
}
