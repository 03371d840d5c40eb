//! Which keys an index may have, in pages that are read alone: a question about a few keys costs a page for each.
//!
//! A page is 4,096 bytes: 63 blocks of 512 bits, 56 bytes that are 0, and a hash of all that. A key is in one block of one page, as six
//! bits there (a Bloom filter by blocks). So a page that lacks one of these bits is sure, and one that has all may err: of
//! full pages, about one in a hundred does.

use netloom_packet::hash;

use crate::flow::Key;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
const BODY: usize = PAGE - 8;
/// Bytes of a block.
const BLOCK: usize = 64;
const BLOCKS: u64 = 63;
const PROBES: u32 = 6;
const BITS_PER_KEY: usize = 12;

/// Fewer keys are read at once.
const FEW: usize = 2048;

/// Where a key is.
struct Spot {
    page: u64,
    block: usize,
    /// Nine bits for each probe.
    bits: u64,
}

impl Spot {
    fn of(key: Key, pages: u64) -> Spot {
        let (first, second) = (hash(&key.to_le_bytes()), hash(&(!key).to_le_bytes()));
        // High parts of products: as even as the hash.
        let part = |of: u64, count: u64| (of * count) >> 32;
        let block = usize::try_from(part(first & 0xffff_ffff, BLOCKS)).unwrap_or(0);
        Spot { page: part(first >> 32, pages), block, bits: second }
    }

    /// Bytes and masks within a page.
    fn probes(self) -> impl Iterator<Item = (usize, u8)> {
        let (from, bits) = (self.block * BLOCK, self.bits);
        (0..PROBES).map(move |probe| {
            let bit = (bits >> (9 * probe)) & 511;
            (from + usize::try_from(bit / 8).unwrap_or(0), 1 << (bit % 8))
        })
    }
}

/// How many pages this many keys need; none if they are few.
pub(crate) fn pages(keys: usize) -> u32 {
    if keys <= FEW {
        return 0;
    }
    let bytes = keys.saturating_mul(BITS_PER_KEY) / 8;
    u32::try_from(bytes.div_ceil(BODY)).unwrap_or(u32::MAX)
}

/// The pages of these keys.
pub(crate) fn filter(keys: impl Iterator<Item = Key>, pages: u32) -> Vec<u8> {
    let count = usize::try_from(pages).unwrap_or(0);
    let mut all = vec![0; count * PAGE];
    if pages == 0 {
        return all;
    }
    for key in keys {
        let spot = Spot::of(key, pages.into());
        let from = usize::try_from(spot.page).unwrap_or(0) * PAGE;
        for (at, mask) in spot.probes() {
            if let Some(byte) = all.get_mut(from + at) {
                *byte |= mask;
            }
        }
    }
    for page in all.chunks_exact_mut(PAGE) {
        let (body, sum) = page.split_at_mut(BODY);
        sum.copy_from_slice(&hash(body).to_le_bytes());
    }
    all
}

/// The page that a key is in.
pub(crate) fn page_of(key: Key, pages: u32) -> u64 {
    Spot::of(key, pages.into()).page
}

/// Whether a key may be there, given its page; `None` if the page is damaged.
pub(crate) fn may_have(page: &[u8], key: Key, pages: u32) -> Option<bool> {
    is_whole(page).then(|| {
        let mut probes = Spot::of(key, pages.into()).probes();
        probes.all(|(at, mask)| page.get(at).is_some_and(|byte| byte & mask != 0))
    })
}

/// Whether a page is as it was written.
pub(crate) fn is_whole(page: &[u8]) -> bool {
    let parts = page.split_at_checked(BODY);
    parts.is_some_and(|(body, sum)| sum == hash(body).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_and_few_others_are() {
        let key = |number: u32| Key::try_from(hash(&number.to_le_bytes()) >> 32).unwrap();
        let count = 200_000;
        let pages = pages(count as usize);
        let all = filter((0..count).map(key), pages);
        assert_eq!(all.len(), pages as usize * PAGE);
        let has = |key| {
            let at = usize::try_from(page_of(key, pages)).unwrap() * PAGE;
            may_have(&all[at..at + PAGE], key, pages)
        };
        assert!((0..count).all(|number| has(key(number)) == Some(true)));
        let wrong = (count..2 * count).filter(|number| has(key(*number)) == Some(true)).count();
        assert!(wrong < 4_000, "{wrong} of 200,000");
    }

    #[test]
    fn a_damaged_page_says_nothing() {
        let pages = pages(3000);
        let mut all = filter(0..3000, pages);
        assert!(pages > 1 && is_whole(&all[..PAGE]));
        all[17] ^= 1;
        assert_eq!(may_have(&all[..PAGE], 1, pages), None);
        assert_eq!(may_have(&all[..PAGE - 1], 1, pages), None);
        assert_eq!((super::pages(FEW), filter(0..9, 0)), (0, vec![]));
    }
}
