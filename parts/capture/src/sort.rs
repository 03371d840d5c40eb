//! Puts the blocks of a chunk in the order of their times.
//!
//! Frames of several processors come in runs, each in order; a chunk that holds more than one run is
//! sorted before it is written. Blocks of the same time keep their order. A block that has no time of
//! its own, as statistics, stays behind the one before it.

use netloom_disk::Pool;

use crate::queue::Chunk;

/// Type of an enhanced packet block.
const PACKET: u32 = 6;

/// A block: its time, where it begins, its length.
type Place = (u64, usize, usize);

/// Sorts a chunk by time, if there is memory for it.
pub(crate) fn by_time(chunk: &mut Chunk, pool: &Pool) {
    if chunk.sorted {
        return;
    }
    let Some(mut sorted) = pool.take() else { return };
    let Some(blocks) = chunk.buffer.get(..chunk.len) else { return };
    let Some(mut places) = places(blocks) else { return };
    places.sort_by_key(|(time, ..)| *time);
    let mut end = 0;
    for (_, start, len) in places {
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
}

/// All blocks; none if they are not whole.
fn places(blocks: &[u8]) -> Option<Vec<Place>> {
    let mut places: Vec<Place> = Vec::new();
    let mut start = 0;
    while start < blocks.len() {
        let rest = &blocks[start..];
        let word = |at: usize| Some(u32::from_le_bytes(*rest.get(at..)?.first_chunk()?));
        let len = usize::try_from(word(4)?).ok().filter(|len| (12..=rest.len()).contains(len))?;
        let time = if word(0)? == PACKET {
            u64::from(word(12)?) << 32 | u64::from(word(16)?)
        } else {
            places.last().map_or(0, |(time, ..)| *time)
        };
        places.push((time, start, len));
        start += len;
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_pcap::{ng, run};

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
        let (len, sorted) = (bytes.len(), false);
        let mut chunk = Chunk { buffer, len, source: 0, frames: 4, epoch: 0, sorted };
        by_time(&mut chunk, &pool);
        let all = &chunk.buffer[..len];
        let kinds: Vec<u32> =
            places(all).unwrap().iter().map(|(_, at, _)| u32::from(all[*at])).collect();
        assert_eq!(kinds, [6, 6, 5, 6, 6]);
        let statistics = places(all).unwrap()[2];
        let rest = [&all[..statistics.1], &all[statistics.1 + statistics.2..]].concat();
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
        let mut chunk = Chunk { buffer, len: 100, source: 0, frames: 4, epoch: 0, sorted: false };
        by_time(&mut chunk, &pool);
        assert_eq!(chunk.buffer[..100], [7; 100]);
    }
}
