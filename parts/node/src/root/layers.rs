//! The overlays that make up a node's tree, and what is shown where a directory cannot be under one.

use std::path::{Path, PathBuf};

use netloom_sys::setup::{Access, Setup};
use netloom_sys::{Failure, Result};

use super::trees::{OWN, SCRATCH, Tree};
use super::{BONES, Shared};
use crate::files::inside;
use crate::spec::NodeSpec;

/// One overlay mount of a node.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) at: PathBuf,
    pub(super) lower: Vec<PathBuf>,
    pub(super) upper: PathBuf,
    pub(super) work: PathBuf,
    pub(super) access: Access,
}

/// A part of the host's tree as a node has it.
struct ShownTree<'a> {
    at: &'a Path,
    layer: Option<&'a Layer>,
    writable: bool,
}

impl Shared {
    /// The overlays of this node; the root's comes first.
    pub(super) fn layers(&self, spec: &NodeSpec, own: &Path) -> Vec<Layer> {
        let shared = self.base.join("shared");
        let layer = |n: usize, at: &Path, lower: Vec<PathBuf>, access| Layer {
            at: at.to_owned(),
            lower,
            upper: own.join(format!("u{n}")),
            work: own.join(format!("w{n}")),
            access,
        };
        let root = Path::new("/");
        // Everybody may traverse the root itself, even if its directory was private.
        let open = Access::root(0o755);
        if spec.has_own_root() {
            // An overlay takes its lower directories from the top down.
            let own = spec.root.iter().chain(spec.layers.iter().rev()).cloned();
            let lower = std::iter::once(shared).chain(own).collect();
            return vec![layer(0, root, lower, open)];
        }
        let mut layers = Vec::new();
        if !self.user {
            layers.push(layer(0, root, vec![shared.clone(), root.to_owned()], open));
        }
        for tree in &self.trees {
            if let Tree::Overlay(path, access) = tree {
                let mut lower = vec![path.clone()];
                if self.filled.contains(path) {
                    lower.insert(0, inside(&self.base.join(BONES), path));
                }
                if path == Path::new("/etc") {
                    lower.insert(0, inside(&shared, path));
                }
                layers.push(layer(layers.len() + 1, path, lower, *access));
            }
        }
        layers
    }

    pub(super) fn mount_trees(
        &self,
        setup: &impl Setup,
        spec: &NodeSpec,
        own: &Path,
        merged: &Path,
        layers: &[Layer],
    ) -> Result<()> {
        let mut layers = layers.iter();
        if self.user && !spec.has_own_root() {
            setup.mkdir(&own.join("root"), 0o755)?;
            setup.bind(&own.join("root"), merged, false)?;
        } else if let Some(root) = layers.next() {
            self.overlay(setup, root, merged)?;
        }
        if !spec.has_own_root() {
            let mut shown = Vec::new();
            for tree in &self.trees {
                let layer = if matches!(tree, Tree::Overlay(..)) { layers.next() } else { None };
                let writable = self.mount_tree(setup, tree, merged, layer)?;
                shown.push(ShownTree { at: tree.path(), layer, writable });
            }
            self.open_scratch(setup, own, merged, &shown)?;
        }
        for dir in OWN {
            setup.mkdir(&inside(merged, Path::new(dir)), 0o755)?;
        }
        Ok(())
    }

    /// Shows a part of the host's tree, and says whether the node may write there.
    fn mount_tree(
        &self,
        setup: &impl Setup,
        tree: &Tree,
        merged: &Path,
        layer: Option<&Layer>,
    ) -> Result<bool> {
        let target = inside(merged, tree.path());
        match tree {
            Tree::Link(_, to) => setup.symlink(to, &target).map(|()| true),
            Tree::Own(at) => {
                let is_scratch = SCRATCH.iter().any(|dir| Path::new(dir) == at);
                setup.mkdir(&target, if is_scratch { 0o1777 } else { 0o755 }).map(|()| true)
            }
            Tree::Bind(at) => {
                self.mount_point(setup, &target)?;
                match self.show_read_only(setup, at, merged) {
                    // Without its programs no node is of use.
                    Err(refused) if self.user => Err(refused),
                    _ => Ok(false),
                }
            }
            Tree::Overlay(at, _) => {
                self.mount_point(setup, &target)?;
                if layer.is_some_and(|layer| self.overlay(setup, layer, &target).is_ok()) {
                    return Ok(true);
                }
                // Not every file system can be a lower layer; mounts below it lock others. What cannot be shown at all,
                // because it is gone or its server is, is left out.
                let _ = self.show_read_only(setup, at, merged);
                if let Some(layer) = layer {
                    self.show_placed(setup, layer, &target)?;
                }
                Ok(false)
            }
        }
    }

    /// Shows a directory of the host as it is, at its path in the node. In a user namespace that is with what is mounted
    /// below it, which must be read-only, too; elsewhere such mounts are trees of their own.
    fn show_read_only(&self, setup: &impl Setup, at: &Path, merged: &Path) -> Result<()> {
        if self.user {
            return setup.show(at, merged, at, false);
        }
        let target = inside(merged, at);
        setup.bind(at, &target, false)?;
        setup.read_only(&target)
    }

    /// Shows files that were placed in a layer which is not mounted, each over the host's. Those that every node has are left
    /// out where the host has none.
    fn show_placed(&self, setup: &impl Setup, layer: &Layer, target: &Path) -> Result<()> {
        let own = std::iter::once(&layer.upper);
        for from in layer.lower.iter().filter(|lower| lower.starts_with(&self.base)).chain(own) {
            for file in files_below(from) {
                let name = file.strip_prefix(from).unwrap_or(&file);
                let (at, path) = (target.join(name), layer.at.join(name));
                if SCRATCH.iter().any(|dir| path.starts_with(dir)) {
                    continue;
                }
                // A link would be followed in the host's tree.
                if at.symlink_metadata().is_ok_and(|found| found.is_file()) {
                    setup.bind(&file, &at, false)?;
                } else if *from == layer.upper && path != Path::new("/etc/resolv.conf") {
                    let shown = layer.at.display();
                    let why = format!("{shown} is read-only here: something is mounted in it");
                    return Err(Failure::new(format!("file {path:?}"), "put it in", why).into());
                }
            }
        }
        Ok(())
    }

    /// Gives the node a `/tmp` and a `/var/tmp` of its own where the host's could only be shown read-only.
    fn open_scratch(
        &self,
        setup: &impl Setup,
        own: &Path,
        merged: &Path,
        shown: &[ShownTree<'_>],
    ) -> Result<()> {
        for (index, dir) in SCRATCH.iter().map(Path::new).enumerate() {
            let around = shown.iter().filter(|tree| dir.starts_with(tree.at));
            let nearest = around.max_by_key(|tree| tree.at.components().count());
            let Some(tree) = nearest.filter(|tree| !tree.writable) else { continue };
            // A link of the host leads elsewhere.
            if !std::fs::canonicalize(dir).is_ok_and(|real| real == dir) {
                continue;
            }
            let backing = match tree.layer {
                // Files may have been placed there.
                Some(layer) => {
                    let within = dir.strip_prefix(tree.at).unwrap_or(dir);
                    // Without a slash at the end where the layer is that directory's own.
                    layer.upper.iter().chain(within.iter()).collect()
                }
                None => own.join(format!("scratch{index}")),
            };
            setup.mkdir(&backing, 0o1777)?;
            setup.bind(&backing, &inside(merged, dir), false)?;
        }
        Ok(())
    }

    /// In a user namespace the root is an empty directory of the node's own.
    fn mount_point(&self, setup: &impl Setup, target: &Path) -> Result<()> {
        if self.user { setup.mkdir(target, 0o755) } else { Ok(()) }
    }

    fn overlay(&self, setup: &impl Setup, layer: &Layer, target: &Path) -> Result<()> {
        let lower: Vec<&Path> = layer.lower.iter().map(PathBuf::as_path).collect();
        setup.overlay(&lower, Some((&layer.upper, &layer.work)), target, self.user)
    }
}

/// The regular files in a directory and those below it.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files
}
