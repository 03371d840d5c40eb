//! A YAML file in one style: indentation, blanks and quotes are set; comments, order, line breaks and values stay.
//!
//! The text is cut into tokens ([`tokens`]) and laid out again ([`layout`]); no value is ever written from its meaning. The
//! result is read again by the parser: unless tree, tokens and comments are those of the original, and another
//! round changes nothing, the file is refused. So a construct that the cutter does not know is refused, never lost.
//!
//! Style: two columns a level, lists inside maps too; one blank behind `:`, `-` and `,`, none inside brackets; lines
//! in brackets below what follows the bracket, or one level deeper where nothing follows it; text in quotes only where
//! [`written::scalar`](crate::written::scalar) wants them; at most one empty line; comments at the end of lines keep their column.

mod comments;
mod layout;
mod levels;
pub(crate) mod tokens;

use crate::text::decode;
use crate::{Diagnostics, Kind, Node, Place, Report, load};
use tokens::{Token, What, tokens};

/// The byte order mark.
const MARK: char = '\u{feff}';

/// Why a text stays as it is: a place in it, and the reason.
pub(crate) struct Unkept {
    place: Place,
    message: String,
    help: Option<&'static str>,
}

/// The text of a YAML file in netloom's style. `file` is its name for messages.
///
/// # Errors
/// The file is not valid YAML, or has something that cannot be kept; each error names its line.
pub fn format(file: &str, bytes: &[u8]) -> Result<String, Diagnostics> {
    let mut report = Report::new(file);
    let tree = load(bytes, &mut report);
    let text = decode(bytes, &mut report);
    let (Some(tree), Some(text), true) = (tree, text, report.is_empty()) else {
        return Err(report.finish());
    };
    formatted(text, &tree).map_err(|unkept| {
        let help = unkept.help.map(str::to_owned);
        report.error_with(unkept.place, unkept.message, help);
        report.finish()
    })
}

fn formatted(text: &str, tree: &Node) -> Result<String, Unkept> {
    let plain = unified(text);
    let tokens = tokens(&plain)?;
    let result = layout::text(&tokens);
    // A mark at the beginning is not part of a file: another round would remove it.
    if result.starts_with(MARK) {
        return Err(Unkept {
            place: tokens.first().map_or(Place::START, place),
            message: "a byte order mark that is not at the beginning cannot be formatted"
                .to_owned(),
            help: Some("remove it"),
        });
    }
    let kept = self::tokens::tokens(&result)?;
    if let Some(lost) = first_difference(&tokens, &kept) {
        return Err(changed(lost));
    }
    let mut report = Report::new("formatted");
    let again = load(result.as_bytes(), &mut report);
    match again {
        Some(again) if report.is_empty() && layout::text(&kept) == result => {
            match differs(tree, &again) {
                None => Ok(result),
                Some(place) => Err(changed(place)),
            }
        }
        _ => Err(changed(Place::START)),
    }
}

fn changed(place: Place) -> Unkept {
    Unkept {
        place,
        message: "formatted, this would not be the same; the file stays as it is".to_owned(),
        help: None,
    }
}

/// The text without a byte order mark, with one kind of line break: all of YAML's mean the same (YAML 1.2.2, 5.4).
pub(crate) fn unified(text: &str) -> String {
    let text = text.strip_prefix(MARK).unwrap_or(text);
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn place(token: &Token<'_>) -> Place {
    Place {
        line: u32::try_from(token.line + 1).unwrap_or(u32::MAX),
        column: u32::try_from(token.column + 1).unwrap_or(u32::MAX),
    }
}

/// The place of the first token that the other list does not have.
fn first_difference(tokens: &[Token<'_>], kept: &[Token<'_>]) -> Option<Place> {
    let pairs = tokens.iter().zip(kept);
    let other = pairs.clone().find(|(token, kept)| !is_same(token, kept));
    match other {
        Some((token, _)) => Some(place(token)),
        None if tokens.len() == kept.len() => None,
        None => Some(tokens.get(kept.len()).map_or(Place::START, place)),
    }
}

fn is_same(token: &Token<'_>, kept: &Token<'_>) -> bool {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    match (token.what, kept.what) {
        // Its indentation changes; the tree has its content.
        (What::Lines { .. }, What::Lines { .. }) => true,
        (What::Plain | What::Quoted, What::Plain | What::Quoted) => {
            // Breaks of lines in a text are followed by another number of blanks.
            words(&layout::scalar(token)) == words(&layout::scalar(kept))
        }
        (what, other) => what == other && token.text.trim_end() == kept.text.trim_end(),
    }
}

/// Where two trees differ, apart from places and the form of texts.
fn differs(tree: &Node, other: &Node) -> Option<Place> {
    let at = Some(tree.place);
    match (&tree.kind, &other.kind) {
        (Kind::Seq(items), Kind::Seq(others)) if items.len() == others.len() => {
            items.iter().zip(others).find_map(|(item, other)| differs(item, other))
        }
        (Kind::Map(entries), Kind::Map(others)) if entries.len() == others.len() => {
            entries.iter().zip(others).find_map(|(entry, other)| match entry.key == other.key {
                true => differs(&entry.value, &other.value),
                false => Some(entry.place),
            })
        }
        (Kind::Seq(_) | Kind::Map(_), _) | (_, Kind::Seq(_) | Kind::Map(_)) => at,
        // Not a number is not itself; its text is.
        (Kind::Float(_), Kind::Float(_)) if tree.text == other.text => None,
        (kind, other_kind) if kind == other_kind && tree.text == other.text => None,
        _ => at,
    }
}

#[cfg(test)]
mod tests;
