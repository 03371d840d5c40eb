//! Names of images, as Docker's users write them, and where else an image may come from.
//!
//! `[REGISTRY/]PATH[:TAG][@DIGEST]`: the first part is a registry only with a dot, a colon, or as `localhost`. The defaults
//! are `docker.io`, `library/` before a lone name there, and `latest`. With a tag and a digest, the digest counts. See
//! distribution/reference, its grammar and its normal form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Digest, Error};

/// The registry of names without one.
pub const DOCKER: &str = "docker.io";

/// The longest name without tag and digest, and the longest tag.
const LONGEST_NAME: usize = 255;
const LONGEST_TAG: usize = 128;

/// An image in a registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference {
    /// The registry's host and port: `docker.io`, `localhost:5000`.
    pub registry: String,
    /// The path: `library/alpine`.
    pub path: String,
    /// The tag.
    pub tag: Option<String>,
    /// The digest.
    pub digest: Option<Digest>,
}

impl Reference {
    /// What the registry is asked for: the digest, else the tag.
    pub fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    /// The name without what is added by default: `alpine:latest`.
    pub fn familiar(&self) -> String {
        let whole = self.to_string();
        let short = whole.strip_prefix("docker.io/").unwrap_or(&whole);
        match short.strip_prefix("library/") {
            Some(rest) if short.len() < whole.len() => rest.to_owned(),
            _ => short.to_owned(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Reference, Error> {
        let wrong = |why| Error::Name { text: text.to_owned(), why };
        if text.is_empty() {
            return Err(wrong("the name is empty"));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => {
                let digest = digest
                    .parse()
                    .map_err(|_| wrong("a digest is sha256: and 64 hexadecimal digits"))?;
                (rest, Some(digest))
            }
            None => (text, None),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            // A colon before a slash is a registry's port.
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if let Some(tag) = tag
            && !is_tag(tag)
        {
            return Err(wrong("a tag has up to 128 letters, digits, `_`, `.` and `-`"));
        }
        // Docker takes these for the id of an image.
        let is_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if name.len() == 64 && name.bytes().all(is_hex) {
            return Err(wrong(
                "64 hexadecimal digits are not a name; write NAME@sha256:… for a digest",
            ));
        }
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
                (first, rest.to_owned())
            }
            _ => (DOCKER, name.to_owned()),
        };
        // Its name of old, which configurations still have.
        let registry = if registry == "index.docker.io" { DOCKER } else { registry };
        if !is_host(registry) {
            return Err(wrong("the registry is not a host name with an optional port"));
        }
        let is_lone = registry == DOCKER && !path.contains('/');
        let path = if is_lone { format!("library/{path}") } else { path };
        if path.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(wrong("names of images are in lower case"));
        }
        if path.len() > LONGEST_NAME {
            return Err(wrong("the name has more than 255 characters"));
        }
        if !path.split('/').all(is_component) {
            return Err(wrong(
                "parts of a name have lower-case letters and digits, with `.`, `_`, `__` or `-` between",
            ));
        }
        let tag = tag.map(str::to_owned);
        let tag = tag.or_else(|| digest.is_none().then(|| "latest".to_owned()));
        Ok(Reference { registry: registry.to_owned(), path, tag, digest })
    }
}

impl TryFrom<String> for Reference {
    type Error = Error;

    fn try_from(text: String) -> Result<Reference, Error> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> String {
        reference.to_string()
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !tag.is_empty()
        && tag.len() <= LONGEST_TAG
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
}

/// A host name or an address with an optional port.
pub(crate) fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if host.parse::<std::net::Ipv6Addr>().is_ok() => {
                // A label that passes what is asked below of names.
                ("v6", (!port.is_empty()).then_some(port))
            }
            _ => return false,
        },
        None => match text.find(':') {
            Some(at) => (&text[..at], Some(&text[at..])),
            None => (text, None),
        },
    };
    let label = |part: &str| {
        let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        part.len() <= 63
            && ends(part.bytes().next())
            && ends(part.bytes().next_back())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let port_is_right = |port: &str| {
        port.strip_prefix(':').is_some_and(|port| {
            port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0)
        })
    };
    host.len() <= 253 && host.split('.').all(label) && port.is_none_or(port_is_right)
}

/// Letters and digits with separators between them: `.`, `_`, `__` or any number of `-`.
fn is_component(text: &str) -> bool {
    let bytes = text.as_bytes();
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut at = 0;
    while at < bytes.len() {
        let word = bytes[at..].iter().take_while(|b| letter(**b)).count();
        if word == 0 {
            return false;
        }
        at += word;
        let separators = bytes[at..].iter().take_while(|b| !letter(**b)).count();
        let good = match &bytes[at..at + separators] {
            [] => at == bytes.len(),
            b"." | b"_" | b"__" => true,
            dashes => dashes.iter().all(|b| *b == b'-'),
        };
        at += separators;
        if !good || (separators > 0 && at == bytes.len()) {
            return false;
        }
    }
    !bytes.is_empty()
}

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A registry.
    Registry(Reference),
    /// An OCI layout folder, `oci:DIR[:NAME]`.
    Layout(String, Option<String>),
    /// A `docker save` or OCI archive, `docker-archive:FILE[:NAME]` or `oci-archive:FILE[:NAME]`.
    Archive(String, Option<String>),
    /// Docker on this machine, `docker-daemon:NAME`.
    Daemon(Reference),
}

/// What other sources than registries begin with.
const LAYOUT: &str = "oci:";
const ARCHIVES: [&str; 2] = ["docker-archive:", "oci-archive:"];
const DAEMON: &str = "docker-daemon:";

impl Source {
    /// Makes a path absolute, below `base`.
    pub fn at(self, base: &std::path::Path) -> Source {
        let at = |path: String| base.join(path).to_string_lossy().into_owned();
        match self {
            Source::Layout(path, name) => Source::Layout(at(path), name),
            Source::Archive(path, name) => Source::Archive(at(path), name),
            other => other,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, path, name) = match self {
            Source::Registry(reference) => return write!(f, "{}", reference.familiar()),
            Source::Daemon(reference) => return write!(f, "{DAEMON}{}", reference.familiar()),
            Source::Layout(path, name) => (LAYOUT, path, name),
            Source::Archive(path, name) => (ARCHIVES[0], path, name),
        };
        write!(f, "{word}{path}")?;
        name.as_ref().map_or(Ok(()), |name| write!(f, ":{name}"))
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Source, Error> {
        let split = |rest: &str| -> Result<(String, Option<String>), Error> {
            let (path, name) = match rest.split_once(':') {
                Some((path, name)) => (path, Some(name.to_owned())),
                None => (rest, None),
            };
            match path.is_empty() || name.as_deref() == Some("") {
                true => {
                    let why =
                        "write the path, and after a colon the name in it if there are several";
                    Err(Error::Name { text: text.to_owned(), why })
                }
                false => Ok((path.to_owned(), name)),
            }
        };
        if let Some(rest) = text.strip_prefix(LAYOUT) {
            return split(rest).map(|(path, name)| Source::Layout(path, name));
        }
        if let Some(rest) = ARCHIVES.iter().find_map(|word| text.strip_prefix(word)) {
            return split(rest).map(|(path, name)| Source::Archive(path, name));
        }
        match text.strip_prefix(DAEMON) {
            Some(rest) => rest.parse().map(Source::Daemon),
            None => text.parse().map(Source::Registry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> String {
        text.parse::<Reference>().unwrap_or_else(|e| panic!("{e}")).to_string()
    }

    #[test]
    fn defaults_are_docker_s() {
        let hex = "a".repeat(64);
        for (text, expected) in [
            ("alpine", "docker.io/library/alpine:latest"),
            ("alpine:3.20", "docker.io/library/alpine:3.20"),
            ("frrouting/frr", "docker.io/frrouting/frr:latest"),
            ("quay.io/frrouting/frr:9.1.0", "quay.io/frrouting/frr:9.1.0"),
            ("localhost/x", "localhost/x:latest"),
            ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
            ("127.0.0.1:5000/a:1", "127.0.0.1:5000/a:1"),
            ("[::1]:5000/a:1", "[::1]:5000/a:1"),
            ("index.docker.io/library/x", "docker.io/library/x:latest"),
            ("a__b/c.d-e--f", "docker.io/a__b/c.d-e--f:latest"),
            (&format!("x@sha256:{hex}"), &format!("docker.io/library/x@sha256:{hex}")),
            (&format!("x:1@sha256:{hex}"), &format!("docker.io/library/x:1@sha256:{hex}")),
        ] {
            assert_eq!(whole(text), expected);
            assert_eq!(whole(expected), expected);
        }
        assert_eq!("alpine".parse::<Reference>().unwrap().familiar(), "alpine:latest");
        assert_eq!("quay.io/a/b".parse::<Reference>().unwrap().familiar(), "quay.io/a/b:latest");
        let both: Reference = format!("x:1@sha256:{hex}").parse().unwrap();
        assert_eq!(both.version(), format!("sha256:{hex}"));
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "empty"),
            ("Alpine", "lower case"),
            ("a b", "parts of a name"),
            ("a:", "a tag"),
            ("a:-x", "a tag"),
            ("a@sha256:1", "64 hexadecimal"),
            ("a@md5:1", "64 hexadecimal"),
            (&"a".repeat(64), "not a name"),
            ("a/", "parts of a name"),
            ("../a", "host name"),
            ("a/../b", "parts of a name"),
            ("a..b", "parts of a name"),
            ("a___b", "parts of a name"),
            ("x.y:99999/a", "host name"),
            ("x.y:0/a", "host name"),
            (&"a/".repeat(200), "more than 255"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn sources_say_where_an_image_comes_from() {
        for text in
            ["oci:/a/b", "oci:/a/b:1", "docker-archive:/x.tar", "docker-daemon:a:1", "a/b:1"]
        {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        let source = "oci:img:1".parse::<Source>().unwrap().at("/lab".as_ref());
        assert_eq!(source.to_string(), "oci:/lab/img:1");
        assert!("oci:".parse::<Source>().is_err());
        assert!("docker-archive:x:".parse::<Source>().is_err());
    }
}
