//! The prefix of every segment and the address of every end.
//!
//! Values given by hand are kept. A segment's prefix is that of its switch or link, else that of its
//! first address by hand (unless that is a single host's, /32 or /128), else an automatic one. Then
//! every end without an address of a family gets a number in the prefix: by its side on a plain
//! link, by the hash of its node's name on a switch; the same number in both families if free.
//!
//! Invariant: a link that is added at the end of the file, assigns nothing by hand and does not
//! join two switches, changes no earlier prefix or number. Therefore switches take
//! their prefixes whether or not anything is connected, and links in the order of the file.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::error::PlanError;
use super::family::{Family, host_numbers, number, overlap, range};
use super::hash::hash;
use super::names::{Names, end_name};
use super::pool::{Allocator, Block};
use super::segment::{EndRef, Segment, Topology};
use crate::lab::{End, Lab, Link};

/// IPv6 numbers on a switch without an IPv4 number are below this, to be short.
const SHORT_NUMBERS: u128 = 2046;

/// The prefix of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix {
    pub(crate) net: IpNet,
    /// The owner's block that contains it, if it is the automatic one of a plain link.
    pub(crate) block: Option<usize>,
}

/// Prefixes and addresses of a lab's segments and ends, in one family.
pub(crate) struct Addressing {
    /// By segment.
    pub(crate) prefixes: Vec<Option<Prefix>>,
    /// The owners' blocks.
    pub(crate) blocks: Vec<Block>,
    /// By link and side: the address with its prefix length.
    pub(crate) ends: Vec<[Option<IpNet>; 2]>,
}

/// Gives every end of one family its address, with the numbers of the other family where possible. `known`
/// are blocks that owners already have, in which prefixes given by hand may lie.
pub(crate) fn assign(
    lab: &Lab,
    names: &Names,
    topology: &Topology,
    family: Family,
    like: Option<&Addressing>,
    known: Vec<Block>,
) -> Result<Addressing, PlanError> {
    let view = View { lab, names, topology, family };
    let given = view.given_prefixes()?;
    view.check_given(&given)?;
    let (prefixes, blocks) = view.prefixes(&given, known)?;
    let mut ends = vec![[None, None]; lab.links.len()];
    for (segment, prefix) in topology.segments.iter().zip(&prefixes) {
        view.number_ends(segment, prefix.as_ref(), like, &mut ends)?;
    }
    Ok(Addressing { prefixes, blocks, ends })
}

struct View<'a> {
    lab: &'a Lab,
    names: &'a Names,
    topology: &'a Topology,
    family: Family,
}

impl View<'_> {
    fn of_family<'n>(&self, nets: &'n [IpNet]) -> Option<&'n IpNet> {
        nets.iter().find(|net| Family::of_net(net) == self.family)
    }

    fn by_hand(&self, end: EndRef) -> Option<IpNet> {
        self.of_family(&self.lab.links[end.link].addresses[end.side]).copied()
    }

    fn label(&self, end: EndRef) -> String {
        let interface = self.names.interfaces[end.link][end.side].as_deref();
        let of = &self.lab.links[end.link].ends[end.side];
        match of {
            End::Internet => format!("link {:?}: end internet", self.names.links[end.link]),
            _ => format!("interface {:?}", end_name(self.lab, of, interface)),
        }
    }

    fn segment_label(&self, segment: &Segment) -> String {
        match (segment.switches.first(), segment.links.first()) {
            (Some(switch), _) => format!("switch {:?}", self.lab.switches[*switch].name),
            (None, Some(link)) => format!("link {:?}", self.names.links[*link]),
            (None, None) => String::new(),
        }
    }

    /// By segment: the prefix given in the file, by subnet or by address.
    fn given_prefixes(&self) -> Result<Vec<Option<IpNet>>, PlanError> {
        self.topology.segments.iter().map(|segment| self.given_prefix(segment)).collect()
    }

    fn given_prefix(&self, segment: &Segment) -> Result<Option<IpNet>, PlanError> {
        let switches = segment.switches.iter().map(|s| &self.lab.switches[*s]);
        let switches = switches.map(|s| (format!("switch {:?}", s.name), &s.subnets));
        let links = segment.links.iter();
        let links = links.map(|l| (*l, &self.lab.links[*l].subnets)).filter(|l| !l.1.is_empty());
        let links = links.map(|(l, nets)| (format!("link {:?}", self.names.links[l]), nets));
        let mut given: Option<IpNet> = None;
        for (object, subnets) in switches.chain(links) {
            let Some(subnet) = self.of_family(subnets).map(IpNet::trunc) else { continue };
            let first = *given.get_or_insert(subnet);
            if first != subnet {
                return Err(PlanError::SubnetConflict { object, first, second: subnet });
            }
        }
        // A host's own prefix says nothing of the segment.
        let alone = self.family.width();
        let addresses = segment.ends.iter().filter_map(|end| self.by_hand(*end));
        let from_address = || addresses.map(|a| a.trunc()).find(|net| net.prefix_len() != alone);
        Ok(given.or_else(from_address))
    }

    /// Under automatic routing no prefix by hand may overlap another.
    fn check_given(&self, given: &[Option<IpNet>]) -> Result<(), PlanError> {
        // Prefixes may repeat where no routes are computed: nothing chooses between them.
        if !self.lab.routing {
            return Ok(());
        }
        let segments = self.topology.segments.iter().zip(given);
        let segments = segments.filter_map(|(s, net)| Some((self.segment_label(s), (*net)?)));
        let mut sorted: Vec<_> = segments.chain(self.loopbacks()).collect();
        sorted.sort_by_key(|(_, net)| (number(net.network()), net.prefix_len()));
        // Sorted by start, the first of any overlapping run overlaps its successor.
        match sorted.windows(2).find(|pair| overlap(&pair[0].1, &pair[1].1)) {
            None => Ok(()),
            Some(pair) => Err(PlanError::PrefixOverlap {
                first: pair[0].0.clone(),
                second: pair[1].0.clone(),
                prefix: pair[1].1,
            }),
        }
    }

    /// The loopback prefixes of routers, to which others have routes.
    fn loopbacks(&self) -> impl Iterator<Item = (String, IpNet)> {
        let routers = self.lab.nodes.iter().filter(|node| self.family.forwards(node));
        routers.flat_map(|node| {
            let nets = self.family.of_all(&node.loopback).map(|net| net.trunc());
            nets.map(|net| (format!("node {:?}: loopback", node.name), net))
        })
    }

    /// By segment: its prefix, the given one, else an automatic one if the family has a pool.
    fn prefixes(
        &self,
        given: &[Option<IpNet>],
        known: Vec<Block>,
    ) -> Result<(Vec<Option<Prefix>>, Vec<Block>), PlanError> {
        let block = |segment: &Segment, net: &IpNet| self.block_of(segment, net, &known);
        let segments = self.topology.segments.iter().zip(given);
        let mut prefixes: Vec<Option<Prefix>> = segments
            .map(|(segment, net)| net.map(|net| Prefix { net, block: block(segment, &net) }))
            .collect();
        let pool: Option<IpNet> = match self.family {
            Family::V4 => self.lab.pool.ipv4.map(IpNet::from),
            Family::V6 => self.lab.pool.ipv6.map(IpNet::from),
        };
        let Some(pool) = pool else { return Ok((prefixes, Vec::new())) };
        let mut allocator = Allocator::new(pool, &self.all_by_hand(), known)?;
        allocator.variant = self.lab.pool.variant;
        let mut parallel = HashMap::new();
        // Switches first: their prefixes depend on no link.
        self.take_for_switches(&mut allocator, &mut prefixes);
        self.take_for_links(&mut allocator, &mut parallel, &mut prefixes);
        for (segment, prefix) in self.topology.segments.iter().zip(&prefixes) {
            if prefix.is_none() && !segment.ends.is_empty() {
                let object = self.segment_label(segment);
                return Err(PlanError::PoolExhausted { object, pool });
            }
        }
        Ok((prefixes, allocator.blocks))
    }

    /// The block that contains a given prefix of a plain link, if it is its owner's.
    fn block_of(&self, segment: &Segment, net: &IpNet, known: &[Block]) -> Option<usize> {
        let link = segment.links.first().filter(|_| segment.switches.is_empty())?;
        let (owner, _) = self.owner(&self.lab.links[*link])?;
        known.iter().position(|block| block.owner == owner && block.prefix.contains(net))
    }

    /// Every prefix named in the file, whether a segment uses it or not.
    fn all_by_hand(&self) -> Vec<IpNet> {
        let switches = self.lab.switches.iter().flat_map(|s| &s.subnets);
        let links = self.lab.links.iter();
        let links = links.flat_map(|l| l.addresses.iter().flatten().chain(&l.subnets));
        let loopbacks = self.lab.nodes.iter().flat_map(|node| &node.loopback);
        switches.chain(links).chain(loopbacks).map(IpNet::trunc).collect()
    }

    /// Every switch without a subnet of its own takes a slot, used or not, so that the others' slots
    /// do not depend on links.
    fn take_for_switches(&self, allocator: &mut Allocator, prefixes: &mut [Option<Prefix>]) {
        let automatic = |subnets: &[IpNet]| self.of_family(subnets).is_none();
        let mut slots: HashMap<usize, IpNet> = HashMap::new();
        for (index, switch) in self.lab.switches.iter().enumerate() {
            if automatic(&switch.subnets)
                && let Some(slot) = allocator.switch(&switch.name)
            {
                slots.insert(index, slot);
            }
        }
        for (segment, prefix) in self.topology.segments.iter().zip(prefixes) {
            if let (None, Some(first)) = (&prefix, segment.switches.first()) {
                *prefix = slots.get(first).map(|net| Prefix { net: *net, block: None });
            }
        }
    }

    fn take_for_links(
        &self,
        allocator: &mut Allocator,
        parallel: &mut HashMap<(usize, String), usize>,
        prefixes: &mut [Option<Prefix>],
    ) {
        for (index, link) in self.lab.links.iter().enumerate() {
            let segment = self.topology.of_link[index];
            if !self.topology.segments[segment].switches.is_empty() {
                continue;
            }
            let Some((owner, other)) = self.owner(link) else { continue };
            let count = parallel.entry((owner, other.clone())).or_default();
            if prefixes[segment].is_none() {
                let name = (owner, self.lab.nodes[owner].name.as_str());
                let taken = allocator.link(name, &other, *count);
                prefixes[segment] = taken.map(|(net, block)| Prefix { net, block: Some(block) });
            }
            // Also where a prefix is given: later parallel links keep theirs when it comes or goes.
            *count += 1;
        }
    }

    /// The owner whose block contains a plain link's prefix, and the name of the other end.
    fn owner(&self, link: &Link) -> Option<(usize, String)> {
        let node = |side: usize| match link.ends[side] {
            End::Node { node, .. } => Some(node),
            _ => None,
        };
        let forwards = |side: usize| node(side).is_some_and(|n| self.counts_as_router(n));
        // A block leads to its owner, so an owner needs an address on the link.
        let rank = |side: &usize| (link.bare[*side], !forwards(*side));
        let side = [0, 1].into_iter().filter(|side| node(*side).is_some()).min_by_key(rank)?;
        let other = match &link.ends[1 - side] {
            End::Node { node, .. } => self.lab.nodes[*node].name.clone(),
            // No node is called so: names have no blanks.
            end => format!("door {}", end_name(self.lab, end, None)),
        };
        Some((node(side)?, other))
    }

    fn counts_as_router(&self, node: usize) -> bool {
        let node = &self.lab.nodes[node];
        // A node that becomes a router later keeps the addresses that it was given before.
        let was = self.lab.numbered_as.get(&node.name).copied();
        self.family.is_in(was.unwrap_or(node.forwarding))
    }

    /// Gives the ends of one segment their addresses, those given by hand first.
    fn number_ends(
        &self,
        segment: &Segment,
        prefix: Option<&Prefix>,
        like: Option<&Addressing>,
        ends: &mut [[Option<IpNet>; 2]],
    ) -> Result<(), PlanError> {
        let mut taken: HashMap<u128, EndRef> = HashMap::new();
        // By hand first: an automatic number must not take one of these.
        for end in &segment.ends {
            let Some(address) = self.by_hand(*end) else { continue };
            self.check_host(*end, &address)?;
            if let Some(first) = taken.insert(number(address.addr()), *end) {
                return Err(self.clash(address.addr(), first, *end));
            }
            ends[end.link][end.side] = Some(address);
        }
        let Some(prefix) = prefix.map(|p| p.net) else { return Ok(()) };
        let mut numbers = Numbers::new(&prefix, taken.into_keys());
        let mut ordinals: HashMap<&str, usize> = HashMap::new();
        for end in &segment.ends {
            let name = self.host_name(*end);
            let ordinal = ordinals.entry(name).or_default();
            let other = like.and_then(|like| number_in(like, self.topology, *end));
            let wish = match other {
                // On a plain link the first end has the first address: short, and known without
                // asking.
                _ if segment.switches.is_empty() => Wish::Nth(end.side),
                Some(number) => Wish::Number(number),
                None => Wish::Hash(hash(&["host", name, &ordinal.to_string()])),
            };
            *ordinal += 1;
            if ends[end.link][end.side].is_none() {
                let free = numbers
                    .take(wish)
                    .ok_or_else(|| PlanError::SegmentFull { object: self.label(*end), prefix })?;
                ends[end.link][end.side] = Some(self.family.net(free, prefix.prefix_len()));
            }
        }
        Ok(())
    }

    /// The name hashed for the host's number; no node's name contains a blank.
    fn host_name(&self, end: EndRef) -> &str {
        match &self.lab.links[end.link].ends[end.side] {
            End::Node { node, .. } => &self.lab.nodes[*node].name,
            _ => "door internet",
        }
    }

    fn check_host(&self, end: EndRef, address: &IpNet) -> Result<(), PlanError> {
        let (first, last) = host_numbers(address);
        let host = number(address.addr()) - range(address).0;
        // A router may have the anycast address of an IPv6 prefix by hand.
        // Subnet-router anycast, RFC 4291 section 2.6.1.
        if self.family == Family::V6 || (first..=last).contains(&host) {
            return Ok(());
        }
        Err(PlanError::NotAHostAddress { object: self.label(end), address: *address })
    }

    fn clash(&self, address: IpAddr, first: EndRef, second: EndRef) -> PlanError {
        let (first, second) = (self.label(first), self.label(second));
        PlanError::AddressClash { address, first, second }
    }
}

/// The number within the segment's prefix that an end has in the other family.
fn number_in(like: &Addressing, topology: &Topology, end: EndRef) -> Option<u128> {
    let prefix = like.prefixes[topology.of_link[end.link]]?.net;
    let address = like.ends[end.link][end.side]?.addr();
    prefix.contains(&address).then(|| number(address) - range(&prefix).0)
}

/// The host number that an end prefers.
enum Wish {
    /// The nth one.
    Nth(usize),
    /// This one, or another if it is out of range.
    Number(u128),
    /// One by hash.
    Hash(u64),
}

/// The numbers of a prefix's usable addresses, counted from the first.
struct Numbers {
    first: u128,
    /// How many unusable addresses precede the first.
    skipped: u128,
    count: u128,
    /// By taken number: a later one, before which none is free.
    next: HashMap<u128, u128>,
}

impl Numbers {
    /// The numbers of a prefix with these addresses taken.
    fn new(prefix: &IpNet, taken: impl Iterator<Item = u128>) -> Self {
        let (first, last) = host_numbers(prefix);
        let mut numbers = Numbers {
            first: range(prefix).0 + first,
            skipped: first,
            count: (last - first).saturating_add(1),
            next: HashMap::new(),
        };
        for address in taken {
            if let Some(number) = address.checked_sub(numbers.first)
                // Addresses by hand may lie outside of the segment's prefix.
                && number < numbers.count
            {
                numbers.next.insert(number, (number + 1) % numbers.count);
            }
        }
        numbers
    }

    /// Takes the first free address from the wish on, wrapping around.
    fn take(&mut self, wish: Wish) -> Option<u128> {
        let (first, count) = (self.first, self.count);
        if u128::try_from(self.next.len()).is_ok_and(|taken| taken >= count) {
            return None;
        }
        let mut at = match wish {
            Wish::Nth(n) => u128::try_from(n).unwrap_or(0) % count,
            Wish::Number(n) => {
                // The other family's number, if it fits: both addresses of an end then end alike.
                n.checked_sub(self.skipped).filter(|n| *n < count).unwrap_or(n % count)
            }
            // Small numbers: `::7` reads better than 64 bits of a hash.
            Wish::Hash(hash) => u128::from(hash) % count.min(SHORT_NUMBERS),
        };
        let mut passed = Vec::new();
        while let Some(next) = self.next.get(&at) {
            passed.push(at);
            at = *next;
        }
        // Later searches from here skip those in between.
        for number in passed {
            self.next.insert(number, at);
        }
        self.next.insert(at, (at + 1) % count);
        Some(first + at)
    }
}

/// Under automatic routing an address by hand belongs to only one end of the lab.
pub(crate) fn check_unique(
    lab: &Lab,
    names: &Names,
    topology: &Topology,
    all: &[Addressing],
) -> Result<(), PlanError> {
    let mut taken: HashMap<IpAddr, EndRef> = HashMap::new();
    if !lab.routing {
        return Ok(());
    }
    for end in topology.segments.iter().flat_map(|s| &s.ends) {
        for (addressing, family) in all.iter().zip(Family::BOTH) {
            let Some(address) = addressing.ends[end.link][end.side] else { continue };
            if let Some(first) = taken.insert(address.addr(), *end) {
                let view = View { lab, names, topology, family };
                return Err(view.clash(address.addr(), first, *end));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// The reference: checks one address after the other.
    fn first_free(prefix: &IpNet, hash: u64, taken: &HashSet<u128>) -> Option<u128> {
        let ((first, last), base) = (host_numbers(prefix), range(prefix).0);
        let count = last - first + 1;
        let start = u128::from(hash) % count.min(SHORT_NUMBERS);
        let mut all = (0..count).map(|step| base + first + (start + step) % count);
        all.find(|number| !taken.contains(number))
    }

    proptest! {
        #[test]
        fn the_first_free_number_is_taken_until_none_is_left(
            length in 22_u8..=32,
            by_hand in proptest::collection::hash_set(0_u128..1 << 10, 0..40),
            wishes in proptest::collection::vec(0_u64..1 << 11, 1..300),
        ) {
            let prefix = Family::V4.net(number("10.0.0.0".parse().unwrap()), length);
            let base = range(&prefix).0;
            let mut taken: HashSet<u128> = by_hand.iter().map(|number| base + number).collect();
            let mut numbers = Numbers::new(&prefix, taken.iter().copied());
            for wish in wishes {
                let expected = first_free(&prefix, wish, &taken);
                prop_assert_eq!(numbers.take(Wish::Hash(wish)), expected);
                taken.extend(expected);
            }
        }
    }
}
