//! `netloom why` on planted faults of switches, neighbours, policies, sockets and routing daemons.

use std::time::Duration;

use netloom_tests_e2e::{Machine, machine, needs, wait_until};

use crate::apply::sh;
use crate::why::{OFFICE, address, arrives, ask, causes, is_stopped, mend, planted};

/// How long daemons may take to notice, and to tell each other.
const BOUND: Duration = Duration::from_secs(180);

#[test]
fn an_entry_of_an_openflow_switch_is_named_and_deleted() {
    needs!("python3", "ip");
    let machine = machine!();
    machine.up(&OFFICE.replace("{s1: {}}", "{s1: {kind: openflow}}"));
    machine.ok("flow add s1 priority=1000,tcp,tp_dst=80,actions=drop");
    let at = ("flow_entry", "switch s1", "s1/h1:eth0 in");
    let report = is_stopped(&machine, "80/tcp", at);
    let evidence = report["causes"][0]["evidence"].to_string();
    assert!(evidence.contains("priority=1000") && evidence.contains("actions=drop"), "{report:#}");
    arrives(&machine, "icmp");
    mend(&machine, &report);
    arrives(&machine, "80/tcp");
    // To somebody else, and only what comes from h1.
    machine.ok("flow add s1 priority=1000,icmp,in_port=h1,actions=output:h2");
    let report = is_stopped(&machine, "icmp", at);
    assert!(
        report["causes"][0]["evidence"].to_string().contains("it leaves by h2:eth0"),
        "{report:#}"
    );
    mend(&machine, &report);
    arrives(&machine, "icmp");
    // What asks for an address is a frame of its own.
    machine.ok("flow add s1 priority=7,arp,actions=drop");
    sh(&machine, "h1", "ip neigh flush all");
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [("flow_entry".into(), "switch s1".into())], "{report:#}");
    machine.down();
}

#[test]
fn a_switch_without_its_controller_is_named() {
    needs!("python3", "ip");
    let machine = machine!();
    let secure = "{s1: {kind: openflow, controllers: 'node:h2:6653', fail: secure}}";
    machine.up(&OFFICE.replace("{s1: {}}", secure));
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [("no_controller".into(), "switch s1".into())], "{report:#}");
    assert!(
        report["causes"][0]["evidence"].to_string().contains("6653 is not connected"),
        "{report:#}"
    );
    machine.down();
}

#[test]
fn neighbours_that_are_silent_filtered_enslaved_or_twice_are_told_apart() {
    needs!("python3", "ip", "nft");
    let machine = machine!();
    machine.up(OFFICE);
    let forget = || sh(&machine, "h1", "ip neigh flush all");
    let r1 = "node r1";
    let silent = "echo 8 > /proc/sys/net/ipv4/conf/all/arp_ignore";
    forget();
    planted(&machine, ("r1", silent), "80/tcp", ("neighbour_silent", r1, "r1:eth0 in"));
    let filtered = "nft add table arp a; nft add chain arp a i '{ type filter hook input priority 0; }'; \
                    nft add rule arp a i drop";
    forget();
    planted(&machine, ("r1", filtered), "80/tcp", ("nft_drop", r1, "r1:eth0 in"));
    let enslaved = "ip link add br0 type bridge; ip link set br0 up; ip link set eth1 master br0; ip neigh flush all";
    sh(&machine, "r1", enslaved);
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [("interface_enslaved".into(), r1.into())], "{report:#}");
    mend(&machine, &report);
    arrives(&machine, "80/tcp");
    // h2 answers for the gateway, which does not answer itself.
    let gateway = address(&machine, "r1", "eth0");
    sh(&machine, "h2", &format!("ip addr add {gateway}/32 dev eth0"));
    sh(&machine, "r1", "ip link set eth0 arp off");
    forget();
    let report = ask(&machine, "80/tcp").code(1).json();
    let both = [("address_twice".into(), "node h2".into()), ("neighbour_silent".into(), r1.into())];
    assert_eq!(causes(&report), both, "{report:#}");
    machine.down();
}

#[test]
fn policies_of_routing_are_named_by_rule_and_table() {
    needs!("python3", "ip");
    let machine = machine!();
    machine.up(OFFICE);
    let h1 = address(&machine, "h1", "eth0");
    let rule = format!("ip rule add pref 100 from {h1} prohibit");
    planted(&machine, ("r1", &rule), "80/tcp", ("refusing_rule", "node r1", "r1:eth0 in"));
    let table = format!(
        "ip rule add pref 100 from {h1} table 100; ip route add unreachable default table 100"
    );
    planted(&machine, ("r1", &table), "icmp", ("unreachable_route", "node r1", "r1:eth0 in"));
    machine.down();
}

#[test]
fn a_socket_without_room_and_a_link_that_delays_are_named() {
    needs!("python3", "ip");
    let machine = machine!();
    let deaf = "    files:
      /etc/deaf.py: |
        import socket, time
        own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        own.bind(('', 54))
        other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(50):
            other.sendto(b'x' * 200, ('127.0.0.1', 54))
        open('/tmp/deaf', 'w').close()
        time.sleep(1000000)
    ready: [80, 8080, /tmp/deaf]
";
    let office = OFFICE.replace("    ready: [80, 8080]\n", deaf);
    machine.up(&office.replace("    run: [[", "    run: [[python3, /etc/deaf.py], ["));
    let report = is_stopped(&machine, "54/udp", ("buffer_full", "node web", "web:eth0 in"));
    assert!(report["causes"][0]["evidence"].to_string().contains("datagrams"), "{report:#}");
    machine.ok("link set r1:eth1--r2:eth0 --delay 600ms");
    let report = ask(&machine, "80/tcp").code(0).json();
    assert_eq!(report["hindrances"][0]["name"], "wire_delay", "{report:#}");
    machine.down();
}

/// Two routers that learn by OSPF what is behind the other one.
const LEARNING: &str = "name: learning
routing: none
pool: {ipv6: none}
x-router: &router
  forwarding: true
  privileged: true
  setup: [[/usr/lib/frr/zebra, -d]]
  run: [[/usr/lib/frr/ospfd, -f, /etc/ospfd.conf]]
  files:
    /etc/ospfd.conf: |
      interface eth1
       ip ospf network point-to-point
       ip ospf hello-interval 1
       ip ospf dead-interval 4
      router ospf
       network 10.0.0.0/8 area 0
       timers throttle spf 50 100 500
nodes:
  h1: {routes: [{to: default, via: r1}], ready: {exec: [ping, -c, '1', -W, '1', web], timeout: 90s}}
  web: {routes: [{to: default, via: r2}]}
  r1: *router
  r2: *router
links:
  - {ends: [h1, 'r1:eth0'], subnet: 10.1.0.0/24}
  - {ends: [web, 'r2:eth0'], subnet: 10.2.0.0/24}
  - {ends: ['r1:eth1', 'r2:eth1'], subnet: 10.3.0.0/24}
";

#[test]
fn a_route_that_was_not_learnt_is_traced_to_the_daemon_the_interface_or_the_rule() {
    needs!("frr", "ping", "ip", "nft");
    let machine = machine!();
    machine.up(LEARNING);
    let learnt = |count: &str| {
        let what = format!("{count} routes of r1 to web");
        wait_until(&what, BOUND, || {
            let found = sh(&machine, "r1", "ip -4 route show 10.2.0.0/24 | wc -l");
            (found == count).then_some(())
        });
    };
    let told = |name: &str, node: &str| {
        let report = ask(&machine, "icmp").code(1).json();
        assert_eq!(causes(&report), [(name.to_owned(), format!("node {node}"))], "{report:#}");
        report
    };
    learnt("1");
    let filtered = "nft add table ip fw; nft add chain ip fw i '{ type filter hook input priority 0; }'; \
                    nft add rule ip fw i ip protocol ospf drop";
    sh(&machine, "r2", filtered);
    learnt("0");
    let report = told("nft_drop", "r2");
    mend(&machine, &report);
    learnt("1");
    let ospfd = |words: &str| {
        sh(&machine, "r2", &format!("vtysh -d ospfd -c 'conf t' -c 'router ospf' {words}"))
    };
    ospfd("-c 'no network 10.0.0.0/8 area 0' -c 'network 10.2.0.0/24 area 0'");
    learnt("0");
    told("ospf_silent", "r2");
    ospfd("-c 'no network 10.2.0.0/24 area 0' -c 'network 10.0.0.0/8 area 0'");
    learnt("1");
    // Neither daemon speaks on an interface without a carrier.
    machine.ok("link set r1:eth1--r2:eth1 --down");
    learnt("0");
    let report = ask(&machine, "icmp").code(1).json();
    let cut = ("cable_out".to_owned(), "link r1:eth1--r2:eth1".to_owned());
    assert_eq!(causes(&report), [cut], "{report:#}");
    mend(&machine, &report);
    learnt("1");
    sh(&machine, "r2", "kill -9 $(cat /var/run/frr/ospfd.pid)");
    learnt("0");
    told("daemon_ended", "r2");
    machine.down();
}

/// Hosts at two switches with a trunk between them, on which tags have any VLAN or a customer's frames have one around them.
const TRUNK: &str = "name: why-trunk
pool: {ipv6: none}
nodes: {h1: {}, web: {}}
switches:
  east: {kind: shm, ports: {h1: RULE, west: {trunk: 100..200}}}
  west: {kind: shm, ports: {web: RULE, east: {trunk: all}}}
links: [[h1, east], [web, west], [east, west]]
";

#[test]
fn a_vlan_is_followed_over_a_trunk() {
    follow(machine!(), "{vlan: 100}");
}

#[test]
fn the_vlan_of_a_customer_is_followed_over_a_trunk() {
    follow(machine!(), "{qinq: 100}");
}

fn follow(machine: Machine, rule: &str) {
    machine.up(&TRUNK.replace("RULE", rule));
    machine.answers("h1", "web");
    arrives(&machine, "icmp");
    machine.ok("link set east--west --down");
    let report = ask(&machine, "icmp").code(1).json();
    let cut = ("cable_out".to_owned(), "link east--west".to_owned());
    assert_eq!(causes(&report), [cut], "{report:#}");
    machine.ok("link set east--west --up");
    // A trunk that lacks it is named, and gets back what the file gives it.
    machine.ok("switch vlan east east--west trunk 7");
    let report = ask(&machine, "icmp").code(1).json();
    assert_eq!(report["causes"][0]["name"], "vlan_mismatch", "{report:#}");
    let told = report["causes"][0]["text"].as_str().expect("a text");
    assert!(told.contains("east--west of switch east does not carry VLAN 100"), "{told}");
    let command = report["causes"][0]["mend"].as_str().expect("a mend");
    assert!(command.ends_with(" switch vlan east east--west trunk 100-200"), "{command}");
    mend(&machine, &report);
    arrives(&machine, "icmp");
    machine.down();
}
