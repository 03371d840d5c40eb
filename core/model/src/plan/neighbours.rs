//! How many neighbours a lab's nodes may learn: a kernel keeps those of all its namespaces in one table a family.

use std::collections::HashMap;

use ipnet::IpNet;

use super::{Plan, PlannedEnd, PlannedLink};

/// The largest number of interfaces of a lab whose nodes learn all their neighbours. Those across links between two nodes
/// are known: in larger labs they are permanent entries, which do not count.
const LEARNT: usize = 400;

/// Entries of a kernel's tables of learnt neighbours, by family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Of IPv4.
    pub ipv4: u32,
    /// Of IPv6.
    pub ipv6: u32,
}

/// Ends in one prefix.
#[derive(Default)]
struct InPrefix {
    /// Whose neighbours are in this machine's table.
    learning: u64,
    all: u64,
}

impl Plan {
    /// Whether nodes get the neighbours across links between two nodes as permanent entries.
    pub fn fixes_neighbours(&self) -> bool {
        self.nodes.iter().map(|node| node.interfaces.len()).sum::<usize>() > LEARNT
    }

    /// What the tables hold if all nodes of each segment talk to each other: an entry for each pair in each direction, and
    /// for IPv6 another one for the link-local address. Virtual machines have kernels of their own.
    pub fn neighbours(&self) -> Neighbours {
        let mut prefixes: HashMap<IpNet, InPrefix> = HashMap::new();
        let fixes = self.fixes_neighbours();
        for node in &self.nodes {
            let learns = node.kind.as_vm().is_none();
            let fixed = |link| fixes && self.link_at(link).is_some_and(PlannedLink::joins_nodes);
            let learnt = node.interfaces.iter().filter(|interface| !fixed(interface.link));
            for address in learnt.flat_map(|interface| &interface.addresses) {
                let ends = prefixes.entry(address.trunc()).or_default();
                ends.all += 1;
                ends.learning += u64::from(learns);
            }
        }
        for end in self.links.iter().flat_map(|link| &link.ends) {
            let PlannedEnd::Internet { addresses } = end else { continue };
            for address in addresses {
                let ends = prefixes.entry(address.trunc()).or_default();
                ends.all += 1;
                ends.learning += 1;
            }
        }
        let sum = |ipv4: bool| {
            let of_family = prefixes.iter().filter(|(prefix, _)| prefix.addr().is_ipv4() == ipv4);
            let pairs = of_family.map(|(_, ends)| ends.learning * (ends.all - 1)).sum::<u64>();
            u32::try_from(if ipv4 { pairs } else { 2 * pairs }).unwrap_or(u32::MAX)
        };
        Neighbours { ipv4: sum(true), ipv6: sum(false) }
    }
}

impl PlannedLink {
    /// Whether both ends are nodes'.
    fn joins_nodes(&self) -> bool {
        self.ends.iter().all(|end| matches!(end, PlannedEnd::Node { .. }))
    }
}
