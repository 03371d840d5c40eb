//! Lines of `lab.conf`: `DEVICE[ARGUMENT]="VALUE"` and `LAB_KEY="VALUE"`.

use crate::{Result, wrong};

/// A line.
pub(super) enum Line {
    /// Blank, or a comment.
    Nothing,
    /// About the lab: `LAB_NAME` and the like, and Netkit's `machines`.
    About { key: String, value: String },
    /// Of a device.
    Option { device: String, arg: String, value: String },
}

/// Reads a line.
pub(super) fn line(file: &str, number: u32, line: &str) -> Result<Line> {
    let line = line.trim_start_matches('\u{feff}').trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Line::Nothing);
    }
    let fail = |what: &str| wrong(file, number, what);
    let expected = || fail("expected DEVICE[ARGUMENT]=\"VALUE\", LAB_NAME=\"VALUE\" or a comment");
    let (key, rest) = line.split_once('=').ok_or_else(expected)?;
    let key = key.trim();
    let value = value(rest.trim())
        .ok_or_else(|| fail("a quote is not closed, or something stands behind it"))?;
    if key.starts_with("LAB_") || key == "machines" {
        return Ok(Line::About { key: key.to_owned(), value });
    }
    let named = key.strip_suffix(']').and_then(|key| key.split_once('['));
    let (device, arg) = named.ok_or_else(expected)?;
    let word = |text: &str, most: usize| {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
        !text.is_empty() && text.len() <= most && text.chars().all(part)
    };
    if !word(device, 63) || !word(arg, 63) {
        return Err(expected());
    }
    Ok(Line::Option { device: device.to_owned(), arg: arg.to_owned(), value })
}

/// A value without its quotes and the comment behind it.
fn value(text: &str) -> Option<String> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            let (value, rest) = inner.split_at(inner.find(quote)?);
            let rest = rest[1..].trim();
            return (rest.is_empty() || rest.starts_with('#')).then(|| value.to_owned());
        }
    }
    let bare = text.split(" #").next().unwrap_or_default().trim();
    (!bare.contains(['"', '\''])).then(|| bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_device() {
        for (text, want) in [
            ("pc1[0]=\"A\"", ("pc1", "0", "A")),
            ("r_1[0]='A/02:00:00:00:00:01' # the first", ("r_1", "0", "A/02:00:00:00:00:01")),
            ("pc1[image]=kathara/base", ("pc1", "image", "kathara/base")),
            ("pc1[exec]=\"echo a # b\"", ("pc1", "exec", "echo a # b")),
        ] {
            let Ok(Line::Option { device, arg, value }) = line("lab.conf", 1, text) else {
                panic!("{text}");
            };
            assert_eq!((device.as_str(), arg.as_str(), value.as_str()), want);
        }
        assert!(matches!(line("f", 1, "LAB_NAME=\"a b\""), Ok(Line::About { .. })));
        assert!(matches!(line("f", 1, "  # x"), Ok(Line::Nothing)));
    }

    #[test]
    fn wrong_lines_are_named() {
        for text in
            ["pc1", "pc1[0]", "pc1[0=\"A\"", "pc1[0]=\"A", "pc1[0]=\"A\" B", "[0]=A", "a b[0]=A"]
        {
            let error = line("lab.conf", 7, text).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.starts_with("lab.conf:7: error: "), "{text}: {error}");
        }
    }
}
