//! `place`: which hosts make a node or switch.

use serde::{Deserialize, Serialize};

/// Where nodes and switches of one name or pattern are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The name of a node or switch, or a pattern with `*` (any text) and `?` (any character).
    pub of: String,
    /// The hosts of which it is on one; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Whether a switch is one piece on each of these hosts.
    #[serde(default, skip_serializing_if = "super::is_not")]
    pub split: bool,
}

impl Pin {
    /// Whether it is for all names of a pattern.
    pub fn is_pattern(&self) -> bool {
        // No name has either.
        self.of.contains(['*', '?'])
    }

    /// Whether it is for this name.
    pub fn fits(&self, name: &str) -> bool {
        match self.is_pattern() {
            true => fits(self.of.as_bytes(), name.as_bytes()),
            false => self.of == name,
        }
    }

    /// The pin of a name: one of just this name, else the first pattern that fits.
    pub fn of<'p>(pins: &'p [Pin], name: &str) -> Option<&'p Pin> {
        let by_name = pins.iter().find(|pin| !pin.is_pattern() && pin.of == name);
        by_name.or_else(|| pins.iter().find(|pin| pin.is_pattern() && pin.fits(name)))
    }
}

/// Whether a text has the form of a pattern. Steps are bounded by the product of both lengths: only the last `*` is ever tried again.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while of < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(letter) if *letter == b'?' || *letter == text[of] => {
                at += 1;
                of += 1;
            }
            _ => match star {
                // The star takes one character more.
                Some((from, taken)) => {
                    star = Some((from, taken + 1));
                    (at, of) = (from + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(of: &str, host: &str) -> Pin {
        Pin { of: of.into(), hosts: vec![host.into()], split: false }
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fit) in [
            ("*", "", true),
            ("leaf*", "leaf", true),
            ("leaf*", "a-leaf1", false),
            ("*1*2", "x12y2", true),
            ("*1*2", "x12y", false),
            ("h?", "h1", true),
            ("h?", "h", false),
            ("h?", "h11", false),
            ("**a**", "bab", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(pin(pattern, "x").fits(name), fit, "{pattern} {name}");
        }
        // Not exponential in the number of stars.
        assert!(!pin(&"*a".repeat(60), "x").fits(&("a".repeat(200) + "b")));
    }

    #[test]
    fn a_name_comes_before_patterns_and_the_first_pattern_holds() {
        let pins = [pin("h*", "a"), pin("*1", "b"), pin("h1", "c")];
        let host = |name| Pin::of(&pins, name).map(|pin| pin.hosts[0].as_str());
        assert_eq!(
            [host("h1"), host("h11"), host("r1"), host("r2")],
            [Some("c"), Some("a"), Some("b"), None]
        );
    }
}
