//! From bytes to text: checks size, UTF-8 and forbidden characters.

use crate::{Diagnostics, Place, Report};

/// The largest file accepted: 8 MiB. The caller checks a file's length before reading it.
pub const MAX_BYTES: u64 = 8 << 20;

/// The error for a file of `length` bytes, when that is more than [`MAX_BYTES`].
pub fn too_large(file: &str, length: u64) -> Option<Diagnostics> {
    let mut report = Report::new(file);
    check_size(length, &mut report).is_none().then(|| report.finish())
}

fn check_size(length: u64, report: &mut Report) -> Option<()> {
    if length <= MAX_BYTES {
        return Some(());
    }
    let message = format!("the file has {length} bytes; at most {MAX_BYTES} (8 MiB) are read");
    report.error_with(
        Place::START,
        message,
        Some("use `for` to say many things in a few lines".into()),
    );
    None
}

/// The text of a file, or `None` with the reason in the report.
pub(crate) fn decode<'a>(bytes: &'a [u8], report: &mut Report) -> Option<&'a str> {
    check_size(bytes.len() as u64, report)?;
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let (before, rest) = bytes.split_at(error.valid_up_to());
            let place = place_after(&String::from_utf8_lossy(before));
            let byte = rest.first().copied().unwrap_or_default();
            report.error_with(
                place,
                format!("invalid UTF-8: byte 0x{byte:02x}"),
                Some("save the file as UTF-8".into()),
            );
            return None;
        }
    };
    match text.char_indices().find(|&(_, c)| is_forbidden(c)) {
        Some((at, c)) => {
            let message = format!("control character U+{:04X} in the text", u32::from(c));
            let help = "write it as an escape in double quotes, like \"\\x01\"".into();
            report.error_with(place_after(&text[..at]), message, Some(help));
            None
        }
        None => Some(text),
    }
}

/// Characters outside YAML's printable set (YAML 1.2.2, 5.1).
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\x7f' | '\u{80}'..='\u{84}' | '\u{86}'..='\u{9f}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The place of the character that follows `text`.
pub(crate) fn place_after(text: &str) -> Place {
    let (mut line, mut column) = (1_u32, 1_u32);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // A lone CR breaks a line, too (YAML 1.2.2, 5.4).
        let is_break = c == '\n' || (c == '\r' && chars.peek() != Some(&'\n'));
        match is_break {
            true => (line, column) = (line.saturating_add(1), 1),
            false => column = column.saturating_add(1),
        }
    }
    Place { line, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_error(bytes: &[u8]) -> String {
        let mut report = Report::new("f");
        assert!(decode(bytes, &mut report).is_none());
        report.finish().list[0].to_string()
    }

    #[test]
    fn bad_bytes_have_their_place() {
        assert!(
            first_error(b"a: b\nc: \xc3\xa4\xff")
                .starts_with("f:2:5: error: invalid UTF-8: byte 0xff")
        );
        assert!(first_error(b"a\r\nb\r\xfe").starts_with("f:3:1: error: invalid UTF-8"));
        assert!(first_error(b"a: \0").starts_with("f:1:4: error: control character U+0000"));
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_by_its_length() {
        assert!(too_large("f", MAX_BYTES).is_none());
        let text = too_large("f", 100_000_000).unwrap().to_string();
        assert!(text.starts_with("f:1:1: error: the file has 100000000 bytes"), "{text}");
    }
}
