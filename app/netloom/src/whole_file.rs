//! Files that are there when they are finished, or not at all. Until then they have no name, so that nothing is left of
//! them whenever this process ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Writes a file, in the place of one that is there.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let fill = |mut file: File| file.write_all(text.as_bytes()).map(|()| file);
    let done = nameless(path).and_then(fill).and_then(|file| put(&file, path));
    done.or_else(|_| {
        // Where a file system has no files without names.
        let draft = draft(path);
        let made = OpenOptions::new().write(true).create_new(true).open(&draft);
        place(&draft, path, made.and_then(fill).and_then(|file| file.sync_all()))
    })
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
