//! Patterns of a rule: programs, destinations and ports; what they match, and which lies within which.
//!
//! For all patterns `a`, `b` and things `x`: if `a.within(b)` and `a` matches `x`, `b` matches `x`. Tests check it.

mod destination;
mod peers;
mod ports;
mod program;

pub use destination::Destination;
pub use peers::Peers;
pub use ports::{Part, Ports};
pub use program::{ProgramPattern, Sha256};

/// Whether `path` is `folder` plus one more name, or more than one where `deep`.
fn beneath(path: &str, folder: &str, deep: bool) -> bool {
    let rest = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    rest.is_some_and(|rest| !rest.is_empty() && (deep || !rest.contains('/')))
}

/// Why a path cannot be a pattern; `None` if it can.
///
/// Paths are compared as text, so that one with `..` or `//` would never match what it seems to.
fn unusable(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("a path begins with `/`");
    }
    let mut parts = path[1..].split('/');
    if parts.any(|part| matches!(part, "" | "." | "..")) {
        return Some("a path has no empty parts, `.` or `..`");
    }
    None
}

/// Paths of one file or of files in a folder: `/a/b`, `/a/*` (direct), `/a/**` (at any depth).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathPattern {
    /// This path.
    Exact(String),
    /// The folder's direct contents.
    In(String),
    /// The folder's contents at any depth.
    Below(String),
}

impl PathPattern {
    /// Reads `/a/b`, `/a/*` or `/a/**`; the error says what is wrong.
    pub fn parse(text: &str) -> Result<PathPattern, &'static str> {
        if let Some(folder) = text.strip_suffix("/**") {
            return PathPattern::folder(folder).map(PathPattern::Below);
        }
        if let Some(folder) = text.strip_suffix("/*") {
            return PathPattern::folder(folder).map(PathPattern::In);
        }
        if text.contains('*') {
            return Err("`*` is allowed only at the end, as in /usr/bin/* or /opt/**");
        }
        unusable(text).map_or_else(|| Ok(PathPattern::Exact(text.to_owned())), Err)
    }

    /// The pattern of this path alone; `None` if none can be written that means no other path.
    pub fn exact(path: &str) -> Option<PathPattern> {
        PathPattern::parse(path).ok().filter(|pattern| matches!(pattern, PathPattern::Exact(_)))
    }

    /// The pattern with its path, or folder, as `follow` gives it; the same where that gives nothing that is a path.
    #[must_use]
    pub(crate) fn followed(&self, follow: impl Fn(&str) -> Option<String>) -> PathPattern {
        let followed = |path: &String| follow(path).filter(|path| unusable(path).is_none());
        let folder = |folder: &String| match followed(folder) {
            Some(folder) => folder,
            None => folder.clone(),
        };
        match self {
            PathPattern::Exact(path) => {
                let pattern = followed(path).and_then(|path| PathPattern::exact(&path));
                pattern.unwrap_or_else(|| self.clone())
            }
            PathPattern::In(at) => PathPattern::In(folder(at)),
            PathPattern::Below(at) => PathPattern::Below(folder(at)),
        }
    }

    fn folder(folder: &str) -> Result<String, &'static str> {
        if folder.contains('*') {
            return Err("`*` is allowed only at the end, as in /usr/bin/* or /opt/**");
        }
        // The folder of `/*` and `/**` is the root, whose text is empty here.
        let problem = if folder.is_empty() { None } else { unusable(folder) };
        problem.map_or_else(|| Ok(folder.to_owned()), Err)
    }

    /// Whether `path` is one of these.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            PathPattern::Exact(exact) => path == exact,
            PathPattern::In(folder) => beneath(path, folder, false),
            PathPattern::Below(folder) => beneath(path, folder, true),
        }
    }

    /// Whether every path of this pattern is one of `other`.
    pub fn within(&self, other: &PathPattern) -> bool {
        match (self, other) {
            (PathPattern::Exact(path), other) => other.matches(path),
            (PathPattern::In(a), PathPattern::In(b)) => a == b,
            (PathPattern::In(a) | PathPattern::Below(a), PathPattern::Below(b)) => {
                a == b || beneath(a, b, true)
            }
            (PathPattern::In(_), PathPattern::Exact(_))
            | (PathPattern::Below(_), PathPattern::Exact(_) | PathPattern::In(_)) => false,
        }
    }
}

impl std::fmt::Display for PathPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PathPattern::Exact(path) => f.write_str(path),
            PathPattern::In(folder) => write!(f, "{folder}/*"),
            PathPattern::Below(folder) => write!(f, "{folder}/**"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        PathPattern::parse(text).unwrap()
    }

    #[test]
    fn a_star_is_one_name_and_two_are_any_depth() {
        assert!(pattern("/usr/bin/*").matches("/usr/bin/curl"));
        assert!(!pattern("/usr/bin/*").matches("/usr/bin/x/curl"));
        assert!(!pattern("/usr/bin/*").matches("/usr/bin"));
        assert!(!pattern("/usr/bin/*").matches("/usr/bin/"));
        assert!(pattern("/usr/**").matches("/usr/bin/x/curl"));
        assert!(!pattern("/usr/**").matches("/usrlocal/x"));
        assert!(pattern("/**").matches("/a") && pattern("/*").matches("/a"));
    }

    #[test]
    fn what_could_never_match_is_refused() {
        for text in
            ["curl", "", "/a/../b", "/a//b", "/a/./b", "/a/", "/a*", "/*/b", "/a/**/b", "a/*"]
        {
            assert!(PathPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn folders_lie_within_each_other() {
        assert!(pattern("/a/b").within(&pattern("/a/*")));
        assert!(pattern("/a/*").within(&pattern("/a/**")));
        assert!(pattern("/a/b/*").within(&pattern("/a/**")));
        assert!(pattern("/a/b/**").within(&pattern("/a/**")));
        assert!(!pattern("/a/b/*").within(&pattern("/a/*")));
        assert!(!pattern("/a/**").within(&pattern("/a/*")));
        assert!(!pattern("/ab/**").within(&pattern("/a/**")));
        assert!(pattern("/a/**").within(&pattern("/**")));
    }

    #[test]
    fn text_is_kept() {
        for text in ["/a/b", "/a/*", "/a/**", "/*", "/**"] {
            assert_eq!(pattern(text).to_string(), text);
        }
    }
}
