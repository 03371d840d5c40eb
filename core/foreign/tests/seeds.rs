//! The seeds of the fuzz target, and random bytes around them.

use std::path::Path;

use proptest::prelude::*;

use super::outside::try_bytes;

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/foreign");
    let entries = std::fs::read_dir(folder).expect("seeds");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn seeds_of_the_fuzz_target_hold() {
    let seeds = seeds();
    assert!(seeds.len() >= 13);
    seeds.iter().for_each(|seed| try_bytes(seed));
}

#[test]
fn no_cut_of_a_seed_panics() {
    for seed in seeds() {
        for length in 0..seed.len() {
            try_bytes(&seed[..length]);
        }
    }
}

proptest! {
    #[test]
    fn no_change_of_a_seed_panics(n in 0usize..64, at in 0usize..4096, with in "[ -~\n]{0,6}", drop in 0usize..6) {
        let seeds = seeds();
        let mut seed = seeds[n % seeds.len()].clone();
        let at = 1 + at % (seed.len() - 1);
        let end = (at + drop).min(seed.len());
        seed.splice(at..end, with.bytes());
        try_bytes(&seed);
    }
}
