//! The host's tree in parts that have mounts of their own: what of it nodes see, and how.

use std::fs;
use std::path::{Path, PathBuf};

use netloom_sys::mountinfo::Mount;
use netloom_sys::setup::Access;

use crate::files::access_of;

/// File system types whose files nodes should see. Others (proc, cgroup, …) are kernel interfaces, which are
/// mounted anew or left out.
const FILE_SYSTEMS: [&str; 14] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "overlay", "nfs", "nfs4",
    "squashfs", "vfat", "bcachefs",
];

/// Directories that a node gets of its own: nothing of the host shows there.
pub(super) const OWN: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

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

/// File systems mounted below `/` that nodes should see, parents before children.
pub(super) fn below_root(mounts: &[Mount]) -> Vec<Tree> {
    let hidden = |p: &Path| OWN.iter().any(|o| p.starts_with(o)) || p.starts_with("/boot/efi");
    let mut trees: Vec<(PathBuf, Tree)> = mounts
        .iter()
        .filter(|m| m.path != Path::new("/") && !hidden(&m.path) && m.path.is_dir())
        .filter(|m| FILE_SYSTEMS.contains(&m.fstype.as_str()) || m.fstype.starts_with("fuse."))
        .map(|m| {
            let tree = if m.read_only {
                Tree::Bind(m.path.clone())
            } else {
                Tree::Overlay(m.path.clone(), access_of(&m.path, false))
            };
            (m.path.clone(), tree)
        })
        .collect();
    trees.sort_by(|a, b| a.0.cmp(&b.0));
    trees.dedup_by(|a, b| a.0 == b.0);
    trees.into_iter().map(|(_, tree)| tree).collect()
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
    trees.sort_by_key(|t| match t {
        Tree::Overlay(p, _) | Tree::Bind(p) | Tree::Own(p) | Tree::Link(p, _) => p.clone(),
    });
    trees
}
