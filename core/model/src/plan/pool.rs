//! The source of automatic prefixes.
//!
//! IPv4: the lower half of the pool is for segments of switches (in `10.0.0.0/8` a /21 each), the
//! upper half for links without a switch: each owner has a block (/22), each of its links a /30 in
//! it. In smaller pools slots and blocks shrink by one bit for every two. Where all blocks are taken,
//! later owners have small ones (a /26, in smaller pools down to a /28) in the last quarter of the lower
//! half, between the switches there. IPv6: every switch and every owner has a /48, each segment a /64 in it.
//!
//! Invariant: a slot depends only on the hashed names and on what was taken before, no slot overlaps a
//! prefix given by hand, and nothing takes a small block while a large one is left.

use std::collections::HashMap;

use ipnet::IpNet;

use super::error::PlanError;
use super::family::{Family, overlap, range};
use super::hash::hash;
use super::slots::Slots;

/// The longest small block: four links. A router has one for all of its links that are left.
const LONGEST_SMALL_BLOCK: u8 = 28;

/// An equal division of a prefix.
struct Region {
    family: Family,
    /// First and last number.
    base: u128,
    last: u128,
    slot_len: u8,
    slots: Slots,
}

impl Region {
    /// Divides a prefix into prefixes of a length, at most 2^63 of them.
    fn new(within: &IpNet, slot_len: u8) -> Self {
        let family = Family::of_net(within);
        // The number of slots must fit a u64.
        let bits = slot_len.saturating_sub(within.prefix_len()).min(63);
        let (base, last) = range(within);
        Region { family, base, last, slot_len, slots: Slots::new(1 << bits) }
    }

    /// Bars a prefix given by hand.
    fn bar(&mut self, prefix: &IpNet) {
        let (first, last) = range(prefix);
        // Not only inside: a prefix that contains the region bars all of it.
        if Family::of_net(prefix) != self.family || first > self.last || last < self.base {
            return;
        }
        let slot = |number: u128| {
            let slot = number.saturating_sub(self.base) >> self.shift();
            u64::try_from(slot).unwrap_or(u64::MAX)
        };
        self.slots.bar(slot(first), slot(last));
    }

    fn take(&mut self, hash: u64) -> Option<IpNet> {
        let slot = self.slots.take(hash)?;
        Some(self.family.net(self.base + (u128::from(slot) << self.shift()), self.slot_len))
    }

    fn shift(&self) -> u8 {
        self.family.width() - self.slot_len
    }
}

/// A prefix that contains the links of one owner.
#[derive(Debug)]
pub(crate) struct Block {
    /// A node.
    pub(crate) owner: usize,
    pub(crate) prefix: IpNet,
}

/// The automatic prefixes of one family.
pub(crate) struct Allocator {
    family: Family,
    switches: Region,
    /// `None` if owners take from the same region as switches.
    owners: Option<Region>,
    /// Small blocks, for when no other is left; `None` as `owners` is.
    late: Option<Region>,
    /// Length of a segment's prefix.
    segment_len: u8,
    /// Every block so far.
    pub(crate) blocks: Vec<Block>,
    of_owner: HashMap<usize, Owned>,
    /// [`crate::lab::Pool::variant`].
    pub(crate) variant: u32,
}

/// The blocks of one owner.
#[derive(Default)]
struct Owned {
    /// Its blocks in order of allocation, as index into `blocks` and its division.
    blocks: Vec<(usize, Region)>,
    /// How many of them, from the first, are full.
    full: usize,
}

impl Allocator {
    /// An allocator for a pool that avoids the prefixes given by hand, and whose owners already have
    /// these blocks, in order of allocation.
    pub(crate) fn new(
        pool: IpNet,
        by_hand: &[IpNet],
        known: Vec<Block>,
    ) -> Result<Self, PlanError> {
        let pool = pool.trunc();
        let family = Family::of_net(&pool);
        let longest = if family == Family::V4 { 16 } else { 32 };
        if pool.prefix_len() > longest {
            return Err(PlanError::PoolTooSmall { pool, longest });
        }
        let (switches, owners, late, segment_len) = match family {
            Family::V4 => {
                // Two halves, so that switches and owners of links never compete for a slot.
                let half = pool.prefix_len() + 1;
                let (start, end) = range(&pool);
                let upper = start + (end - start).div_ceil(2);
                let smaller = pool.prefix_len().saturating_sub(8) / 2;
                let lower = Region::new(&family.net(start, half), 21 + smaller);
                let owners = Region::new(&family.net(upper, half), 22 + smaller);
                // Its end, so that most switches of a running lab's changes find no block at their slot.
                let quarter = family.net(upper - (upper - start) / 4, half + 2);
                let late = Region::new(&quarter, (26 + smaller).min(LONGEST_SMALL_BLOCK));
                (lower, Some(owners), Some(late), 30)
            }
            Family::V6 => (Region::new(&pool, 48), None, None, 64),
        };
        let mut new = Allocator {
            family,
            switches,
            owners,
            late,
            segment_len,
            blocks: Vec::new(),
            of_owner: HashMap::new(),
            variant: 0,
        };
        let more = new.owners.iter_mut().chain(&mut new.late);
        for region in std::iter::once(&mut new.switches).chain(more) {
            // Blocks of a running lab are taken too; only their owners get more segments from them.
            let blocks = known.iter().map(|block| &block.prefix);
            by_hand.iter().chain(blocks).for_each(|prefix| region.bar(prefix));
        }
        for (index, block) in known.iter().enumerate() {
            let mut region = Region::new(&block.prefix, segment_len);
            by_hand.iter().for_each(|prefix| region.bar(prefix));
            new.of_owner.entry(block.owner).or_default().blocks.push((index, region));
        }
        new.blocks = known;
        Ok(new)
    }

    /// The slot that these names prefer.
    fn wish(&self, names: &[&str]) -> u64 {
        let variant = self.variant.to_string();
        // Variant 0 adds nothing to the hash: labs of earlier versions keep their addresses.
        let others: &[&str] = if self.variant == 0 { &[] } else { &["variant", &variant] };
        hash(&[names, others].concat())
    }

    /// The prefix of a switch's segment; switches are asked for before links.
    pub(crate) fn switch(&mut self, name: &str) -> Option<IpNet> {
        let wish = self.wish(&["switch", name]);
        let slot = self.switches.take(wish)?;
        self.late.iter_mut().for_each(|region| region.bar(&slot));
        // IPv6 takes a /48 a switch but uses one /64 of it, as hosts expect (RFC 4291, 2.5.1).
        let len = if self.family == Family::V4 { slot.prefix_len() } else { self.segment_len };
        Some(self.family.net(range(&slot).0, len))
    }

    /// The prefix of a link without a switch, and the index of its block. `parallel`
    /// counts the earlier links between the same two.
    pub(crate) fn link(
        &mut self,
        owner: (usize, &str),
        other: &str,
        parallel: usize,
    ) -> Option<(IpNet, usize)> {
        let wish = hash(&["link", other, &parallel.to_string()]);
        let own = self.of_owner.entry(owner.0).or_default();
        for (block, region) in own.blocks.iter_mut().skip(own.full) {
            if let Some(prefix) = region.take(wish) {
                return Some((prefix, *block));
            }
            // Prefixes are never given back here, so a full block need not be asked again.
            own.full += 1;
        }
        let ordinal = own.blocks.len().to_string();
        let block_wish = self.wish(&["owner", owner.1, &ordinal]);
        let own = self.of_owner.entry(owner.0).or_default();
        let from = self.owners.as_mut().unwrap_or(&mut self.switches);
        let large = from.take(block_wish);
        let prefix = large.or_else(|| self.late.as_mut()?.take(block_wish))?;
        let mut region = Region::new(&prefix, self.segment_len);
        let segment = region.take(wish)?;
        let index = self.blocks.len();
        self.blocks.push(Block { owner: owner.0, prefix });
        own.blocks.push((index, region));
        debug_assert!(overlap(&prefix, &segment));
        Some((segment, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn any_pool_is_laid_out() {
        for pool in [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "172.16.0.0/12",
            "10.7.0.0/16",
            "::/0",
            "fd00::/8",
            "fd12:3456::/32",
        ] {
            let mut allocator =
                Allocator::new(net(pool), &[net("192.0.2.0/24"), net("2001:db8::/32")], vec![])
                    .unwrap();
            let switch = allocator.switch("s").unwrap();
            let (link, block) = allocator.link((0, "a"), "b", 0).unwrap();
            assert!(net(pool).contains(&switch) && net(pool).contains(&link), "{pool}");
            assert!(!overlap(&switch, &link) && allocator.blocks[block].prefix.contains(&link));
        }
    }

    #[test]
    fn owners_go_on_in_further_blocks_until_the_pool_is_full() {
        let mut allocator = Allocator::new(net("10.7.0.0/16"), &[], vec![]).unwrap();
        let mut seen = std::collections::HashSet::new();
        // The upper half holds 2^15 / 4 links, the last quarter of the lower one 2^13 / 4.
        for parallel in 0..8192 + 2048 {
            let (link, _) = allocator.link((0, "a"), "b", parallel).unwrap();
            let from = if parallel < 8192 { "10.7.128.0/17" } else { "10.7.96.0/19" };
            assert!(net(from).contains(&link) && seen.insert(link), "{parallel}: {link}");
        }
        assert!(allocator.link((0, "a"), "b", 8192 + 2048).is_none());
        assert_eq!(allocator.blocks.len(), 512 + 512, "of 16 links each, and of 4");
        // Full blocks are not searched again.
        assert_eq!(allocator.of_owner[&0].full, 1024);
    }

    #[test]
    fn late_owners_have_small_blocks_between_the_switches() {
        let pool = net("10.0.0.0/8");
        let mut allocator = Allocator::new(pool, &[net("10.100.0.0/16")], vec![]).unwrap();
        let switches: Vec<IpNet> =
            (0..3000).map(|n| allocator.switch(&format!("s{n}")).unwrap()).collect();
        let mut late = Vec::new();
        for owner in 0..9000 {
            let name = format!("n{owner}");
            let (link, block) = allocator.link((owner, &name), "b", 0).unwrap();
            let block = allocator.blocks[block].prefix;
            assert!(block.contains(&link), "{name}: {block} {link}");
            match owner < 8192 {
                true => assert!(block.prefix_len() == 22 && net("10.128.0.0/9").contains(&block)),
                false => late.push(block),
            }
        }
        assert_eq!(late.len(), 808);
        let taken = |block: &IpNet| switches.iter().any(|switch| overlap(switch, block));
        for block in &late {
            assert!(block.prefix_len() == 26 && net("10.96.0.0/11").contains(block), "{block}");
            assert!(!overlap(block, &net("10.100.0.0/16")) && !taken(block), "{block}");
        }
        // A later plan of the running lab: its owners go on in their blocks, and new switches avoid these.
        let known = std::mem::take(&mut allocator.blocks);
        let first = known[8192].prefix;
        let mut again = Allocator::new(pool, &switches, known).unwrap();
        assert_eq!(again.link((8192, "n8192"), "c", 0).unwrap().1, 8192);
        let added: Vec<IpNet> = (0..500).filter_map(|n| again.switch(&format!("t{n}"))).collect();
        assert!(added.len() > 100 && added.iter().all(|net| !overlap(net, &first)));
        assert!(added.iter().all(|net| late.iter().all(|block| !overlap(net, block))));
    }
}
