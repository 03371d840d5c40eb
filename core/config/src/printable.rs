//! Text of others as it may be shown: control characters, characters without a shape, and those that change the
//! direction of writing are escaped (`\n`, `\u{202e}`), so that no name ends a line, moves a cursor or reads as another.
//! The bidirectional ones are those of Unicode's UAX #9, section 2.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text on one line.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Text whose line breaks and tabs stay, for the output of programs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| matches!(letter, '\n' | '\t'))
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_odd = |letter: char| !stays(letter) && (letter.is_control() || is_unseen(letter));
    if !text.contains(is_odd) {
        // The usual text is not copied.
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            letter if !is_odd(letter) => shown.push(letter),
            letter if letter.is_control() => shown.extend(letter.escape_debug()),
            letter => _ = write!(shown, "\\u{{{:x}}}", u32::from(letter)),
        }
    }
    Cow::Owned(shown)
}

/// Characters that have no shape of their own, or change how others stand.
pub fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_a_cursor_or_turns_the_direction() {
        assert_eq!(line("a\u{1b}[2J\r\n\u{202e}b\u{7f}"), "a\\u{1b}[2J\\r\\n\\u{202e}b\\u{7f}");
        for letter in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            let text = format!("x{letter}y");
            assert_eq!(line(&text), format!("x\\u{{{:x}}}y", u32::from(letter)));
        }
        assert_eq!(line("plain: é \"q\" \\n 日本"), "plain: é \"q\" \\n 日本");
    }

    #[test]
    fn lines_of_programs_stay_lines() {
        assert_eq!(lines("a\tb\nc\u{1b}[0m\r\n"), "a\tb\nc\\u{1b}[0m\\r\n");
    }
}
