//! What an entry of a layer does to the tree of files.
//!
//! `.wh.NAME` hides NAME of the layers below, `.wh..wh..opq` all that they have in its directory; both never hide files of
//! their own layer (OCI image specification, layer.md). A path is relative to the root: a leading `/` and `.` count for
//! nothing, and `..` is refused.

use crate::tape::{Entry, Kind};
use crate::{Error, Result};

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A path as its parts, each a name; the root has none.
pub type Parts = Vec<Vec<u8>>;

/// The action for an entry of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the file.
    Make(Parts),
    /// Hide what layers below have there.
    Hide(Parts),
    /// Hide all that layers below have in that directory.
    HideAll(Parts),
    /// Nothing: what is left out in images.
    Skip,
}

/// What an entry does.
///
/// # Errors
/// Its path leads out, or is not a path.
pub fn action(entry: &Entry) -> Result<Action> {
    let mut parts = parts(&entry.path)?;
    let Some(name) = parts.last() else {
        // The root itself.
        return Ok(if entry.kind == Kind::Directory { Action::Make(parts) } else { Action::Skip });
    };
    if name == OPAQUE {
        parts.pop();
        return Ok(Action::HideAll(parts));
    }
    if let Some(hidden) = name.strip_prefix(WHITEOUT) {
        if hidden.is_empty() || hidden == b"." || hidden == b".." {
            return Err(Error::entry(&entry.path, "a whiteout names nothing"));
        }
        // Names that begin so are reserved; aufs kept its own things there.
        if hidden.starts_with(WHITEOUT) {
            return Ok(Action::Skip);
        }
        let hidden = hidden.to_vec();
        parts.pop();
        parts.push(hidden);
        return Ok(Action::Hide(parts));
    }
    match entry.kind {
        // Nodes have their own /dev, and an image brings no others.
        Kind::Device => Ok(Action::Skip),
        _ => Ok(Action::Make(parts)),
    }
}

/// The parts of a path in an archive.
///
/// # Errors
/// It leads out, or is not a path.
pub fn parts(path: &[u8]) -> Result<Parts> {
    if path.contains(&0) {
        return Err(Error::entry(path, "its name has a NUL character"));
    }
    let mut parts = Vec::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(Error::entry(path, "its path has `..`")),
            name if name.len() > 255 => {
                return Err(Error::entry(path, "a part of its path is longer than 255 bytes"));
            }
            name => parts.push(name.to_vec()),
        }
    }
    Ok(parts)
}

/// Whether an extended attribute of an image is set: what the kernel's overlay, security modules and others keep for
/// themselves is not.
pub fn is_allowed_attribute(name: &str) -> bool {
    name == "security.capability"
        || (name.starts_with("user.") && !name.starts_with("user.overlay."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(path: &str, kind: Kind) -> Result<Action> {
        let entry = Entry {
            path: path.into(),
            kind,
            link: vec![],
            size: 0,
            mode: 0o644,
            uid: 0,
            gid: 0,
            mtime: 0,
            xattrs: vec![],
        };
        action(&entry)
    }

    fn of(parts: &[&str]) -> Parts {
        parts.iter().map(|part| part.as_bytes().to_vec()).collect()
    }

    #[test]
    fn whiteouts_hide_and_others_make() {
        let file = Kind::File;
        assert_eq!(act("./etc//x", file.clone()).unwrap(), Action::Make(of(&["etc", "x"])));
        assert_eq!(act("/etc/x", file.clone()).unwrap(), Action::Make(of(&["etc", "x"])));
        assert_eq!(act("etc/.wh.x", file.clone()).unwrap(), Action::Hide(of(&["etc", "x"])));
        assert_eq!(act("etc/.wh..wh..opq", file.clone()).unwrap(), Action::HideAll(of(&["etc"])));
        assert_eq!(act(".wh..wh..opq", file.clone()).unwrap(), Action::HideAll(of(&[])));
        assert_eq!(act(".wh..wh.plnk", file.clone()).unwrap(), Action::Skip);
        assert_eq!(act("./", Kind::Directory).unwrap(), Action::Make(of(&[])));
        assert_eq!(act("dev/null", Kind::Device).unwrap(), Action::Skip);
        for wrong in ["../x", "a/../../x", "a/..", "a/.wh.", "a/.wh...", ".wh..", "a\0b"] {
            assert!(act(wrong, file.clone()).is_err(), "{wrong:?}");
        }
        assert!(act(&"x".repeat(256), file).is_err());
    }

    #[test]
    fn attributes_of_overlays_are_left_out() {
        assert!(is_allowed_attribute("security.capability"));
        assert!(is_allowed_attribute("user.a"));
        for name in ["trusted.overlay.redirect", "user.overlay.opaque", "security.selinux", "x"] {
            assert!(!is_allowed_attribute(name), "{name}");
        }
    }
}
