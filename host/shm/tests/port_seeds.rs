//! The seeds of the fuzz target `join`, and scripts made at random.

use super::port_script;

use proptest::prelude::*;

#[test]
fn seeds_are_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/join");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).expect("seeds") {
        let path = entry.expect("an entry").path();
        port_script::run(&std::fs::read(&path).expect("a seed"));
        seeds += 1;
    }
    assert!(seeds >= 10, "{seeds}");
}

proptest! {
    #[test]
    fn any_script_is_read_or_refused(
        steps in prop::collection::vec(
            (0u8..9, 0u8..13, prop::collection::vec(any::<u8>(), 0..120)), 0..8,
        ),
    ) {
        let mut script = vec![];
        for (descriptors, kind, body) in steps {
            let length = u16::try_from(body.len() + 4).expect("small");
            script.push(descriptors);
            script.extend(length.to_le_bytes());
            script.extend([kind, 0, 0, 0]);
            script.extend(body);
        }
        port_script::run(&script);
    }
}
