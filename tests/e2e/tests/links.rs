//! Links of a running lab: made, removed, taken down and up again.

use netloom_tests_e2e::live::{SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, machine, pair, wait_until};
use serde_json::Value;

/// A router between a switch of each kind and a far node.
const LAB: &str = "name: links\nnodes:\n  h1: {}\n  h2: {}\n  r: {forwarding: true}\n  far: {}\n\
                   switches: {s: {}, m: {kind: shm}}\nlinks:\n  - [h1, s]\n  - [r, s]\n  - [r, far]\n  - \
                   [h2, m]\n  - [r, m]\n";

/// Waits until a node that should reach another by name does, in both families.
fn reaches(machine: &Machine, from: &str, to: &str) {
    ["-4", "-6"].iter().for_each(|family| machine.answers_by(family, from, to));
}

/// Whether it does at once: it should not, or is asked again.
fn reaches_now(machine: &Machine, from: &str, to: &str) -> bool {
    let ping = |family| {
        let words = ["ping", family, "-c", "1", "-W", "1", to];
        machine.exec(from, &words).finish().status.success()
    };
    ping("-4") && ping("-6")
}

/// Whether an interface of a node has its carrier; one that is set down has none to show.
fn carrier(machine: &Machine, end: &str) -> bool {
    let (node, iface) = end.split_once(':').expect("an end");
    let path = format!("/sys/class/net/{iface}/carrier");
    machine.exec(node, &["cat", &path]).finish().text().trim() == "1"
}

fn links(machine: &Machine) -> Vec<String> {
    let status = machine.status();
    let name = |link: &Value| link["name"].as_str().expect("a name").to_owned();
    status["links"].as_array().expect("links").iter().map(name).collect()
}

fn hosts(machine: &Machine, node: &str) -> String {
    machine.exec(node, &["cat", "/etc/hosts"]).ok()
}

#[test]
fn a_new_node_is_linked_and_reaches_all() {
    let machine = machine!();
    machine.up(LAB);
    let before = hosts(&machine, "far");
    machine.ok("node create h9");
    assert_eq!(machine.ok("link create h9 s").text(), "h9:eth0--s\n");
    for to in ["h1", "r", "far", "h2"] {
        reaches(&machine, "h9", to);
    }
    reaches(&machine, "far", "h9");
    assert!(hosts(&machine, "far").contains("\th9\n"));
    // One that somebody has written stays as it is.
    machine.exec("h2", &["sh", "-c", "echo '# mine' >> /etc/hosts"]).ok();
    machine.ok("link delete h9 s");
    assert_eq!(hosts(&machine, "far"), before);
    assert!(hosts(&machine, "h2").ends_with("# mine\n"));
    assert_eq!(links(&machine).len(), 5);
    let gone = machine.exec("h9", &["sh", "-c", "test ! -e /sys/class/net/eth0"]).finish();
    gone.code(0);
    // A switch of the other kind, and with addresses by hand.
    machine.ok("link create h9:up0 m --name spare --mtu 1400");
    ["h2", "far"].iter().for_each(|to| reaches(&machine, "h9", to));
    machine.ok("link create h9 far --address h9=10.99.0.1/24 --address far=10.99.0.2/24");
    machine.answers("h9", "10.99.0.2");
    machine.ok("link delete spare");
    machine.refused("link create h9 h9", 2, &["joins a node to itself"]);
    machine.refused("link create h9 s m", 2, &[]);
    machine.refused("link create s m", 2, &["two switches"]);
    machine.refused("link create h9 host:lo", 2, &["lab file"]);
    machine.refused("link create h9 nobody", 1, &["\"nobody\""]);
    machine.refused("link create h9:eth0 s", 2, &["eth0", "already"]);
    machine.refused("link create h9 s --delay often", 2, &["delay"]);
    machine.refused("link create h9 s --address s=10.0.0.1/8", 2, &["10.0.0.1"]);
    assert_eq!(links(&machine).len(), 6);
    machine.down();
}

#[test]
fn paths_follow_the_links_there_are() {
    let machine = machine!();
    let ring = "name: ring\nnodes:\n  a: {}\n  r1: {forwarding: true}\n  r2: {forwarding: true}\n  \
                r3: {forwarding: true}\n  b: {}\nlinks:\n  - [a, r1]\n  - [r1, r2]\n  - [r2, r3]\n  - [r3, b]\n";
    machine.up(ring);
    let hops = || {
        machine.answers("a", "b");
        machine.exec("a", &["ping", "-4", "-c", "1", "-W", "30", "b"]).ok()
    };
    assert!(hops().contains("ttl=61"));
    machine.ok("link create r1 r3");
    assert!(hops().contains("ttl=62"));
    machine.ok("link delete r1 r2");
    assert!(hops().contains("ttl=62"));
    machine.ok("link delete r1,r3");
    assert!(!reaches_now(&machine, "a", "b"));
    machine.ok("link create r1 r2");
    assert!(hops().contains("ttl=61"));
    reaches(&machine, "a", "b");
    machine.all_reach_all();
    machine.down();
}

#[test]
fn links_are_named_by_their_ends_where_that_is_one() {
    let machine = machine!();
    machine.up("nodes: {a: {}, b: {}, c: {}}\nlinks:\n  - [a, b]\n  - [a, c]\n  - [a, c]\n");
    for words in ["a b", "b a", "a,b", "a--b", "b:eth0--a", "a:eth0--b:eth0"] {
        let shown = machine.ok(&format!("link show {words}")).text();
        assert!(shown.starts_with("link  a:eth0--b:eth0: up"), "{words}: {shown}");
    }
    let both = ["a:eth1--c:eth0", "a:eth2--c:eth1"];
    machine.refused("link show a c", 2, &both);
    machine.refused("link set c a --down", 2, &both);
    machine.refused("link delete a--c", 2, &both);
    machine.refused("link show b c", 1, &["not in lab"]);
    machine.ok("link delete a:eth2 c");
    machine.ok("link show a c");
    machine.down();
}

#[test]
fn a_pulled_cable_takes_the_carrier_of_both_ends() {
    let machine = machine!();
    machine.up(LAB);
    for (words, ends, pair) in [
        ("r far", ["r:eth1", "far:eth0"], ["h1", "far"]),
        ("h1 s", ["h1:eth0", "h1:eth0"], ["h1", "r"]),
        ("h2 m", ["h2:eth0", "h2:eth0"], ["h2", "r"]),
    ] {
        let [from, to] = pair;
        // Objects in a node that are not in the plan stay, too.
        let own = ["ip", "route", "add", "10.222.0.0/16", "dev", "eth0"];
        let node = ends[1].split(':').next().unwrap();
        machine.exec(node, &own).finish().code(0);
        let routes = |node: &str| {
            let of =
                |f: &str| machine.exec(node, &["ip", f, "route"]).ok().replace(" linkdown", "");
            let sorted = |text: String| {
                let mut lines: Vec<String> = text.lines().map(|l| l.trim().to_owned()).collect();
                lines.sort();
                lines
            };
            (sorted(of("-4")), sorted(of("-6")))
        };
        reaches(&machine, from, to);
        // The kernel has made those of an interface when it is ready.
        let before = routes(node);
        assert!(ends.iter().all(|e| carrier(&machine, e)), "{words}");
        machine.ok(&format!("link set {words} --down"));
        assert!(ends.iter().all(|end| !carrier(&machine, end)), "{words}");
        assert!(!reaches_now(&machine, from, to), "{words}");
        let shown = machine.netloom(["link", "show", &words.replace(' ', ","), "--json"]).finish();
        let shown = shown.code(0).json();
        assert_eq!((shown["up"].as_bool(), shown["down"].as_bool()), (Some(false), Some(true)));
        // The next lab process leaves it as it is.
        kill_and_wait(machine.lab_process());
        machine.up(LAB);
        assert!(ends.iter().all(|end| !carrier(&machine, end)), "{words}");
        machine.ok(&format!("link set {words} --up"));
        wait_until("it is reached again", SOON, || reaches_now(&machine, from, to).then_some(()));
        // Without a kill in between, all that it had.
        machine.exec(node, &["ip", "route", "replace", "10.222.0.0/16", "dev", "eth0"]).ok();
        machine.ok(&format!("link set {words} --down"));
        machine.ok(&format!("link set {words} --up"));
        wait_until("it is reached again", SOON, || reaches_now(&machine, from, to).then_some(()));
        wait_until("its routes are back", SOON, || (routes(node) == before).then_some(()));
        machine.exec(node, &["ip", "route", "del", "10.222.0.0/16"]).ok();
        for (node, interface) in ends.iter().filter_map(|end| end.split_once(':')) {
            let kept = format!("/proc/sys/net/ipv6/conf/{interface}/keep_addr_on_down");
            assert_eq!(machine.exec(node, &["cat", &kept]).ok().trim(), "0", "{words}");
        }
    }
    machine.all_reach_all();
    machine.down();
}

#[test]
fn nodes_that_are_made_anew_find_their_cable_pulled() {
    let machine = machine!();
    machine.up(&pair(""));
    machine.ok("link set a b --down");
    kill_and_wait(machine.init("b"));
    machine.up(&pair(""));
    assert!(!carrier(&machine, "a:eth0") && !reaches_now(&machine, "a", "b"));
    machine.ok("link set a b --up");
    wait_until("it is reached again", SOON, || reaches_now(&machine, "a", "b").then_some(()));
    machine.down();
}

#[test]
fn a_link_with_impairments_is_made_and_follows_its_settings() {
    let machine = machine!();
    machine.up(&pair(""));
    machine.ok("link create a b --delay 60ms");
    let address = |node: &str| {
        let shown = machine.node(node);
        let net = shown["interfaces"][1]["addresses"][0].as_str().expect("an address").to_owned();
        net.split('/').next().expect("an address").to_owned()
    };
    machine.answers("a", &address("b"));
    let done = machine.exec("a", &["ping", "-c", "1", "-W", "30", &address("b")]).ok();
    let time: f64 =
        done.split("time=").nth(1).and_then(|t| t.split(' ').next()).unwrap().parse().unwrap();
    assert!(time >= 120.0, "{done}");
    machine.ok("link set a:eth1 b --down");
    machine.exec("a", &["ping", "-c", "1", "-W", "1", &address("b")]).finish().code(1);
    machine.ok("link set a:eth1 b --up --delay 1ms");
    wait_until("it answers again", SOON, || {
        let done = machine.exec("a", &["ping", "-c", "1", "-W", "1", &address("b")]).finish();
        done.status.success().then_some(())
    });
    machine.ok("link delete a:eth1,b");
    machine.down();
}

#[test]
fn what_was_done_to_links_is_told_by_up() {
    let machine = machine!();
    machine.up(&pair(""));
    machine.ok("link create a b --name second");
    let text = machine.up(&pair("")).text();
    assert!(text.contains("  link second: added\n"), "{text}");
    kill_and_wait(machine.lab_process());
    let text = machine.up(&pair("")).text();
    assert!(text.contains("adopted") && text.contains("  link second: added\n"), "{text}");
    machine.ok("link delete second");
    machine.ok("link set a b --down");
    let text = machine.up(&pair("")).text();
    assert!(text.contains("  link a:eth0--b:eth0: taken down\n"), "{text}");
    machine.down();
}

#[test]
fn links_of_nodes_in_a_node_are_made_from_inside() {
    let machine = machine!();
    machine.up("name: t\nnodes:\n  out: {}\n  in: {children: {nodes: {x: {}, y: {}}}}\n");
    let made = machine.inside("in", ["link", "create", "x", "y"]).ok();
    assert_eq!(made, "x:eth0--y:eth0\n");
    reaches(&machine, "in/x", "y.in");
    machine.refused_inside("in", "link create x out", 1, &["out"]);
    machine.inside("in", ["link", "set", "x", "y", "--down"]).ok();
    assert!(!reaches_now(&machine, "in/x", "y.in"));
    machine.inside("in", ["link", "delete", "x", "y"]).ok();
    assert!(links(&machine).is_empty());
    machine.down();
}

/// The route to the segment's prefix by several ways goes, and not the one of the new interface.
#[test]
fn a_node_that_joins_a_segment_keeps_its_own_way_there() {
    let machine = machine!();
    machine
        .up("name: joins\nnodes: {a: {}, b: {forwarding: true}, r: {forwarding: true}, x: {}}\n\
         switches: {lan: {}}\nlinks: [[a, lan], [r, lan], [a, r], [b, r]]\n");
    machine.ok("link create r b");
    let routes = |words: &[&str]| machine.exec("b", words).finish().code(0).text();
    let several = routes(&["ip", "-6", "route", "show", "proto", "static"]);
    assert!(several.contains("nexthop"), "{several}");
    machine.ok("link create b lan");
    for family in ["-4", "-6"] {
        let own = routes(&["ip", family, "route", "show", "dev", "eth2", "proto", "kernel"]);
        let own: Vec<&str> = own.lines().filter(|line| !line.starts_with("fe80")).collect();
        assert_eq!(own.len(), 1, "{family}: {own:?}");
    }
    machine.ok("link create b x");
    reaches(&machine, "x", "a");
    machine.down();
}

#[test]
fn a_link_that_was_cut_off_while_it_was_made_goes_with_the_next_lab_process() {
    let machine = machine!();
    machine.up(LAB);
    let before = hosts(&machine, "far");
    machine.ok("node create h9");
    machine.ok("link create h9 s");
    machine.ok("link create h9 m");
    kill_and_wait(machine.lab_process());
    // As a kill between making it and noting that it is made leaves the state.
    let state = machine.scratch().runtime_dir().join("links/state.json");
    let text = std::fs::read_to_string(&state).expect("the state");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    let ids: Vec<Value> = value["plan"]["links"].as_array().expect("links")[5..]
        .iter()
        .map(|link| link["id"].clone())
        .collect();
    value["unfinished"] = ids.into();
    std::fs::write(&state, value.to_string()).expect("write the state");
    machine.up(LAB);
    assert_eq!(links(&machine).len(), 5);
    assert_eq!(hosts(&machine, "far"), before);
    let gone = ["sh", "-c", "! test -e /sys/class/net/eth0 && ! test -e /sys/class/net/eth1"];
    machine.exec("h9", &gone).finish().code(0);
    for switch in ["s", "m"] {
        machine.ok(&format!("link create h9 {switch}"));
    }
    ["far", "h2"].iter().for_each(|to| reaches(&machine, "h9", to));
    machine.down();
}

#[test]
fn a_second_way_of_equal_cost_is_used_and_given_up() {
    let machine = machine!();
    let lab = "name: two-ways\nnodes:\n  a: {}\n  r1: {forwarding: true}\n  r2: {forwarding: true}\n  \
               r3: {forwarding: true}\n  r4: {forwarding: true}\n  b: {}\nlinks:\n  - [a, r1]\n  - [r1, r2]\n  \
               - [r1, r3]\n  - [r2, r4]\n  - [r4, b]\n";
    machine.up(lab);
    let hops = |family| {
        let to = if family == "-4" { "ahostsv4" } else { "ahostsv6" };
        let address = machine.exec("r1", &["getent", to, "b"]).ok();
        let address = address.split_whitespace().next().expect("an address").to_owned();
        let routes = machine.exec("r1", &["ip", family, "route", "show", "match", &address]).ok();
        routes.matches("nexthop").count()
    };
    assert_eq!((hops("-4"), hops("-6")), (0, 0));
    machine.ok("link create r3 r4");
    assert_eq!((hops("-4"), hops("-6")), (2, 2));
    let policy = machine.exec("r1", &["cat", "/proc/sys/net/ipv4/fib_multipath_hash_policy"]).ok();
    assert_ne!(policy.trim(), "0");
    machine.all_reach_all();
    // A cable that is put back has its way again.
    machine.ok("link set r1 r3 --down");
    machine.ok("link set r1 r3 --up");
    wait_until("both ways are back", SOON, || (hops("-4") == 2 && hops("-6") == 2).then_some(()));
    machine.ok("link delete r3 r4");
    assert_eq!((hops("-4"), hops("-6")), (0, 0));
    machine.all_reach_all();
    machine.down();
}

#[test]
fn an_end_has_the_hardware_address_that_is_given() {
    let machine = machine!();
    machine.up(
        "name: mac\nnodes: {a: {}, b: {}}\nswitches: {s: {}, m: {kind: shm}}\nlinks:\n- {ends: [a, s], mac: {a: 02:00:00:00:00:0a}}\n\
         - {ends: [\"b:up\", s], mac: {\"b:up\": 2-0-0-0-0-b}}\n- {ends: [a, m], mac: {a: 02:00:00:00:01:0a}}\n- [b, m]\n",
    );
    let of = |node: &str, interface: &str| {
        machine.exec(node, &["cat", &format!("/sys/class/net/{interface}/address")]).ok()
    };
    assert_eq!(of("a", "eth0"), "02:00:00:00:00:0a\n");
    assert_eq!(of("b", "up"), "02:00:00:00:00:0b\n");
    assert_eq!(of("a", "eth1"), "02:00:00:00:01:0a\n");
    machine.all_reach_all();
    machine.down();
}
