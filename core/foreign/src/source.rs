//! The files of another program's lab, as an import sees them: by paths relative to the lab's folder.

use std::collections::BTreeMap;

use crate::{Error, Job, MOST_BYTES, Result, Verdict};

/// The object at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A file with these permission bits.
    File {
        /// Permission bits.
        mode: u32,
    },
    /// A folder.
    Folder,
    /// A link that leads out of the lab's folder, or a path through one.
    Away,
    /// Something else: a device, a socket, a link that leads nowhere, or one to a folder.
    Other,
}

/// Where an import finds files. Paths are relative to the lab's folder, with `/` between names; the folder itself is
/// the empty path. Absolute paths, and those that begin with `..`, are the host's: a lab file has named them itself.
/// Below the lab's folder no link leads out of it.
pub trait Files {
    /// The object at a path.
    fn look(&self, path: &str) -> Option<Found>;

    /// The names in a folder, in order.
    fn list(&self, folder: &str) -> Vec<String>;

    /// A file's bytes, at most [`MOST_BYTES`] and one more; nothing of what is [`Found::Away`].
    fn read(&self, path: &str) -> Option<Vec<u8>>;

    /// Where a path leads in the end that is a link, or is [`Found::Away`]; `None` of any other.
    fn target(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }
}

/// Whether a path is the host's.
pub(crate) fn is_hosts(path: &str) -> bool {
    path.starts_with('/') || path == ".." || path.starts_with("../")
}

/// Why something that is there is not taken.
pub(crate) fn refusal(files: &dyn Files, path: &str) -> String {
    let target = files.target(path).map(|target| format!(", to {target:?}"));
    match (files.look(path), target) {
        (Some(Found::Away), target) => {
            format!("it leads out of the lab's folder{}", target.unwrap_or_default())
        }
        (Some(Found::File { .. }), None) => "it cannot be read as text".to_owned(),
        (Some(Found::Folder), None) => "it is a folder".to_owned(),
        (_, Some(target)) => format!("it is a link{target}"),
        (_, None) => "neither a file nor a folder".to_owned(),
    }
}

/// The text of a file that may be there. One that is there and cannot be read is left out, and says why.
pub(crate) fn text_or_tell(job: &Job<'_>, path: &str, what: &str) -> Option<String> {
    let found = text(job.files, path);
    if found.is_none() && job.files.look(path).is_some() {
        let id = job.ledger.enter(path, 0, what);
        job.ledger.say(id, Verdict::LeftOut(refusal(job.files, path)));
    }
    found
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
    let away = "leads out of the lab's folder; name the file itself";
    let content = files.read(path).ok_or_else(|| match files.look(path) {
        Some(Found::Away) => fail(away),
        _ => fail("cannot be read"),
    })?;
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

/// Everything below a folder that is not a folder with something in it, in order; at most `most`. Below a folder of the
/// host no link is followed.
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
            let full = join(folder, &below);
            match files.look(&full) {
                Some(Found::File { .. }) if is_hosts(folder) && files.target(&full).is_some() => {
                    found.push(Below { path: below, found: Found::Other, empty: false });
                }
                Some(Found::Folder) if depth < 64 => open.push((below, depth + 1)),
                Some(what) => found.push(Below { path: below, found: what, empty: false }),
                None => found.push(Below { path: below, found: Found::Other, empty: false }),
            }
        }
        // One more than allowed is enough: the caller refuses the folder by that.
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
