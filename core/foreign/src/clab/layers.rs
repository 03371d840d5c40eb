//! Where a property of a node comes from: the node, its group, its kind, the defaults.

use std::cell::RefCell;
use std::collections::HashSet;

use netloom_config::Kind;

use crate::at::At;

/// The layers of a topology.
pub(super) struct Layers<'a> {
    topology: At<'a>,
    defaults: Option<At<'a>>,
    /// Groups and kinds that a node is of, by path.
    used: RefCell<HashSet<(&'static str, String)>>,
}

impl<'a> Layers<'a> {
    pub(super) fn new(topology: &At<'a>) -> Layers<'a> {
        let defaults = topology.get("defaults");
        Layers { topology: topology.clone(), defaults, used: RefCell::default() }
    }

    /// The nodes, in the order of the file.
    pub(super) fn nodes(&self) -> Vec<(&'a str, At<'a>)> {
        self.topology.get("nodes").map(|nodes| nodes.entries()).unwrap_or_default()
    }

    fn one_of(&self, layer: &'static str, name: &str) -> Option<At<'a>> {
        let at = self.topology.get(layer)?.get(name)?;
        self.used.borrow_mut().insert((layer, name.to_owned()));
        Some(at)
    }

    /// A node's own properties and those that it inherits, the nearest first.
    pub(super) fn of(&self, node: &At<'a>) -> Inherited<'a> {
        let word = |at: &At<'a>, key: &str| at.text_of(key).map(str::to_owned);
        let default = |key: &str| self.defaults.as_ref().and_then(|at| word(at, key));
        let of_group = |name: Option<String>| {
            let group = self.topology.get("groups")?.get(&name?)?;
            word(&group, "kind")
        };
        // containerlab's order: the node's kind, its group's, the default group's, the default.
        let kind = word(node, "kind")
            .or_else(|| of_group(word(node, "group")))
            .or_else(|| of_group(default("group")))
            .or_else(|| default("kind"));
        let kind_at = kind.as_deref().and_then(|name| self.one_of("kinds", name));
        // A kind may name a group, of which its nodes are then; not those of which nothing is said (`GetNodeGroup`).
        let is_bare = matches!(node.node.kind, Kind::Null);
        let group = word(node, "group")
            .or_else(|| kind_at.as_ref().filter(|_| !is_bare).and_then(|at| word(at, "group")))
            .or_else(|| default("group"));
        let group_at = group.as_deref().and_then(|name| self.one_of("groups", name));
        let layers = [Some(node.clone()), group_at, kind_at, self.defaults.clone()];
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let bare = is_bare.then(|| self.defaults.clone());
        Inherited { layers: layers.into_iter().flatten().collect(), kind, bare }
    }

    /// Says of what nobody uses that nobody does.
    pub(super) fn finish(&self) {
        for layer in ["groups", "kinds"] {
            let Some(all) = self.topology.get(layer) else { continue };
            for (name, at) in all.entries() {
                if !self.used.borrow().contains(&(layer, name.to_owned())) {
                    at.changed("no node uses it");
                }
            }
            if all.is_empty() {
                all.carried();
            }
        }
        if self.nodes().is_empty() {
            self.defaults.iter().for_each(|at| at.changed("there are no nodes"));
        }
        for key in ["nodes", "defaults"] {
            self.topology.get(key).filter(At::is_empty).iter().for_each(At::carried);
        }
    }
}

/// The properties of a node with all that it inherits.
pub(super) struct Inherited<'a> {
    /// The nearest first; never empty.
    layers: Vec<At<'a>>,
    /// Its kind, in lower case; empty without one.
    pub(super) kind: String,
    /// The defaults, if nothing at all is said of the node itself.
    bare: Option<Option<At<'a>>>,
}

impl<'a> Inherited<'a> {
    /// The value of a property in the nearest layer that has it. Those behind are carried: they are defaults that
    /// others may use.
    pub(super) fn nearest(&self, key: &str) -> Option<At<'a>> {
        let mut found = self.all(key).into_iter();
        let first = found.next();
        found.for_each(|at| at.carried());
        first
    }

    /// The same of a property that says yes or no, which a node of which nothing is said has of the defaults alone
    /// (`getFieldPtr`).
    pub(super) fn nearest_switch(&self, key: &str) -> Option<At<'a>> {
        match &self.bare {
            Some(defaults) => {
                self.nearest(key).iter().for_each(At::carried);
                defaults.as_ref()?.get(key)
            }
            None => self.nearest(key),
        }
    }

    /// The value of a property of the node itself.
    pub(super) fn own(&self, key: &str) -> Option<At<'a>> {
        self.layers.first()?.get(key)
    }

    /// The values of a property in all layers, the nearest first.
    pub(super) fn all(&self, key: &str) -> Vec<At<'a>> {
        self.layers.iter().filter_map(|layer| layer.get(key)).collect()
    }

    /// The keys of all layers, each once.
    pub(super) fn keys(&self) -> Vec<&'a str> {
        let mut seen = HashSet::new();
        let keys = self.layers.iter().flat_map(|at| at.entries().into_iter().map(|(key, _)| key));
        keys.filter(|key| seen.insert(*key)).collect()
    }

    /// A list merged from all layers, the defaults' first. An item that stands twice counts where it is first, as in
    /// containerlab's `MergeStringSlices`.
    pub(super) fn list(&self, key: &str) -> Vec<At<'a>> {
        let mut seen = HashSet::new();
        let mut items: Vec<At<'a>> = self.all(key).iter().rev().flat_map(At::items).collect();
        items.retain(|at| {
            let is_new = at.text().is_none_or(|text| seen.insert(text));
            if !is_new {
                at.carried();
            }
            is_new
        });
        items
    }

    /// A map merged from all layers: names with values, the nearest layer's where several have one.
    pub(super) fn map(&self, key: &str) -> Vec<(&'a str, At<'a>)> {
        let mut names = HashSet::new();
        let mut merged = vec![];
        for layer in self.all(key) {
            for (name, at) in layer.entries() {
                match names.insert(name) {
                    true => merged.push((name, at)),
                    false => at.carried(),
                }
            }
        }
        merged
    }
}
