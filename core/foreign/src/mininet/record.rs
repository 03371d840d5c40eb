//! The record of a script, and the tree of what stands in it by names and lines of the script.

use std::collections::BTreeMap;

use netloom_config::{Entry, Kind, Node, Place};

/// A record as it was read.
pub(super) struct Record<'a> {
    tree: &'a Node,
    /// The script's name.
    pub(super) script: String,
}

/// A link of a record.
pub(super) struct Wire<'a> {
    /// Its key in the account.
    pub(super) key: String,
    pub(super) made: [Made<'a>; 2],
    notes: Option<&'a Node>,
}

/// An end of a link as Mininet makes it.
pub(super) struct Made<'a> {
    pub(super) node: &'a str,
    /// The interface.
    pub(super) name: &'a str,
    pub(super) port: Option<u32>,
    pub(super) mac: Option<&'a str>,
    pub(super) address: Option<&'a str>,
    out: Option<&'a Node>,
}

impl<'a> Wire<'a> {
    /// Why Mininet makes nothing of a parameter.
    pub(super) fn note(&self, key: &str) -> Option<&'a str> {
        self.notes.and_then(|notes| given(notes, key))
    }
}

impl<'a> Made<'a> {
    fn of(end: &'a Node) -> Made<'a> {
        Made {
            node: text(end, "node"),
            name: text(end, "name"),
            port: given(end, "port").and_then(|text| text.parse().ok()),
            mac: given(end, "mac"),
            address: given(end, "address"),
            out: end.get("out"),
        }
    }

    /// What it does to what it sends: `rate` in bits a second, `delay` and `jitter` in microseconds, `loss` in percent,
    /// `queue` in packets.
    pub(super) fn does(&self, key: &str) -> Option<f64> {
        let number = given(self.out?, key)?.parse::<f64>().ok()?;
        // Python writes NaN and infinity into JSON.
        Some(number).filter(|number| number.is_finite() && *number >= 0.0)
    }

    /// Whether it sends everything as it is.
    pub(super) fn is_plain(&self) -> bool {
        self.out.is_none_or(|out| matches!(&out.kind, Kind::Map(entries) if entries.is_empty()))
    }
}

fn given<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.get(key).and_then(netloom_config::read::scalar).filter(|text| !text.is_empty())
}

fn text<'a>(node: &'a Node, key: &str) -> &'a str {
    given(node, key).unwrap_or_default()
}

impl<'a> Record<'a> {
    pub(super) fn new(file: &str, tree: &'a Node) -> Record<'a> {
        let script = text(tree, "script");
        let script = if script.is_empty() { file } else { script };
        Record { tree, script: script.to_owned() }
    }

    fn items(&self, key: &str) -> &'a [Node] {
        self.tree.get(key).and_then(Node::items).unwrap_or_default()
    }

    /// The links, in order.
    pub(super) fn links(&self) -> Vec<Wire<'a>> {
        let links = self.items("links").iter().zip(self.keys());
        let wire = |(link, key): (&'a Node, String)| {
            let ends = link.get("ends").and_then(Node::items)?;
            let [first, second] = ends else { return None };
            let made = [Made::of(first), Made::of(second)];
            Some(Wire { key, made, notes: link.get("notes") })
        };
        links.filter_map(wire).collect()
    }

    /// The keys of the links in the account, in order.
    fn keys(&self) -> Vec<String> {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let key = |link: &Node| {
            let name = format!("{}--{}", text(link, "node1"), text(link, "node2"));
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 { name } else { format!("{name}#{count}") }
        };
        self.items("links").iter().map(key).collect()
    }

    /// The nodes of the commands, in order.
    pub(super) fn commands(&self) -> Vec<&'a str> {
        self.items("commands").iter().map(|command| text(command, "node")).collect()
    }

    fn named(&self, list: &str, name: &str) -> Option<&'a Node> {
        self.items(list).iter().find(|entry| text(entry, "name") == name)
    }

    /// `host` or `nat`.
    pub(super) fn kind_of_host(&self, host: &str) -> Option<&'a str> {
        self.named("hosts", host).map(|host| text(host, "kind"))
    }

    /// What follows `ip route add default` in a host.
    pub(super) fn default_route(&self, host: &str) -> Option<&'a str> {
        self.named("hosts", host).and_then(|host| given(host, "default"))
    }

    /// What Mininet makes of a parameter of a host or switch, where that is something else.
    pub(super) fn note(&self, list: &str, name: &str, key: &str) -> Option<&'a str> {
        given(self.named(list, name)?.get("notes")?, key)
    }

    /// `openflow` or `learning`; the number for controllers in hexadecimal; and whose it is, if the script says.
    pub(super) fn switch(&self, name: &str) -> (&'a str, Option<&'a str>, Option<Vec<&'a str>>) {
        let Some(switch) = self.named("switches", name) else { return ("learning", None, None) };
        let controllers = switch.get("controllers").and_then(Node::items);
        let controllers = controllers
            .map(|list| list.iter().filter_map(netloom_config::read::scalar).collect::<Vec<_>>());
        (text(switch, "kind"), given(switch, "dpid"), controllers)
    }

    /// `remote`, `learning` or `other`.
    pub(super) fn kind_of_controller(&self, name: &str) -> &'a str {
        self.named("controllers", name).map_or("other", |controller| text(controller, "kind"))
    }

    /// Everything that the script asked for, by name, with its lines.
    pub(super) fn account(&self) -> Node {
        let mut entries = vec![];
        for key in ["hosts", "switches", "controllers"] {
            let named = self.items(key).iter().map(|entry| {
                let name = text(entry, "name").to_owned();
                (name, line(entry), entry.get("params"))
            });
            entries.push(map(key, named.collect()));
        }
        let links = self.items("links").iter().zip(self.keys());
        let links = links.map(|(link, key)| (key, line(link), link.get("params")));
        entries.push(map("links", links.collect()));
        for (key, word) in [("commands", "command"), ("calls", "what")] {
            let items = self.items(key).iter();
            let items: Vec<Node> = items
                .map(|item| Node {
                    place: line(item),
                    kind: Kind::Str,
                    text: text(item, word).into(),
                })
                .collect();
            let value = Node { place: Place::START, kind: Kind::Seq(items), text: String::new() };
            entries.push(Entry { key: key.into(), place: Place::START, value });
        }
        if let Some(options) = self.tree.get("options") {
            let mut value = placed(options, line(options));
            if let Kind::Map(entries) = &mut value.kind {
                // It is the place, not an option.
                entries.retain(|entry| entry.key != "line");
            }
            entries.push(Entry { key: "options".into(), place: line(options), value });
        }
        // Empty lists are not items.
        entries.retain(|entry| match &entry.value.kind {
            Kind::Map(entries) => !entries.is_empty(),
            Kind::Seq(items) => !items.is_empty(),
            _ => true,
        });
        Node { place: Place::START, kind: Kind::Map(entries), text: String::new() }
    }
}

fn line(node: &Node) -> Place {
    let line = match node.get("line").map(|line| &line.kind) {
        Some(Kind::Int(line)) => u32::try_from(*line).unwrap_or(1).max(1),
        _ => 1,
    };
    Place { line, column: 1 }
}

fn map(key: &str, named: Vec<(String, Place, Option<&Node>)>) -> Entry {
    let mut entries: Vec<Entry> = vec![];
    for (name, place, params) in named {
        let value = params.map_or_else(|| Node::null(place), |params| placed(params, place));
        // Keys of a map are unique; of two of one name the first is the one that lookups find.
        if entries.iter().all(|entry| entry.key != name) {
            entries.push(Entry { key: name, place, value });
        }
    }
    let value = Node { place: Place::START, kind: Kind::Map(entries), text: String::new() };
    Entry { key: key.to_owned(), place: Place::START, value }
}

/// A tree with everything in one line of the script.
fn placed(node: &Node, place: Place) -> Node {
    let kind = match &node.kind {
        Kind::Seq(items) => Kind::Seq(items.iter().map(|item| placed(item, place)).collect()),
        Kind::Map(entries) => {
            let one =
                |e: &Entry| Entry { key: e.key.clone(), place, value: placed(&e.value, place) };
            Kind::Map(entries.iter().map(one).collect())
        }
        other => other.clone(),
    };
    Node { place, kind, text: node.text.clone() }
}
