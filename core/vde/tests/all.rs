//! The seeds of the fuzz target `vde`: what was found stays found.

mod script;

use std::path::Path;

#[test]
fn every_seed_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/vde");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("seeds") {
        script::run(&std::fs::read(entry.expect("an entry").path()).expect("a seed"));
        count += 1;
    }
    assert!(count >= 9, "only {count} seeds");
}
