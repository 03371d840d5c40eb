//! Words that stop a reader, in documents, comments and messages.
//!
//! CONTRIBUTING.md says how sentences are written; this refuses the worst habits by their words. Names in code are not
//! looked at. A sentence that goes on in the next line is judged by what stands in each line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::source::blank;

/// What is refused, and what to write.
const WORST: &[(&[&str], &str)] = &[
    (&["anew"], "recreate, restart, rewrite; or `again`"),
    (&["whoever"], "name the agent: the caller, the owner, the receiver"),
    (&["runs", "already"], "is already running"),
    (&["run", "already"], "are already running"),
    (&["as", "far", "as", "it", "is"], "name the part that is there"),
    (&["by", "hand", "it", "was"], "has manual changes"),
];

/// Endings of files that people read or that have messages; of Rust only comments and literals are looked at.
const READ: &[&str] =
    &[".md", ".rs", ".c", ".h", ".sh", ".py", ".yaml", ".expected", "needs.txt", "allowed.txt"];
/// The words themselves stand here, and recorded inputs are as they were.
const LEFT_OUT: &[&str] = &["xtask/src/check/english.rs", "fuzz/seeds/", "tests/e2e/foreign/"];

/// Complaints about words, with what to write instead.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let (mut files, mut wrong) = (vec![], vec![]);
    collect(root, &mut files)?;
    files.sort();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        if LEFT_OUT.iter().any(|left| name.starts_with(left)) {
            continue;
        }
        let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        let text = String::from_utf8_lossy(&text);
        let prose = if name.ends_with(".rs") { prose(&text) } else { text.into_owned() };
        examine(&name, &prose, &mut wrong);
    }
    Ok(wrong)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "dist" {
                collect(&entry.path(), files)?;
            }
        } else if READ.iter().any(|end| name.ends_with(end)) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Comments and literals of Rust, at their places. Attributes of serde have names on the wire, which are not prose.
fn prose(text: &str) -> String {
    let code = blank(text);
    let shown = |(c, code): (char, char)| if c == '\n' || code == ' ' { c } else { ' ' };
    let shown: String = text.chars().zip(code.chars()).map(shown).collect();
    let lines = text.lines().zip(shown.lines());
    let kept = |(line, shown): (&str, &str)| {
        if line.trim_start().starts_with("#[serde(") {
            "\n".to_owned()
        } else {
            format!("{shown}\n")
        }
    };
    lines.map(kept).collect()
}

fn examine(name: &str, prose: &str, wrong: &mut Vec<String>) {
    for (at, line) in prose.lines().enumerate() {
        let line = line.to_lowercase();
        let words: Vec<&str> = line
            .split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':' | '\''))
            .map(|word| word.trim_matches([':', '\'']))
            .filter(|word| !word.is_empty())
            .collect();
        for (phrase, instead) in WORST {
            if words.windows(phrase.len()).any(|some| some == *phrase) {
                let phrase = phrase.join(" ");
                wrong.push(format!("{name}:{}: `{phrase}`: write {instead}", at + 1));
            }
        }
        if words.windows(4).any(is_no) {
            wrong.push(format!("{name}:{}: `is no …`: write `is not a …`, or `is gone`", at + 1));
        }
    }
}

/// `X is no Y`, but for `there is no Y`, `X is no longer Y` and the like.
fn is_no(some: &[&str]) -> bool {
    let [before, is, no, after] = some else { return false };
    matches!(*is, "is" | "are" | "was" | "were")
        && *no == "no"
        && *before != "there"
        && !matches!(*after, "longer" | "more" | "reason" | "such" | "one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_words_are_refused_in_prose_alone() {
        let root = tempfile::tempdir().unwrap();
        fs::write(
            root.path().join("a.md"),
            "It is made anew.\nThere is no node; it is no longer up.\n",
        )
        .unwrap();
        let code = "let anew = \"x is no port\"; // How::Anew\n#[serde(alias = \"anew\")]\n/// Whoever asks.\n";
        fs::write(root.path().join("b.rs"), code).unwrap();
        fs::write(root.path().join("c.json"), "anew").unwrap();
        let wrong = check(root.path()).unwrap();
        let places: Vec<&str> =
            wrong.iter().filter_map(|one| one.split(": write").next()).collect();
        assert_eq!(
            places,
            ["a.md:1: `anew`", "b.rs:1: `is no …`", "b.rs:3: `whoever`"],
            "{wrong:?}"
        );
    }
}
