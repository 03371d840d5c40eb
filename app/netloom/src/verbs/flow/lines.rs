//! Reads flow entries, groups and meters from arguments, files and the standard input, with their places.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use netloom_openflow::text::TextError;

use crate::Usage;

/// Longest text that is read, in bytes: some million lines.
const MOST: u64 = 1 << 30;

/// A text with its place for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// `flow 2`, `flows.txt:7`, `standard input:7`.
    pub(super) place: String,
    pub(super) text: String,
}

/// The texts of arguments, `-` being the lines of the standard input, and the lines of a file. `what` each is.
pub(super) fn read(words: &[String], file: Option<&Path>, what: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        if word == "-" {
            let name = "standard input";
            lines.extend(split(name, &whole(std::io::stdin().lock(), name)?));
        } else {
            lines.push(Line { place: format!("{what} {}", at + 1), text: word.clone() });
        }
    }
    if let Some(path) = file {
        let name = path.display().to_string();
        let opened = std::fs::File::open(path).with_context(|| format!("{name}: open"))?;
        lines.extend(split(&name, &whole(opened, &name)?));
    }
    Ok(lines)
}

fn whole(from: impl Read, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells a text that is too long.
    from.take(MOST + 1).read_to_end(&mut bytes).with_context(|| format!("{name}: read"))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST) {
        return Err(Usage(format!("{name}: longer than {MOST} bytes")).into());
    }
    String::from_utf8(bytes).map_err(|_| Usage(format!("{name}: not UTF-8")).into())
}

/// A line without its comment: `#` begins one where a word could, since names of links hold it, too.
fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| line[..*at].ends_with(char::is_whitespace) || *at == 0;
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}

/// Lines with something in them, without comments.
fn split(name: &str, text: &str) -> Vec<Line> {
    let lines = text.lines().enumerate().map(|(at, line)| {
        let text = without_comment(line).trim();
        Line { place: format!("{name}:{}", at + 1), text: text.to_owned() }
    });
    lines.filter(|line| !line.text.is_empty()).collect()
}

/// Place and text of a change.
pub(super) fn of(lines: &[Line], at: usize) -> (String, String) {
    lines.get(at).map_or_else(Default::default, |line| (line.place.clone(), line.text.clone()))
}

/// Why a text cannot be read, without the object, which its place tells.
pub(super) fn told(error: &TextError) -> String {
    let text = error.to_string();
    text.strip_prefix("flow text: ").unwrap_or(&text).to_owned()
}

/// Whether a match names its table.
pub(super) fn names_table(text: &str) -> bool {
    text.split([',', ' ', '\t']).any(|part| part.trim_start().starts_with("table="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers() {
        let text = "# all\n\nip,actions=drop # none\n  arp,actions=flood\n";
        let line = |place: &str, text: &str| Line { place: place.into(), text: text.into() };
        let expected = [line("f:3", "ip,actions=drop"), line("f:4", "arp,actions=flood")];
        assert_eq!(split("f", text), expected);
        let words = ["a".to_owned(), "b".to_owned()];
        let expected = [line("flow 1", "a"), line("flow 2", "b")];
        assert_eq!(read(&words, None, "flow").unwrap(), expected);
    }

    #[test]
    fn a_name_with_a_number_sign_is_whole() {
        for (line, kept) in [
            ("ip,actions=output:s--t#2", "ip,actions=output:s--t#2"),
            ("ip,actions=output:s--t#2 # to t", "ip,actions=output:s--t#2"),
            ("ip,actions=output:s--t#2\t#to t#3", "ip,actions=output:s--t#2"),
        ] {
            assert_eq!(split("f", line)[0].text, kept);
        }
        assert_eq!(split("f", "#ip,actions=drop\n\t#arp\n"), []);
    }

    #[test]
    fn a_table_is_named_by_its_word_alone() {
        assert!(names_table("ip, table=3") && names_table("table=0"));
        assert!(!names_table("ip") && !names_table("metadata=1"));
    }
}
