//! Files that tests of one user share, because each test has a process of its own and making them takes long.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// A file made from this content by the first test that asks for it: `make` writes it at the path that it is given.
///
/// It lies in the folder that `cargo xtask test` names for the user of the test and removes at its end, otherwise beside
/// the test's executable. Tests that ask at once each make it; one of the equal files stays.
///
/// # Panics
/// The file cannot be put in place.
pub fn made_once(name: &str, content: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let mut hash = DefaultHasher::new();
    content.hash(&mut hash);
    let folder = folder();
    let file = folder.join(format!("{name}-{:016x}", hash.finish()));
    if !file.exists() {
        let own = tempfile::tempdir_in(&folder).expect("a folder to make it in");
        let made = own.path().join(name);
        make(&made);
        // Other tests see the whole file or none: rename(2) puts it there at once.
        std::fs::rename(&made, &file).expect("put what was made in place");
    }
    file
}

/// The folder that tests of one user share.
pub(crate) fn folder() -> PathBuf {
    let beside = || {
        let executable = std::env::current_exe().expect("the test's executable");
        executable.with_file_name("made")
    };
    let folder = std::env::var_os("NETLOOM_TEST_MADE").map_or_else(beside, PathBuf::from);
    std::fs::create_dir_all(&folder).expect("the folder of what tests make");
    folder
}

#[cfg(test)]
mod tests {
    use super::made_once;

    #[test]
    fn a_file_is_made_once_for_each_content() {
        let text = format!("{:?} {}", std::time::Instant::now(), std::process::id());
        let make = |path: &std::path::Path| std::fs::write(path, &text).unwrap();
        let first = made_once("text", &text, make);
        let second = made_once("text", &text, |_| panic!("made twice"));
        let other = made_once("text", &format!("{text} other"), make);
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert_eq!(std::fs::read_to_string(&first).unwrap(), text);
        for file in [first, other] {
            std::fs::remove_file(file).unwrap();
        }
    }
}
