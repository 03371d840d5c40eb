//! Parses the output of a test executable, test by test.
//!
//! libtest and libtest-mimic print `test NAME ... ok|FAILED|ignored[, reason]`, with ` - should panic` after
//! some names. Listed names without a result belong to a process that died.

use std::collections::BTreeMap;

/// A result line's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    Ignored(String),
}

/// Names from `--list --format terse`.
pub(super) fn listed(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Verdicts by name. Other output may precede a result in its line; only the exact forms count
/// (`test a ... noise ok` is not a pass).
pub(super) fn verdicts(text: &str) -> BTreeMap<String, Verdict> {
    text.lines().filter_map(verdict).collect()
}

fn verdict(line: &str) -> Option<(String, Verdict)> {
    let rest = line.strip_prefix("test ")?;
    let (name, result) = rest.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let verdict = match result.split_once(", ").unwrap_or((result, "")) {
        ("ok", "") => Verdict::Passed,
        ("FAILED", "") => Verdict::Failed,
        ("ignored", reason) => Verdict::Ignored(reason.to_owned()),
        _ => return None,
    };
    Some((name.trim().to_owned(), verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_result_is_read() {
        let text = "\nrunning 4 tests\ntest a::b ... ok\ntest c - should panic ... ok\n\
                    test d ... FAILED\ntest e ... ignored, needs a card\n\
                    test src/lib.rs - f (line 3) ... ok\ntest g ... \nnoise\n\
                    test result: FAILED. 3 passed; 1 failed; 1 ignored\n";
        let read = verdicts(text);
        assert_eq!(read["a::b"], Verdict::Passed);
        assert_eq!(read["c"], Verdict::Passed);
        assert_eq!(read["d"], Verdict::Failed);
        assert_eq!(read["e"], Verdict::Ignored("needs a card".into()));
        assert_eq!(read["src/lib.rs - f (line 3)"], Verdict::Passed);
        assert_eq!(read.len(), 5);
    }

    #[test]
    fn a_list_gives_tests_and_no_benches() {
        assert_eq!(listed("a: test\nb::c: test\nd: bench\n\n2 tests\n"), ["a", "b::c"]);
    }
}
