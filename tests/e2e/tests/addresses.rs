//! Addresses as nodes have them: none, where the file says so, and those that they got meanwhile.

use netloom_tests_e2e::{Machine, machine};
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
    machine.exec("client", &["ping", "-c", "1", "-W", "10", "server"]).ok();
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
    machine.netloom(["ping", "server", "client", "-4", "-c", "2", "-i", "10"]).ok();
    machine.netloom(["ping", "server", "nobody"]).finish().code(1).says("nobody");
    machine.netloom(["ping", "server"]).finish().code(2);
    machine.netloom(["ping", "server", "client", "--all"]).finish().code(2);
    machine.down();
}
