//! FRR from the host's packages: in the place of an image of it, and for protocols that `kind: router` has no keys for.

use std::fmt::Write as _;

use ipnet::IpNet;

use crate::draft::{Content, File, Node};

/// Starts the daemons that the node's `/etc/frr/daemons` names, as Debian's package does.
pub(crate) fn start() -> Vec<String> {
    let script = "/usr/lib/frr/frrinit.sh start || echo \"FRR does not start: exit code $?\" >&2";
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

/// A protocol that runs on all interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Rip,
    Ripng,
    Ospf,
    Ospf6,
}

impl Protocol {
    fn daemon(self) -> &'static str {
        match self {
            Protocol::Rip => "ripd",
            Protocol::Ripng => "ripngd",
            Protocol::Ospf => "ospfd",
            Protocol::Ospf6 => "ospf6d",
        }
    }
}

/// Makes a node run protocols, on interfaces with these addresses. `more` is configuration of its own.
pub(crate) fn run(
    node: &mut Node,
    protocols: &[Protocol],
    interfaces: &[(String, Vec<IpNet>)],
    more: &str,
) {
    let mut daemons = String::new();
    for protocol in protocols {
        let _ = writeln!(daemons, "{}=yes", protocol.daemon());
    }
    for word in ["bgpd", "ripd", "ripngd", "ospfd", "ospf6d", "isisd"] {
        // A daemon's name is its protocol's with a `d`.
        let named = more.contains(&format!("router {}", &word[..word.len() - 1]));
        let known = protocols.iter().any(|protocol| protocol.daemon() == word);
        if named && !known {
            let _ = writeln!(daemons, "{word}=yes");
        }
    }
    let mut text = String::new();
    for protocol in protocols {
        configure(*protocol, interfaces, &mut text);
    }
    text.push_str(more);
    write(node, daemons, text);
    node.setup.push(start());
}

/// Makes a node run daemons with a configuration: those of its image, or else the host's.
pub(crate) fn put(node: &mut Node, daemons: &[&str], text: String) {
    let daemons = daemons.iter().map(|daemon| format!("{daemon}=yes\n")).collect();
    write(node, daemons, text);
    if !node.has_image() {
        node.setup.push(start());
    }
}

fn write(node: &mut Node, mut daemons: String, text: String) {
    // As Debian's /etc/frr/daemons has it.
    daemons.push_str("vtysh_enable=yes\nzebra_options=\"-A 127.0.0.1 -s 90000000\"\n");
    for (path, content) in [("/etc/frr/daemons", daemons), ("/etc/frr/frr.conf", text)] {
        node.files.push(File { path: path.into(), content: Content::Text(content), mode: 0o644 });
    }
    node.forwarding = Some("true");
    // FRR's daemons start only where they get the capability SYS_ADMIN.
    node.keys.push(("privileged", "true".into()));
}

fn configure(protocol: Protocol, interfaces: &[(String, Vec<IpNet>)], text: &mut String) {
    let _ = match protocol {
        Protocol::Rip => writeln!(text, "router rip\n redistribute connected"),
        Protocol::Ripng => writeln!(text, "router ripng\n redistribute connected"),
        Protocol::Ospf => writeln!(text, "router ospf\n redistribute connected"),
        Protocol::Ospf6 => writeln!(text, "router ospf6\n redistribute connected\n!"),
    };
    for (iface, nets) in interfaces {
        match protocol {
            Protocol::Rip | Protocol::Ripng => {
                let _ = writeln!(text, " network {iface}");
            }
            Protocol::Ospf => {
                for net in nets.iter().filter(|net| net.addr().is_ipv4()) {
                    let _ = writeln!(text, " network {} area 0", net.trunc());
                }
            }
            Protocol::Ospf6 => {
                let _ = writeln!(text, "interface {iface}\n ipv6 ospf6 area 0.0.0.0\n!");
            }
        }
    }
    text.push_str("!\n");
}
