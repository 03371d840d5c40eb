//! The files of another program's lab, as an import sees them: by paths relative to the lab's folder.

use std::collections::BTreeMap;

use crate::{Error, MOST_BYTES, Result};

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A file with these permission bits.
    File {
        /// Permission bits.
        mode: u32,
    },
    /// A folder.
    Folder,
    /// Something else: a device, a socket, a link that leads nowhere.
    Other,
}

/// Where an import finds files. Paths are relative to the lab's folder, with `/` between names; the folder itself is
/// the empty path. Absolute paths are the host's.
pub trait Files {
    /// What is at a path.
    fn look(&self, path: &str) -> Option<Found>;

    /// The names in a folder, in order.
    fn list(&self, folder: &str) -> Vec<String>;

    /// A file's bytes, at most [`MOST_BYTES`] and one more.
    fn read(&self, path: &str) -> Option<Vec<u8>>;
}

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct Memory(pub BTreeMap<String, Vec<u8>>);

impl Memory {
    /// One file.
    pub fn of(path: &str, content: impl Into<Vec<u8>>) -> Memory {
        Memory::default().with(path, content)
    }

    /// One file more.
    #[must_use]
    pub fn with(mut self, path: &str, content: impl Into<Vec<u8>>) -> Memory {
        self.0.insert(path.to_owned(), content.into());
        self
    }

    fn below(&self, folder: &str) -> impl Iterator<Item = &str> {
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.0.keys().filter_map(move |path| path.strip_prefix(start.as_str()))
    }
}

impl Files for Memory {
    fn look(&self, path: &str) -> Option<Found> {
        if self.0.contains_key(path) {
            return Some(Found::File { mode: 0o644 });
        }
        self.below(path).next().map(|_| Found::Folder)
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .below(folder)
            .filter_map(|path| Some(path.split('/').next()?.to_owned()))
            .collect();
        names.dedup();
        names
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.0.get(path).cloned()
    }
}

/// A file that there must be.
pub(crate) fn needed(files: &dyn Files, path: &str) -> Result<Vec<u8>> {
    let fail = |problem| Error::Unreadable { file: path.to_owned(), problem };
    let content = files.read(path).ok_or_else(|| fail("cannot be read"))?;
    if content.len() as u64 > MOST_BYTES {
        return Err(fail("larger than any lab file may be (8 MiB)"));
    }
    Ok(content)
}

/// The text of a file that may be there.
pub(crate) fn text(files: &dyn Files, path: &str) -> Option<String> {
    let content = needed(files, path).ok()?;
    String::from_utf8(content).ok()
}

/// A path in its shortest form; `None` when it leads out of the folder that it is relative to.
pub(crate) fn clean(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = vec![];
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A file below a folder.
pub(crate) struct Below {
    /// Its path relative to the folder.
    pub(crate) path: String,
    pub(crate) found: Found,
    /// Whether it is a folder with nothing in it.
    pub(crate) empty: bool,
}

/// Everything below a folder that is no folder with something in it, in order; at most `most`.
pub(crate) fn walk(files: &dyn Files, folder: &str, most: usize) -> Vec<Below> {
    let mut found = vec![];
    let mut open = vec![(String::new(), 0)];
    while let Some((path, depth)) = open.pop() {
        let full = join(folder, &path);
        let mut names = files.list(&full);
        names.reverse();
        if names.is_empty() && !path.is_empty() {
            found.push(Below { path: path.clone(), found: Found::Folder, empty: true });
        }
        for name in names {
            let below = join(&path, &name);
            match files.look(&join(folder, &below)) {
                Some(Found::Folder) if depth < 64 => open.push((below, depth + 1)),
                Some(what) => found.push(Below { path: below, found: what, empty: false }),
                None => found.push(Below { path: below, found: Found::Other, empty: false }),
            }
        }
        if found.len() > most {
            break;
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// A name below a folder.
pub(crate) fn join(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_owned(),
        (folder, "") => folder.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_walked_in_order() {
        let files = Memory::of("r/etc/b", "").with("r/etc/a/c", "").with("x", "");
        let paths: Vec<String> = walk(&files, "r", 10).into_iter().map(|b| b.path).collect();
        assert_eq!(paths, ["etc/a/c", "etc/b"]);
        assert_eq!(files.look("r/etc"), Some(Found::Folder));
        assert_eq!(files.list(""), ["r", "x"]);
    }

    #[test]
    fn paths_stay_in_the_folder() {
        assert_eq!(clean("./a//b/../c").as_deref(), Some("a/c"));
        assert_eq!(clean("a/../../b"), None);
    }
}
