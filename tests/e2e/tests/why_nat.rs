//! `netloom why` along flows whose addresses rules translate: in both directions, and up to the fault behind the rule.

use netloom_tests_e2e::{Machine, machine, needs};
use serde_json::Value;

use crate::apply::sh;
use crate::why::{OFFICE, address, arrives, ask, causes, is_stopped, mend};

/// Chains that translate in `r1`: what leaves for the servers, and what comes for itself.
const CHAINS: &str = "nft add table ip nat
nft add chain ip nat post '{ type nat hook postrouting priority 100; }'
nft add chain ip nat pre '{ type nat hook prerouting priority -100; }'
";

/// The office behind a router that hides its addresses: nothing behind `r1` has a way to them.
fn masquerading(machine: &Machine) {
    machine.up(OFFICE);
    machine.answers("h1", "web");
    sh(machine, "r1", &format!("{CHAINS}nft add rule ip nat post oifname eth1 masquerade"));
    let inside = address(machine, "h1", "eth0");
    let route = sh(machine, "r2", &format!("ip route show to match {inside}"));
    let net = route.split_whitespace().next().expect("a route");
    sh(machine, "r2", &format!("ip route del {net}"));
}

/// That a way was seen at each of its hops.
fn was_seen(report: &Value, way: &str) {
    let hops = report[way]["hops"].as_array().expect("hops");
    assert_eq!(hops.len(), 8, "{report:#}");
    assert!(hops.iter().all(|hop| hop["seen"] == "packet"), "{report:#}");
}

#[test]
fn a_way_through_a_masquerade_is_followed_and_what_stands_behind_it_is_named() {
    needs!("python3", "ip", "nft");
    let machine = machine!();
    masquerading(&machine);
    let (inside, outside) = (address(&machine, "h1", "eth0"), address(&machine, "r1", "eth1"));
    for flow in ["80/tcp", "icmp"] {
        let report = ask(&machine, flow).code(0).json();
        assert_eq!(report["verdict"], "answered", "{report:#}");
        was_seen(&report, "there");
        was_seen(&report, "back");
        let translated = &report["there"]["translated"][0];
        assert_eq!(translated["node"], "r1", "{report:#}");
        assert!(translated["before"].as_str().is_some_and(|text| text.starts_with(&inside)));
        assert!(translated["after"].as_str().is_some_and(|text| text.starts_with(&outside)));
        let rule = translated["rule"].as_str().expect("a rule");
        assert!(rule.contains("table ip nat, chain post handle"), "{rule}");
        assert_eq!(report["back"]["translated"][0]["node"], "r1", "{report:#}");
    }
    // A rule behind it drops the new address; one for the old address is not to blame.
    let chain = "nft add table inet fw
nft add chain inet fw f '{ type filter hook forward priority 0; }'
";
    sh(&machine, "r2", &format!("{chain}nft add rule inet fw f ip saddr {inside} drop"));
    arrives(&machine, "80/tcp");
    sh(&machine, "r2", &format!("nft add rule inet fw f ip saddr {outside} tcp dport 80 drop"));
    let report = is_stopped(&machine, "80/tcp", ("nft_drop", "node r2", "r2:eth0 in"));
    mend(&machine, &report);
    arrives(&machine, "80/tcp");
    // On the way back, too, before r1 knows whose it is.
    sh(&machine, "r2", &format!("nft add rule inet fw f ip daddr {outside} tcp sport 80 drop"));
    let report = ask(&machine, "80/tcp").code(1).json();
    assert_eq!(causes(&report), [("nft_drop".to_owned(), "node r2".to_owned())], "{report:#}");
    assert_eq!(report["causes"][0]["direction"], "back", "{report:#}");
    assert_eq!(report["back"]["last"], "r2:eth1 in", "{report:#}");
    machine.down();
}

#[test]
fn a_published_port_is_followed_to_the_node_behind_it() {
    needs!("python3", "ip", "nft");
    let machine = machine!();
    machine.up(OFFICE);
    machine.answers("h1", "web");
    let (router, web) = (address(&machine, "r1", "eth0"), address(&machine, "web", "eth0"));
    sh(&machine, "r1", &format!("{CHAINS}nft add rule ip nat pre tcp dport 8000 dnat to {web}:80"));
    let words = ["why", "h1", &router, "8000/tcp", "--json"];
    let report = machine.netloom(words).finish().code(0).json();
    assert_eq!(report["verdict"], "answered", "{report:#}");
    was_seen(&report, "there");
    was_seen(&report, "back");
    let after = report["there"]["translated"][0]["after"].as_str().expect("addresses");
    assert!(after.ends_with(&format!("-> {web}:80")), "{after}");
    let text = machine.netloom(&words[..4]).finish().code(0).text();
    assert!(text.contains("  r1 translates ") && text.contains(" handle "), "{text}");
    // The port that it leads to is the one where something has to listen.
    sh(
        &machine,
        "r1",
        &format!(
            "nft flush chain ip nat pre
nft add rule ip nat pre tcp dport 8000 dnat to {web}:81"
        ),
    );
    let report = machine.netloom(words).finish().code(1).json();
    assert_eq!(causes(&report), [("nothing_listens".to_owned(), "node web".to_owned())]);
    assert_eq!(report["causes"][0]["text"], "nothing in node web takes tcp on port 81");
    machine.down();
}

#[test]
fn rules_of_iptables_are_followed_too() {
    needs!("python3", "ip", "iptables-nft");
    let machine = machine!();
    machine.up(OFFICE);
    machine.answers("h1", "web");
    let (router, web) = (address(&machine, "r1", "eth0"), address(&machine, "web", "eth0"));
    let nat = "iptables-nft -w -t nat -A";
    sh(
        &machine,
        "r1",
        &format!(
            "{nat} POSTROUTING -o eth1 -j MASQUERADE
{nat} PREROUTING -p tcp --dport 8000 -j DNAT --to-destination {web}:80"
        ),
    );
    let report = machine.netloom(["why", "h1", &router, "8000/tcp", "--json"]).finish();
    let report = report.code(0).json();
    assert_eq!(report["verdict"], "answered", "{report:#}");
    was_seen(&report, "there");
    was_seen(&report, "back");
    let translated = report["there"]["translated"].as_array().expect("translations");
    assert_eq!(translated.len(), 2, "{report:#}");
    let outside = address(&machine, "r1", "eth1");
    let last = translated[1]["after"].as_str().expect("addresses");
    assert!(last.starts_with(&outside) && last.ends_with(&format!("{web}:80")), "{last}");
    machine.down();
}
