//! Addresses as nodes have them: none, where the file says so, and those that they got meanwhile.

use std::time::Duration;

use netloom_tests_e2e::{Machine, machine, wait_until};
use serde_json::Value;

/// A client without an address, a server with one.
const LAB: &str = "
name: served
nodes: {client: {}, server: {}}
links:
  - {ends: [client, server], addresses: {client: none, server: 192.0.2.1/24}}
";

#[test]
fn an_end_without_addresses_is_up_and_can_be_given_one() {
    let machine = machine!();
    machine.up(LAB);
    let found = machine.exec("client", &["ip", "-o", "addr", "show", "dev", "eth0"]).ok();
    let found: Vec<&str> = found.lines().filter(|line| !line.contains("scope link")).collect();
    assert!(found.is_empty(), "{found:?}");
    let link = machine.exec("client", &["ip", "-o", "link", "show", "dev", "eth0"]).ok();
    assert!(link.contains("LOWER_UP"), "{link}");
    machine.exec("client", &["ip", "addr", "add", "192.0.2.77/24", "dev", "eth0"]).ok();
    machine.answers("client", "server");
    machine.down();
}

/// A node's addresses as `status --json` has them, without IPv6.
fn shown(machine: &Machine, node: &str) -> (Vec<String>, Vec<String>) {
    let status = machine.status();
    let nodes = status["nodes"].as_array().expect("nodes");
    let node = nodes.iter().find(|n| n["name"] == node).expect("the node");
    let texts = |list: &Value| -> Vec<String> {
        let texts = list.as_array().expect("a list").iter().filter_map(Value::as_str);
        texts.filter(|text| !text.contains(':')).map(str::to_owned).collect()
    };
    let interfaces = node["interfaces"].as_array().expect("interfaces").iter();
    (texts(&node["addresses"]), interfaces.flat_map(|i| texts(&i["addresses"])).collect())
}

#[test]
fn status_and_ping_follow_the_kernels_addresses() {
    let machine = machine!();
    machine.up(LAB);
    let list = |all: &[&str]| all.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>();
    assert_eq!(shown(&machine, "client"), (list(&[]), list(&[])));
    // As a DHCP client does it: one address, and later another in its place.
    for address in ["192.0.2.77/24", "192.0.2.78/24"] {
        machine.exec("client", &["ip", "-4", "addr", "flush", "dev", "eth0"]).ok();
        machine.exec("client", &["ip", "addr", "add", address, "dev", "eth0"]).ok();
        assert_eq!(shown(&machine, "client"), (list(&[address]), list(&[address])));
        let row = machine.netloom(["status"]).ok();
        assert!(row.lines().any(|l| l.starts_with("client") && l.contains(address)), "{row}");
        machine.answers("client", "server");
        assert!(machine.netloom(["ping", "--all", "-4"]).ok().contains("2 of 2 pairs"));
        let pair = machine.netloom(["ping", "server", "client", "-4", "--json"]).finish().code(0);
        let pair = pair.json();
        let asked = pair["families"][0]["address"].as_str().expect("an address").to_owned();
        assert_eq!(Some(asked.as_str()), address.split('/').next());
        assert_eq!(pair["families"][0]["rtt_us"].as_array().map(Vec::len), Some(3));
    }
    // One that stands on an interface of the node's own making is the node's, too.
    let bridge = "ip link add br0 type bridge && ip link set eth0 master br0 && ip link set br0 up && \
                  ip -4 addr flush dev eth0 && ip addr add 192.0.2.79/24 dev br0";
    machine.exec("client", &["sh", "-c", bridge]).ok();
    assert_eq!(shown(&machine, "client"), (list(&["192.0.2.79/24"]), list(&[])));
    machine.answers("server", "192.0.2.79");
    machine.netloom(["ping", "server", "client", "-4", "-c", "2", "-i", "10"]).ok();
    machine.netloom(["ping", "server", "nobody"]).finish().code(1).says("nobody");
    machine.netloom(["ping", "server"]).finish().code(2);
    machine.netloom(["ping", "server", "client", "--all"]).finish().code(2);
    machine.down();
}

/// What a name stands for in a node: its IPv4 addresses.
fn looked_up(machine: &Machine, node: &str, name: &str) -> Vec<String> {
    let found = machine.exec(node, &["getent", "ahostsv4", name]).finish();
    let text = found.text();
    let addresses = text.lines().filter(|line| line.contains("STREAM"));
    addresses.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Waits until a name stands for an address in a node.
fn until_known(machine: &Machine, node: &str, name: &str, address: &str) {
    wait_until(&format!("{node} knows {name} as {address}"), Duration::from_secs(60), || {
        (looked_up(machine, node, name) == [address]).then_some(())
    });
}

fn set(machine: &Machine, node: &str, address: &str) {
    machine.exec(node, &["ip", "-4", "addr", "flush", "dev", "eth0"]).ok();
    machine.exec(node, &["ip", "addr", "add", address, "dev", "eth0"]).ok();
}

#[test]
fn names_follow_addresses_and_go_on_when_the_lab_is_adopted() {
    let machine = machine!();
    machine.up(LAB);
    assert!(looked_up(&machine, "server", "client").is_empty());
    set(&machine, "client", "192.0.2.77/24");
    until_known(&machine, "server", "client", "192.0.2.77");
    until_known(&machine, "client", "client", "192.0.2.77");
    set(&machine, "client", "192.0.2.78/24");
    until_known(&machine, "server", "client", "192.0.2.78");
    let pid = machine.status()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    netloom_tests_e2e::kill(pid.expect("a lab process"));
    let init = machine.file(LAB);
    wait_until("the lab is adopted", Duration::from_secs(60), || {
        let done =
            machine.netloom(["up".as_ref(), "--keep-drift".as_ref(), init.as_os_str()]).finish();
        done.text().contains("adopted").then_some(())
    });
    until_known(&machine, "server", "client", "192.0.2.78");
    set(&machine, "client", "192.0.2.79/24");
    until_known(&machine, "server", "client", "192.0.2.79");
    // One that is recreated has the file of the others.
    let inits = machine.inits();
    let (_, server) = inits.iter().find(|(name, _)| name == "server").expect("the server");
    netloom_tests_e2e::kill(*server);
    wait_until("the server is recreated", Duration::from_secs(60), || {
        let done =
            machine.netloom(["up".as_ref(), "--keep-drift".as_ref(), init.as_os_str()]).finish();
        done.text().contains("server").then_some(())
    });
    set(&machine, "client", "192.0.2.80/24");
    until_known(&machine, "server", "client", "192.0.2.80");
    until_known(&machine, "client", "client", "192.0.2.80");
    machine.down();
}

#[test]
fn every_address_of_a_router_has_a_name() {
    let machine = machine!();
    machine.up_file(&netloom_tests_e2e::workspace_root().join("examples/two-sites.yaml"));
    let status = machine.status();
    let nodes = status["nodes"].as_array().expect("nodes");
    let r2 = nodes.iter().find(|n| n["name"] == "r2").expect("r2");
    let addresses: Vec<String> = r2["interfaces"]
        .as_array()
        .expect("interfaces")
        .iter()
        .flat_map(|i| i["addresses"].as_array().expect("addresses").iter())
        .filter_map(|a| a.as_str()?.split('/').next().map(str::to_owned))
        .collect();
    let name = |address: &str| {
        let line = machine.exec("h1", &["getent", "hosts", address]).ok();
        line.split_whitespace().nth(1).expect("a name").to_owned()
    };
    let names: Vec<String> = addresses.iter().map(|a| name(a)).collect();
    assert_eq!(names, ["r2", "r2", "eth1.r2", "eth1.r2"], "{addresses:?}");
    // The node's name stands for one address a family, as others are to use it.
    assert_eq!(looked_up(&machine, "h1", "r2"), addresses[..1]);
    machine.down();
}
