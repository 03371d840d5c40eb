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
    /// The first challenge of a header that is understood; a header may have several.
    pub fn read(header: &str) -> Option<Challenge> {
        let mut found: Vec<(&str, Vec<(String, String)>)> = vec![];
        for element in elements(header) {
            let (word, rest) = element.split_once([' ', '\t']).unwrap_or((element, ""));
            let rest = rest.trim_start();
            let is_parameter = word.contains('=') || rest.starts_with('=');
            let text = if is_parameter { element } else { rest };
            if !is_parameter {
                found.push((word, vec![]));
            }
            if let Some((_, parameters)) = found.last_mut() {
                parameters.extend(parameter(text));
            }
        }
        found.iter().find_map(|(scheme, parameters)| Challenge::of(scheme, parameters))
    }

    fn of(scheme: &str, parameters: &[(String, String)]) -> Option<Challenge> {
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let get =
            |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone());
        Some(Challenge::Bearer {
            realm: get("realm")?,
            service: get("service"),
            scope: get("scope"),
        })
    }
}

/// The parts between commas, those in quotes apart.
fn elements(header: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = header.split(move |letter| {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ => {}
        }
        letter == ',' && !quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// `key="value"` or `key=value`.
fn parameter(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    let value = value.trim();
    let value = match value.strip_prefix('"') {
        Some(quoted) => unquote(quoted),
        None => value.to_owned(),
    };
    Some((key.trim().to_ascii_lowercase(), value))
}

/// The value up to the closing quote, with a backslash before any character.
fn unquote(text: &str) -> String {
    let mut value = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => value.extend(letters.next()),
            letter => value.push(letter),
        }
    }
    value
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
    #[test]
    fn a_challenge_behind_others_is_found() {
        let bearer = |realm: &str| {
            Some(Challenge::Bearer { realm: realm.into(), service: None, scope: None })
        };
        for (header, expected) in [
            (r#"Negotiate, Bearer realm="http://a/t""#, bearer("http://a/t")),
            (r#"Negotiate YWJj==, Bearer realm="a, b""#, bearer("a, b")),
            (r#"Digest realm="x", nonce="a\", Bearer", Bearer realm=t"#, bearer("t")),
            (r#"Bearer service="x", Basic realm="y""#, Some(Challenge::Basic)),
            (r#"Digest realm="Bearer realm=x, Basic""#, None),
        ] {
            assert_eq!(Challenge::read(header), expected, "{header}");
        }
    }
}
