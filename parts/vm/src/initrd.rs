//! The addition to a guest's initial RAM disk: a second archive, which the kernel unpacks over the first
//! (initramfs buffer format). So a guest's init finds its names in /etc/hosts, and its interfaces in
//! /netloom/network, a shell script for any `ip`.

use std::fmt::Write as _;

use netloom_model::plan::{Interface, PlannedNode, Route};

/// Archives end at a multiple of this, for whatever follows.
const BLOCK: usize = 512;

/// A new-style archive (newc) of regular files and their folders.
pub(crate) fn archive(files: &[(&str, u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut folders: Vec<&str> =
        // Each folder once, and before what lies in it.
        files.iter().filter_map(|f| Some(f.0.rsplit_once('/')?.0)).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut number = 1;
    for folder in folders {
        entry(&mut bytes, number, 0o040_755, folder, &[]);
        number += 1;
    }
    for (name, mode, content) in files {
        entry(&mut bytes, number, 0o100_000 | mode, name, content);
        number += 1;
    }
    entry(&mut bytes, 0, 0, "TRAILER!!!", &[]);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

fn entry(bytes: &mut Vec<u8>, number: usize, mode: u32, name: &str, content: &[u8]) {
    // A folder has two names: its own, and `.` in itself.
    let links = if mode & 0o040_000 == 0 { 1 } else { 2 };
    let mut head = String::from("070701");
    // Inode, mode, user, group, links, time, size, four numbers of devices,
    // length of the name, checksum (initramfs buffer format, buffer-format.rst).
    let fields =
        [number, mode as usize, 0, 0, links, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
    for field in fields {
        let _ = write!(head, "{field:08x}");
    }
    bytes.extend(head.bytes().chain(name.bytes()).chain([0]));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// A guest's initial RAM disk with what a node of this plan needs.
pub(crate) fn with_network(initrd: &[u8], node: &PlannedNode, hosts: Vec<u8>) -> Vec<u8> {
    let added = archive(&[
        ("etc/hosts", 0o644, hosts),
        ("etc/hostname", 0o644, format!("{}\n", node.host_name()).into_bytes()),
        ("netloom/network", 0o755, script(node).into_bytes()),
    ]);
    let mut whole = initrd.to_vec();
    // Headers lie at multiples of 4; the kernel skips zeros between archives (buffer-format.rst).
    whole.resize(whole.len().next_multiple_of(4), 0);
    whole.extend(added);
    whole
}

/// A script that gives the guest the plan's interfaces, found by their addresses.
fn script(node: &PlannedNode) -> String {
    let mut text = String::from(
        "#!/bin/sh\n# Made by netloom: the interfaces, addresses and routes of this node.\n\
         by_mac() {\n  for at in /sys/class/net/*; do\n    \
         [ \"$(cat \"$at/address\")\" = \"$1\" ] && echo \"${at##*/}\"\n  done\n}\n\
         hostname -F /etc/hostname\nip link set lo up\n",
    );
    rename(&mut text, &node.interfaces);
    for interface in &node.interfaces {
        add_interface(&mut text, interface);
    }
    for route in &node.routes {
        add_route(&mut text, node, route);
    }
    text
}

fn add_route(text: &mut String, node: &PlannedNode, route: &Route) {
    let Some(interface) = node.interfaces.get(route.interface) else { return };
    let via = route.via.map_or_else(String::new, |via| format!(" via {via}"));
    let family = if route.to.addr().is_ipv4() { "-4" } else { "-6" };
    let add = format!("ip {family} route add {}", route.to);
    // Some programs called `ip` know no routes over several hops, such as busybox's: the first hop is better than none.
    if let Some(hops) = hops(node, route) {
        let _ = write!(text, "{add}{hops} 2>/dev/null || ");
    }
    let _ = writeln!(text, "{add}{via} dev {}", word(&interface.name));
}

/// A name as one word of a shell.
pub(crate) fn word(name: &str) -> String {
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// The hops of a route that has several, for a shell and the `ip` of iproute2.
pub(crate) fn hops(node: &PlannedNode, route: &Route) -> Option<String> {
    let also = route.also.iter().map(|hop| (hop.via, hop.interface));
    let mut text = String::new();
    for (via, interface) in std::iter::once((route.via?, route.interface)).chain(also) {
        let name = word(&node.interfaces.get(interface)?.name);
        let _ = write!(text, " nexthop via {via} dev {name}");
    }
    (!route.also.is_empty()).then_some(text)
}

/// Names that are taken for a moment, while a card gives its own to another one.
const BETWEEN: &str = "netloom-";

/// Gives the cards their names. The kernel may have given one of these to another card: first all that have another name
/// give it up.
fn rename(text: &mut String, interfaces: &[Interface]) {
    for (number, interface) in interfaces.iter().enumerate() {
        let mac = interface.mac.map(|byte| format!("{byte:02x}")).join(":");
        let name = word(&interface.name);
        let _ = writeln!(text, "now=$(by_mac {mac})");
        let _ =
            writeln!(text, "[ \"$now\" = {name} ] || ip link set \"$now\" name {BETWEEN}{number}");
    }
    for (number, interface) in interfaces.iter().enumerate() {
        let name = word(&interface.name);
        let _ = writeln!(
            text,
            "[ ! -e /sys/class/net/{BETWEEN}{number} ] || ip link set {BETWEEN}{number} name {name}"
        );
    }
}

fn add_interface(text: &mut String, interface: &Interface) {
    let name = word(&interface.name);
    let _ = writeln!(text, "ip link set {name} mtu {} up", interface.mtu);
    for address in &interface.addresses {
        let family = if address.addr().is_ipv4() { "-4" } else { "-6" };
        let _ = writeln!(text, "ip {family} addr add {address} dev {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_over_several_hops_has_them_all() {
        let node = crate::seed::tests::node_with_two_ways();
        let text = script(&node);
        let both = "ip -4 route add 10.9.0.0/24 nexthop via 10.1.0.2 dev 'e0' nexthop via 10.2.0.2 dev 'e1' \
                    2>/dev/null || ip -4 route add 10.9.0.0/24 via 10.1.0.2 dev 'e0'\n";
        assert!(text.contains(both), "{text}");
    }

    /// The script under a shell that has folders for cards, each with its address, and refuses what the kernel does.
    #[test]
    fn cards_give_their_names_to_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut node = crate::seed::tests::node_with_two_ways();
        (node.interfaces[0].name, node.interfaces[1].name) = ("eth1".into(), "a;b'$c".into());
        let mac = |at: usize| node.interfaces[at].mac.map(|byte| format!("{byte:02x}")).join(":");
        // The second card has the name of the first one.
        for (name, mac) in [("eth0", mac(0)), ("eth1", mac(1)), ("lo", "none".into())] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("address"), mac).unwrap();
        }
        let own = script(&node).replace("/sys/class/net", folder.path().to_str().unwrap());
        let shell = "hostname() { :; }\nip() {\n  [ \"$4\" = name ] || return 0\n  \
                     [ ! -e \"$AT/$5\" ] && mv \"$AT/$3\" \"$AT/$5\" || echo refused\n}\n";
        let mut sh = std::process::Command::new("sh");
        sh.args(["-c", &format!("{shell}{own}")]).env("AT", folder.path());
        let done = sh.output().unwrap();
        assert_eq!((done.stdout.as_slice(), done.stderr.as_slice()), (&b""[..], &b""[..]));
        for (at, name) in ["eth1", "a;b'$c"].iter().enumerate() {
            let address = folder.path().join(name).join("address");
            assert_eq!(std::fs::read_to_string(address).unwrap(), mac(at));
        }
    }

    #[test]
    fn an_archive_is_unpacked_by_others() {
        let bytes = archive(&[("a/b", 0o644, b"text".to_vec()), ("c", 0o755, vec![])]);
        assert_eq!(bytes.len() % BLOCK, 0);
        assert!(bytes.starts_with(b"07070100000001000041ed"));
        let text = String::from_utf8_lossy(&bytes);
        let places: Vec<usize> = ["a\0", "a/b\0", "text", "c\0", "TRAILER!!!"]
            .map(|part| text.find(part).unwrap())
            .into();
        assert!(places.is_sorted(), "{places:?}");
    }
}
