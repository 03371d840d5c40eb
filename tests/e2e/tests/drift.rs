//! Changes in a node, or in the core namespace, without netloom: they are shown, reverted or kept, and what the lab's own
//! commands and programs do is none.

use std::process::Command;

use netloom_kit::is_root;
use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, machine, root_only, with_command_line};

use crate::apply::{Applied, sh};

/// Hosts at a switch, a router, and a node behind it.
fn lab(name: &str) -> String {
    format!(
        "name: {name}
nodes: {{h1: , h2: , r: {{forwarding: true}}, far: }}
switches: {{s: }}
links:
  - [h1, s]
  - [h2, s]
  - [r, s]
  - [r, far]
"
    )
}

/// A change in a node, and a part of the line that tells of it.
const CHANGES: [(&str, &str, &str); 30] = [
    ("h1", "ip -4 route flush proto static", "~ node h1: route "),
    ("h1", "ip -6 route flush proto static", "~ node h1: route "),
    ("h1", "ip -4 route flush dev eth0 proto kernel", " dev eth0, was none"),
    ("h1", "ip route add 198.51.100.0/24 dev eth0", "no route 198.51.100.0/24 dev eth0"),
    ("h1", "ip -6 route add 2001:db8:77::/48 dev eth0", "no route 2001:db8:77::/48 dev eth0"),
    ("h1", "ip route add blackhole 198.51.100.0/24", "no route 198.51.100.0/24 blackhole"),
    ("h1", "ip -6 route add unreachable 2001:db8::/32", "no route 2001:db8::/32 unreachable"),
    (
        "h1",
        "for to in $(ip -4 r s proto static | cut -d' ' -f1); do ip r replace $to dev eth0; done",
        ", was dev eth0",
    ),
    (
        "h1",
        "for to in $(ip -4 r s proto static | cut -d' ' -f1); do ip r prepend blackhole $to; done",
        " blackhole",
    ),
    ("h1", "ip address add 192.0.2.9/24 dev eth0", "eth0 without address 192.0.2.9/24"),
    ("h1", "ip address add 192.0.2.9/32 dev lo", "lo without address 192.0.2.9/32"),
    ("h1", "ip address add 2001:db8::9/64 dev eth0", "eth0 without address 2001:db8::9/64"),
    ("h1", "ip -4 address flush dev eth0", "eth0 address 10."),
    ("h1", "ip -6 address flush dev eth0 scope global", "eth0 address fd"),
    ("h1", "echo 1 > /proc/sys/net/ipv4/ip_forward", "net.ipv4.ip_forward 0, was 1"),
    (
        "r",
        "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding",
        "net.ipv6.conf.all.forwarding 1, was 0",
    ),
    (
        "h1",
        "echo 1 > /proc/sys/net/ipv4/conf/eth0/rp_filter",
        "net.ipv4.conf.eth0.rp_filter 0, was 1",
    ),
    (
        "h1",
        "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6",
        "net.ipv6.conf.eth0.disable_ipv6 0, was 1",
    ),
    ("h1", "ip link set eth0 mtu 1400", "eth0 mtu 1500, was 1400"),
    ("h1", "ip link set eth0 mtu 1000", "eth0 mtu 1500, was 1000"),
    ("h1", "ip link set eth0 down", "eth0 up, was down"),
    ("h1", "ip link set lo down", "lo up, was down"),
    ("h1", "ip link set eth0 address 02:00:00:00:00:99", "was 02:00:00:00:00:99"),
    (
        "h1",
        "ip link set eth0 down; ip link set eth0 name wan; ip link set wan up",
        "interface eth0 by that name, was \"wan\"",
    ),
    ("h1", "ip link delete eth0", "~ link h1:eth0--s: "),
    ("far", "ip link delete eth0", "~ link r:eth1--far:eth0: interface "),
    (
        "h1",
        "tc qdisc add dev eth0 root pfifo limit 5",
        "eth0 without queueing discipline, was pfifo",
    ),
    ("h1", "ip rule add blackhole priority 5", "no rule 5: from all blackhole"),
    (
        "h1",
        "ip -6 rule add from 2001:db8::/32 iif eth0 lookup 100 priority 9",
        "no IPv6 rule 9: from 2001:db8::/32 iif eth0 lookup 100",
    ),
    ("h1", "ip rule delete priority 32766", "rule 32766: from all lookup main, was none"),
];

/// Asserts that a line is told of something, and that applying the file takes it back.
fn is_taken_back(machine: &Machine, text: &str, what: &str, part: &str) {
    let told = machine.apply(text, &["--check"]).finish().code(4).text();
    let tells =
        |told: &str| told.lines().any(|l| l.contains(part) && l.ends_with("(changed by hand)"));
    assert!(tells(&told), "{what}: {part:?} is not in {told}");
    machine.apply(text, &["--check", "--keep-drift"]).finish().code(0);
    let status = machine.netloom(["status"]).finish().code(0).text();
    assert!(status.contains("(changed by hand)"), "{what}: {status}");
    machine.apply(text, &[]).finish().code(0);
    let left = machine.apply(text, &["--check"]).finish();
    assert!(left.text().contains("is as the file says"), "{what}: {}", left.text());
}

#[test]
fn each_change_in_a_node_is_shown_and_taken_back() {
    let machine = machine!();
    let text = lab("drift-node");
    machine.up(&text);
    machine.apply(&text, &["--check"]).finish().code(0);
    let inits = machine.inits();
    for (node, script, part) in CHANGES {
        sh(&machine, node, script);
        is_taken_back(&machine, &text, script, part);
    }
    sh(&machine, "h1", "ip link add br0 type bridge; ip link set eth0 master br0");
    is_taken_back(&machine, &text, "bridge", "eth0 in no bridge, was in one");
    machine.all_reach_all();
    assert_eq!(machine.inits(), inits);
    machine.down();
}

/// So many interfaces that netloom fixes the neighbours of links between two nodes.
const MANY: usize = 401;

#[test]
fn a_neighbour_that_was_fixed_is_put_right() {
    let machine = machine!();
    let links = "  - [a, b]\n".repeat(MANY.div_ceil(2));
    let text = format!("name: drift-near\nnodes: {{a: , b: }}\nlinks:\n{links}");
    machine.up(&text);
    machine.apply(&text, &["--check"]).finish().code(0);
    let of_eth7 = "ip -4 neigh show dev eth7 nud permanent | head -n 1";
    let before = sh(&machine, "a", of_eth7);
    let (address, mac) = before.split_once(" lladdr ").expect("an address and a hardware address");
    let mac = mac.split(' ').next().expect("a hardware address");
    let six =
        sh(&machine, "a", "ip -6 neigh show dev eth7 nud permanent | grep ^fd | cut -d' ' -f1");
    for (script, was) in [
        (format!("ip neigh del {address} dev eth7"), "none".to_owned()),
        (
            format!("ip neigh replace {address} lladdr 02:00:00:00:00:99 dev eth7"),
            "02:00:00:00:00:99".to_owned(),
        ),
        (
            format!("ip neigh replace {address} lladdr {mac} dev eth7 nud reachable"),
            format!("{mac} for a while"),
        ),
        (format!("ip -6 neigh del {six} dev eth7"), "none".to_owned()),
    ] {
        sh(&machine, "a", &script);
        let told = machine.apply(&text, &["--check"]).finish().code(4).text();
        let line = told.lines().find(|line| line.starts_with("~ node a: "));
        let line = line.unwrap_or_else(|| panic!("{script}: {told}"));
        assert!(line.ends_with(&format!("for good, was {was} (changed by hand)")), "{line}");
        machine.apply(&text, &[]).finish().code(0);
        machine.apply(&text, &["--check"]).finish().code(0);
    }
    assert_eq!(sh(&machine, "a", of_eth7), before);
    machine.down();
}

#[test]
fn up_mends_a_running_lab_or_keeps_what_it_is_told_to() {
    let machine = machine!();
    let text = lab("drift-up");
    machine.up(&text);
    sh(&machine, "h1", "ip link set eth0 down; ip address add 192.0.2.9/24 dev eth0");
    let file = machine.file(&text);
    let file = file.to_str().unwrap();
    let kept = machine.netloom(["up", "--keep-drift", file]).finish().code(0).text();
    assert!(kept.contains("kept: ~ node h1: eth0 up, was down; "), "{kept}");
    let steps = machine.apply(&text, &["--dry-run", "--json"]).finish().code(0).json();
    assert_eq!(steps["steps"][0]["drift"], true, "{steps}");
    assert_eq!(steps["steps"][0]["changes"][0]["key"], "up", "{steps}");
    let status = machine.status();
    assert_eq!(status["drift"].as_array().map(Vec::len), Some(1), "{}", status["drift"]);
    let mended = machine.up(&text).text();
    assert!(mended.contains("mended: ~ node h1: eth0 up, was down; "), "{mended}");
    machine.apply(&text, &["--check"]).finish().code(0);
    assert!(machine.status()["drift"].is_null());
    let again = machine.up(&text).text();
    assert_eq!(again, "lab drift-up: already running\n");
    machine.all_reach_all();
    machine.down();
}

#[test]
fn a_new_address_replaces_the_old_one_also_under_another_name() {
    let machine = machine!();
    let of = |host: u8| {
        format!(
            "name: drift-renamed
nodes: {{a: , b: }}
links: [{{ends: [a, b], addresses: {{a: 192.0.2.{host}/24, b: 192.0.2.1/24}}}}]
"
        )
    };
    machine.up(&of(2));
    sh(&machine, "a", "ip link set eth0 down; ip link set eth0 name other; ip link set other up");
    machine.apply(&of(3), &["--keep-drift"]).finish().code(0);
    let left = sh(&machine, "a", "ip -4 -brief address show dev other");
    assert!(left.contains(" 192.0.2.3/24") && !left.contains("192.0.2.2/24"), "{left}");
    machine.down();
}

#[test]
fn what_the_labs_own_commands_and_programs_do_is_no_drift() {
    let machine = machine!();
    let text = "name: drift-own
nodes:
  a:
    sysctls: {net.ipv4.tcp_rmem: 4096 131072 6291456}
    setup:
      - [sh, -c, 'ip address add 192.0.2.9/24 dev eth0; ip link set eth0 mtu 1400; ip route add blackhole 198.51.100.0/24; ip rule add from 192.0.2.9 lookup 100']
    exec: [[sh, -c, 'echo 1 > /proc/sys/net/ipv4/conf/eth0/rp_filter']]
    run: [[sleep, '1000']]
  b: {run: [[sleep, '1000']]}
links:
  - [a, b]
  - {ends: [a, b], addresses: none}
";
    machine.up(text);
    let check = |what: &str| {
        let told = machine.apply(text, &["--check"]).finish();
        assert!(told.text().contains("is as the file says"), "{what}: {}", told.text());
    };
    check("commands of the file");
    // What routing daemons, DHCP clients and VRRP do, and interfaces of their own.
    for script in [
        "ip route add 203.0.113.0/24 dev eth0 proto bird",
        "ip route add 203.0.113.128/25 dev eth0 proto dhcp",
        "ip rule add from 203.0.113.9 lookup 100; ip rule add from 203.0.113.8 lookup 100 protocol zebra",
        "ip address add 10.77.0.9/24 dev eth0 valid_lft 600 preferred_lft 600",
        "ip address add 10.77.1.9/24 dev eth1; ip route add 10.77.2.0/24 via 10.77.1.1",
        "ip address add 10.77.3.9/32 dev eth0",
        "ip link add d0 type bridge; ip link set d0 up; ip address add 10.77.4.9/24 dev d0",
    ] {
        sh(&machine, "b", script);
        check(script);
    }
    // By hand it is drift, beside what was left.
    sh(&machine, "a", "ip address add 192.0.2.77/24 dev eth0; ip link set eth0 mtu 1300");
    let told = machine.apply(text, &["--check"]).finish().code(4).text();
    assert!(told.contains("eth0 mtu 1500, was 1300; eth0 without address 192.0.2.77/24"), "{told}");
    machine.apply(text, &[]).finish().code(0);
    check("mended");
    assert!(sh(&machine, "a", "ip address show dev eth0").contains("192.0.2.9/24"));
    // A setting of the file, which no interface shows.
    assert!(machine.status()["drift"].is_null(), "{}", machine.status()["drift"]);
    sh(&machine, "a", "echo '4096 131072 65536' > /proc/sys/net/ipv4/tcp_rmem");
    let drift = machine.status()["drift"].to_string();
    assert!(drift.contains("net.ipv4.tcp_rmem 4096 131072 6291456, was 4096"), "{drift}");
    machine.apply(text, &[]).finish().code(0);
    assert!(machine.status()["drift"].is_null(), "{}", machine.status()["drift"]);
    machine.down();
}

/// A shell's words in the core namespace of a lab.
fn in_core(name: &str, script: &str) {
    let pids = with_command_line(&format!("netloom-init: core of {name}"));
    let pid = pids.first().expect("the core's init").to_string();
    let mut words = vec!["-t", &pid, "-n"];
    if !is_root() {
        words.extend(["-U", "--preserve-credentials"]);
    }
    let done = Command::new("nsenter").args(words).args(["sh", "-ec", script]).output();
    let done = done.expect("nsenter runs");
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn each_change_in_the_core_is_shown_and_taken_back() {
    let machine = machine!();
    let text = lab("drift-core");
    machine.up(&text);
    let port = |then: &str| {
        format!("port=$(ip -o link show master s | head -1 | sed 's/^[0-9]*: //; s/@.*//'); {then}")
    };
    for (script, part) in [
        (port("ip link set $port nomaster"), " in its switch, was outside"),
        (port("ip link set $port down"), " up, was down"),
        (port("ip link set $port mtu 1400"), " mtu 1500, was 1400"),
        (port("ip link delete $port"), "~ link "),
        ("ip link set s down".to_owned(), "~ switch s: up, was down"),
        ("ip link delete s".to_owned(), "~ switch s: bridge, was none"),
    ] {
        in_core("drift-core", &script);
        is_taken_back(&machine, &text, &script, part);
        machine.all_reach_all();
    }
    machine.down();
}

#[test]
fn a_wire_that_is_gone_is_put_in_again() {
    root_only!("an ordinary user's wires are built in");
    let machine = machine!();
    let text = lab("drift-wire").replace("  - [r, far]", "  - {ends: [r, far], delay: 1ms}");
    machine.up(&text);
    in_core("drift-wire", "ip link delete $(ip -o link | grep -o 'nlw[0-9]*' | head -1)");
    is_taken_back(&machine, &text, "wire", "~ link r:eth1--far:eth0: its wire, was none");
    machine.all_reach_all();
    machine.down();
}

#[test]
fn a_lab_without_its_process_is_compared_and_mended_and_a_killed_mend_goes_on() {
    let machine = machine!();
    let text = lab("drift-killed");
    machine.up(&text);
    let change = "ip address add 192.0.2.9/24 dev eth0; ip link set eth0 down";
    ["h1", "h2", "r", "far"].into_iter().for_each(|node| drop(sh(&machine, node, change)));
    kill_and_wait(machine.lab_process());
    let told = machine.apply(&text, &["--check"]).finish().code(4).text();
    for node in ["h1", "h2", "r", "far"] {
        assert!(told.contains(&format!("~ node {node}: eth0 up, was down")), "{told}");
    }
    let mended = machine.up(&text).text();
    assert!(mended.contains("adopted"), "{mended}");
    assert!(mended.contains("mended: ~ node far: eth0 up, was down"), "{mended}");
    machine.apply(&text, &["--check"]).finish().code(0);
    // Killed in the middle: what is left is found again.
    for node in ["h1", "h2", "r", "far"] {
        sh(&machine, node, change);
    }
    let lab_process = machine.lab_process();
    std::thread::scope(|scope| {
        let applying = scope.spawn(|| machine.apply(&text, &[]).finish());
        let before = machine.scratch().runtime_dir().join("drift-killed/before.json");
        while !before.exists() && !applying.is_finished() {
            std::thread::yield_now();
        }
        kill_and_wait(lab_process);
    });
    machine.apply(&text, &[]).finish().code(0);
    machine.apply(&text, &["--check"]).finish().code(0);
    machine.all_reach_all();
    machine.down();
}

/// A switch in shared memory, with rules of ports and a session.
const RULED: &str = "name: drift-rules
pool: {ipv6: none}
nodes: {h1: {}, h2: {}, mon: {}}
switches:
  s:
    kind: shm
    ports: {h1: {qinq: 100}, h2: {qinq: 100}}
    mirrors: [{from: h1, to: mon}]
links: [[h1, s], [h2, s], [mon, s]]
";

#[test]
fn rules_of_a_shared_memory_switch_are_compared_and_taken_back() {
    let machine = machine!();
    machine.up(RULED);
    machine.apply(RULED, &["--check"]).finish().code(0);
    let file = machine.file(RULED);
    let up = |flags: &[&str]| {
        let words = ["up", file.to_str().expect("a path in UTF-8")];
        machine.netloom(words.iter().chain(flags)).finish().code(0).text()
    };
    let changes = [
        ("switch vlan s h1:eth0 qinq 100 --cvlans 5", "port h1:eth0 vlan qinq 100"),
        ("switch vlan s 9 access 10", "port 9 vlan none, was access 10"),
        ("switch port s h2:eth0 lock=02:00:00:00:00:01", "port h2:eth0 lock none, was 02:00"),
        ("switch mirror s delete 1", "mirrors of h1:eth0 to mon:eth0, was none"),
    ];
    for (change, told) in changes {
        machine.ok(change);
        let check = machine.apply(RULED, &["--check"]).finish().code(4).text();
        assert!(check.contains("~ switch s: ") && check.contains(told), "{change}: {check}");
        assert!(check.contains("(changed by hand)"), "{check}");
        machine.applied(RULED);
    }
    // Kept on request, else taken back by `up`, too.
    machine.ok(changes[0].0);
    let kept = up(&["--keep-drift"]);
    assert!(kept.contains("kept: ~ switch s: ") && kept.contains(changes[0].1), "{kept}");
    machine.apply(RULED, &["--check"]).finish().code(4);
    let mended = up(&[]);
    assert!(mended.contains("mended: ~ switch s: ") && mended.contains(changes[0].1), "{mended}");
    machine.apply(RULED, &["--check"]).finish().code(0);
    machine.answers("h1", "h2");
    machine.down();
}
