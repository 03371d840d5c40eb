//! Replays the fuzzer's seeds: what it once found stays found.

use std::path::Path;

use super::outside::try_message;

#[test]
fn every_seed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/openflow");
    let mut accepted = 0;
    for entry in std::fs::read_dir(&folder).expect("seeds") {
        let path = entry.expect("seed").path();
        let bytes = std::fs::read(&path).expect("read seed");
        accepted += u32::from(try_message(&bytes).is_some());
    }
    assert!(accepted >= 40, "{accepted} seeds in {}", folder.display());
}

/// Writes the samples as seeds: `cargo test -p netloom-openflow write_seeds -- --ignored`.
#[test]
#[ignore = "helper: writes files"]
fn write_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/openflow");
    std::fs::create_dir_all(&folder).expect("folder");
    for sample in super::samples::samples() {
        let bytes = netloom_openflow::encode(sample.version, 1, &sample.message).expect("encode");
        std::fs::write(folder.join(format!("{}.bin", sample.name)), bytes).expect("write");
    }
}
