//! The seeds of the fuzz targets `session` and `packet`: what was found stays found.

use super::outside;

use std::fs;
use std::path::Path;

/// Tries all seeds of a target; how many were taken, of how many.
fn all(target: &str, take: fn(&[u8]) -> bool) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let (mut taken, mut seen) = (0, 0);
    for entry in fs::read_dir(&folder).expect("seeds") {
        let path = entry.expect("an entry").path();
        let refused = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("refused"));
        let was = take(&fs::read(&path).expect("read it"));
        assert_eq!(was, !refused, "{}", path.display());
        taken += usize::from(was);
        seen += 1;
    }
    (taken, seen)
}

#[test]
fn bodies_are_taken_or_refused() {
    let (taken, seen) = all("session", outside::try_session);
    assert!(taken >= 4 && seen >= taken + 4, "{taken} of {seen}");
}

#[test]
fn packets_are_read_or_refused() {
    let (taken, seen) = all("packet", outside::try_packet);
    assert!(taken >= 5 && seen >= taken + 3, "{taken} of {seen}");
}
