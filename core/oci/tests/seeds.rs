//! The seeds of the fuzz target `image`.

use super::outside::try_bytes;

#[test]
fn seeds_are_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/image");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("seeds") {
        try_bytes(&std::fs::read(entry.expect("an entry").path()).expect("read it"));
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}
