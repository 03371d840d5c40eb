//! Sorts the blocks of a chunk by time.
//!
//! Each CPU's frames come in runs, each in order; a chunk of more than one run is sorted before it
//! is written. Blocks of the same time keep their order. A block without a time, such as
//! statistics, stays behind its predecessor.

use netloom_disk::Pool;

use crate::queue::Chunk;

/// Type of an enhanced packet block.
const PACKET: u32 = 6;

/// A block: its time, its offset, its length.
pub(crate) type BlockAt = (u64, u32, u32);

/// Sorts a chunk by time, if there is memory for it. `places` is scratch memory, reused between calls.
pub(crate) fn by_time(chunk: &mut Chunk, pool: &Pool, places: &mut Vec<BlockAt>) {
    if chunk.sorted {
        return;
    }
    let Some(mut sorted) = pool.take() else { return };
    let Some(blocks) = chunk.buffer.get(..chunk.len) else { return };
    if find(blocks, places).is_none() {
        return;
    }
    // Stable, and linear for the few ordered runs that the CPUs have written.
    places.sort_by_key(|(time, ..)| *time);
    let mut end = 0;
    for (start, len) in places.iter().filter_map(|(_, start, len)| {
        Some((usize::try_from(*start).ok()?, usize::try_from(*len).ok()?))
    }) {
        let (Some(to), Some(from)) =
            (sorted.get_mut(end..end + len), blocks.get(start..start + len))
        else {
            return;
        };
        to.copy_from_slice(from);
        end += len;
    }
    chunk.buffer = sorted;
    chunk.sorted = true;
    chunk.last = places.last().map_or(chunk.last, |(time, ..)| *time);
}

/// The first block of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) len: usize,
    /// The time of a packet; nothing else has one.
    pub(crate) time: Option<u64>,
}

/// The first of these blocks; `None` if it is incomplete.
#[inline]
pub(crate) fn first(blocks: &[u8]) -> Option<Block> {
    let word = |at: usize| Some(u32::from_le_bytes(*blocks.get(at..)?.first_chunk()?));
    let len = usize::try_from(word(4)?).ok().filter(|len| (12..=blocks.len()).contains(len))?;
    let packet = word(0)? == PACKET;
    let time = if packet { Some(u64::from(word(12)?) << 32 | u64::from(word(16)?)) } else { None };
    Some(Block { len, time })
}

/// Finds all blocks; `None` if they are incomplete.
fn find(blocks: &[u8], places: &mut Vec<BlockAt>) -> Option<()> {
    places.clear();
    let mut start = 0;
    while start < blocks.len() {
        let Block { len, time } = first(&blocks[start..])?;
        let time = time.or_else(|| places.last().map(|(time, ..)| *time)).unwrap_or(0);
        places.push((time, u32::try_from(start).ok()?, u32::try_from(len).ok()?));
        start += len;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Share;
    use netloom_disk::Buffer;
    use netloom_pcap::{ng, run};

    fn chunk(buffer: Buffer, len: usize) -> Chunk {
        let shares = vec![Share { source: 0, frames: 4 }];
        Chunk { buffer, len, shares, thread: 0, epoch: 0, last: 9, sorted: false }
    }

    #[test]
    fn runs_become_one_and_what_is_equal_keeps_its_order() {
        let pool = Pool::new(4096, 8192);
        let mut bytes = Vec::new();
        for (time_ns, data) in [(3, [1; 5]), (9, [2; 5]), (1, [3; 5]), (9, [4; 5])] {
            let data = &data[..];
            ng::packet(&mut bytes, &ng::Packet { time_ns, data, ..ng::Packet::default() });
            if time_ns == 3 {
                ng::statistics(&mut bytes, &ng::Statistics::default());
            }
        }
        let mut buffer = pool.take().unwrap();
        buffer[..bytes.len()].copy_from_slice(&bytes);
        let len = bytes.len();
        let mut chunk = chunk(buffer, len);
        let mut places = Vec::new();
        by_time(&mut chunk, &pool, &mut places);
        let all = &chunk.buffer[..len];
        find(all, &mut places).unwrap();
        let kinds: Vec<u8> = places.iter().map(|(_, at, _)| all[*at as usize]).collect();
        assert_eq!(kinds, [6, 6, 5, 6, 6]);
        let (_, at, statistics) = places[2];
        let rest = [&all[..at as usize], &all[(at + statistics) as usize..]].concat();
        let got: Vec<(u64, u8)> =
            run::records(&rest).map(|block| (block.time_ns, block.data[0])).collect();
        assert_eq!(got, [(1, 3), (3, 1), (9, 2), (9, 4)]);
        assert_eq!(pool.in_use_bytes(), 4096);
    }

    #[test]
    fn what_is_not_made_of_blocks_is_left_as_it_is() {
        let pool = Pool::new(4096, 8192);
        let mut buffer = pool.take().unwrap();
        buffer[..100].fill(7);
        let mut chunk = chunk(buffer, 100);
        by_time(&mut chunk, &pool, &mut Vec::new());
        assert_eq!(chunk.buffer[..100], [7; 100]);
    }
}
