//! The seeds of the fuzz target `lsp`: what was found stays found.

use super::outside;

use std::fs;
use std::path::Path;

#[test]
fn every_client_is_answered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/lsp");
    let (mut answered, mut seen) = (0, 0);
    for entry in fs::read_dir(&folder).expect("seeds") {
        let path = entry.expect("an entry").path();
        let good = outside::try_client(&fs::read(&path).expect("read it"));
        assert!(good > 0 || path.ends_with("not-a-client"), "{}", path.display());
        answered += good;
        seen += 1;
    }
    assert!(seen >= 6 && answered >= 30, "{answered} answers to {seen}");
}
