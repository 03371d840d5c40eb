//! Every file in `tests/e2e/bad` against the text that `netloom check` prints for it, byte for byte.
//!
//! `UPDATE=1 cargo test -p netloom-model integration::bad` rewrites the expected texts.

use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/bad")
}

/// What `netloom check NAME.yaml` prints in that folder.
fn checked(path: &Path) -> String {
    let file = path.file_name().unwrap().to_str().unwrap();
    let stem = path.file_stem().unwrap().to_str().unwrap();
    match netloom_model::parse(file, &fs::read(path).unwrap(), stem) {
        Ok(lab) => match netloom_model::plan::plan(&lab) {
            Ok(_) => panic!("{file} has no error: {lab:?}"),
            Err(error) => format!("netloom: {file}: error: {error}\n"),
        },
        Err(errors) => format!("{errors}\n"),
    }
}

#[test]
fn bad_files_have_exactly_these_errors() {
    let mut files: Vec<_> = fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    assert!(files.len() >= 20, "only {} files", files.len());
    let update = std::env::var_os("UPDATE").is_some();
    for path in files {
        let found = checked(&path);
        let expected = path.with_extension("expected");
        if update {
            fs::write(&expected, &found).unwrap();
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(found, wanted, "{}", path.display());
    }
}

#[test]
fn no_expected_text_is_without_its_file() {
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "expected") {
            assert!(path.with_extension("yaml").exists(), "{}", path.display());
        }
    }
}
