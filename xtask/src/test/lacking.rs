//! Tests that were skipped because a peer was missing: kept in `target/lacking-peers.txt`, for a run where it is there.
//!
//! Each ordinary run brings the list up to date with the tests that it ran. `--only-peers` reads it and leaves it as
//! it is, so that such a run can be repeated.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::workspace;

/// Full names: `tests/e2e as root: capture::x`.
pub(super) type Names = BTreeSet<String>;

fn path() -> PathBuf {
    workspace::root().join("target/lacking-peers.txt")
}

/// The list.
pub(super) fn read() -> Result<Names> {
    let path = path();
    let text = fs::read_to_string(&path).with_context(|| {
        format!("read {path:?}: `cargo xtask test` writes it where peers are missing")
    })?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Replaces what the list says of the tests that ran.
pub(super) fn update(ran: &Names, lacking: &Names) -> Result<()> {
    let path = path();
    let old = fs::read_to_string(&path).unwrap_or_default();
    let new = merged(&old, ran, lacking);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, new).with_context(|| format!("write {path:?}"))
}

fn merged(old: &str, ran: &Names, lacking: &Names) -> String {
    let kept = old.lines().filter(|name| !ran.contains(*name));
    let all: BTreeSet<&str> = kept.chain(lacking.iter().map(String::as_str)).collect();
    all.into_iter().flat_map(|name| [name, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_ran_change() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Names>();
        let ran = names(&["x: a", "x: b", "x: c"]);
        assert_eq!(merged("x: a\ny: z\n", &ran, &names(&["x: b"])), "x: b\ny: z\n");
        assert_eq!(merged("", &ran, &names(&[])), "");
    }
}
