//! Finds objects of a plan by users' names: nodes and links here, targets of captures and
//! measurements in [`target`], the path of packets in [`path`]. Pure: no query goes to the machine.

pub mod path;
pub mod target;

use netloom_config::closest;

use crate::plan::{LinkSlot, Plan, PlannedEnd, PlannedLink, Slot};

/// Why a lookup fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is no such node.
    #[error("node {node:?}: not in lab {lab:?}{hint}")]
    NoNode {
        /// The lab.
        lab: String,
        /// The requested name.
        node: String,
        /// `; did you mean …`, or nothing.
        hint: String,
    },
    /// There is no such link.
    #[error("link {link:?}: not in lab {lab:?}{hint}")]
    NoLink {
        /// The lab.
        lab: String,
        /// The requested name.
        link: String,
        /// `; …`, or nothing.
        hint: String,
    },
    /// There is no such switch.
    #[error("switch {switch:?}: not in lab {lab:?}{hint}")]
    NoSwitch {
        /// The lab.
        lab: String,
        /// The requested name.
        switch: String,
        /// `; …`, or nothing.
        hint: String,
    },
    /// No part of another kind has the name.
    #[error("{kind} {name:?}: not in lab {lab:?}")]
    NoPart {
        /// The lab.
        lab: String,
        /// `interface`, `switch` or `slice`.
        kind: &'static str,
        /// The requested name.
        name: String,
    },
    /// It exists, but the request does not apply to it.
    #[error("{object}: {reason}")]
    Invalid {
        /// The request.
        object: String,
        /// Why not.
        reason: String,
    },
}

/// Result of a lookup.
pub type Result<T> = std::result::Result<T, LookupError>;

/// How many of several links a message names.
const MOST_NAMED: usize = 8;

/// A node's position in the plan, by name.
///
/// # Errors
/// [`LookupError::NoNode`].
pub fn slot(plan: &Plan, node: &str) -> Result<Slot> {
    plan.node(node).ok_or_else(|| LookupError::NoNode {
        lab: plan.lab.clone(),
        node: node.to_owned(),
        hint: hint(plan, node),
    })
}

/// `; did you mean "x"?` if a similar name exists.
fn hint(plan: &Plan, asked: &str) -> String {
    if asked.is_empty() {
        // Every name begins with nothing.
        return String::new();
    }
    let lower = asked.to_lowercase();
    let near = |name: &&str| {
        let name = name.to_lowercase();
        name.starts_with(&lower) || lower.starts_with(&name)
    };
    let names = || plan.nodes.iter().map(|n| n.name.as_str());
    meant(names().find(near).or_else(|| closest(asked, names())))
}

/// The hint at a name, if there is one.
fn meant(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

/// Finds a link's position in the plan. It is given by its name; by one of its ends, `NODE:IFACE` or
/// `host:IFACE`, which is then the end meant; or by both ends, `A-B`, `A--B`, `A,B` or `A B`, in any order, where a
/// node stands for each of its interfaces.
///
/// # Errors
/// [`LookupError::NoLink`]; [`LookupError::Invalid`] if there are several links between the two.
pub fn find_link(plan: &Plan, asked: &str) -> Result<(LinkSlot, Option<usize>)> {
    let name = asked.strip_prefix("link:").unwrap_or(asked);
    // A node may be called `link`.
    if let Some(found) = named(plan, asked).or_else(|| named(plan, name)) {
        return Ok(found);
    }
    let mut found = between(plan, asked);
    if found.is_empty() {
        found = between(plan, name);
    }
    match found.as_slice() {
        [one] => Ok((*one, None)),
        [] => Err(no_link(plan, asked, name)),
        several => {
            let names: Vec<&str> = several.iter().map(|at| plan.links[*at].name.as_str()).collect();
            let reason = format!("which of {}?", listed(&names));
            Err(LookupError::Invalid { object: format!("link {asked:?}"), reason })
        }
    }
}

/// Names in a row, at most [`MOST_NAMED`].
fn listed(names: &[&str]) -> String {
    let told = names.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// The link of this name, or with this end.
fn named(plan: &Plan, name: &str) -> Option<(LinkSlot, Option<usize>)> {
    if let Some(found) = plan.link(name) {
        return Some((found, None));
    }
    let is = |end: &PlannedEnd| {
        matches!(end, PlannedEnd::Node { .. } | PlannedEnd::Host { .. })
            && plan.end_text(end) == name
    };
    plan.link_slots().find_map(|at| Some((at, Some(plan.links[at].ends.iter().position(is)?))))
}

/// Positions of the links between two ends that are written as one word.
fn between(plan: &Plan, words: &str) -> Vec<LinkSlot> {
    let is = |end: &PlannedEnd, word: &str| is_at(plan, end, word);
    let joins = |link: &PlannedLink, a: &str, b: &str| {
        let [first, second] = &link.ends;
        (is(first, a) && is(second, b)) || (is(first, b) && is(second, a))
    };
    let all = |a: &str, b: &str| -> Vec<LinkSlot> {
        plan.link_slots().filter(|at| joins(&plan.links[*at], a.trim(), b.trim())).collect()
    };
    if let Some((a, b)) = words.split_once([',', ' ']) {
        return all(a, b);
    }
    // A name may itself contain hyphens.
    let cut_by = |mark: &str| -> Vec<LinkSlot> {
        let cuts =
            words.match_indices(mark).map(|(at, _)| (&words[..at], &words[at + mark.len()..]));
        cuts.flat_map(|(a, b)| all(a, b)).collect()
    };
    let found = cut_by("--");
    // As lab files write a link in one word.
    if found.is_empty() { cut_by("-") } else { found }
}

/// Whether a word names an end, or the node that it is at.
fn is_at(plan: &Plan, end: &PlannedEnd, word: &str) -> bool {
    let at_node = matches!(end, PlannedEnd::Node { node, .. } if plan.nodes[*node].name == word);
    at_node || plan.end_text(end) == word
}

fn no_link(plan: &Plan, asked: &str, name: &str) -> LookupError {
    let hint = match name.split_once([',', ' ']) {
        Some((a, b)) => no_link_between(plan, a.trim(), b.trim()),
        None => no_link_like(plan, name),
    };
    LookupError::NoLink { lab: plan.lab.clone(), link: asked.to_owned(), hint }
}

/// The names of links that have this end.
fn links_of<'a>(plan: &'a Plan, word: &str) -> Vec<&'a str> {
    let has = |link: &&PlannedLink| link.ends.iter().any(|end| is_at(plan, end, word));
    plan.links.iter().filter(has).map(|link| link.name.as_str()).collect()
}

/// The hint for two words of which no link is known: the one that nothing is called, or what links the first has.
fn no_link_between(plan: &Plan, a: &str, b: &str) -> String {
    let nodes = || plan.nodes.iter().map(|node| node.name.as_str());
    let names = || nodes().chain(plan.switches.iter().map(|switch| switch.name.as_str()));
    let known = |word: &str| names().any(|name| name == word) || !links_of(plan, word).is_empty();
    if let Some(unknown) = [a, b].into_iter().find(|word| !known(word)) {
        let meant = meant(closest(unknown, names()));
        return format!("; there is no {unknown:?}{meant}");
    }
    match links_of(plan, a).as_slice() {
        [] => format!("; {a:?} has no links"),
        links => format!("; {a:?} has {}", listed(links)),
    }
}

/// The hint for one word: the links of what is called so, or the link that may be meant.
fn no_link_like(plan: &Plan, name: &str) -> String {
    let names = || plan.links.iter().map(|link| link.name.as_str());
    match links_of(plan, name).as_slice() {
        [] if name.is_empty() => String::new(),
        [] => meant(names().find(|link| link.contains(name)).or_else(|| closest(name, names()))),
        [one] => meant(Some(*one)),
        several => format!("; {name:?} has {}", listed(several)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_node_is_named_and_none_for_nothing() {
        let text = b"name: t\nnodes: {web: {}, Db: {}}\n";
        let plan = crate::plan::plan(&crate::parse("t.yaml", text, "t").unwrap()).unwrap();
        let told = |asked: &str| slot(&plan, asked).unwrap_err().to_string();
        assert_eq!(told("we"), "node \"we\": not in lab \"t\"; did you mean \"web\"?");
        assert_eq!(told("db"), "node \"db\": not in lab \"t\"; did you mean \"Db\"?");
        assert_eq!(told("wbe"), "node \"wbe\": not in lab \"t\"; did you mean \"web\"?");
        assert_eq!(told(""), "node \"\": not in lab \"t\"");
    }

    #[test]
    fn what_is_no_link_is_told_with_the_links_that_there_are() {
        let text = "name: t\nnodes: {h1: {}, r1: {}, web: {}, alone: {}}\n\
                    links: [[h1, r1], [r1, web]]\n";
        let lab = crate::parse("t.yaml", text.as_bytes(), "t").unwrap();
        let plan = crate::plan::plan(&lab).unwrap();
        let both = "h1:eth0--r1:eth0, r1:eth1--web:eth0";
        for (asked, hint) in [
            ("h1", "; did you mean \"h1:eth0--r1:eth0\"?".to_owned()),
            ("r1", format!("; \"r1\" has {both}")),
            ("h1,wbe", "; there is no \"wbe\"; did you mean \"web\"?".to_owned()),
            ("h1 other", "; there is no \"other\"".to_owned()),
            ("h1,web", "; \"h1\" has h1:eth0--r1:eth0".to_owned()),
            ("r1,r1", format!("; \"r1\" has {both}")),
            ("alone,h1", "; \"alone\" has no links".to_owned()),
            ("h1:eth0-r1:eth1", "; did you mean \"h1:eth0--r1:eth0\"?".to_owned()),
            ("nothing", String::new()),
            ("", String::new()),
        ] {
            let told = find_link(&plan, asked).unwrap_err().to_string();
            assert_eq!(told, format!("link {asked:?}: not in lab \"t\"{hint}"));
        }
    }

    #[test]
    fn links_go_by_name_by_end_and_by_both_ends() {
        let text = "name: t\nnodes: {link: {}, b: {}}\nswitches: {s: {}}\n\
                    links: [[link, b], [link, s], ['host:lan', s]]\n";
        let lab = crate::parse("t.yaml", text.as_bytes(), "t").unwrap();
        let plan = crate::plan::plan(&lab).unwrap();
        for (asked, found) in [
            ("b:eth0", (0, Some(1))),
            ("b,link", (0, None)),
            ("link:b,link", (0, None)),
            ("host:lan", (2, Some(0))),
            // A node that is called as the prefix.
            ("link:eth0--b:eth0", (0, None)),
            ("link:link:eth0--b:eth0", (0, None)),
            ("link:eth1", (1, Some(0))),
            ("link:link:eth1", (1, Some(0))),
            ("link:eth0,b", (0, None)),
            ("link:eth1 s", (1, None)),
            ("b-link", (0, None)),
            ("link:eth0-b", (0, None)),
        ] {
            let (slot, end) = found;
            assert_eq!(find_link(&plan, asked), Ok((LinkSlot::new(slot), end)), "{asked}");
        }
        for asked in ["s", "link", "internet", "lan", "", "-", "b-", "link-c"] {
            assert!(find_link(&plan, asked).is_err(), "{asked}");
        }
    }

    #[test]
    fn a_link_in_one_word_is_cut_at_the_hyphen_that_leaves_two_ends() {
        let of = |links: &str| {
            let nodes = "{a: {}, a-b: {}, b-c: {}, c: {}}";
            let text = format!("name: t\nnodes: {nodes}\nlinks: {links}\n");
            crate::plan::plan(&crate::parse("t.yaml", text.as_bytes(), "t").unwrap()).unwrap()
        };
        let plan = of("[[a, b-c], [a-b, a]]");
        assert_eq!(find_link(&plan, "a-b-c"), Ok((LinkSlot::new(0), None)));
        assert_eq!(find_link(&plan, "a-a-b"), Ok((LinkSlot::new(1), None)));
        let plan = of("[[a, b-c], [a-b, c]]");
        let told = find_link(&plan, "a-b-c").unwrap_err().to_string();
        assert!(told.contains("which of"), "{told}");
    }
}
