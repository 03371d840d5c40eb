//! Names not given in the file: interfaces, links, bridges and their ports.
//!
//! Bridges and ports share the core namespace, so all their names are
//! unique there; the kernel accepts at most 15 bytes, no `/`, no `:`, no white space
//! (`dev_valid_name` in net/core/dev.c), and neither `all` nor `default` (directories of sysctls).

use std::collections::{HashMap, HashSet};

use crate::lab::{End, Lab, Link};
use crate::naming::OF_KERNEL;

/// The kernel's IFNAMSIZ without the final zero.
const LONGEST: usize = 15;

/// Names that the kernel refuses, beside those that a new namespace may already contain.
const RESERVED: [&str; 3] = ["lo", "all", "default"];

/// Every name the plan needs, by index into the lab.
pub(crate) struct Names {
    /// By link and side: the interface, if the end is a node's.
    pub(crate) interfaces: Vec<[Option<String>; 2]>,
    /// By link.
    pub(crate) links: Vec<String>,
    /// By switch.
    pub(crate) bridges: Vec<String>,
    /// By link and side: the port, if the end is a switch's.
    pub(crate) ports: Vec<[Option<String>; 2]>,
}

/// Picks every name.
pub(crate) fn names(lab: &Lab) -> Names {
    let interfaces = interfaces(lab);
    let links = links(lab, &interfaces);
    let mut core = CoreNames::new(lab);
    let bridges = bridges(lab, &mut core);
    let ports = ports(lab, &interfaces, &mut core);
    Names { interfaces, links, bridges, ports }
}

/// Names by hand stay; the others are `eth0, eth1, …` in the order of links, skipping those by hand.
fn interfaces(lab: &Lab) -> Vec<[Option<String>; 2]> {
    let mut by_hand = vec![HashSet::new(); lab.nodes.len()];
    for end in lab.links.iter().flat_map(|l| &l.ends) {
        if let End::Node { node, iface: Some(name) } = end {
            // All names by hand first: a later link may be called `eth0`.
            by_hand[*node].insert(name.as_str());
        }
    }
    let mut next = vec![0_usize; lab.nodes.len()];
    let mut name = |end: &End| match end {
        End::Node { iface: Some(name), .. } => Some(name.clone()),
        End::Node { node, iface: None } => loop {
            let name = format!("eth{}", next[*node]);
            next[*node] += 1;
            if !by_hand[*node].contains(name.as_str()) {
                break Some(name);
            }
        },
        _ => None,
    };
    lab.links.iter().map(|link| [name(&link.ends[0]), name(&link.ends[1])]).collect()
}

/// `A:eth0--B:eth1`; a second one of the same name gets `#2`.
fn links(lab: &Lab, interfaces: &[[Option<String>; 2]]) -> Vec<String> {
    let by_hand = lab.links.iter().filter_map(|l| l.name.clone());
    let mut taken: HashSet<String> = by_hand.collect();
    // By plain name: the next number to try.
    let mut next: HashMap<String, usize> = HashMap::new();
    let mut name = |link: &Link, interfaces: &[Option<String>; 2]| {
        if let Some(name) = &link.name {
            return name.clone();
        }
        let [a, b] =
            [0, 1].map(|side| end_name(lab, &link.ends[side], interfaces[side].as_deref()));
        let plain = format!("{a}--{b}");
        if taken.insert(plain.clone()) {
            return plain;
        }
        let next = next.entry(plain.clone()).or_insert(2);
        loop {
            let free = format!("{plain}#{next}");
            *next += 1;
            if taken.insert(free.clone()) {
                return free;
            }
        }
    };
    lab.links.iter().zip(interfaces).map(|(link, of)| name(link, of)).collect()
}

/// The text of an end in the name of a link and in messages.
pub(crate) fn end_name(lab: &Lab, end: &End, interface: Option<&str>) -> String {
    match end {
        End::Node { node, .. } => {
            format!("{}:{}", lab.nodes[*node].name, interface.unwrap_or_default())
        }
        End::Switch { switch } => lab.switches[*switch].name.clone(),
        End::Host { iface } => format!("host:{iface}"),
        End::Internet => "internet".to_owned(),
        End::Nowhere => "nowhere".to_owned(),
    }
}

/// The names taken in the core namespace.
pub(crate) struct CoreNames {
    taken: HashSet<String>,
    /// By name of which others were derived: the next number to try.
    next: HashMap<String, usize>,
}

impl CoreNames {
    /// A namespace that has these.
    pub(crate) fn with_taken(taken: impl Iterator<Item = String>) -> CoreNames {
        let taken =
            taken.chain(RESERVED.iter().chain(&OF_KERNEL).map(|name| (*name).to_owned())).collect();
        CoreNames { taken, next: HashMap::new() }
    }

    /// Takes a name if it is free, and returns whether it was.
    pub(crate) fn add(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_owned())
    }

    fn new(lab: &Lab) -> Self {
        // An interface of the host keeps its name when it comes into the core namespace.
        CoreNames::with_taken(lab.links.iter().flat_map(|l| &l.ends).filter_map(|end| match end {
            End::Host { iface } => Some(iface.clone()),
            _ => None,
        }))
    }

    /// Takes a name if the kernel accepts it and it is free.
    fn take(&mut self, name: &str) -> Option<String> {
        (is_interface_name(name) && self.taken.insert(name.to_owned())).then(|| name.to_owned())
    }

    /// Takes this name, or the first free one with a number appended.
    pub(crate) fn take_like(&mut self, name: &str) -> String {
        if self.taken.insert(name.to_owned()) {
            return name.to_owned();
        }
        let next = self.next.entry(name.to_owned()).or_default();
        loop {
            let free = format!("{name}.{next}");
            *next += 1;
            if self.taken.insert(free.clone()) {
                return free;
            }
        }
    }
}

/// The readable name for an object in the core namespace if the kernel accepts it and it is free, else the
/// first free one derived from the substitute.
pub(crate) fn free_core_name(
    readable: Option<&str>,
    other: &str,
    taken: &std::collections::BTreeSet<String>,
) -> String {
    let mut core = CoreNames::with_taken(taken.iter().cloned());
    readable.and_then(|name| core.take(name)).unwrap_or_else(|| core.take_like(other))
}

fn is_interface_name(name: &str) -> bool {
    let fits = (1..=LONGEST).contains(&name.len()) && name != "." && name != "..";
    // `%` would make the kernel pick a number.
    fits && name.bytes().all(|b| b.is_ascii_graphic() && !b"/:%".contains(&b))
}

fn bridges(lab: &Lab, core: &mut CoreNames) -> Vec<String> {
    // All that can keep their names do so before any substitute is made.
    let own: Vec<_> = lab.switches.iter().map(|switch| core.take(&switch.name)).collect();
    let stand_in = own.into_iter().enumerate();
    stand_in.map(|(i, own)| own.unwrap_or_else(|| core.take_like(&format!("br{i}")))).collect()
}

fn ports(
    lab: &Lab,
    interfaces: &[[Option<String>; 2]],
    core: &mut CoreNames,
) -> Vec<[Option<String>; 2]> {
    let mut port = |index: usize, side: usize| {
        let ends = &lab.links[index].ends;
        if !matches!(ends[side], End::Switch { .. } | End::Nowhere) {
            return None;
        }
        let other = &ends[1 - side];
        let readable = match other {
            End::Switch { .. } => None,
            _ => Some(end_name(lab, other, interfaces[index][1 - side].as_deref())),
        };
        // The kernel refuses both characters in names of interfaces.
        let readable = readable.and_then(|name| core.take(&name.replace([':', '/'], "-")));
        let letter = ["a", "b"][side];
        Some(readable.unwrap_or_else(|| core.take_like(&format!("p{index}{letter}"))))
    };
    (0..lab.links.len()).map(|index| [port(index, 0), port(index, 1)]).collect()
}
