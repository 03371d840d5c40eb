//! The seeds of the fuzz target `control`, and scripts made at random.

use proptest::prelude::*;

use super::outside;

#[test]
fn seeds_are_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/control");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).expect("seeds") {
        let path = entry.expect("an entry").path();
        outside::run(&std::fs::read(&path).expect("a seed"));
        seeds += 1;
    }
    assert!(seeds >= 8, "{seeds}");
}

/// Parts of messages, beside any bytes.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let parts = [
        "{\"short\":",
        "{\"long\":",
        "\"show\"",
        "{\"text\":\"a\"}",
        "{\"fields\":{\"number\":7}}",
        "}",
        "12",
        "null",
        "[",
        "\\u0000",
    ];
    let part = prop_oneof![
        3 => prop::sample::select(parts.to_vec()).prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_script_is_read_or_refused(
        steps in prop::collection::vec((0u8..17, message()), 0..6),
    ) {
        let mut script = vec![];
        for (descriptors, message) in steps {
            script.push(descriptors);
            script.extend(u16::try_from(message.len()).expect("small").to_le_bytes());
            script.extend(message);
        }
        outside::run(&script);
    }
}
