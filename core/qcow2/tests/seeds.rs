//! The seeds of the fuzz target `disk`: names say what each is.

use netloom_qcow2::Format;

use super::outside::try_disk;

#[test]
fn seeds_are_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/disk");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("seeds") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let expected = match name.split('-').next() {
            Some("raw") => (Some(Format::Raw), false),
            Some("qcow2") => (Some(Format::Qcow2), false),
            Some("layer") => (None, true),
            _ => (None, false),
        };
        assert_eq!(try_disk(&std::fs::read(&path).expect("read it")), expected, "{name}");
        seen += 1;
    }
    assert!(seen >= 10, "{seen}");
}
