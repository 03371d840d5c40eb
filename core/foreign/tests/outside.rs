//! What must hold for any bytes: shared by the tests and the fuzz target.

use netloom_foreign::{Memory, Options, import};

/// Main files by format, each with one more file of its lab.
const NAMES: [(&str, &str); 9] = [
    ("a.clab.yml", "x"),
    ("a.yml.gotmpl", "a_vars.yml"),
    ("lab.conf", "a.startup"),
    ("lab.conf", "lab.dep"),
    ("a.gns3", "x"),
    ("a.xml", "x"),
    ("a.imn", "x"),
    ("a.json", "x"),
    ("topology.yml", "c/frr.j2"),
];

/// An import ends, well or with an error that names the file; a lab that it makes is one, and every item has its place.
///
/// The first byte chooses the format; a byte 0xff ends the main file and begins the other one.
pub(super) fn try_bytes(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (main, other) = NAMES[usize::from(first.wrapping_sub(b'0')) % NAMES.len()];
    let mut parts = rest.splitn(2, |byte| *byte == 0xff);
    let files = Memory::of(main, parts.next().unwrap_or_default())
        .with(other, parts.next().unwrap_or_default());
    match import(&files, main, &Options::default()) {
        Ok(made) => {
            assert!(
                netloom_model::parse("lab", made.lab.as_bytes(), "lab").is_ok(),
                "{}",
                made.lab
            );
            for item in &made.items {
                assert!(!item.file.is_empty() && !item.item.is_empty(), "{item:?}");
            }
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(main) || text.contains(other), "{text}");
        }
    }
}
