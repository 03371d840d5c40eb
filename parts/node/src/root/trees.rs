//! The host's tree in parts that have mounts of their own: what of it nodes see, and how.

use std::fs;
use std::path::{Path, PathBuf};

use netloom_sys::mountinfo::Mount;
use netloom_sys::setup::Access;

use crate::files::access_of;

/// File system types whose files nodes should see. Others (proc, cgroup, …) are kernel interfaces, which are
/// mounted again or left out.
const FILE_SYSTEMS: [&str; 14] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "overlay", "nfs", "nfs4",
    "squashfs", "vfat", "bcachefs",
];

/// Directories that a node gets of its own: nothing of the host shows there.
pub(super) const OWN: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Directories in which every node may write, whatever the host's are like.
pub(super) const SCRATCH: [&str; 2] = ["/tmp", "/var/tmp"];

/// Directories of programs. In a user namespace they are not writable anyway.
const PROGRAMS: [&str; 9] =
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "boot", "lost+found"];

/// A part of the host's tree with its own mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// Under an overlay: the path, and its owner and permissions.
    Overlay(PathBuf, Access),
    /// Shown unchanged and read-only.
    Bind(PathBuf),
    /// A directory that this user cannot read, replaced by an empty one of the node's own (user namespaces
    /// only).
    Own(PathBuf),
    /// A symbolic link at top level (user namespaces only): the path and its target.
    Link(PathBuf, String),
}

impl Tree {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        match self {
            Tree::Overlay(path, _) | Tree::Bind(path) | Tree::Own(path) | Tree::Link(path, _) => {
                path
            }
        }
    }
}

/// File systems mounted below `/` that nodes should see, parents before children. One that is mounted within another
/// that they do not see is left out, too: nodes have no place for it.
pub(super) fn below_root(mounts: &[Mount]) -> Vec<Tree> {
    let mut all: Vec<&Mount> = mounts.iter().filter(|m| m.path != Path::new("/")).collect();
    // Of several at one place the last counts: it covers the others.
    all.reverse();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all.dedup_by(|a, b| a.path == b.path);
    let mut trees = Vec::new();
    let mut unseen: Vec<&Path> = Vec::new();
    for mount in all {
        if unseen.iter().any(|above| mount.path.starts_with(above)) {
            continue;
        }
        match is_seen(mount) {
            true if mount.read_only => trees.push(Tree::Bind(mount.path.clone())),
            true => trees.push(Tree::Overlay(mount.path.clone(), access_of(&mount.path, false))),
            false => unseen.push(&mount.path),
        }
    }
    trees
}

/// Whether nodes see a mount of the host.
fn is_seen(mount: &Mount) -> bool {
    let path = &mount.path;
    let hidden = OWN.iter().any(|own| path.starts_with(own)) || path.starts_with("/boot/efi");
    let has_files =
        FILE_SYSTEMS.contains(&mount.fstype.as_str()) || mount.fstype.starts_with("fuse.");
    !hidden && has_files && path.is_dir()
}

/// The entries of `/`, for user namespaces.
pub(super) fn top_level() -> Vec<Tree> {
    let mut trees = Vec::new();
    for entry in fs::read_dir("/").into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if OWN.iter().any(|o| Path::new(o) == path) {
            continue;
        }
        if kind.is_symlink() {
            if let Ok(to) = fs::read_link(&path) {
                trees.push(Tree::Link(path, to.to_string_lossy().into_owned()));
            }
        } else if kind.is_dir() && fs::read_dir(&path).is_err() {
            trees.push(Tree::Own(path));
        } else if kind.is_dir() {
            let name = entry.file_name();
            if PROGRAMS.iter().any(|p| *p == name) {
                trees.push(Tree::Bind(path));
            } else {
                let access = access_of(&path, true);
                trees.push(Tree::Overlay(path, access));
            }
        }
    }
    // A fixed order makes runs reproducible.
    trees.sort_by(|a, b| a.path().cmp(b.path()));
    trees
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(path: &Path, fstype: &str, read_only: bool) -> Mount {
        let (path, fstype) = (path.to_owned(), fstype.to_owned());
        let (root, source, super_options) = ("/".into(), "none".into(), String::new());
        Mount { path, root, fstype, read_only, source, super_options }
    }

    #[test]
    fn what_is_mounted_in_something_unseen_is_unseen() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let mounts = [
            mount(Path::new("/"), "ext4", false),
            mount(&at("sys"), "sysfs", false),
            mount(&at("sys/fs/cgroup"), "tmpfs", false),
            mount(&at("system"), "tmpfs", false),
            mount(&at("covered"), "sysfs", false),
            mount(&at("covered/old"), "tmpfs", false),
            mount(&at("covered"), "ext4", true),
            mount(&at("covers"), "ext4", false),
            mount(&at("covers"), "proc", false),
            mount(&folder.path().join("gone/deep"), "tmpfs", false),
        ];
        let seen = [
            Tree::Bind(at("covered")),
            Tree::Overlay(at("covered/old"), access_of(&at("covered/old"), false)),
            Tree::Overlay(at("system"), access_of(&at("system"), false)),
        ];
        assert_eq!(below_root(&mounts), seen);
    }
}
