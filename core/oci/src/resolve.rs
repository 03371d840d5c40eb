//! Where a path of a layer leads, when directories on the way are symbolic links.
//!
//! As in a process whose root is the image's: an absolute target begins at the root, and `..` does not lead above it. The
//! last part is not followed.

use crate::entry::Parts;
use crate::{Error, Result};

/// As many symbolic links as the kernel follows (MAXSYMLINKS).
const MOST_LINKS: usize = 40;

/// As many parts as a path may have.
const DEEPEST: usize = 1024;

/// The object at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Absent,
    /// A directory.
    Directory,
    /// A symbolic link, and its target.
    Link(Vec<u8>),
    /// Something else.
    Other,
}

/// The real path of the directory `parts`. An absent part counts as a directory to be made; a part that is not a directory, as
/// one to be replaced.
///
/// # Errors
/// Too many links, or what `look` fails with.
pub fn directory<E: From<Error>>(
    parts: &[Vec<u8>],
    mut look: impl FnMut(&[Vec<u8>]) -> Result<Seen, E>,
) -> Result<Parts, E> {
    let refused = |why| Err(Error::entry(&parts.join(&b'/'), why).into());
    let mut left: Vec<Vec<u8>> = parts.iter().rev().cloned().collect();
    let mut real = Parts::new();
    let mut links = 0;
    while let Some(part) = left.pop() {
        match part.as_slice() {
            b"" | b"." => continue,
            b".." => {
                real.pop();
                continue;
            }
            _ => real.push(part),
        }
        if real.len() > DEEPEST || left.len() > DEEPEST {
            return refused("its path is deeper than 1024 directories");
        }
        if let Seen::Link(target) = look(&real)? {
            links += 1;
            if links > MOST_LINKS {
                return refused("more than 40 symbolic links lead to its directory");
            }
            real.pop();
            if target.starts_with(b"/") {
                real.clear();
            }
            left.extend(target.split(|b| *b == b'/').rev().map(<[u8]>::to_vec));
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn real(path: &str, links: &[(&str, &str)]) -> Result<String> {
        let links: BTreeMap<&str, &str> = links.iter().copied().collect();
        let parts: Parts = path.split('/').map(|p| p.as_bytes().to_vec()).collect();
        let found = directory(&parts, |at| {
            let at = String::from_utf8(at.join(&b'/')).unwrap();
            Ok::<_, Error>(match links.get(at.as_str()) {
                Some(to) => Seen::Link(to.as_bytes().to_vec()),
                None => Seen::Directory,
            })
        })?;
        Ok(String::from_utf8(found.join(&b'/')).unwrap())
    }

    #[test]
    fn links_stay_beneath_the_root() {
        let links = [
            ("lib", "usr/lib"),
            ("a", "/etc"),
            ("up", "../../../x/y"),
            ("usr/lib/b", "../c"),
            ("l", "l"),
        ];
        assert_eq!(real("lib/x", &links).unwrap(), "usr/lib/x");
        assert_eq!(real("a/b", &links).unwrap(), "etc/b");
        assert_eq!(real("up/z", &links).unwrap(), "x/y/z");
        assert_eq!(real("lib/b/d", &links).unwrap(), "usr/c/d");
        assert!(real("l/x", &links).unwrap_err().to_string().contains("40 symbolic links"));
    }
}
