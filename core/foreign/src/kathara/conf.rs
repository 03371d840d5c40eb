//! Lines of `lab.conf`: `DEVICE[ARGUMENT]="VALUE"` and `LAB_KEY="VALUE"`.

use crate::{Result, wrong};

/// What lines about the lab say, behind `LAB_`.
const ABOUT: [&str; 6] = ["NAME", "DESCRIPTION", "VERSION", "AUTHOR", "EMAIL", "WEB"];

/// A line.
pub(super) enum Line {
    /// Blank, or a comment.
    Nothing,
    /// A comment that does not begin its line.
    Indented,
    /// About the lab: `LAB_NAME` and the like, and Netkit's `machines`. `odd` is why Kathara itself refuses the line.
    About { key: String, value: String, odd: Option<&'static str> },
    /// Of a device. `odd` is why Kathara itself refuses the line.
    Option { device: String, arg: String, value: String, odd: Option<&'static str> },
}

/// Reads a line.
pub(super) fn line(file: &str, number: u32, line: &str) -> Result<Line> {
    // A byte order mark, which some editors put first.
    let whole = line.trim_start_matches('\u{feff}');
    let line = whole.trim();
    if line.is_empty() || line.starts_with('#') {
        let indented = !line.is_empty() && !whole.starts_with('#');
        return Ok(if indented { Line::Indented } else { Line::Nothing });
    }
    let fail = |what: &str| wrong(file, number, what);
    let expected = || fail("expected DEVICE[ARGUMENT]=\"VALUE\", LAB_NAME=\"VALUE\" or a comment");
    let (key, rest) = line.split_once('=').ok_or_else(expected)?;
    let key = key.trim();
    let free =
        ["exec]", "env]", "sysctl]", "args]", "entrypoint]"].iter().any(|end| key.ends_with(end));
    let (value, odd) = value(rest.trim(), free)
        .ok_or_else(|| fail("a quote is not closed, or text follows it"))?;
    if key.starts_with("LAB_") || key == "machines" {
        let odd = about(whole);
        return Ok(Line::About { key: key.to_owned(), value, odd });
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
    if ["shared", "_test"].contains(&device) {
        return Err(fail("no device can have this name, which Kathara keeps for itself"));
    }
    let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let odd = match device.len() <= 30 && device.chars().all(small) {
        true => odd,
        false => Some(
            "Kathara itself refuses names of more than 30 letters, or with others than a to z, 0 to 9 and _",
        ),
    };
    Ok(Line::Option { device: device.to_owned(), arg: arg.to_owned(), value, odd })
}

/// Why Kathara itself refuses a line about the lab: it looks for its keys at the start of the line, with the sign
/// behind them, and splits the line at every such sign.
fn about(line: &str) -> Option<&'static str> {
    let key = line.split('=').next().unwrap_or_default();
    match () {
        () if line.matches('=').count() > 1 => {
            Some("Kathara itself refuses a second = in a line about the lab")
        }
        () if !ABOUT.contains(&key.strip_prefix("LAB_").unwrap_or_default()) => Some(
            "Kathara itself refuses a line about the lab that does not begin with LAB_NAME=, LAB_DESCRIPTION=, LAB_VERSION=, LAB_AUTHOR=, LAB_EMAIL= or LAB_WEB=",
        ),
        () => None,
    }
}

/// A value without its quotes and the comment behind it, and why Kathara itself refuses it. In a `free` text without
/// quotes it takes the comment as a part of the value.
fn value(text: &str, free: bool) -> Option<(String, Option<&'static str>)> {
    const QUOTE: &str = "Kathara itself refuses a quote within a value";
    const EMPTY: &str = "Kathara itself refuses an empty value";
    const COMMENT: &str =
        "Kathara itself takes the comment as a part of the value, which it refuses then";
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            let (value, rest) = inner.split_at(inner.find(quote)?);
            let rest = &rest[1..];
            let behind = rest.trim();
            let odd = match () {
                () if value.is_empty() => Some(EMPTY),
                () if value.contains(['"', '\'']) => Some(QUOTE),
                () if behind.starts_with('#') && rest.starts_with('#') => Some(COMMENT),
                () => None,
            };
            return (behind.is_empty() || behind.starts_with('#')).then(|| (value.to_owned(), odd));
        }
    }
    let (bare, behind) = match text.find(['"', '\'']) {
        // Behind a quote there is a comment, from the last sign of one before it.
        Some(end) => text[..end]
            .rfind(" #")
            .or_else(|| text[..end].rfind("\t#"))
            .map(|at| text.split_at(at))?,
        None if free => (text, ""),
        None => {
            text.find(" #").or_else(|| text.find("\t#")).map_or((text, ""), |at| text.split_at(at))
        }
    };
    let odd = match () {
        () if bare.trim().is_empty() => Some(EMPTY),
        () if !behind.is_empty() && !behind.contains(['"', '\'']) => Some(COMMENT),
        () => None,
    };
    Some((bare.trim().to_owned(), odd))
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
            let Ok(Line::Option { device, arg, value, .. }) = line("lab.conf", 1, text) else {
                panic!("{text}");
            };
            assert_eq!((device.as_str(), arg.as_str(), value.as_str()), want);
        }
        assert!(matches!(line("f", 1, "LAB_NAME=\"a b\""), Ok(Line::About { .. })));
        assert!(matches!(line("f", 1, "# x"), Ok(Line::Nothing)));
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
