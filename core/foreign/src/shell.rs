//! Command lines of others' labs: their words, and commands that may fail.

use std::convert::Infallible;

use netloom_model::words::{self, Meaning, Place};

/// Splits a line into words, without any expansion. `None` when a quote is not closed.
///
/// `'`, `"`, `\` as in a shell, `#` at the start of a word begins a comment; nothing else is special.
pub(crate) fn split(line: &str) -> Option<Vec<String>> {
    let meaning = |c: char, place| -> Result<Meaning, Infallible> {
        Ok(match place {
            Place::Start if c == '#' => Meaning::Comment,
            Place::Start | Place::Inside if c.is_whitespace() => Meaning::Blank,
            _ => Meaning::Letter,
        })
    };
    words::split(line, meaning).ok()
}

/// A command that runs another and ends well whatever becomes of that one, which it then says.
pub(crate) fn forgiving(command: Vec<String>) -> Vec<String> {
    let script = "\"$@\" || echo \"exit code $?: $*\" >&2";
    let mut words: Vec<String> = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    words.extend(command);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_a_shell_has_them() {
        let split = |line| split(line).unwrap();
        assert_eq!(split("ip  addr add 10.0.0.1/24"), ["ip", "addr", "add", "10.0.0.1/24"]);
        assert_eq!(split(r#"sh -c "echo \"$a\" 'b'""#), ["sh", "-c", "echo \"$a\" 'b'"]);
        assert_eq!(split(r"a\ b 'c d'e '' # end"), ["a b", "c de", ""]);
        assert_eq!(split("a || true"), ["a", "||", "true"]);
        assert!(split("  ").is_empty());
    }

    #[test]
    fn an_open_quote_is_no_command() {
        for line in ["a 'b", "a \"b", "a \\"] {
            assert_eq!(super::split(line), None, "{line}");
        }
    }
}
