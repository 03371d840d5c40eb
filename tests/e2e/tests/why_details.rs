//! `netloom why` on faults that differ from common ones in a detail, on which the mend depends: it is done, and the flow arrives.

use std::time::Duration;

use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{Machine, machine, needs, wait_until};

use crate::apply::sh;
use crate::why::{OFFICE, address, ask, causes, is_stopped, mend, planted};

fn up(machine: &Machine) {
    machine.up(OFFICE);
    machine.answers("h1", "web");
}

#[test]
fn settings_routes_and_rules_are_mended_where_they_are() {
    needs!("python3", "ip");
    let machine = machine!();
    up(&machine);
    let web = address(&machine, "web", "eth0");
    let (r1, into_r1) = ("node r1", "r1:eth0 in");
    // Forwarding is off on one interface, and the setting of all says on.
    let off = "sysctl -qw net.ipv4.conf.eth0.forwarding=0";
    planted(&machine, ("r1", off), "80/tcp", ("forwarding_off", r1, into_r1));
    let throw = format!("ip route add throw {web}/32");
    planted(&machine, ("r1", &throw), "80/tcp", ("no_route", r1, into_r1));
    // A route of a longer prefix, and one of another table, hide the plan's.
    let longer = format!("ip route add {web}/32 via 203.0.113.9 dev eth1 onlink");
    planted(&machine, ("r1", &longer), "80/tcp", ("wrong_gateway", r1, "r1:eth1 out"));
    let table = "ip route add default via 203.0.113.9 dev eth1 onlink table 50; \
                 ip rule add iif eth0 lookup 50 pref 90";
    planted(&machine, ("r1", table), "80/tcp", ("wrong_gateway", r1, "r1:eth1 out"));
    sh(&machine, "r1", "ip rule del pref 90");
    let rule = "ip rule add iif eth0 unreachable pref 100";
    planted(&machine, ("r1", rule), "80/tcp", ("refusing_rule", r1, into_r1));
    // One that is of other packets refuses nothing: what is amiss is the route.
    let other = "ip rule add from 198.51.100.0/24 unreachable pref 100; \
                 ip route del $(ip -4 route show | grep ' via ' | head -1)";
    sh(&machine, "r1", other);
    let report = is_stopped(&machine, "80/tcp", ("no_route", r1, into_r1));
    mend(&machine, &report);
    sh(&machine, "r1", "ip rule del pref 100");
    let segment = "ip route del $(ip -4 route show dev eth1 proto kernel | head -1) dev eth1";
    planted(&machine, ("r2", segment), "80/tcp", ("no_route", "node r2", "r2:eth0 in"));
    machine.down();
}

#[test]
fn sources_families_and_sockets_are_told_apart() {
    needs!("python3", "ip");
    let machine = machine!();
    up(&machine);
    let gateway = address(&machine, "r1", "eth0");
    let source = format!(
        "ip addr add 192.0.2.5/32 dev lo; \
         ip route change default via {gateway} dev eth0 src 192.0.2.5"
    );
    let told = ("wrong_address", "node h1", "r2:eth1 in");
    sh(&machine, "h1", &source);
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [(told.0.to_owned(), told.1.to_owned())], "{report:#}");
    mend(&machine, &report);
    ask(&machine, "80/tcp").code(0);

    for (port, family, option) in
        [(8081, "AF_INET6", "41, 26, 1"), (8082, "AF_INET", "1, 25, b'lo'")]
    {
        let code = format!(
            "import socket\ns = socket.socket(socket.{family})\ns.setsockopt({option})\n\
             s.bind(('', {port}))\ns.listen(5)\ninput()\n"
        );
        let held = netloom_tests_e2e::live::Held::start(machine.python("web", &code, &[]));
        let listens = format!("cat /proc/net/tcp /proc/net/tcp6 | grep -c ':{port:04X} .* 0A '");
        wait_until("it listens", SOON, || {
            let words = ["sh", "-c", &listens];
            (machine.exec("web", &words).finish().text().trim() == "1").then_some(())
        });
        let report = ask(&machine, &format!("{port}/tcp")).code(1).json();
        let wanted = [("listens_elsewhere".to_owned(), "node web".to_owned())];
        assert_eq!(causes(&report), wanted, "{report:#}");
        drop(held);
    }

    // IPv6 is off on the server's interface: its address cannot be given back before.
    sh(&machine, "web", "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1");
    let words = ["why", "h1", "web", "icmp", "-6", "--json"];
    let report = machine.netloom(words).bound(Duration::from_secs(120)).finish().code(1).json();
    assert_eq!(report["causes"][0]["name"], "address_missing", "{report:#}");
    mend(&machine, &report);
    machine.answers_by("-6", "h1", "web");
    machine.down();
}

/// Two stations of one switch in different VLANs by the file, and one without any address.
const STATIONS: &str = "name: why-stations
nodes: {h1: {}, web: {}, bare: {}}
switches: {s1: {kind: shm, ports: {h1: {vlan: 10}, web: {vlan: 20}, bare: {vlan: 20}}}}
links: [[h1, s1], [web, s1], {ends: [bare, s1], addresses: none}]
";

#[test]
fn one_port_moves_and_the_one_that_was_moved_by_hand_moves_back() {
    let machine = machine!();
    machine.up(STATIONS);
    let mismatch = [("vlan_mismatch".to_owned(), "switch s1".to_owned())];
    let told = |command: &str| {
        let report = ask(&machine, "icmp").code(1).json();
        assert_eq!(causes(&report), mismatch, "{report:#}");
        let mend = report["causes"][0]["mend"].as_str().expect("a mend");
        assert!(mend.ends_with(command), "{mend}");
        report
    };
    let report = told(" switch vlan s1 web:eth0 access 10");
    mend(&machine, &report);
    machine.answers("h1", "web");
    // Both ports are as nobody wants them; the file has the sender in VLAN 10.
    machine.ok("switch vlan s1 h1:eth0 access 30");
    let report = told(" switch vlan s1 h1:eth0 access 10");
    mend(&machine, &report);
    machine.answers("h1", "web");
    machine.down();
}

#[test]
fn an_end_without_any_address_is_the_cause() {
    let machine = machine!();
    machine.up(&format!("pool: {{ipv6: none}}\n{STATIONS}"));
    for [from, to] in [["h1", "bare"], ["bare", "h1"]] {
        let report = machine.netloom(["why", from, to, "--json"]).finish().code(1).json();
        let cause = ("address_missing".to_owned(), "node bare".to_owned());
        assert_eq!(causes(&report), [cause], "{report:#}");
        assert_eq!(report["probe"], "nothing");
    }
    machine.down();
}
