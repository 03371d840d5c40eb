//! Isolation, against the reference switch: packets stay in their slices, and slices do not change each other.

use netloom_openflow::Version;
use proptest::prelude::*;

use crate::integration::cases::{self, Case};
use crate::integration::judge;
use crate::integration::lab::{A, B};

fn check(case: &Case) -> Result<(), TestCaseError> {
    judge::strays(case).map_err(TestCaseError::fail)?;
    for slice in [A, B] {
        judge::influence(case, slice).map_err(TestCaseError::fail)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn slices_of_1_0_are_apart(case in cases::case(Version::V10)) {
        check(&case)?;
    }

    #[test]
    fn slices_of_1_3_are_apart(case in cases::case(Version::V13)) {
        check(&case)?;
    }
}

/// The cases are about something: packets do move.
#[test]
fn packets_of_cases_move() {
    use proptest::strategy::ValueTree as _;
    for version in [Version::V10, Version::V13] {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let (mut moved, mut told) = (0, 0);
        for _ in 0..100 {
            let case = cases::case(version).new_tree(&mut runner).unwrap().current();
            moved += judge::strays(&case).unwrap();
            told += judge::influence(&case, A).unwrap();
        }
        println!("{version}: {moved} {told}");
        assert!(moved > 100 && told > 50, "{version}: {moved} {told}");
    }
}
