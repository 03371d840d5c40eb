//! Replays the fuzzer's seeds, and those of the codec and the switch, which are messages, too.

use std::path::Path;

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
