//! The disk from which a guest's cloud-init learns the plan (its NoCloud source): a small FAT file system with the
//! label CIDATA and the files `meta-data`, `network-config`, `user-data` and `vendor-data`.
//!
//! <https://docs.cloud-init.io/en/latest/reference/datasources/nocloud.html>. `network-config` is of version 2; a
//! card is found by its address and renamed. The names of the lab are in the vendor's data, so that `user-data` is the
//! user's own.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use fatfs::{FileSystem, FormatVolumeOptions, FsOptions};
use netloom_model::plan::{Interface, PlannedNode};
use netloom_sys::setup::read_of_lab;

use crate::Result;
use crate::error::failed;
use crate::initrd::{hops, word};
use crate::spec::Spec;

/// Its least size in bytes: that of a floppy disk.
const LEAST: u64 = 1440 << 10;

/// Room for the file system's own tables beside what is in the files.
const TABLES: u64 = 256 << 10;

/// The label by which cloud-init finds it.
const LABEL: [u8; 11] = *b"CIDATA     ";

/// Writes the disk of a machine.
///
/// # Errors
/// The user data cannot be read, or the file not written.
pub(crate) fn write(spec: &Spec, image: &Path) -> Result<()> {
    let object = image.display().to_string();
    let files = files(spec)?;
    let content: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let size = (content as u64 + TABLES).max(LEAST).next_multiple_of(512);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.open(image).map_err(failed(object.clone(), "make"))?;
    file.set_len(size).map_err(failed(object.clone(), "make"))?;
    fill(&file, &files).map_err(failed(object, "write"))
}

fn fill(file: &File, files: &[(&str, Vec<u8>)]) -> std::io::Result<()> {
    let disk = file;
    fatfs::format_volume(disk, FormatVolumeOptions::new().volume_label(LABEL))?;
    let system = FileSystem::new(disk, FsOptions::new())?;
    for (name, bytes) in files {
        let mut file = system.root_dir().create_file(name)?;
        file.write_all(bytes)?;
        file.flush()?;
    }
    system.unmount()
}

fn files(spec: &Spec) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let user = match &spec.machine().storage.user_data {
        Some(path) => read_of_lab(path).map_err(failed(path.display().to_string(), "read"))?,
        None => b"#cloud-config\n{}\n".to_vec(),
    };
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    Ok(vec![
        ("meta-data", meta(&spec.lab, &spec.node).into_bytes()),
        ("network-config", network(&spec.node).into_bytes()),
        ("vendor-data", vendor(&hosts, &spec.node).into_bytes()),
        ("user-data", user),
    ])
}

/// JSON is YAML, and quotes for us.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn meta(lab: &str, node: &PlannedNode) -> String {
    // By the id cloud-init tells a first boot from later
    // ones: a disk that is kept is the same instance.
    let (id, name) = (quoted(&format!("{lab}.{}", node.name)), quoted(node.host_name()));
    format!("instance-id: {id}\nlocal-hostname: {name}\n")
}

/// The network's description, version 2.
fn network(node: &PlannedNode) -> String {
    let mut text = String::from("version: 2\nethernets:");
    if node.interfaces.is_empty() {
        text.push_str(" {}");
    }
    text.push('\n');
    for (number, interface) in node.interfaces.iter().enumerate() {
        describe(&mut text, interface);
        let routes = node.routes.iter().filter(|r| r.interface == number);
        let (default, others): (Vec<_>, Vec<_>) =
            routes.partition(|r| r.to.prefix_len() == 0 && r.via.is_some());
        // cloud-init 22.4 writes ::/0 among the routes as ::/64.
        for via in default.iter().filter_map(|route| route.via) {
            let key = if via.is_ipv4() { "gateway4" } else { "gateway6" };
            let _ = writeln!(text, "    {key}: {}", quoted(&via.to_string()));
        }
        let hops = others.iter().filter_map(|route| Some((route.to.to_string(), route.via?)));
        for (n, (to, via)) in hops.enumerate() {
            text.push_str(if n == 0 { "    routes:\n" } else { "" });
            let _ = writeln!(
                text,
                "      - {{to: {}, via: {}}}",
                quoted(&to),
                quoted(&via.to_string())
            );
        }
    }
    text
}

fn describe(text: &mut String, interface: &Interface) {
    let mac = interface.mac.map(|byte| format!("{byte:02x}")).join(":");
    let name = quoted(&interface.name);
    let _ = writeln!(text, "  {name}:\n    match: {{macaddress: {}}}", quoted(&mac));
    let _ = writeln!(text, "    set-name: {name}\n    mtu: {}", interface.mtu);
    let _ = writeln!(text, "    dhcp4: false\n    dhcp6: false\n    accept-ra: false");
    let addresses: Vec<String> =
        interface.addresses.iter().map(|address| quoted(&address.to_string())).collect();
    let _ = writeln!(text, "    addresses: [{}]", addresses.join(", "));
}

/// What every guest of a lab gets: the names of its nodes. Not as `write_files`, which those of the user's data would
/// replace. Routes without a next hop, and those over several, are made here, once the network is up: cloud-init's renderers
/// of eni and of sysconfig have no such routes. Of several hops the network's description has the first.
fn vendor(hosts: &str, node: &PlannedNode) -> String {
    let mut text = format!(
        "#cloud-boothook\n#!/bin/sh\ncat >/etc/hosts <<'END-OF-HOSTS'\n{}\nEND-OF-HOSTS\n",
        hosts.trim_end()
    );
    for route in node.routes.iter().filter(|route| route.via.is_none()) {
        let Some(interface) = node.interfaces.get(route.interface) else { continue };
        let family = if route.to.addr().is_ipv4() { "-4" } else { "-6" };
        let name = word(&interface.name);
        let _ = writeln!(text, "ip {family} route replace {} dev {name}", route.to);
    }
    for route in &node.routes {
        let Some(hops) = hops(node, route) else { continue };
        let family = if route.to.addr().is_ipv4() { "-4" } else { "-6" };
        let _ = writeln!(text, "ip {family} route replace {}{hops}", route.to);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use netloom_model::plan::Route;

    use super::*;

    /// Two routers lead from it to a network.
    pub(crate) fn node_with_two_ways() -> PlannedNode {
        let text = b"links:\n\
            - {ends: ['m:e0', a], addresses: {m: 10.1.0.1/24, a: 10.1.0.2/24}}\n\
            - {ends: ['m:e1', b], addresses: {m: 10.2.0.1/24, b: 10.2.0.2/24}}\n\
            - {ends: [a, s], addresses: {a: 10.9.0.1/24}}\n\
            - {ends: [b, s], addresses: {b: 10.9.0.2/24}}\n\
            nodes: {m: {kind: router}, a: {kind: router}, b: {kind: router}}\nswitches: {s: }\n";
        let lab = netloom_model::parse("lab", text, "lab").unwrap();
        netloom_model::plan::plan(&lab).unwrap().nodes.swap_remove(0)
    }

    #[test]
    fn a_route_over_several_hops_has_them_all() {
        let node = node_with_two_ways();
        let vendor = vendor("127.0.0.1 localhost", &node);
        let both = "ip -4 route replace 10.9.0.0/24 nexthop via 10.1.0.2 dev 'e0' nexthop via 10.2.0.2 dev 'e1'\n";
        assert!(vendor.contains(both), "{vendor}");
        let network = network(&node);
        assert!(network.contains("- {to: \"10.9.0.0/24\", via: \"10.1.0.2\"}"), "{network}");
    }

    #[test]
    fn routes_without_a_next_hop_are_made_when_the_network_is_up() {
        let text = b"routing: none\nlinks: [{ends: ['m:e0', n], addresses: {m: 10.9.0.1/24, n: 10.9.0.2/24}}]\n\
                     nodes: {m: {routes: [{to: 10.1.0.0/16, dev: e0}, {to: 10.2.0.0/16, via: 10.9.0.2}]}, n: }\n";
        let lab = netloom_model::parse("lab", text, "lab").unwrap();
        let plan = netloom_model::plan::plan(&lab).unwrap();
        let node = &plan.nodes[0];
        assert!(node.routes.iter().any(|route: &Route| route.via.is_none()));
        let network = network(node);
        assert!(!network.contains("scope") && !network.contains("10.1.0.0/16"), "{network}");
        assert!(network.contains("- {to: \"10.2.0.0/16\", via: \"10.9.0.2\"}"), "{network}");
        let vendor = vendor("127.0.0.1 localhost", node);
        assert!(
            vendor.ends_with("END-OF-HOSTS\nip -4 route replace 10.1.0.0/16 dev 'e0'\n"),
            "{vendor}"
        );
    }
}
