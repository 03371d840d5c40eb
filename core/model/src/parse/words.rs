//! A command line of a lab file as words, without what needs a shell.
//!
//! A line means one thing or is refused: pipes, variables, patterns of file names and words that only a shell knows are
//! named, so that nobody waits for a `|` that became an argument.

use crate::words::{self, Broken, Meaning, Place};

/// What only a shell does; none of these is a program.
const BUILT_IN: [&str; 19] = [
    "!", ".", "case", "cd", "eval", "exec", "export", "for", "if", "set", "source", "trap",
    "ulimit", "umask", "unset", "until", "wait", "while", "{",
];

/// Why a text is not the command line of one program: the end of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A shell could run it.
    NeedsShell(String),
    /// Nothing could.
    Malformed(&'static str),
}

use Refused::{Malformed, NeedsShell};

/// The words of a line, at least one.
///
/// # Errors
/// [`Refused`].
pub(super) fn split(line: &str) -> Result<Vec<String>, Refused> {
    // A block of YAML text ends with a line break.
    let words = words::split(line.trim_end(), meaning).map_err(|broken| match broken {
        Broken::Refused(why) => why,
        Broken::Backslash => Malformed("a backslash ends the line"),
        Broken::Quote('"') => Malformed("a quote \" is not closed"),
        Broken::Quote(_) => Malformed("a quote ' is not closed"),
    })?;
    let first = words.first().ok_or(Malformed("the command is empty"))?;
    if first.is_empty() {
        return Err(Malformed("the program's name is empty"));
    }
    if BUILT_IN.contains(&first.as_str()) {
        return Err(NeedsShell(format!("`{first}` is a word of shells, not a program")));
    }
    if let Some((name, _)) = first.split_once('=')
        && is_variable(name)
    {
        let why = format!("`{name}=` sets a variable, which only a shell does here");
        return Err(NeedsShell(why));
    }
    Ok(words)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What a character means in a line that no shell runs.
fn meaning(c: char, place: Place) -> Result<Meaning, Refused> {
    match (c, place) {
        // Even in double quotes a shell would replace them.
        ('$' | '`', _) => Err(shell(c)),
        (_, Place::Quoted) => Ok(Meaning::Letter),
        (' ' | '\t', _) => Ok(Meaning::Blank),
        // In the middle of a word both are plain letters to a shell, too.
        ('#' | '~', Place::Start) => Err(shell(c)),
        ('|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?', _) => Err(shell(c)),
        ('\n', _) => Err(NeedsShell("a second line is a second command".to_owned())),
        _ => Ok(Meaning::Letter),
    }
}

fn shell(c: char) -> Refused {
    NeedsShell(format!("`{c}` means something only to a shell, and no shell runs the command"))
}

#[cfg(test)]
mod tests {
    use super::{Refused, split};

    /// Each as `dash -c 'printf "[%s]" LINE'` (Debian 12, 0.5.12) prints it.
    #[test]
    fn a_line_has_the_words_that_a_shell_sees() {
        for (line, words) in [
            ("python3 -m http.server 80", "python3|-m|http.server|80"),
            ("  sleep\t\tinf  ", "sleep|inf"),
            (r#"sh -c 'while :; do date | nc a 1; done'"#, "sh|-c|while :; do date | nc a 1; done"),
            (r#"echo "a b"'c d'e\ f"#, "echo|a bc de f"),
            (r#"echo "\$x \"q\" \n \\""#, r#"echo|$x "q" \n \"#),
            (r"echo \$HOME \* a\'b", "echo|$HOME|*|a'b"),
            ("echo '' a#b a~ {x} [::1] x=1", "echo||a#b|a~|{x}|[::1]|x=1"),
            ("iperf3 -s\n", "iperf3|-s"),
        ] {
            assert_eq!(split(line).unwrap().join("|"), words, "{line}");
        }
    }

    #[test]
    fn what_a_shell_would_do_otherwise_is_refused() {
        for (line, why) in [
            ("", "the command is empty"),
            (" \n", "the command is empty"),
            ("\"\" a", "the program's name is empty"),
            ("tail -f x | grep y", "`|` means something only to a shell"),
            ("server &", "`&` means"),
            ("a; b", "`;` means"),
            ("cat <x", "`<` means"),
            ("date >x", "`>` means"),
            ("(a)", "`(` means"),
            ("echo $HOME", "`$` means"),
            ("echo \"$HOME\"", "`$` means"),
            ("echo \"`date`\"", "`\u{60}` means"),
            ("rm *.pcap", "`*` means"),
            ("cat ~/x", "`~` means"),
            ("sleep 1 # a while", "`#` means"),
            ("a\nb", "a second line"),
            ("echo 'a", "a quote ' is not closed"),
            ("echo \"a", "a quote \" is not closed"),
            ("echo \"a\\", "a quote \" is not closed"),
            ("echo a\\", "a backslash ends the line"),
            ("cd /tmp", "`cd` is a word of shells"),
            ("LANG=C sort", "`LANG=` sets a variable"),
        ] {
            let problem = match split(line).unwrap_err() {
                Refused::NeedsShell(problem) => problem,
                Refused::Malformed(problem) => problem.to_owned(),
            };
            assert!(problem.contains(why), "{line:?}: {problem}");
        }
    }
}
