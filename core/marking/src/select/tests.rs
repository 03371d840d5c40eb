//! Fixed lengths compared with counted bits, dynamic ones with the offered packets.

use proptest::prelude::*;

use super::*;

fn selection(match_value: u32, length: u8) -> Selection {
    Selection::new(HashFunction::Bob, match_value, length).unwrap()
}

fn sample(hash: u32, index: usize) -> Sample {
    Sample { hash, identity: 0, time: u64::try_from(index).unwrap() }
}

fn low_bits(value: u32, length: u8) -> u32 {
    u32::try_from(u64::from(value) & ((1 << length) - 1)).unwrap()
}

proptest! {
    #[test]
    fn low_bits_decide(hash: u32, match_value: u32, length in 0u8..=32, near: bool) {
        // Half of the cases differ only in high bits.
        let hash = if near { match_value ^ (hash & 0xffff_0000) } else { hash };
        let expected = low_bits(hash, length) == low_bits(match_value, length);
        prop_assert_eq!(selection(match_value, length).selects(hash), expected);
    }

    #[test]
    fn thresholds_nest(hash: u32, match_value: u32, a in 1u64..=1 << 32, b in 1u64..=1 << 32) {
        let (low, high) = (Threshold(a.min(b)), Threshold(a.max(b)));
        let at = |threshold| selection(match_value, 0).at(threshold).selects(hash);
        prop_assert!(!at(low) || at(high));
        // The reported length is certain: all selected packets agree in that many bits.
        let length = low.hash_length();
        prop_assert!(!at(low) || low_bits(hash, length) == low_bits(match_value, length));
        prop_assert!(Threshold::of_length(length).unwrap() >= low);
    }

    /// Exactly what the last threshold selects of all offered packets, and between half the room and
    /// all of it.
    #[test]
    fn dynamic_selection_is_exact(
        hashes in prop::collection::vec(any::<u32>(), 0..600), match_value: u32, most in 2usize..70,
        start in 0u8..4,
    ) {
        let mut samples = Samples::new(selection(match_value, start), most).unwrap();
        let mut full = false;
        for (index, hash) in hashes.iter().enumerate() {
            let kept = samples.offer(sample(*hash, index));
            prop_assert_eq!(kept, samples.kept().iter().any(|s| s.time == index as u64));
            let count = samples.kept().len();
            full |= count == most;
            prop_assert!(count <= most);
            let distinct = !samples.crowded();
            prop_assert!(!full || !distinct || count >= most.div_ceil(2));
        }
        let last = samples.selection();
        let naive: Vec<Sample> = hashes
            .iter()
            .enumerate()
            .filter(|(_, hash)| last.selects(**hash))
            .map(|(index, hash)| sample(*hash, index))
            .collect();
        prop_assert_eq!(samples.kept(), naive);
    }

    /// The same with few hashes, so that many packets share one.
    #[test]
    fn crowds_are_left_out_together(
        hashes in prop::collection::vec(0u32..3, 0..200), most in 2usize..20, match_value in 0u32..4,
    ) {
        let mut samples = Samples::new(selection(match_value, 0), most).unwrap();
        for (index, hash) in hashes.iter().enumerate() {
            samples.offer(sample(*hash, index));
            prop_assert!(samples.kept().len() <= most);
        }
        let last = samples.selection();
        let kept = hashes.iter().filter(|hash| last.selects(**hash)).count();
        prop_assert_eq!(samples.kept().len(), kept);
    }
}

#[test]
fn random_hashes_are_never_crowded() {
    let mut samples = Samples::new(selection(383_146_267, 0), 8).unwrap();
    for index in 0..100_000u32 {
        samples.offer(sample(crate::bob(&index.to_be_bytes(), 0), index as usize));
        assert!(index < 8 || (4..=8).contains(&samples.kept().len()));
    }
    assert!(!samples.crowded());
    // 100,000 packets for 8 places: about 14 bits.
    assert!((13..16).contains(&samples.selection().threshold().hash_length()));
}

#[test]
fn lengths_and_thresholds_are_the_same() {
    assert_eq!(Threshold::of_length(0), Some(Threshold::ALL));
    assert_eq!(Threshold::of_length(33), None);
    for length in 0..=32 {
        let threshold = Threshold::of_length(length).unwrap();
        assert_eq!(threshold.hash_length(), length);
        assert!((threshold.rate() - 2f64.powi(-i32::from(length))).abs() < 1e-12);
    }
}

#[test]
fn lengths_that_a_function_does_not_have_are_refused() {
    assert!(Selection::new(HashFunction::Ipsx, 0, 16).is_ok());
    assert!(Selection::new(HashFunction::Ipsx, 0, 17).is_err());
    assert!(Selection::new(HashFunction::Bob, 0, 33).is_err());
    assert!(Samples::new(selection(0, 0), 1).is_err());
}

#[test]
fn the_sources_example_compares_two_bits_of_249() {
    let selection = selection(249, 2);
    assert!(selection.selects(1) && selection.selects(249) && !selection.selects(0));
}
