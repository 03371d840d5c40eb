//! Files that are there when they are finished, or not at all. Until then they have no name, so that nothing is left of
//! them whenever this process ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Whether a file takes this path's place: a regular file is there, by its name or a link, or nothing. Devices, pipes
/// and the like are written to: root's rename(2) would put a file in the place of /dev/null.
pub(crate) fn is_replaced(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file())
}

/// Writes a file, in the place of one that is there, with its mode and where possible its owner; or into what cannot be replaced.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    if !is_replaced(path) {
        return OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
    }
    let found = fs::metadata(path).ok();
    let fill = |mut file: File| {
        // Before the text: a file that only its owner reads stays one.
        if let Some(found) = &found {
            take_after(&file, found)?;
        }
        file.write_all(text.as_bytes()).map(|()| file)
    };
    let done = nameless(path).and_then(&fill).and_then(|file| put(&file, path));
    done.or_else(|_| {
        // Where a file system has no files without names.
        let draft = draft(path);
        let made = OpenOptions::new().write(true).create_new(true).open(&draft);
        place(&draft, path, made.and_then(&fill).and_then(|file| file.sync_all()))
    })
}

/// Gives a file the mode of the one that it replaces, and where possible its owner.
fn take_after(file: &File, found: &fs::Metadata) -> io::Result<()> {
    // Root leaves a user's file to the user; others may not give files away.
    let _ = std::os::unix::fs::fchown(file, Some(found.uid()), Some(found.gid()));
    file.set_permissions(found.permissions())
}

/// A file that is written piece by piece. What is at its path stays until it is put there; dropped before, nothing is left.
pub(crate) struct Draft {
    file: File,
    path: PathBuf,
    /// Its name until then, where a file system has no files without names.
    name: Option<PathBuf>,
}

impl Draft {
    /// Begins a file with the mode of that which it replaces; a new one is the user's alone.
    pub(crate) fn begin(path: &Path) -> io::Result<Draft> {
        let (file, name) = match nameless(path) {
            Ok(file) => (file, None),
            Err(_) => {
                let name = draft(path);
                let mut options = OpenOptions::new();
                let options = options.write(true).create_new(true).mode(0o600);
                (options.open(&name)?, Some(name))
            }
        };
        let begun = Draft { file, path: path.to_owned(), name };
        match fs::metadata(path) {
            Ok(found) => take_after(&begun.file, &found)?,
            Err(_) => begun.file.set_permissions(fs::Permissions::from_mode(0o600))?,
        }
        Ok(begun)
    }

    /// The file, to be written.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Puts it in its place.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match self.name.take() {
            Some(name) => place(&name, &self.path, self.file.sync_all()),
            None => put(&self.file, &self.path),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::remove_file(name);
        }
    }
}

/// A file without a name in the folder of the path.
pub(crate) fn nameless(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let folder = folder.unwrap_or(Path::new("."));
    Ok(File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666))?))
}

/// Gives a file without a name this one, in the place of a file that is there.
pub(crate) fn put(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let draft = draft(path);
    let linked = rustix::fs::linkat(CWD, own, CWD, &draft, AtFlags::SYMLINK_FOLLOW);
    place(&draft, path, linked.map_err(io::Error::from))
}

fn draft(path: &Path) -> PathBuf {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.new", std::process::id()));
    draft.into()
}

fn place(draft: &Path, path: &Path, made: io::Result<()>) -> io::Result<()> {
    let placed = made.and_then(|()| fs::rename(draft, path));
    if placed.is_err() {
        let _ = fs::remove_file(draft);
    }
    placed
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, symlink};

    use super::*;

    #[test]
    fn a_link_is_replaced_and_a_device_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "kept").unwrap();
        symlink("file", path("to-file")).unwrap();
        symlink("none", path("to-nothing")).unwrap();
        symlink("/dev/null", path("to-device")).unwrap();
        for name in ["file", "none", "to-file", "to-nothing"] {
            assert!(is_replaced(&path(name)), "{name}");
        }
        assert!(!is_replaced(&path("to-device")) && !is_replaced(Path::new("/dev/null")));
    }

    #[test]
    fn a_pipe_stays_one_and_gets_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
        // Open for both, so that neither side waits for the other.
        let mut reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        write(&pipe, "name: a\n").unwrap();
        let mut found = [0; 8];
        reader.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"name: a\n");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_file_in_another_s_place_has_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        write(&file, "new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(folder.path(), "new").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
