//! Addresses as nodes have them: none, where the file says so, and those that they got meanwhile.

use netloom_tests_e2e::machine;

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
