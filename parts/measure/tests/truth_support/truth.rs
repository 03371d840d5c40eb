//! The true values of each block: from the sender's log, the marks that the relay saw, and its ledger.

use std::collections::BTreeMap;

use super::points::{MARKS, TWICE};
use super::relay::Entry;
use super::send::Sent;

/// Packets and bytes of a block at the points, from the sender to the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Before the relay.
    pub(crate) came: [u64; 2],
    /// Behind it.
    pub(crate) left: [u64; 2],
    /// Packets that were dropped, and copies that were made.
    pub(crate) dropped: u64,
    pub(crate) doubled: u64,
    /// Packets that left when the next block lasted.
    pub(crate) crossed: u64,
}

/// The block of each datagram: that which lasted when it was sent, and whose mark it has. By a coarse clock
/// (not `exact`) it may be the one before.
pub(crate) fn blocks_of(
    log: &[Sent],
    ledger: &[Entry],
    [start, period]: [u64; 2],
    exact: bool,
) -> BTreeMap<u64, u64> {
    let mut classes: BTreeMap<u64, u8> = BTreeMap::new();
    ledger.iter().for_each(|entry| _ = classes.insert(entry.sequence, entry.class));
    log.iter()
        .map(|sent| {
            let [before, after] = [sent.before, sent.after].map(|time| (time - start) / period);
            let class = classes[&sent.sequence];
            assert_eq!(class & 3, 0, "ECN");
            let mark = class >> 2 & !TWICE;
            let odd = MARKS.iter().position(|known| *known == mark).expect("a mark") == 1;
            let near = (before - u64::from(!exact)..=after).rev();
            let mut fitting = near.filter(|block| (block % 2 == 1) == odd);
            (sent.sequence, fitting.next().expect("a block of this mark"))
        })
        .collect()
}

/// What passed, by block.
pub(crate) fn passed(
    log: &[Sent],
    ledger: &[Entry],
    [start, period]: [u64; 2],
    exact: bool,
) -> BTreeMap<u64, Passed> {
    let blocks = blocks_of(log, ledger, [start, period], exact);
    let mut all: BTreeMap<u64, Passed> = BTreeMap::new();
    for entry in ledger {
        let block = blocks[&entry.sequence];
        let passed = all.entry(block).or_default();
        let copies = u64::try_from(entry.sent.len()).unwrap();
        passed.came[0] += 1;
        passed.came[1] += entry.bytes;
        passed.left[0] += copies;
        passed.left[1] += copies * entry.bytes;
        passed.dropped += u64::from(copies == 0);
        passed.doubled += copies.saturating_sub(1);
        let late = entry.sent.iter().filter(|sent| (sent[0] - start) / period > block).count();
        passed.crossed += u64::try_from(late).unwrap();
    }
    all
}
