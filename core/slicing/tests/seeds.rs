//! Replays the fuzzer's seeds, and those of the codec and the switch, which are messages, too.

use std::path::Path;

use proptest::prelude::*;

use super::outside::try_slicer;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = std::fs::read_dir(&folder).expect("seeds");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("seed").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("read seed")).collect()
}

#[test]
fn every_seed() {
    let all = seeds("slicer");
    assert!(!all.is_empty());
    all.iter().for_each(|bytes| try_slicer(bytes));
}

#[test]
fn every_message_of_other_seeds() {
    for target in ["openflow", "pipeline"] {
        for bytes in seeds(target) {
            for first in 0..4 {
                let bytes: Vec<u8> = [first].into_iter().chain(bytes.iter().copied()).collect();
                try_slicer(&bytes);
            }
        }
    }
}

proptest! {
    /// Messages that are nearly right reach further than any bytes.
    #[test]
    fn changed_seeds(
        which in any::<prop::sample::Index>(),
        first in 0u8..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        frame in crate::integration::cases::frame(),
    ) {
        let all: Vec<_> = ["slicer", "openflow", "pipeline"].into_iter().flat_map(seeds).collect();
        let mut bytes = which.get(&all).clone();
        for (at, to) in changes {
            let at = at.index(bytes.len());
            // Lengths stay, so that what follows is read.
            if at % 16 != 3 {
                bytes[at] = to;
            }
        }
        let bytes: Vec<u8> = [first].into_iter().chain(bytes).chain(frame).collect();
        try_slicer(&bytes);
    }
}
