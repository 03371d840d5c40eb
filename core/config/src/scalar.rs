//! The meaning of a plain scalar: the core schema of YAML 1.2 (10.3.2).
//!
//! `yes`, `no`, `on` and `off` are text there, and so they are here.

use crate::Kind;

/// The meaning of a plain scalar's text.
pub fn resolve(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        // Numbers of whole digits first: each would be a float, too.
        _ => integer(text).or_else(|| float(text)).unwrap_or(Kind::Str),
    }
}

fn integer(text: &str) -> Option<Kind> {
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // What 64 bits do not hold is left to `float`.
    text.parse().ok().map(Kind::Int)
}

/// Digits of a base, without a sign.
fn radix(digits: &str, base: u32) -> Option<Kind> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    i64::from_str_radix(digits, base).ok().map(Kind::Int)
}

fn float(text: &str) -> Option<Kind> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
        return Some(Kind::Float(sign * f64::INFINITY));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Kind::Float(f64::NAN));
    }
    // Rust also reads `inf`, `nan` and `infinity`, which are text here.
    let numeric = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.bytes().any(|b| b.is_ascii_digit())
        && unsigned.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    if numeric { text.parse().ok().map(Kind::Float) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_schema() {
        for (text, kind) in [
            ("", Kind::Null),
            ("~", Kind::Null),
            ("True", Kind::Bool(true)),
            ("yes", Kind::Str),
            ("-12", Kind::Int(-12)),
            ("0755", Kind::Int(755)),
            ("0o755", Kind::Int(493)),
            ("0xff", Kind::Int(255)),
            ("0x-1", Kind::Str),
            ("1.5", Kind::Float(1.5)),
            (".5e1", Kind::Float(5.0)),
            ("1.2.3", Kind::Str),
            ("1e", Kind::Str),
            ("-", Kind::Str),
            ("nan", Kind::Str),
            ("-.inf", Kind::Float(f64::NEG_INFINITY)),
            ("99999999999999999999", Kind::Float(1e20)),
            ("0..9", Kind::Str),
            ("10.0.0.1", Kind::Str),
        ] {
            assert_eq!(resolve(text), kind, "{text:?}");
        }
    }
}
