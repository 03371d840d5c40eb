//! What a placement comes to: counts, warnings, costs.

use netloom_placement::{NODE_BYTES, PAIR_BYTES, account, costs};

use crate::integration::labs::{Case, hosts};

const LAB: &str = "name: told
nodes:
  h1: {limits: {memory: 64MiB, cpu: 50%}}
  h2: {files: {/etc/x: {from: x.conf}}}
  r1: {forwarding: true, ports: [8080:80]}
switches: {s1: {}}
links: [[h1, s1], [h2, s1], {ends: [r1, s1], mtu: 1500}, [r1, \"host:eth9\"]]
place: {h1: a, s1: a, h2: b}
";

#[test]
fn an_account_adds_up_and_says_what_hosts_need() {
    let two = hosts(&[
        "ssh: me@a.example.org, capacity: {memory: 1GiB, cpu: 2}",
        "capacity: {memory: 1GiB, cpu: 2}",
    ]);
    let case = Case::new(&LAB.replace("h2: b", "h2: b, r1: b"), &two);
    let placement = case.place().unwrap();
    let mut found = account(&case.plan, &case.lab.place, &case.hosts, &placement);
    found.costs = costs(&case.plan, &case.hosts, &found, 300);
    let [a, b] = found.hosts.as_slice() else { panic!("{found:?}") };
    assert_eq!((a.nodes, a.switches, a.links, a.across), (1, 1, 1, 2));
    assert_eq!((b.nodes, b.switches, b.links, b.across), (2, 0, 1, 2));
    assert_eq!(a.memory, (64 << 20) + NODE_BYTES + 3 * PAIR_BYTES);
    assert_eq!(b.memory, 2 * NODE_BYTES + 3 * PAIR_BYTES);
    assert_eq!((a.cpu_milli, b.cpu_milli, a.ssh.as_str()), (500, 0, "me@a.example.org"));
    assert_eq!(a.needs, ["VXLAN in the kernel, and UDP to and from b"]);
    assert_eq!(
        b.needs,
        [
            "VXLAN in the kernel, and UDP to and from a",
            "file x.conf",
            "free port 8080:80 for node r1",
            "interface eth9"
        ]
    );
    let names: Vec<&str> = found.across.iter().map(|link| link.link.as_str()).collect();
    assert_eq!(names, ["h2:eth0--s1", "r1:eth0--s1"]);
    assert!(found.across.iter().all(|link| link.packets == 2 && link.bytes == 1570));
    assert_eq!(
        found.warnings,
        [
            "2 links across, link \"h2:eth0--s1\" first: a packet of 1500 bytes goes in 2 fragments between \"b\" and \"a\", \
         whose underlay has an MTU of 1500; an underlay MTU of 1550 avoids them, or links with mtu: 1450"
        ]
    );
    let cost = |what: &str| {
        let found = found.costs.iter().find(|cost| cost.what == what);
        found.map(|cost| (cost.value, cost.unit.clone())).unwrap_or_else(|| panic!("no {what}"))
    };
    assert_eq!(cost("memory of a"), (a.memory, "bytes".to_owned()));
    assert_eq!(cost("CPU of a"), (500, "CPU/1000".to_owned()));
    assert_eq!(cost("messages to bring it up"), (10, "messages".to_owned()));
    assert_eq!(cost("the lab file to all hosts"), (600, "bytes".to_owned()));
    assert_eq!(
        cost("a packet of 1500 bytes on an underlay with MTU 1500"),
        (1570, "bytes".to_owned())
    );
    assert!(found.costs.iter().all(|cost| !cost.formula.is_empty() && !cost.source.is_empty()));
}

#[test]
fn doors_without_a_pin_and_idle_hosts_are_warned_of_by_name() {
    let three = hosts(&["", "", ""]);
    let case = Case::new("name: idle\nnodes: {r1: {}}\nlinks: [[r1, \"host:eth9\"]]\n", &three);
    let placement = case.place().unwrap();
    let found = account(&case.plan, &case.lab.place, &case.hosts, &placement);
    let host = case.host(&placement, "r1");
    let idle = ["a", "b", "c"].into_iter().filter(|name| **name != *host);
    let mut expected = vec![format!(
        "link \"r1:eth0--host:eth9\": host:eth9 is of the host that \"r1\" is on, {host} in this placement; pin it: \
         place: {{r1: HOST}}"
    )];
    expected.extend(idle.map(|name| format!("host \"{name}\" makes nothing")));
    assert_eq!(found.warnings, expected);
}
