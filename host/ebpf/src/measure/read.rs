//! Reads blocks: combines the CPUs' counts and samples.

use netloom_marking::session::Program;
use netloom_marking::{BANKS, Counters, Record, Sample, Samples, Selection, Tally, Threshold};
use netloom_sys::Failure;

use super::clock::Watch;
use super::filters::Flow;
use super::programs::{Maps, SAMPLE, TABLE, words};
use super::{Config, FlowBlock, Sampled};
use crate::{Error, Result};

/// The context for reading a block.
pub(super) struct Context<'a> {
    pub(super) maps: &'a Maps,
    pub(super) config: &'a Config,
    pub(super) watch: &'a Watch,
    /// Number of slots.
    pub(super) flows: u32,
    /// Whether the interface no longer exists.
    pub(super) gone: bool,
}

/// One flow's block.
pub(super) fn block(context: &Context<'_>, flow: &Flow, block: u64) -> Result<FlowBlock> {
    let bank = u32::try_from(block % BANKS).unwrap_or(0);
    let index = flow.slot * 4 + bank;
    let mut cpus = Vec::new();
    let mut overwritten = false;
    for words in context.maps.count(index)? {
        let (held, counters) = counters(&words);
        overwritten |= held > block + 1;
        // A CPU that saw no packet of this block still holds an older one.
        if held == block + 1 {
            cpus.push(counters);
        }
    }
    let (schedule, watch) = (&context.config.schedule, context.watch);
    let began = flow.began.max(watch.began());
    let mut record = Record::new(schedule, block, &cpus, began, watch.now());
    record.completeness.overwritten = overwritten;
    record.completeness.interface_gone = context.gone;
    record.completeness.clock_stepped = watch.stepped_since(record.begin);
    if context.config.program != Program::All {
        (record.all.first, record.all.last) = (None, None);
    }
    let sampled = match context.config.sampling() {
        None => None,
        Some(sampling) => {
            let start = sampling.selection;
            let parts = tables(context, flow, block, start)?;
            Some(together(start, parts, sampling.npkts)?)
        }
    };
    Ok(FlowBlock { id: flow.id, record, sampled })
}

/// `struct nl_me_count`: the block + 1, and its counters.
fn counters(words: &[u64]) -> (u64, Counters) {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let tally = |at: [usize; 4]| {
        let [packets, sum, first, last] = at.map(word);
        Tally { packets, sum, first, last }
    };
    let counters = Counters {
        all: tally([1, 2, 3, 4]),
        double: tally([8, 9, 10, 11]),
        bytes: word(5),
        late: word(6),
        unhashable: word(7),
    };
    (word(0), counters)
}

/// One CPU's samples.
struct Part {
    threshold: u64,
    crowded: bool,
    unkept: u64,
    samples: Vec<Sample>,
}

fn tables(context: &Context<'_>, flow: &Flow, block: u64, start: Selection) -> Result<Vec<Part>> {
    let bank = u32::try_from(block % BANKS).unwrap_or(0);
    let mut parts = Vec::new();
    for cpu in 0..context.maps.possible {
        let index = (cpu * context.flows + flow.slot) * 4 + bank;
        let bytes = context.maps.table(index)?;
        if let Some(part) = part(&bytes, block, start) {
            parts.push(part);
        }
    }
    Ok(parts)
}

/// `struct nl_me_table`, if it belongs to this block.
fn part(bytes: &[u8], block: u64, start: Selection) -> Option<Part> {
    let head = words(bytes.get(..TABLE)?);
    let [held, threshold, used, unkept] = head.try_into().ok()?;
    if held != block + 1 {
        return None;
    }
    let (used, crowded) = crate::map::unpair(used.to_ne_bytes());
    let samples = bytes.get(TABLE..)?.as_chunks::<SAMPLE>().0.iter();
    let samples = samples.take(usize::try_from(used).ok()?).map(sample).collect();
    let threshold = threshold.min(start.threshold().value());
    Some(Part { threshold, crowded: crowded != 0, unkept, samples })
}

/// `struct nl_me_sample`.
fn sample(bytes: &[u8; SAMPLE]) -> Sample {
    let (hash, identity) = crate::map::unpair(std::array::from_fn(|i| bytes[i]));
    let time = u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 + i]));
    Sample { hash, identity, time }
}

/// Reduces the CPUs' samples to the lowest threshold, and further if there are still too many: each
/// CPU has all that it saw below its own threshold.
fn together(start: Selection, parts: Vec<Part>, npkts: Option<u32>) -> Result<Sampled> {
    let unkept = parts.iter().map(|part| part.unkept).sum();
    let crowded = parts.iter().any(|part| part.crowded);
    let lowest = parts.iter().map(|part| part.threshold).min();
    let selection = match (npkts, lowest) {
        (Some(_), Some(lowest)) => start.at(threshold(start, lowest)?),
        _ => start,
    };
    let mut samples: Vec<Sample> = parts.into_iter().flat_map(|part| part.samples).collect();
    samples.retain(|sample| selection.selects(sample.hash));
    // Stable: samples of one time and CPU keep their order.
    samples.sort_by_key(|sample| sample.time);
    let most = npkts.and_then(|npkts| usize::try_from(npkts).ok());
    let Some(most) = most.filter(|most| samples.len() > *most) else {
        return Ok(Sampled { selection, samples, unkept, crowded });
    };
    let mut fewer = Samples::new(selection, most).map_err(wrong)?;
    for sample in samples {
        fewer.offer(sample);
    }
    let crowded = crowded || fewer.crowded();
    Ok(Sampled { selection: fewer.selection(), samples: fewer.kept().to_vec(), unkept, crowded })
}

fn wrong(error: netloom_marking::Error) -> Error {
    Failure::new("samples", "put together", std::io::Error::other(error)).into()
}

/// The threshold with this value: the one reached by three samples at this very distance with room
/// for two.
fn threshold(selection: Selection, value: u64) -> Result<Threshold> {
    // Distances have 32 bits: the value that does not fit is above all of them.
    let Ok(distance) = u32::try_from(value) else { return Ok(Threshold::ALL) };
    let mut samples = Samples::new(selection.at(Threshold::ALL), 2).map_err(wrong)?;
    // The inverse of a hash's distance: the bits reversed, then the exclusive or with the match
    // value.
    let hash = distance.reverse_bits() ^ selection.distance(0).reverse_bits();
    for _ in 0..3 {
        samples.offer(Sample { hash, identity: 0, time: 0 });
    }
    Ok(samples.selection().threshold())
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_marking::HashFunction;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_threshold_comes_back(value in 0u64..=1 << 32, match_value: u32) {
            let selection = Selection::new(HashFunction::Bob, match_value, 0).unwrap();
            prop_assert_eq!(threshold(selection, value).unwrap().value(), value);
        }

        /// However packets spread over CPUs, the samples kept are exactly those below one threshold.
        #[test]
        fn parts_together_are_a_whole(
            hashes in prop::collection::vec((0u32..2000, 0usize..4), 0..300), most in 2u32..20,
        ) {
            let start = Selection::new(HashFunction::Bob, 5, 0).unwrap();
            let room = usize::try_from(most).unwrap();
            let hash = |n: u32| n.wrapping_mul(0x9e37_79b9);
            let mut cpus: Vec<Samples> =
                (0..4).map(|_| Samples::new(start, room).unwrap()).collect();
            let mut all = Vec::new();
            for (time, (n, cpu)) in (0..).zip(&hashes) {
                let sample = Sample { hash: hash(*n), identity: *n, time };
                cpus[*cpu].offer(sample);
                all.push(sample);
            }
            let parts = cpus.iter().map(|cpu| Part {
                threshold: cpu.selection().threshold().value(),
                crowded: cpu.crowded(),
                unkept: 0,
                samples: cpu.kept().to_vec(),
            });
            let whole = together(start, parts.collect(), Some(most)).unwrap();
            all.retain(|sample| whole.selection.selects(sample.hash));
            prop_assert_eq!(&whole.samples, &all);
            prop_assert!(all.len() <= room);
            if hashes.len() > room && !whole.crowded {
                prop_assert!(all.len() >= room.div_ceil(2));
            }
        }
    }
}
