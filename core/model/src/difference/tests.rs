//! Labs with one difference, and how it is reported.

use super::*;

fn plan(text: &str) -> Plan {
    let lab = crate::parse("t.yaml", text.as_bytes(), "t").unwrap();
    crate::plan::plan(&lab).unwrap()
}

const SITES: &str = "nodes:\n  h1: {}\n  r1: {forwarding: true}\n  web: {limits: {memory: 64MiB}}\n\
                     switches: {s1: {}}\nlinks:\n  - [h1, s1]\n  - [r1, s1]\n  - [r1, web]\n";

fn told(old: &str, new: &str) -> Vec<String> {
    let (old, new) = (plan(old), plan(new));
    difference(&old, &new).lines(&new, 20)
}

#[test]
fn a_plan_differs_in_nothing_from_itself() {
    let one = plan(SITES);
    assert!(difference(&one, &one).is_empty());
    // Order and positions are not a difference.
    let turned = "links:\n  - [h1, s1]\n  - [r1, s1]\n  - [r1, web]\nswitches: {s1: {}}\nnodes:\n  \
                  web: {limits: {memory: 64MiB}}\n  h1: {}\n  r1: {forwarding: true}\n";
    let turned = plan(turned);
    assert_ne!(turned.digest, one.digest);
    assert_eq!(difference(&one, &turned).items, []);
}

#[test]
fn what_comes_and_goes_is_told_with_its_place() {
    let more = SITES.replace("nodes:\n", "nodes:\n  h9: {}\n") + "  - [h9, s1]\n";
    let (old, new) = (plan(SITES), plan(&more));
    let found = difference(&old, &new);
    let item =
        |kind, name: &str, old, new| Item { kind, name: name.into(), old, new, changes: vec![] };
    assert_eq!(
        found.items,
        [item(Kind::Node, "h9", None, Some(0)), item(Kind::Link, "h9:eth0--s1", None, Some(3)),]
    );
    assert_eq!(found.lines(&new, 9), ["node h9: added", "link h9:eth0--s1: added"]);
    assert_eq!(told(&more, SITES), ["node h9: removed", "link h9:eth0--s1: removed"]);
}

#[test]
fn a_recording_is_told_and_makes_another_digest() {
    let recorded = format!("{SITES}record: true\n");
    assert_ne!(plan(SITES).digest, plan(&recorded).digest);
    assert_eq!(told(SITES, &recorded), ["recording t: added"]);
    assert_eq!(told(&recorded, SITES), ["recording t: removed"]);
    let more = format!("{SITES}record: {{keep: 4GiB}}\n");
    assert_eq!(told(&recorded, &more), ["recording t: keep 4GiB, was 2GiB"]);
}

#[test]
fn values_are_told_with_what_they_were() {
    for (from, to, expected) in [
        ("64MiB", "1GiB", "node web: limits.memory 1GiB, was 64MiB"),
        ("{limits: {memory: 64MiB}}", "{}", "node web: limits.memory none, was 64MiB"),
        ("h1: {}", "h1: {env: {A: b}}", "node h1: env.A added"),
        ("h1: {}", "h1: {files: {/a: b}, run: [[x]]}", "node h1: run added; files./a added"),
        (
            "h1: {}",
            "h1: {sysctls: {net.ipv4.tcp_ecn: 1}}",
            "node h1: sysctls.net/ipv4/tcp_ecn 1, was none",
        ),
        (
            "[r1, web]",
            "{ends: [r1, web], delay: 5ms}",
            "link r1:eth1--web:eth0: delay 5ms, was none",
        ),
        (
            "[r1, web]",
            "{ends: [r1, web], a: {loss: 1%}}",
            "link r1:eth1--web:eth0: a.loss 1%, was none",
        ),
        (
            "[r1, web]",
            "{ends: [r1, web], mac: {web: 02:00:00:00:00:01}}",
            "link r1:eth1--web:eth0: mac.web:eth0 02:00:00:00:00:01, was WEB",
        ),
        (
            "s1: {}",
            "s1: {kind: shm}",
            "switch s1: kind shm, was kernel; mode 0600, was none; \
          arena 256KiB, was none; ageing 60, was none",
        ),
    ] {
        let expected = expected.replace("WEB", &mac_of(&plan(SITES), "web"));
        assert_eq!(told(SITES, &SITES.replace(from, to)), [expected], "{to}");
    }
    let subnet = told(SITES, &SITES.replace("s1: {}", "s1: {subnet: 10.9.0.0/24}"));
    assert!(subnet[0].starts_with("link h1:eth0--s1: addresses.h1:eth0 10.9.0."), "{subnet:?}");
    assert_eq!(subnet.last().unwrap(), "routes of h1");
}

/// Of a node's first interface.
fn mac_of(plan: &Plan, node: &str) -> String {
    netloom_bridge::Mac(plan.nodes[plan.node(node).unwrap()].interfaces[0].mac).to_string()
}

#[test]
fn a_hardware_address_is_compared_where_a_file_gives_it() {
    let link = |mac: &str| SITES.replace("[r1, web]", &format!("{{ends: [r1, web]{mac}}}"));
    let one = link(", mac: {web: 02:00:00:00:00:01}");
    let other = one.replace(":01", ":02");
    let of = "link r1:eth1--web:eth0: mac.web:eth0";
    assert_eq!(told(&one, &other), [format!("{of} 02:00:00:00:00:02, was 02:00:00:00:00:01")]);
    assert!(difference(&plan(&one), &plan(&one)).is_empty());
    // An address that the interface has already changes nothing, whether the file or its name gives it.
    let plain = plan(SITES);
    let same = plan(&link(&format!(", mac: {{web: '{}'}}", mac_of(&plain, "web"))));
    assert!(difference(&plain, &same).is_empty() && difference(&same, &plain).is_empty());
    let back = told(&one, SITES);
    assert_eq!(back, [format!("{of} {}, was 02:00:00:00:00:01", mac_of(&plain, "web"))]);
    // One that is made of names stays when they change, as that of a renamed interface does.
    let mut renamed = plain.clone();
    let at = renamed.node("web").unwrap();
    renamed.nodes[at].interfaces[0].mac = [2, 0, 0, 0, 0, 9];
    assert!(difference(&renamed, &plain).is_empty());
}

#[test]
fn routes_are_told_once_and_not_for_nodes_that_differ_anyway() {
    let host = SITES.replace("r1: {forwarding: true}", "r1: {}");
    let told = told(SITES, &host);
    assert_eq!(told[0], "node r1: forwarding none, was true");
    assert_eq!(told.last().unwrap(), "routes of h1, web");
}

#[test]
fn lists_are_bounded() {
    let many: String = (0..50).map(|n| format!("  n{n}: {{}}\n")).collect();
    let (old, new) = (plan(SITES), plan(&SITES.replace("nodes:\n", &format!("nodes:\n{many}"))));
    let lines = difference(&old, &new).lines(&new, 5);
    assert_eq!(lines.len(), 5);
    assert_eq!(lines.last().unwrap(), "and 46 more");
}
