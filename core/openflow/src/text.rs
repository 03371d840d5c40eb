//! Flow entries, groups and meters as text, in the syntax of `ovs-ofctl(8)`.
//!
//! [`flow`] and its printing counterpart [`print_flow`] are exact: printed text reads back as the same modification, but for
//! values of fields that do not count. What Open vSwitch has no word for gets one in its manner (`push_pbb:0x88e7`, `pbb_isid=5`).

mod action;
mod field;
mod flow;
mod group;

pub use action::{print_action, print_instructions};
pub use field::print_match;
pub use flow::{flow, print_flow};
pub use group::{group, meter, print_group, print_meter};

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A word that has no meaning there.
    #[error("flow text: `{word}` is not known here")]
    Unknown {
        /// The word.
        word: String,
    },
    /// A value that does not fit its word.
    #[error("flow text: `{key}`: `{value}` is not a valid {expected}")]
    Value {
        /// The word.
        key: String,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Something that must be there.
    #[error("flow text: `{what}` is missing")]
    Missing {
        /// What it is.
        what: &'static str,
    },
    /// The version has no such thing.
    #[error("flow text: `{word}`: {version} has none")]
    Version {
        /// The word.
        word: String,
        /// The version.
        version: crate::Version,
    },
}

type Result<T> = std::result::Result<T, TextError>;

fn unknown<T>(word: &str) -> Result<T> {
    Err(TextError::Unknown { word: word.to_owned() })
}

fn wrong<T>(key: &str, value: &str, expected: &'static str) -> Result<T> {
    Err(TextError::Value { key: key.to_owned(), value: value.to_owned(), expected })
}

/// A number, decimal or hexadecimal, that fits its type.
fn number<T: TryFrom<u128>>(key: &str, text: &str) -> Result<T> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match parsed.and_then(|number| T::try_from(number).ok()) {
        Some(number) => Ok(number),
        None => wrong(key, text, "number of its size"),
    }
}

/// Parts between separators that are in no brackets; empty ones are left out.
fn parts<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let (mut all, mut depth, mut start) = (vec![], 0usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && separators.contains(&letter) => {
                all.push(text.get(start..at).unwrap_or(""));
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    all.push(text.get(start..).unwrap_or(""));
    all.retain(|part| !part.trim().is_empty());
    all.iter().map(|part| part.trim()).collect()
}

/// A port's number, or its name in capitals or small letters.
fn port(key: &str, text: &str) -> Result<crate::PortNumber> {
    use crate::PortNumber;
    Ok(match text.to_ascii_uppercase().as_str() {
        "IN_PORT" => PortNumber::IN_PORT,
        "TABLE" => PortNumber::TABLE,
        "NORMAL" => PortNumber::NORMAL,
        "FLOOD" => PortNumber::FLOOD,
        "ALL" => PortNumber::ALL,
        "CONTROLLER" => PortNumber::CONTROLLER,
        "LOCAL" => PortNumber::LOCAL,
        "ANY" | "NONE" => PortNumber::ANY,
        _ => PortNumber(number(key, text)?),
    })
}
