//! Files of `env-files`, as containerlab reads them (godotenv 1.5.1): `NAME=VALUE` or `NAME: VALUE`, with `export`, quotes,
//! comments, and values of the lines before.

use std::collections::BTreeMap;

/// The variables of a file, or why it is none.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>, &'static str> {
    // Files of Windows editors, too.
    let text = text.replace("\r\n", "\n");
    let mut found = BTreeMap::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if rest.starts_with('#') {
            rest = rest.find('\n').map_or("", |end| &rest[end..]).trim_start();
            continue;
        }
        let (name, after) = name(rest)?;
        let (value, after) = value(after, &found)?;
        found.insert(name.to_owned(), value);
        rest = after.trim_start();
    }
    Ok(found)
}

/// A blank that ends no line.
fn is_blank(c: char) -> bool {
    c.is_whitespace() && c != '\n'
}

fn name(line: &str) -> Result<(&str, &str), &'static str> {
    let exported = line.strip_prefix("export").filter(|after| after.starts_with(is_blank));
    let line = exported.map_or(line, |after| after.trim_start_matches(is_blank));
    let is_part = |c: char| c.is_alphanumeric() || "_.".contains(c) || is_blank(c);
    let end = line.find(|c| !is_part(c)).filter(|end| line[*end..].starts_with(['=', ':']));
    let end = end.ok_or("a line is NAME=VALUE")?;
    Ok((line[..end].trim_end(), line[end + 1..].trim_start_matches(is_blank)))
}

/// A value, and what stands behind it.
fn value<'a>(
    text: &'a str,
    known: &BTreeMap<String, String>,
) -> Result<(String, &'a str), &'static str> {
    let Some(quote) = text.chars().next().filter(|c| "'\"".contains(*c)) else {
        let (line, rest) = text.split_at(text.find(['\n', '\r']).unwrap_or(text.len()));
        let is_comment = |at: &usize| line[..*at].ends_with(is_blank);
        let comment = line.rmatch_indices('#').map(|(at, _)| at).find(is_comment);
        // Only behind a blank: `#` in the middle of a value belongs to it.
        let line = &line[..comment.unwrap_or(line.len())];
        return Ok((filled(line.trim(), known), rest));
    };
    let mut ends = text.match_indices(quote).map(|(at, _)| at).skip(1);
    let end = ends.find(|at| !text[..*at].ends_with('\\')).ok_or("a quote is not closed")?;
    let inner = text[..end].trim_matches(quote);
    let value = if quote == '"' { filled(&unescaped(inner), known) } else { inner.to_owned() };
    Ok((value, &text[end + 1..]))
}

/// Text without its backslashes, but for those before `$`.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match if c == '\\' { letters.next() } else { None } {
            None => out.push(c),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('$') => out.push_str("\\$"),
            Some(other) => out.push(other),
        }
    }
    out
}

/// Text with the values of `$NAME` and `${NAME}`: nothing for what is not known; `\$` is a `$`.
fn filled(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        let inner = without(without(&from[1..], '('), '{');
        let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let (name, tail) = inner.split_at(inner.find(|c| !is_part(c)).unwrap_or(inner.len()));
        let tail = without(tail, '}');
        let whole = &from[..from.len() - tail.len()];
        match before.strip_suffix('\\') {
            Some(before) => out.extend([before, whole]),
            None if name.is_empty() => out.extend([before, whole]),
            None => out.extend([before, known.get(name).map_or("", String::as_str)]),
        }
        rest = tail;
    }
    out + rest
}

fn without(text: &str, first: char) -> &str {
    text.strip_prefix(first).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By joho/godotenv 1.5.1, which containerlab 0.79 reads such files with.
    #[test]
    fn variables_as_godotenv_has_them() {
        for (text, want) in [
            ("export A=1\n\n# why\n B = x y \nC: z", "A=1 B=x y C=z"),
            ("A=a # b\nB=a#b\nC='a # b' # c\nD=", "A=a B=a#b C=a # b D="),
            ("A=1\nB=$A${A}-${NONE}-\\$A\nC='$A'\nD=\"x\\\"$A\"", "A=1 B=11--$A C=$A D=x\"1"),
            ("A=\"a\\nb\"\nB='a\\nb'\nexport=1", "A=a\nb B=a\\nb export=1"),
            ("A=5$ b\nB=$lower", "A=5$ b B=$lower"),
        ] {
            let found = parse(text).unwrap();
            let found: Vec<String> = found.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(found.join(" "), want, "{text}");
        }
        for text in ["A", "A\nB=1", "A-B=1", "A='x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
