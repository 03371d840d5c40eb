//! The differences between two plans of a lab: the running one and the one of a file.
//!
//! Objects are matched by name: nodes, switches and links are in one plan, in the
//! other, or in both with different facts. What follows only from names and positions (indexes, hardware
//! addresses that no file gives, names in the core namespace) is not a difference. Computed routes are kept apart: they
//! change with other settings. [`Item::old`] and [`Item::new`] are positions in the two
//! plans, for code that turns one into the other.

mod facts;

pub(crate) use self::facts::same_routes;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::plan::Plan;

use self::facts::{Fact, Value};

/// The type of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = KindOfPart))]
pub enum Kind {
    /// A node.
    Node,
    /// A switch.
    Switch,
    /// A link.
    Link,
    /// A slice.
    Slice,
    /// The recording of all links, by the name of the lab.
    Recording,
}

impl Kind {
    /// As in messages.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Switch => "switch",
            Kind::Link => "link",
            Kind::Slice => "slice",
            Kind::Recording => "recording",
        }
    }
}

/// An object that differs between the plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its type.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its position in the old plan; `None`: it is added.
    pub old: Option<usize>,
    /// Its position in the new plan; `None`: it is removed.
    pub new: Option<usize>,
    /// The facts that differ, if it is in both plans.
    pub changes: Vec<Change>,
}

/// A key with its values in both plans; `None` where it is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// As in the lab file: `limits.memory`, `env.HOME`; of a link's end `addresses.h1:eth0`.
    pub key: String,
    /// In the old plan; empty if it is not shown.
    pub old: Option<String>,
    /// In the new one.
    pub new: Option<String>,
    /// Whether the values are short enough to show; otherwise only the difference is reported.
    pub(crate) shown: bool,
    /// What the change takes.
    pub how: How,
}

/// What a change of a living object takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It can be changed where it is.
    InPlace,
    /// It must be removed and recreated.
    Recreate,
}

/// All differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Nodes, then switches, then links, then slices, then the recording: those of the new plan in order, then the removed ones.
    pub items: Vec<Item>,
    /// Nodes of both plans whose routes differ: positions in the old and the new one.
    pub routes: Vec<(usize, usize)>,
}

/// The longest value shown completely, in characters.
const LONGEST_VALUE: usize = 60;

/// How many changes of one object are shown.
const MOST_CHANGES: usize = 4;

/// Compares two plans.
pub fn difference(old: &Plan, new: &Plan) -> Difference {
    let same_node = |a: usize, b: usize| facts::is_same_node(&old.nodes[a], &new.nodes[b]);
    let same_link =
        |a: usize, b: usize| facts::is_same_link((old, &old.links[a]), (new, &new.links[b]));
    let mut items = compare(Kind::Node, &nodes(old), &nodes(new), &same_node);
    items.extend(compare(Kind::Switch, &switches(old), &switches(new), &|_, _| false));
    items.extend(of_links(old, new, compare(Kind::Link, &links(old), &links(new), &same_link)));
    items.extend(compare(Kind::Slice, &slices(old), &slices(new), &|_, _| false));
    items.extend(compare(Kind::Recording, &recordings(old), &recordings(new), &|_, _| false));
    Difference { items, routes: routes(old, new) }
}

/// Without hardware addresses that differ only because the names do that they are made of.
fn of_links(old: &Plan, new: &Plan, mut items: Vec<Item>) -> Vec<Item> {
    items.retain_mut(|item| {
        let (Some(before), Some(now)) = (item.old, item.new) else { return true };
        let (a, b) = ((old, &old.links[before]), (new, &new.links[now]));
        item.changes.retain(|change| !facts::is_mac_of_names(&change.key, a, b));
        !item.changes.is_empty()
    });
    items
}

/// An object's name, and a function for its facts.
type Object<'a> = (&'a str, Box<dyn Fn() -> Vec<Fact<'a>> + 'a>);

fn nodes(plan: &Plan) -> Vec<Object<'_>> {
    let one = |node| -> Object<'_> {
        let node: &crate::plan::PlannedNode = node;
        (node.name.as_str(), Box::new(|| facts::of_node(node)))
    };
    plan.nodes.iter().map(one).collect()
}

fn switches(plan: &Plan) -> Vec<Object<'_>> {
    let one = |switch| -> Object<'_> {
        let switch: &crate::plan::PlannedSwitch = switch;
        (switch.name.as_str(), Box::new(|| facts::of_switch(switch)))
    };
    plan.switches.iter().map(one).collect()
}

fn links(plan: &Plan) -> Vec<Object<'_>> {
    let one = |link| -> Object<'_> {
        let link: &crate::plan::PlannedLink = link;
        (link.name.as_str(), Box::new(|| facts::of_link(plan, link)))
    };
    plan.links.iter().map(one).collect()
}

fn slices(plan: &Plan) -> Vec<Object<'_>> {
    let one = |slice| -> Object<'_> {
        let slice: &crate::slices::Slice = slice;
        (slice.name.as_str(), Box::new(|| facts::of_slice(slice)))
    };
    plan.slices.iter().map(one).collect()
}

/// One at most.
fn recordings(plan: &Plan) -> Vec<Object<'_>> {
    let one = |record| -> Object<'_> {
        let record: &crate::lab::Record = record;
        (plan.lab.as_str(), Box::new(|| facts::of_recording(record)))
    };
    plan.record.iter().map(one).collect()
}

/// `same`: whether two objects, by their positions, are known to have equal facts; most of a large lab's do, and facts cost
/// much more than that.
fn compare(
    kind: Kind,
    old: &[Object<'_>],
    new: &[Object<'_>],
    same: &dyn Fn(usize, usize) -> bool,
) -> Vec<Item> {
    // By name, looked up: lists of 65,536 nodes would else be compared pair by pair.
    let (in_old, in_new) = (places(old), places(new));
    let item = |name: &str, old, new, changes| {
        let name = name.to_owned();
        Item { kind, name, old, new, changes }
    };
    let mut items = Vec::new();
    for (place, (name, facts)) in new.iter().enumerate() {
        match in_old.get(*name) {
            None => items.push(item(name, None, Some(place), vec![])),
            Some(before) if same(*before, place) => {}
            Some(before) => {
                let changes = changes(&old[*before].1(), &facts());
                if !changes.is_empty() {
                    items.push(item(name, Some(*before), Some(place), changes));
                }
            }
        }
    }
    let removed = old.iter().enumerate().filter(|(_, (name, _))| !in_new.contains_key(*name));
    items.extend(removed.map(|(place, (name, _))| item(name, Some(place), None, vec![])));
    items
}

fn places<'a>(all: &[Object<'a>]) -> HashMap<&'a str, usize> {
    all.iter().enumerate().map(|(place, (name, _))| (*name, place)).collect()
}

/// Facts have unique keys.
fn changes(old: &[Fact<'_>], new: &[Fact<'_>]) -> Vec<Change> {
    fn by_key<'a, 'p>(all: &'a [Fact<'p>]) -> HashMap<&'a str, &'a Value<'p>> {
        all.iter().map(|fact| (fact.key.as_str(), &fact.value)).collect()
    }
    let (before, after) = (by_key(old), by_key(new));
    let mut changes: Vec<Change> = Vec::new();
    for fact in new {
        let before = before.get(fact.key.as_str()).copied();
        if before != Some(&fact.value) {
            let (key, old) = (fact.key.clone(), before.map(Value::text));
            let (new, shown, how) = (Some(fact.value.text()), fact.value.is_shown(), fact.how);
            changes.push(Change { key, old, new, shown, how });
        }
    }
    let gone = old.iter().filter(|fact| !after.contains_key(fact.key.as_str()));
    changes.extend(gone.map(|fact| Change {
        key: fact.key.clone(),
        old: Some(fact.value.text()),
        new: None,
        shown: fact.value.is_shown(),
        how: fact.how,
    }));
    changes
}

fn routes(old: &Plan, new: &Plan) -> Vec<(usize, usize)> {
    let by_name: HashMap<&str, usize> =
        old.nodes.iter().enumerate().map(|(place, n)| (n.name.as_str(), place)).collect();
    let both = new.nodes.iter().enumerate();
    let both = both.filter_map(|(place, node)| Some((*by_name.get(node.name.as_str())?, place)));
    both.filter(|(before, now)| !facts::same_routes(&old.nodes[*before], &new.nodes[*now]))
        .collect()
}

impl Difference {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.routes.is_empty()
    }

    /// In words, one line per object, at most `most` lines but at least one. `new` is the new plan.
    pub fn lines(&self, new: &Plan, most: usize) -> Vec<String> {
        let mut lines: Vec<String> = self.items.iter().map(Item::words).collect();
        let told = |name: &str| self.items.iter().any(|i| i.kind == Kind::Node && i.name == name);
        let routed = self.routes.iter().map(|(_, now)| new.nodes[*now].name.as_str());
        let only_routes: Vec<&str> = routed.filter(|name| !told(name)).collect();
        lines.extend(routes_words(&only_routes));
        if lines.len() > most.max(1) {
            // One line is for the count itself.
            let rest = lines.split_off(most.max(1) - 1).len();
            lines.push(format!("and {rest} more"));
        }
        lines
    }
}

fn routes_words(names: &[&str]) -> Option<String> {
    const MOST: usize = 3;
    match names {
        [] => None,
        few if few.len() <= MOST => Some(format!("routes of {}", few.join(", "))),
        many => {
            let (first, rest) = many.split_at(MOST);
            Some(format!("routes of {} and {} more nodes", first.join(", "), rest.len()))
        }
    }
}

impl Item {
    /// `node h1: limits.memory 64MiB, was none`.
    fn words(&self) -> String {
        let object = format!("{} {}", self.kind.word(), self.name);
        match (self.old, self.new) {
            (None, _) => format!("{object}: added"),
            (_, None) => format!("{object}: removed"),
            _ => {
                let told = self.changes.iter().take(MOST_CHANGES).map(Change::words);
                let mut told: Vec<String> = told.collect();
                if let more @ 1.. = self.changes.len() - told.len() {
                    told.push(format!("and {more} more"));
                }
                format!("{object}: {}", told.join("; "))
            }
        }
    }
}

impl Change {
    /// `limits.memory 64MiB, was none`.
    pub fn words(&self) -> String {
        let Change { key, old, new, shown, .. } = self;
        let value = |value: &Option<String>| match value {
            None => "none".to_owned(),
            // By characters: bytes could end within one.
            Some(text) if text.chars().count() > LONGEST_VALUE => {
                format!("{}…", text.chars().take(LONGEST_VALUE).collect::<String>())
            }
            Some(text) => text.clone(),
        };
        match (shown, old, new) {
            (true, ..) => format!("{key} {}, was {}", value(new), value(old)),
            (false, None, _) => format!("{key} added"),
            (false, _, None) => format!("{key} removed"),
            (false, ..) => format!("{key} changed"),
        }
    }
}

#[cfg(test)]
mod tests;
