//! Scripts of the fuzz target `vhost` that are worth repeating.

use super::script;

#[test]
fn seeds_of_the_fuzz_target_end_well() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/vhost");
    let mut played = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        script::run(&std::fs::read(entry.unwrap().path()).unwrap());
        played += 1;
    }
    assert!(played >= 5);
}
