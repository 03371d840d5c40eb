//! The record of a script, and the tree of what stands in it by names and lines of the script.

use netloom_config::{Entry, Kind, Node, Place};

/// A record as it was read.
pub(super) struct Record<'a> {
    tree: &'a Node,
    /// The script's name.
    pub(super) script: String,
}

/// A link of a record.
pub(super) struct Wire<'a> {
    pub(super) ends: [&'a str; 2],
    /// Its key in the account.
    pub(super) key: String,
}

fn text<'a>(node: &'a Node, key: &str) -> &'a str {
    node.get(key).and_then(netloom_config::read::scalar).unwrap_or_default()
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
        let mut wires: Vec<Wire<'a>> = vec![];
        for link in self.items("links") {
            let ends = [text(link, "node1"), text(link, "node2")];
            let name = format!("{}--{}", ends[0], ends[1]);
            let same = wires.iter().filter(|wire| wire.ends == ends).count();
            let key = if same == 0 { name } else { format!("{name}#{}", same + 1) };
            wires.push(Wire { ends, key });
        }
        wires
    }

    /// The nodes of the commands, in order.
    pub(super) fn commands(&self) -> Vec<&'a str> {
        self.items("commands").iter().map(|command| text(command, "node")).collect()
    }

    /// Whether a node's default route leads to the way out of the network; the way's name.
    pub(super) fn gateway(&self, host: &str) -> Option<&'a str> {
        let found = self.items("hosts").iter().find(|entry| text(entry, "name") == host)?;
        Some(text(found, "gateway")).filter(|name| !name.is_empty())
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
        let keys = self.links().into_iter().map(|wire| wire.key);
        let links = self.items("links").iter().zip(keys);
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
                entries.retain(|entry| entry.key != "line");
            }
            entries.push(Entry { key: "options".into(), place: line(options), value });
        }
        // Empty lists are no items.
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
