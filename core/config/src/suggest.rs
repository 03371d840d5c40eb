//! Text for messages: the name that was probably meant, and values in quotes.

/// Longer words are not compared.
const LONGEST: usize = 64;

/// The candidate that `word` probably stands for, if one is close enough: at most one edit for
/// every three letters (a swap of neighbours is one edit), or equal except for case.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if length == 0 || length > LONGEST {
        return None;
    }
    let allowed = length / 3;
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == word
            || candidate.len() > LONGEST
            // Lengths are in bytes: an edit changes at most four.
            || candidate.len().abs_diff(word.len()) > 4 * allowed
        {
            continue;
        }
        let distance = if candidate.eq_ignore_ascii_case(word) {
            0
        } else {
            strsim::damerau_levenshtein(word, candidate)
        };
        // The first of equally near ones: candidates come in the order of the manual.
        if distance <= allowed && best.is_none_or(|(d, _)| distance < d) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Text in double quotes, on one line, cut after 60 characters.
pub fn quote(text: &str) -> String {
    format!("\"{}\"", cut(text))
}

/// A number or word as written, on one line, cut after 60 characters.
pub(crate) fn quote_plain(text: &str) -> String {
    cut(text)
}

fn cut(text: &str) -> String {
    const SHOWN: usize = 60;
    // Escaped after cutting: an escape must not be cut in two.
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let keys = ["forwarding", "limits", "root", "run", "env"];
        assert_eq!(closest("forwading", keys), Some("forwarding"));
        assert_eq!(closest("forwradnig", keys), Some("forwarding"));
        assert_eq!(closest("Limits", keys), Some("limits"));
        assert_eq!(closest("rnu", keys), Some("run"));
        assert_eq!(closest("zebra", keys), None);
        assert_eq!(closest("s2", ["s1"]), None);
        assert_eq!(closest("", keys), None);
        assert_eq!(closest(&"x".repeat(65), keys), None);
    }

    #[test]
    fn quoted_text_stays_on_one_line() {
        assert_eq!(quote("a\n\"b\""), r#""a\n\"b\"""#);
        assert_eq!(quote(&"x".repeat(99)).chars().count(), 63);
    }
}
