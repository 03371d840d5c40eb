//! Words of a command line, split and quoted as a POSIX shell does it, without any expansion.

/// Splits a line into words. `None` when a quote is not closed.
///
/// `'`, `"`, `\` as in a shell, `#` at the start of a word begins a comment; nothing else is special.
pub(crate) fn split(line: &str) -> Option<Vec<String>> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => word.get_or_insert_default().push_str(&single(&mut chars)?),
            '"' => word.get_or_insert_default().push_str(&double(&mut chars)?),
            '\\' => word.get_or_insert_default().push(chars.next()?),
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

fn single(chars: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()? {
            '\'' => return Some(text),
            c => text.push(c),
        }
    }
}

fn double(chars: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => match chars.next()? {
                c @ ('"' | '\\' | '$' | '`') => text.push(c),
                // Before others a backslash in double quotes
                // stays (POSIX, Shell Command Language, 2.2.3).
                c => text.extend(['\\', c]),
            },
            c => text.push(c),
        }
    }
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
