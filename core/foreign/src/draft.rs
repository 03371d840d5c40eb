//! A lab on its way from another program's words to the text of a lab file.
//!
//! Readers fill it; [`crate::write`] turns it into text. Values are texts as the lab file has them; whether they are
//! right is found out when the finished text is parsed.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use netloom_model::published::Published;

/// A lab.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) name: String,
    /// Whether routes and addresses that nobody gives are made up; other programs make up none.
    pub(crate) routed: bool,
    /// Whether no node has IPv6.
    pub(crate) without_ipv6: bool,
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
    /// Commands once every node is ready, whose failure is only told.
    pub(crate) exec: Vec<Vec<String>>,
    pub(crate) routes: Vec<Route>,
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

/// What is in a file.
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
}

/// A rate of bits a second as the lab file has it.
pub(crate) fn rate(bits: f64) -> String {
    let bits = bits.round();
    let units = [(1e9, "gbit"), (1e6, "mbit"), (1e3, "kbit")];
    let unit = units.into_iter().find(|(size, _)| bits >= *size && bits % size == 0.0);
    unit.map_or_else(|| format!("{bits}bit"), |(size, name)| format!("{}{name}", bits / size))
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

    /// Gives addresses that a link of a lab file does not take by commands of the node: those beyond the first of each
    /// family, and those of a prefix that another segment has, too.
    pub(crate) fn spill_addresses(&mut self) {
        let segments = self.segments();
        let mut taken: BTreeSet<(IpNet, usize)> = BTreeSet::new();
        let mut spilt: Vec<(String, Vec<String>)> = vec![];
        for (link, segment) in self.links.iter_mut().zip(segments) {
            for end in &mut link.ends {
                let Some(iface) = &end.iface else { continue };
                let mut seen = [false; 2];
                let (node, iface) = (end.at.clone(), iface.clone());
                end.addresses.retain(|net| {
                    let family = usize::from(net.addr().is_ipv6());
                    let mut stays = !std::mem::replace(&mut seen[family], true);
                    let own = net.trunc();
                    let overlaps = |(other, of): &(IpNet, usize)| {
                        *of != segment && (other.contains(&own) || own.contains(other))
                    };
                    stays &= !taken.iter().any(overlaps);
                    if stays {
                        taken.insert((own, segment));
                    } else {
                        let words = ["ip", "address", "add", &net.to_string(), "dev", &iface];
                        spilt.push((node.clone(), words.map(str::to_owned).to_vec()));
                    }
                    stays
                });
            }
        }
        for (name, command) in spilt {
            if let Some(node) = self.node(&name) {
                node.setup.insert(0, command);
            }
        }
    }

    /// The segment of each link, by a number: links that meet at switches are of one.
    fn segments(&self) -> Vec<usize> {
        let mut of: BTreeMap<&str, usize> = BTreeMap::new();
        let mut segments: Vec<usize> = vec![];
        for (number, link) in self.links.iter().enumerate() {
            let switches = link.ends.iter().map(|end| end.at.as_str());
            let switches: Vec<&str> = switches.filter(|name| self.has_switch(name)).collect();
            let known: Vec<usize> =
                switches.iter().filter_map(|name| of.get(name).copied()).collect();
            let segment = known.iter().min().copied().unwrap_or(number);
            // A link between switches joins what was two segments.
            if known.iter().any(|other| *other != segment) {
                for found in of.values_mut().chain(&mut segments) {
                    if known.contains(found) {
                        *found = segment;
                    }
                }
            }
            of.extend(switches.into_iter().map(|name| (name, segment)));
            segments.push(segment);
        }
        segments
    }
}
