//! What layers below say about a path: the highest that has it counts, unless one between hides it.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use netloom_sys::Failure;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno;

use crate::Result;

/// The overlay's mark of a directory that hides those below, for root and for ordinary users.
pub(crate) const OPAQUE: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];

/// Layers, the highest first.
pub(crate) struct Below {
    layers: Vec<OwnedFd>,
}

/// A file of a layer below.
pub(crate) struct Found<'a> {
    pub(crate) layer: &'a OwnedFd,
    pub(crate) stat: Stat,
}

pub(crate) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

pub(crate) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// The text of a path, for calls that resolve it below a directory.
pub(crate) fn text(parts: &[Vec<u8>]) -> Vec<u8> {
    if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') }
}

impl Below {
    /// Opens folders of layers, the lowest first.
    pub(crate) fn open(folders: &[PathBuf]) -> Result<Below> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &PathBuf| {
            rustix::fs::open(path, flags, Mode::empty())
                .map_err(|e| Failure::path(path, "open", e).into())
        };
        Ok(Below { layers: folders.iter().rev().map(open).collect::<Result<_>>()? })
    }

    /// What there is at a path without symbolic links in its directories.
    pub(crate) fn find(&self, parts: &[Vec<u8>]) -> rustix::io::Result<Option<Found<'_>>> {
        for layer in &self.layers {
            let mut hides = false;
            // Each directory on the way: one that is a whiteout or opaque decides about all below
            // it.
            for end in 1..=parts.len().max(1) {
                let upto = &parts[..end.min(parts.len())];
                let stat = match rustix::fs::statat(layer, text(upto), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => stat,
                    Err(Errno::NOENT) => break,
                    Err(e) => return Err(e),
                };
                if is_whiteout(&stat) {
                    return Ok(None);
                }
                if upto.len() == parts.len() {
                    return Ok(Some(Found { layer, stat }));
                }
                // A file in a directory's place hides what lower layers have below that name.
                if !is_directory(&stat) {
                    return Ok(None);
                }
                hides |= is_opaque(layer, upto);
            }
            if hides {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

fn is_opaque(layer: &OwnedFd, parts: &[Vec<u8>]) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::openat(layer, text(parts), flags, Mode::empty()) else {
        return false;
    };
    OPAQUE.iter().any(|name| {
        let mut value = [0; 1];
        // Overlayfs takes exactly `y` for opaque; `x` marks other things (overlayfs.rst).
        matches!(rustix::fs::fgetxattr(&folder, *name, &mut value[..]), Ok(1)) && &value == b"y"
    })
}

/// Copies the attributes of a file or directory that an image may set.
pub(crate) fn copy_attributes(from: impl AsFd, to: impl AsFd) -> rustix::io::Result<()> {
    let mut names = vec![0_u8; 64 << 10];
    let length = match rustix::fs::flistxattr(&from, &mut names[..]) {
        Ok(length) => length,
        // A file system without attributes has none to copy.
        Err(Errno::NOTSUP) => return Ok(()),
        Err(e) => return Err(e),
    };
    for name in names[..length].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if !netloom_oci::entry::is_allowed_attribute(name) {
            continue;
        }
        let mut value = vec![0_u8; 64 << 10];
        let length = rustix::fs::fgetxattr(&from, name, &mut value[..])?;
        rustix::fs::fsetxattr(&to, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}

/// Opens a regular file or directory of a layer to read it.
pub(crate) fn open_in(layer: &OwnedFd, parts: &[Vec<u8>]) -> rustix::io::Result<File> {
    // NONBLOCK: opening a FIFO of an image must not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(layer, text(parts), flags, Mode::empty())?))
}
