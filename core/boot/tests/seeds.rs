//! The seeds of the fuzz target `boot`: names say what each is.

use super::outside::try_boot;

#[test]
fn seeds_are_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/boot");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("seeds") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let read = try_boot(&std::fs::read(&path).expect("read it"));
        assert_eq!(read, (name.starts_with("kernel"), name.starts_with("module")), "{name}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}
