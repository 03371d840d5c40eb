//! Test modules: a crate's `tests/all.rs` must list every file beside it, or its tests never run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Complaints about files that are not listed.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut wrong = vec![];
    for krate in crates(root)? {
        wrong.extend(unlisted(root, &krate.join("tests"))?);
    }
    Ok(wrong)
}

/// The folders of crates: those in a layer's folder, and `xtask`.
pub(super) fn crates(root: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut found = vec![root.join("xtask")];
    for layer in folders(root)? {
        found.extend(folders(&layer)?);
    }
    Ok(found)
}

fn folders(dir: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_dir() && !name.starts_with('.') && name != "target"
    });
    found.sort();
    Ok(found)
}

fn unlisted(root: &Path, tests: &Path) -> Result<Vec<String>> {
    let Ok(list) = fs::read_to_string(tests.join("all.rs")) else { return Ok(vec![]) };
    let listed: Vec<&str> = list
        .lines()
        .filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let mut wrong = vec![];
    for entry in fs::read_dir(tests).with_context(|| format!("list {}", tests.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_module = path.extension().is_some_and(|ending| ending == "rs") && name != "all";
        if is_module && !listed.contains(&name.as_str()) {
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            wrong.push(format!("{shown}: not listed in all.rs beside it: its tests never run"));
        }
    }
    wrong.sort();
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_listed_is_told() {
        let root = tempfile::tempdir().unwrap();
        let tests = root.path().join("core/a/tests");
        fs::create_dir_all(&tests).unwrap();
        fs::write(tests.join("all.rs"), "mod listed;\n").unwrap();
        fs::write(tests.join("listed.rs"), "").unwrap();
        assert!(check(root.path()).unwrap().is_empty());
        fs::write(tests.join("left_out.rs"), "").unwrap();
        let wrong = check(root.path()).unwrap();
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].starts_with("core/a/tests/left_out.rs: "), "{wrong:?}");
    }
}
