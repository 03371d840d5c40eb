//! What a registry wants to know first: the header `WWW-Authenticate` (RFC 9110 section 11, RFC 6750).

/// A demand for credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// A token, which the server at `realm` gives.
    Bearer {
        /// Where tokens are given.
        realm: String,
        /// For whom.
        service: Option<String>,
        /// For what.
        scope: Option<String>,
    },
    /// A name and a password.
    Basic,
}

impl Challenge {
    /// The first challenge of a header that is understood.
    pub fn read(header: &str) -> Option<Challenge> {
        let (scheme, rest) = header.trim().split_once([' ', ',']).unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let found = parameters(rest);
        let get = |name: &str| found.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone());
        Some(Challenge::Bearer {
            realm: get("realm")?,
            service: get("service"),
            scope: get("scope"),
        })
    }
}

/// `key="value", key=value`; a quoted value may have commas, and a backslash before a character.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_matches([' ', ',', '\t']).to_ascii_lowercase();
        let (value, after) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        found.push((key, value));
        rest = after;
    }
    found
}

/// The value up to the closing quote, and what is behind it.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_registries_are_understood() {
        let text = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/alpine:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.docker.io/token".into(),
            service: Some("registry.docker.io".into()),
            scope: Some("repository:library/alpine:pull,push".into()),
        };
        assert_eq!(Challenge::read(text), Some(expected));
        assert_eq!(Challenge::read("Basic realm=\"x\""), Some(Challenge::Basic));
        let bare = Challenge::read("bearer realm=http://a/t , service = b").unwrap();
        let Challenge::Bearer { realm, service, scope } = bare else { panic!() };
        assert_eq!((realm.as_str(), service.as_deref(), scope), ("http://a/t", Some("b"), None));
        for wrong in ["", "Negotiate", "Bearer", "Bearer service=\"x\"", "Bearer realm"] {
            assert_eq!(Challenge::read(wrong), None, "{wrong}");
        }
    }
}
