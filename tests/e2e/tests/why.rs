//! `netloom why` on planted faults: the place where the probe was lost, the cause, and a mend that mends.

use std::time::Duration;

use netloom_tests_e2e::live::{SOON, kill_and_wait};
use netloom_tests_e2e::{Finished, Machine, machine, needs, wait_until};
use serde_json::Value;

use crate::apply::sh;

/// Two hosts at a switch, two routers, and a server behind them.
pub(crate) const OFFICE: &str = "name: why
nodes:
  h1: {}
  h2: {}
  r1: {forwarding: true}
  r2: {forwarding: true}
  web:
    run: [[python3, -m, http.server, \"80\"], [python3, -m, http.server, \"8080\", --bind, 127.0.0.1]]
    ready: [80, 8080]
switches: {s1: {}}
links: [[h1, s1], [h2, s1], [s1, r1], ['r1:eth1', r2], [r2, web]]
";

const CHAIN: &str =
    "nft add table inet fw; nft add chain inet fw f '{ type filter hook forward priority 0; }'; ";

/// Brings the office up and waits until frames pass all of it: a probe waits for less than the kernel may take until they do.
fn up(machine: &Machine) {
    machine.up(OFFICE);
    machine.answers("h1", "web");
}

/// Waits until the kernel's linkwatch, a work queue, has opened an interface that has a carrier, or closed one that has none:
/// until then frames that are sent are not seen there, or are.
fn settled(machine: &Machine, (node, interface): (&str, &str), opened: bool) {
    let ask = format!("ip -o link show dev {interface}");
    wait_until(&format!("{node}:{interface} is open: {opened}"), SOON, || {
        let told = sh(machine, node, &ask);
        // Nobody tells of a tap.
        let is_open = told.contains(" state UP ") || told.contains(" state UNKNOWN ");
        (is_open == opened).then_some(())
    });
}

/// The address of a node's interface, without its prefix.
pub(crate) fn address(machine: &Machine, node: &str, interface: &str) -> String {
    let text = sh(machine, node, &format!("ip -4 -o addr show dev {interface}"));
    let net = text.split_whitespace().nth(3).expect("an address");
    net.split('/').next().expect("an address").to_owned()
}

pub(crate) fn ask(machine: &Machine, flow: &str) -> Finished {
    let words = ["why", "h1", "web", flow, "-4", "--json"];
    machine.netloom(words).bound(Duration::from_secs(120)).finish()
}

pub(crate) fn causes(report: &Value) -> Vec<(String, String)> {
    let all = report["causes"].as_array().expect("causes");
    let text = |cause: &Value, key: &str| cause[key].as_str().expect("a text").to_owned();
    all.iter().map(|cause| (text(cause, "name"), text(cause, "place"))).collect()
}

/// Asserts the only cause, and where the probe was seen last.
pub(crate) fn is_stopped(
    machine: &Machine,
    flow: &str,
    (name, place, last): (&str, &str, &str),
) -> Value {
    let report = ask(machine, flow).code(1).json();
    assert_eq!(causes(&report), [(name.to_owned(), place.to_owned())], "{report:#}");
    assert_eq!(report["verdict"], "stopped", "{report:#}");
    assert_eq!(report["there"]["last"].as_str().unwrap_or("nowhere"), last, "{report:#}");
    let evidence = report["causes"][0]["evidence"].as_array().expect("evidence");
    assert!(!evidence.is_empty(), "{report:#}");
    report
}

/// Runs the commands of a report's mend.
pub(crate) fn mend(machine: &Machine, report: &Value) {
    let mend = report["causes"][0]["mend"].as_str().expect("a mend");
    for command in mend.split(" && ") {
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        machine.netloom(words).finish().code(0);
    }
}

pub(crate) fn arrives(machine: &Machine, flow: &str) {
    let found = ask(machine, flow);
    let text = found.text();
    assert!(found.status.success(), "{text}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["verdict"], "answered", "{report:#}");
    assert!(causes(&report).is_empty(), "{report:#}");
}

/// [`arrives`] where a link or an interface has come again: a router may still hold a packet for a neighbour that it asked for in
/// vain, and tell the next one's sender of that.
fn arrives_again(machine: &Machine) {
    machine.answers("h1", "web");
    arrives(machine, "80/tcp");
}

/// Plants a fault in a node, asserts what is told, mends it as told, and asserts that the flow arrives.
pub(crate) fn planted(
    machine: &Machine,
    (node, script): (&str, &str),
    flow: &str,
    told: (&str, &str, &str),
) {
    sh(machine, node, script);
    let report = is_stopped(machine, flow, told);
    mend(machine, &report);
    arrives(machine, flow);
}

#[test]
fn a_sound_flow_arrives_and_each_hop_saw_it() {
    needs!("python3", "ip");
    let machine = machine!();
    up(&machine);
    for flow in ["80/tcp", "icmp"] {
        let report = ask(&machine, flow).code(0).json();
        assert_eq!(report["verdict"], "answered", "{report:#}");
        for way in ["there", "back"] {
            let hops = report[way]["hops"].as_array().expect("hops");
            assert_eq!(hops.len(), 8, "{report:#}");
            assert!(hops.iter().all(|hop| hop["seen"] == "packet"), "{report:#}");
        }
    }
    machine.answers_by("-6", "h1", "web");
    let told = machine.ok("why h1 web icmp -6").text();
    assert!(told.contains("arrives, and is answered"), "{told}");
    machine.refused("why h1 nobody", 1, &["\"nobody\""]);
    machine.refused("why h1 web 80", 2, &["80/tcp"]);
    machine.refused("why h1 192.0.2.77", 2, &["192.0.2.77"]);
    machine.down();
}

#[test]
fn faults_of_routes_and_settings_are_named_and_mended() {
    needs!("python3", "ip");
    let machine = machine!();
    up(&machine);
    let web = address(&machine, "web", "eth0");
    let h2 = address(&machine, "h2", "eth0");
    let r1 = "node r1";
    let into_r1 = "r1:eth0 in";
    planted(
        &machine,
        ("r1", "ip -4 route flush proto static"),
        "80/tcp",
        ("no_route", r1, into_r1),
    );
    for kind in ["blackhole", "unreachable", "prohibit"] {
        let script = format!("ip route add {kind} {web}/32");
        let cause = format!("{kind}_route");
        planted(&machine, ("r1", &script), "icmp", (&cause, r1, into_r1));
    }
    let off = "echo 0 > /proc/sys/net/ipv4/ip_forward";
    planted(&machine, ("r1", off), "80/tcp", ("forwarding_off", r1, into_r1));
    // A host that does not forward is handed the packets.
    let wrong =
        format!("ip route replace $(ip -4 route show default | cut -d' ' -f1) via {h2} dev eth0");
    planted(&machine, ("h1", &wrong), "80/tcp", ("wrong_gateway", "node h1", "h2:eth0 in"));
    let small = "echo 1 > /proc/sys/net/ipv4/ip_default_ttl";
    planted(&machine, ("h1", small), "80/tcp", ("ttl_ended", r1, into_r1));
    let silent = "echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all";
    planted(&machine, ("web", silent), "icmp", ("echo_ignored", "node web", "web:eth0 in"));
    let gateway = address(&machine, "r1", "eth0");
    let fixed =
        format!("ip neigh replace {gateway} lladdr 02:00:00:00:00:99 dev eth0 nud permanent");
    let report = {
        sh(&machine, "h1", &fixed);
        let report = ask(&machine, "80/tcp").code(1).json();
        assert_eq!(causes(&report), [("neighbour_wrong".into(), "node h1".into())], "{report:#}");
        report
    };
    mend(&machine, &report);
    arrives(&machine, "80/tcp");
    // The way there is refused because of the way back.
    let h1 = address(&machine, "h1", "eth0");
    let other = format!(
        "ip route add {h1}/32 via {web} dev eth1; echo 1 > /proc/sys/net/ipv4/conf/eth0/rp_filter"
    );
    sh(&machine, "r2", &other);
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report)[0], ("reverse_path_filter".into(), "node r2".into()), "{report:#}");
    assert_eq!(report["causes"][0]["basis"], "probe");
    machine.down();
}

#[test]
fn faults_of_links_interfaces_and_addresses_are_named_and_mended() {
    needs!("python3", "ip");
    let machine = machine!();
    up(&machine);
    let link = "link r1:eth1--r2:eth0";
    machine.ok("link set r1:eth1--r2:eth0 --down");
    settled(&machine, ("r1", "eth1"), false);
    let report = is_stopped(&machine, "80/tcp", ("cable_out", link, "r1:eth0 in"));
    mend(&machine, &report);
    arrives_again(&machine);
    machine.ok("link set r1:eth1 --loss 100%");
    settled(&machine, ("r1", "eth1"), true);
    let report = is_stopped(&machine, "80/tcp", ("wire_loss", link, "r1:eth1 out"));
    mend(&machine, &report);
    arrives_again(&machine);
    // Nothing comes back.
    machine.ok("link set r2:eth0 --loss 100%");
    settled(&machine, ("r1", "eth1"), true);
    settled(&machine, ("r2", "eth0"), true);
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [("wire_loss".into(), link.into())], "{report:#}");
    mend(&machine, &report);
    arrives_again(&machine);
    let down = ("interface_down", "node web");
    sh(&machine, "web", "ip link set eth0 down");
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [(down.0.into(), down.1.into())], "{report:#}");
    mend(&machine, &report);
    machine
        .netloom(["apply", machine.scratch().path().join("lab.yaml").to_str().expect("a path")])
        .finish()
        .code(0);
    arrives_again(&machine);
    sh(&machine, "web", "ip -4 addr flush dev eth0");
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [("address_missing".into(), "node web".into())], "{report:#}");
    mend(&machine, &report);
    arrives_again(&machine);
    sh(&machine, "r1", "ip link set eth1 mtu 1000");
    let report = ask(&machine, "80/tcp").code(0).json();
    let hindrance = &report["hindrances"][0];
    assert_eq!(
        (&hindrance["name"], &hindrance["place"]),
        (&"mtu_too_small".into(), &"node r1".into()),
        "{report:#}"
    );
    machine.down();
}

#[test]
fn faults_at_the_receiver_are_named_and_two_are_told_as_two() {
    needs!("python3", "ip");
    let machine = machine!();
    up(&machine);
    let at_web = "web:eth0 in";
    is_stopped(&machine, "81/tcp", ("nothing_listens", "node web", at_web));
    is_stopped(&machine, "81/udp", ("nothing_listens", "node web", at_web));
    is_stopped(&machine, "8080/tcp", ("listens_elsewhere", "node web", at_web));
    // Independent of each other: both are told, the one that lost the probe first.
    sh(&machine, "r1", "ip -4 route flush proto static");
    let report = ask(&machine, "81/tcp").code(1).json();
    let both =
        [("no_route".into(), "node r1".into()), ("nothing_listens".into(), "node web".into())];
    assert_eq!(causes(&report), both, "{report:#}");
    assert_eq!(
        (&report["causes"][0]["basis"], &report["causes"][1]["basis"]),
        (&"probe".into(), &"facts".into())
    );
    machine.down();
}

#[test]
fn rules_of_nftables_are_named_by_handle_and_text() {
    needs!("python3", "ip", "nft");
    let machine = machine!();
    up(&machine);
    let into_r1 = "r1:eth0 in";
    let drop = format!("{CHAIN}nft add rule inet fw f tcp dport '{{ 22, 80 }}' counter drop");
    sh(&machine, "r1", &drop);
    let report = is_stopped(&machine, "80/tcp", ("nft_drop", "node r1", into_r1));
    let evidence = report["causes"][0]["evidence"][0].as_str().expect("evidence");
    assert!(evidence.contains("table inet fw, chain f handle "), "{evidence}");
    assert!(evidence.contains("tcp dport { 22, 80 } counter drop"), "{evidence}");
    arrives(&machine, "icmp");
    mend(&machine, &report);
    arrives(&machine, "80/tcp");
    sh(
        &machine,
        "r1",
        "nft add rule inet fw f ip protocol icmp reject with icmp type admin-prohibited",
    );
    let report = is_stopped(&machine, "icmp", ("nft_reject", "node r1", into_r1));
    assert!(
        report["causes"][0]["evidence"].to_string().contains("communication prohibited"),
        "{report:#}"
    );
    sh(&machine, "r1", "nft flush ruleset");
    // A policy, with a rule that lets only answers pass.
    let policy = "nft add table inet own; nft add chain inet own i '{ type filter hook input priority 0; policy drop; }'; \
                  nft add rule inet own i ct state established accept";
    sh(&machine, "web", policy);
    let report = is_stopped(&machine, "80/tcp", ("nft_drop", "node web", "web:eth0 in"));
    mend(&machine, &report);
    arrives(&machine, "80/tcp");
    sh(&machine, "web", "nft flush ruleset");
    // Answers only are dropped, on their way back.
    let back = format!("{CHAIN}nft add rule inet fw f tcp sport 80 drop");
    sh(&machine, "r2", &back);
    let report = is_stopped(&machine, "80/tcp", ("nft_drop", "node r2", "web:eth0 in"));
    assert_eq!(report["causes"][0]["direction"], "back", "{report:#}");
    assert_eq!(report["back"]["last"], "r2:eth1 in", "{report:#}");
    mend(&machine, &report);
    // A limit is not evaluated: the rule behind it is the cause, since the probe was lost there and nothing else explains it.
    sh(
        &machine,
        "r1",
        &format!(
            "{CHAIN}nft add rule inet fw f limit rate 1/day burst 1 packets accept; nft add rule inet fw f drop"
        ),
    );
    ask(&machine, "icmp");
    let report = is_stopped(&machine, "icmp", ("nft_drop", "node r1", into_r1));
    let evidence = report["causes"][0]["evidence"].to_string();
    assert!(evidence.contains("nothing else that is read explains it"), "{report:#}");
    mend(&machine, &report);
    arrives(&machine, "icmp");
    machine.down();
}

#[test]
fn a_dead_node_is_named_and_a_killed_lab_process_leaves_nothing() {
    needs!("python3", "ip");
    let machine = machine!();
    up(&machine);
    kill_and_wait(machine.init("r2"));
    // Its network goes some time after its last process, and forwards until then.
    wait_until("its links are gone", SOON, || {
        (!sh(&machine, "r1", "ip -o link").contains(": eth1@")).then_some(())
    });
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [("node_dead".into(), "node r2".into())], "{report:#}");
    let file = machine.scratch().path().join("lab.yaml");
    machine.up_file(&file);
    arrives_again(&machine);
    // While it waits for an answer that does not come.
    sh(&machine, "r1", "ip -4 route flush proto static");
    let mut asking = machine.netloom(["why", "h1", "web", "80/tcp", "-4"]).spawn();
    kill_and_wait(machine.lab_process());
    let _ = asking.wait();
    // Another one takes over, and takes the route back.
    machine.up_file(&file);
    arrives_again(&machine);
    let sockets = |node: &str| sh(&machine, node, "cat /proc/net/packet | wc -l");
    for node in ["h1", "r1", "r2", "web"] {
        assert_eq!(sockets(node), "1", "only the heading");
    }
    machine.down();
}
