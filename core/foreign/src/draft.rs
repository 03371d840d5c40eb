//! A lab on its way from another program's words to the text of a lab file.
//!
//! Readers fill it; [`crate::write`] turns it into text. Values are texts as the lab file has them; whether they are
//! right is found out when the finished text is parsed.

use std::collections::BTreeMap;

use ipnet::IpNet;
use netloom_model::published::Published;

/// A lab.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) name: String,
    /// Whether switches may form loops.
    pub(crate) loops: bool,
    pub(crate) nodes: Vec<Node>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) links: Vec<Link>,
}

/// A node.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Keys with values that are YAML already, such as `kind` or `limits`, in order.
    pub(crate) keys: Vec<(&'static str, String)>,
    /// `true`, `ipv4` or `ipv6`.
    pub(crate) forwarding: Option<&'static str>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) sysctls: BTreeMap<String, String>,
    pub(crate) files: Vec<File>,
    pub(crate) binds: Vec<Bind>,
    pub(crate) ports: Vec<Published>,
    pub(crate) setup: Vec<Vec<String>>,
    pub(crate) run: Vec<Program>,
    /// Commands once every node is ready, whose failure is only reported.
    pub(crate) exec: Vec<Vec<String>>,
    pub(crate) routes: Vec<Route>,
    /// What it is called in the other program's files, where that is another name.
    pub(crate) source: Option<String>,
}

/// A program of a node.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) command: Vec<String>,
    pub(crate) keys: Vec<(&'static str, String)>,
}

/// A file of a node.
#[derive(Debug)]
pub(crate) struct File {
    /// Its absolute path in the node.
    pub(crate) path: String,
    pub(crate) content: Content,
    pub(crate) mode: u32,
}

/// A file or folder of the host that a node sees.
#[derive(Debug)]
pub(crate) struct Bind {
    /// Its absolute path in the node.
    pub(crate) path: String,
    /// A path relative to the other program's lab, or the host's.
    pub(crate) from: String,
    /// Whether what the node writes is on the host.
    pub(crate) writable: bool,
}

/// The content of a file.
#[derive(Debug)]
pub(crate) enum Content {
    Text(String),
    /// A path relative to the other program's lab.
    From(String),
}

/// A route by hand.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) to: String,
    pub(crate) via: Option<String>,
    pub(crate) dev: Option<String>,
}

/// A switch.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    pub(crate) name: String,
    pub(crate) keys: Vec<(&'static str, String)>,
}

/// A link.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) ends: [End; 2],
    pub(crate) mtu: Option<u32>,
    /// Impairments: of both directions, of what the first end sends, of what the second sends.
    pub(crate) impairments: [Vec<(&'static str, String)>; 3],
    /// The item that it is made of, if its reader says so.
    pub(crate) item: Option<crate::ledger::Id>,
}

/// An end of a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    /// `NODE`, `SWITCH` or a door.
    pub(crate) at: String,
    /// The interface, of a node.
    pub(crate) iface: Option<String>,
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) mac: Option<String>,
    /// The number of the port, of an OpenFlow switch.
    pub(crate) number: Option<u32>,
    /// What the port does with VLANs, of a switch in shared memory.
    pub(crate) rule: Option<String>,
}

/// A rate of bits a second as the lab file has it.
pub(crate) fn rate(bits: f64) -> String {
    let bits = bits.round();
    let units = [(1e9, "gbit"), (1e6, "mbit"), (1e3, "kbit")];
    // Whole units only, so that nothing is rounded.
    let unit = units.into_iter().find(|(size, _)| bits >= *size && bits % size == 0.0);
    unit.map_or_else(|| format!("{bits}bit"), |(size, name)| format!("{}{name}", bits / size))
}

/// A number of CPUs as the lab file has it, in thousandths, and why it is another where it is.
pub(crate) fn cpus(cpus: f64) -> (String, Option<String>) {
    let milli = (cpus * 1000.0).round() / 1000.0;
    let is_same = (milli - cpus).abs() < 1e-9;
    (format!("{milli:?}"), (!is_same).then(|| format!("{milli:?}, in thousandths")))
}

/// A time in microseconds as the lab file has it.
pub(crate) fn time(us: f64) -> String {
    let ns = (us * 1000.0).round();
    match ns {
        _ if ns > 0.0 && ns % 1e6 == 0.0 => format!("{}ms", ns / 1e6),
        _ => format!("{}us", ns / 1e3),
    }
}

impl End {
    /// A node's interface.
    pub(crate) fn of(node: impl Into<String>, iface: impl Into<String>) -> End {
        End { at: node.into(), iface: Some(iface.into()), ..End::default() }
    }

    /// A switch, or a door.
    pub(crate) fn port(switch: impl Into<String>) -> End {
        End { at: switch.into(), ..End::default() }
    }
}

impl Node {
    /// Gives it a key, unless it has it.
    pub(crate) fn key(&mut self, key: &'static str, value: impl Into<String>) {
        if self.keys.iter().all(|(known, _)| *known != key) {
            self.keys.push((key, value.into()));
        }
    }

    /// Whether it has the files of an image.
    pub(crate) fn has_image(&self) -> bool {
        self.keys.iter().any(|(key, _)| *key == "image")
    }

    pub(crate) fn named(name: impl Into<String>) -> Node {
        Node { name: name.into(), ..Node::default() }
    }
}

impl Switch {
    pub(crate) fn named(name: impl Into<String>) -> Switch {
        Switch { name: name.into(), ..Switch::default() }
    }
}

impl Draft {
    pub(crate) fn node(&mut self, name: &str) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|node| node.name == name)
    }

    pub(crate) fn has_switch(&self, name: &str) -> bool {
        self.switches.iter().any(|switch| switch.name == name)
    }

    /// A name that no node and no switch has.
    pub(crate) fn free_name(&self, wish: &str) -> String {
        let taken =
            |name: &str| self.has_switch(name) || self.nodes.iter().any(|node| node.name == name);
        let numbered = (2..).map(|n| format!("{wish}-{n}"));
        let mut names = std::iter::once(wish.to_owned()).chain(numbered);
        names.find(|name| !taken(name)).unwrap_or_default()
    }
}
