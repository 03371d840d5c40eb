//! Texts as YAML writes them: plain where nobody can take them for anything else, quoted elsewhere.

use std::fmt::Write as _;

use crate::printable;

/// A list of texts on one line.
pub fn list<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| scalar(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

/// A text, quoted unless nobody can take it for anything else.
pub fn scalar(text: &str) -> String {
    // Anything that begins otherwise might be a number, a sign or a mark.
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    // Words of YAML 1.1, which other readers of the text may take for booleans.
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .contains(&text.to_ascii_lowercase().as_str());
    if starts && text.chars().all(plain) && !word { text.to_owned() } else { quoted(text) }
}

/// A text in double quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 || (0x7f..0xa0).contains(&(c as u32)) => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            // What has no shape, or turns the direction of writing, is seen for what it is.
            c if printable::is_unseen(c) => {
                let _ = match c as u32 {
                    c @ ..=0xffff => write!(out, "\\u{c:04x}"),
                    c => write!(out, "\\U{c:08x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_that_mean_something_are_quoted() {
        for (text, shown) in [
            ("eth0", "eth0"),
            ("no", "\"no\""),
            ("True", "\"True\""),
            ("1.5", "\"1.5\""),
            ("", "\"\""),
            ("-n", "\"-n\""),
            ("a: b", "\"a: b\""),
            ("/srv/a.txt", "/srv/a.txt"),
        ] {
            assert_eq!(scalar(text), shown);
        }
    }

    #[test]
    fn no_text_of_others_turns_the_direction_of_writing() {
        assert_eq!(quoted("a\u{202e}b\u{200b}\u{e0041}"), r#""a\u202eb\u200b\U000e0041""#);
    }

    proptest! {
        #[test]
        fn texts_come_back(text in "\\PC*|[\u{0}-\u{b0}\u{200b}-\u{202e}\u{feff}\u{e0000}-\u{e007f}]{0,8}") {
            for shown in [scalar(&text), quoted(&text)] {
                let mut report = crate::Report::new("f");
                let file = format!("k: [{shown}]\n");
                let node = crate::load(file.as_bytes(), &mut report);
                if !text.contains('\0') {
                    let node = node.expect("valid YAML");
                    let item = &node.get("k").unwrap().items().unwrap()[0];
                    prop_assert_eq!(crate::read::scalar(item), Some(text.as_str()));
                }
            }
        }
    }
}
