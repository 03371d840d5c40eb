//! The example of an office: addresses by DHCP, names by DNS, and a firewall with NAT.

use std::time::Duration;

use netloom_tests_e2e::{machine, needs, wait_until, workspace_root};

#[test]
fn clients_ask_for_all_they_need_and_are_hidden_by_nat() {
    needs!("dnsmasq", "nft", "udhcpc");
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/office.yaml"));

    // What the DHCP server has to give is what the client has.
    let known = machine.exec("pc1", &["cat", "/etc/hosts"]).ok();
    assert!(!known.contains("example"), "names of the office are the server's: {known}");
    let addresses = machine.exec("pc1", &["ip", "-json", "-4", "address", "show", "eth0"]);
    let addresses = addresses.finish().json();
    let own = addresses[0]["addr_info"][0]["local"].as_str().expect("an address").to_owned();
    let last = own.strip_prefix("192.168.1.").and_then(|last| last.parse::<u8>().ok());
    assert!(last.is_some_and(|last| (100..=199).contains(&last)), "{own}");
    let routes = machine.exec("pc1", &["ip", "route", "show", "default"]).ok();
    assert!(routes.contains("via 192.168.1.1 "), "{routes}");

    // Names of the world outside, and of the office itself.
    let resolve = |name| machine.exec("pc2", &["getent", "ahostsv4", name]).ok();
    assert!(resolve("www.example.net").starts_with("203.0.113.80 "));
    assert!(resolve("pc1.office.example").starts_with(&format!("{own} ")));

    // The page comes, and the server has seen the firewall alone.
    let page = machine.exec("pc1", &["curl", "-fsS", "http://www.example.net/"]).ok();
    assert_eq!(page, "hello, visitor\n");
    let seen = wait_until("the server to tell who asked", Duration::from_secs(30), || {
        let log = machine.netloom(["logs", "web"]).finish().code(0).text();
        log.contains("GET / ").then_some(log)
    });
    assert!(seen.starts_with("203.0.113.1 ") && !seen.contains("192.168."), "{seen}");

    // No way leads in: the firewall drops what nobody inside has asked for.
    let route = ["ip", "route", "add", "192.168.1.0/24", "via", "203.0.113.1"];
    machine.exec("web", &route).ok();
    machine.exec("web", &["ping", "-c", "1", "-W", "1", &own]).finish().code(1);
    machine.exec("firewall", &["ping", "-c", "1", "-W", "30", &own]).ok();
    machine.down();
}
