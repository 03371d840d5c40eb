//! Reads single values from nodes. If the node is something else, a reader returns `None` and records what
//! it expected and where; the caller continues with the next key.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;

use crate::{Kind, Node, Path, Report, likely, units};

/// Records `PATH: expected WHAT, found ...`.
pub fn expected(node: &Node, path: &Path<'_>, what: &str, report: &mut Report) {
    report.error(node.place, format!("{path}: expected {what}, found {}", node.describe()));
}

/// A scalar's text as written, whatever its meaning: `true`, `0755` and `1.10` are text, too.
pub fn scalar(node: &Node) -> Option<&str> {
    match node.kind {
        Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Str => Some(&node.text),
        Kind::Null | Kind::Seq(_) | Kind::Map(_) => None,
    }
}

/// Reads text by `parse`; an error suggests what was probably meant.
fn measured<T>(
    node: &Node,
    path: &Path<'_>,
    what: &str,
    report: &mut Report,
    parse: impl FnOnce(&str) -> Option<T>,
    likely: impl FnOnce(&str) -> Option<String>,
) -> Option<T> {
    let value = scalar(node).and_then(parse);
    if value.is_none() {
        let message = format!("{path}: expected {what}, found {}", node.describe());
        report.error_with(node.place, message, scalar(node).and_then(likely));
    }
    value
}

fn parsed<T>(
    node: &Node,
    path: &Path<'_>,
    what: &str,
    report: &mut Report,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    measured(node, path, what, report, parse, |_| None)
}

/// `true` or `false`.
pub fn boolean(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<bool> {
    match node.kind {
        Kind::Bool(value) => Some(value),
        _ => {
            let message = format!("{path}: expected true or false, found {}", node.describe());
            // YAML 1.1 has such words as booleans, YAML 1.2 as text.
            let help = match node.text.to_ascii_lowercase().as_str() {
                "yes" | "y" | "on" | "1" => Some("write true".to_owned()),
                "no" | "n" | "off" | "0" => Some("write false".to_owned()),
                _ => None,
            };
            report.error_with(node.place, message, help);
            None
        }
    }
}

/// A whole number in a range.
pub fn integer(
    node: &Node,
    path: &Path<'_>,
    range: RangeInclusive<i64>,
    report: &mut Report,
) -> Option<i64> {
    match node.kind {
        Kind::Int(value) if range.contains(&value) => Some(value),
        _ => {
            let message = format!(
                "{path}: expected a whole number from {} to {}, found {}",
                range.start(),
                range.end(),
                node.describe()
            );
            report.error_with(node.place, message, without_quotes(node, &range));
            None
        }
    }
}

/// Help for a number in quotes, which is text.
fn without_quotes(node: &Node, range: &RangeInclusive<i64>) -> Option<String> {
    let number = node.text.trim().parse().ok().filter(|n| range.contains(n));
    number.filter(|_| node.kind == Kind::Str).map(|n| format!("write {n} without quotes"))
}

/// A TCP or UDP port, 1 to 65535.
pub fn port(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<u16> {
    integer(node, path, 1..=65535, report).and_then(|n| u16::try_from(n).ok())
}

/// Any text, which may be empty.
pub fn content(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<String> {
    parsed(node, path, "text", report, |text| Some(text.to_owned()))
}

/// Text without NUL characters, as the system takes for arguments, names and paths.
pub fn text(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<String> {
    let text = content(node, path, report)?;
    if text.contains('\0') {
        report.error(node.place, format!("{path}: text with a NUL character"));
        return None;
    }
    Some(text)
}

/// A list of texts, each without NUL characters.
pub fn texts(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Vec<String>> {
    let Some(items) = node.items() else {
        expected(node, path, "a list of texts", report);
        return None;
    };
    // All of them first, so that each wrong item is reported.
    let read: Vec<_> =
        items.iter().enumerate().map(|(i, item)| text(item, &path.index(i), report)).collect();
    read.into_iter().collect()
}

/// One of a few words.
pub fn choice<'c>(
    node: &Node,
    path: &Path<'_>,
    choices: &[&'c str],
    report: &mut Report,
) -> Option<&'c str> {
    let word = scalar(node).unwrap_or_default();
    if let Some(found) = choices.iter().find(|c| **c == word) {
        return Some(found);
    }
    let help = report.suggest(word, choices.iter().copied());
    let list = choices.join(", ");
    let message = format!("{path}: expected one of {list}, found {}", node.describe());
    report.error_with(node.place, message, help);
    None
}

/// A duration: `10ms`, `30s`, `2m`; a bare number counts seconds.
pub fn duration(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<Duration> {
    measured(
        node,
        path,
        "a duration like 500ms, 30s or 2m",
        report,
        units::duration,
        likely::duration,
    )
}

/// A size in bytes: `256MiB`, `1GB`, `64k`, `4096`.
pub fn bytes(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<u64> {
    measured(node, path, "a size like 256MiB, 1GB or 64k", report, units::bytes, likely::bytes)
}

/// A share of CPUs in thousandths: `50%` is 500, `1.5` is 1500.
pub fn cpu_milli(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<u32> {
    measured(node, path, "a share of CPUs like 50% or 1.5", report, units::cpu_milli, likely::cpu)
}

/// A share in parts of 10^9, written as `0.1%`.
pub fn share(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<u32> {
    measured(node, path, "a percentage from 0% to 100%", report, units::share, likely::share)
}

/// A number of packets per second: `200k/s`.
pub fn packet_rate(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<u64> {
    measured(
        node,
        path,
        "packets per second like 200k/s",
        report,
        units::packet_rate,
        likely::packet_rate,
    )
}

/// A number of bytes per second: `1GB/s`.
pub fn byte_rate(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<u64> {
    measured(
        node,
        path,
        "bytes per second like 1GB/s or 64KiB/s",
        report,
        units::byte_rate,
        likely::byte_rate,
    )
}

/// Permission bits in octal: `"0755"`.
pub fn octal_mode(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<u32> {
    parsed(node, path, "an octal mode like \"0644\"", report, units::octal_mode)
}

/// An address with a prefix length, of either family: `10.0.0.1/24`. Host bits are kept.
pub fn cidr(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<IpNet> {
    parsed(
        node,
        path,
        "an address with prefix length like 10.0.0.1/24 or fd00::1/64",
        report,
        |t| t.parse().ok(),
    )
}

/// A prefix, of either family: `10.0.0.0/24`. Host bits must be zero.
pub fn prefix(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<IpNet> {
    let what = "a prefix like 10.0.0.0/24 or fd00:1::/64";
    let net: IpNet = parsed(node, path, what, report, |t| t.parse().ok())?;
    if net.trunc() == net {
        return Some(net);
    }
    let message =
        format!("{path}: {net} is not a prefix: bits after the first {} are set", net.prefix_len());
    report.error_with(node.place, message, Some(format!("did you mean \"{}\"?", net.trunc())));
    None
}

/// An address without prefix length, of either family.
pub fn address(node: &Node, path: &Path<'_>, report: &mut Report) -> Option<IpAddr> {
    parsed(node, path, "an address like 10.0.0.1 or fd00::1", report, |t| t.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    /// Reads the value of `k` in `text`; returns it with the errors.
    fn read<T>(
        text: &str,
        reader: impl FnOnce(&Node, &Path<'_>, &mut Report) -> Option<T>,
    ) -> Result<T, String> {
        let mut report = Report::new("f");
        let tree = load(text.as_bytes(), &mut report).unwrap();
        let value = reader(tree.get("k").unwrap(), &Path::Root.key("k"), &mut report);
        value.ok_or_else(|| report.finish().to_string())
    }

    #[test]
    fn scalars_are_text_as_written() {
        assert_eq!(read("k: 1.10", text), Ok("1.10".into()));
        assert_eq!(read("k: true", text), Ok("true".into()));
        assert_eq!(read("k: [a, 80, yes]", texts), Ok(vec!["a".into(), "80".into(), "yes".into()]));
        assert!(read("k: \"a\\0\"", text).unwrap_err().contains("NUL"));
        assert_eq!(read("k: \"a\\0\"", content), Ok("a\0".into()));
        assert_eq!(read("k: 0644", octal_mode), Ok(0o644));
    }

    #[test]
    fn errors_name_path_expectation_and_finding() {
        let error = read("k: yes", boolean).unwrap_err();
        assert_eq!(
            error,
            "f:1:4: error: k: expected true or false, found \"yes\"\n  help: write true\nf: 1 error"
        );
        let error = read("k: 70000", port).unwrap_err();
        assert!(
            error.contains("k: expected a whole number from 1 to 65535, found 70000"),
            "{error}"
        );
        let error = read("k: [a, {b: c}]", texts).unwrap_err();
        assert!(error.contains("f:1:8: error: k[1]: expected text, found a map"), "{error}");
        let error = read("k: 10.0.0.1/24", prefix).unwrap_err();
        assert!(error.contains("did you mean \"10.0.0.0/24\"?"), "{error}");
        let error = read("k: alway", |n, p, r| choice(n, p, &["never", "always"], r)).unwrap_err();
        assert!(error.contains("help: did you mean \"always\"?"), "{error}");
    }

    #[test]
    fn addresses_of_both_families() {
        assert_eq!(read("k: fd00::1/64", cidr), Ok("fd00::1/64".parse().unwrap()));
        assert_eq!(read("k: 10.0.0.1", address), Ok("10.0.0.1".parse().unwrap()));
        assert!(read("k: 10.0.0.1", cidr).is_err());
        assert!(read("k: 10.0.0.1/33", cidr).is_err());
    }
}
