//! Checks tests that documents cite as proof: `FILE::TEST` in backticks in docs/guide/walls.md must exist.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const DOCUMENT: &str = "docs/guide/walls.md";

/// Complaints about tests that do not exist.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let text =
        fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("read {DOCUMENT}"))?;
    let lines = text.lines().enumerate();
    let named = lines.flat_map(|(at, line)| tests_in(line).map(move |name| (at + 1, name)));
    let missing = named.filter(|(_, (file, test))| !is_there(root, file, test));
    Ok(missing
        .map(|(at, (file, test))| format!("{DOCUMENT}:{at}: {file} has no test {test}"))
        .collect())
}

/// Files and tests that a line names.
fn tests_in(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter_map(|words| words.split_once("::")).filter(|(file, _)| file.ends_with(".rs"))
}

/// Whether a file has a test function of this name.
fn is_there(root: &Path, file: &str, test: &str) -> bool {
    let text = fs::read_to_string(root.join(file)).unwrap_or_default();
    let wanted = format!("fn {test}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut pairs = lines.windows(2);
    pairs.any(|pair| pair[0] == "#[test]" && pair[1].starts_with(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_not_there_is_told() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/guide")).unwrap();
        fs::write(root.path().join("a.rs"), "#[test]\nfn holds() {\n}\nfn helps() {}\n").unwrap();
        let document = root.path().join(DOCUMENT);
        fs::write(&document, "x `a.rs::holds` and `FILE::TEST`\n`a.rs::helps` `b.rs::holds`\n")
            .unwrap();
        let wrong = check(root.path()).unwrap();
        assert_eq!(
            wrong,
            [
                "docs/guide/walls.md:2: a.rs has no test helps",
                "docs/guide/walls.md:2: b.rs has no test holds"
            ]
        );
    }
}
