//! Paths of the host that a lab names, relative to its file or absolute.

use std::path::{Path, PathBuf};

use netloom_oci::Source;

use super::{FileContent, Lab, NodeSpec};
use crate::kinds::openflow::TlsFiles;

impl NodeSpec {
    /// Whether it names something of the host by path.
    pub fn has_paths(&self) -> bool {
        let from = |content: &FileContent| matches!(content, FileContent::From(_));
        self.root.is_some()
            || self.image.is_some()
            || !self.kind.is_default()
            || !self.binds.is_empty()
            || self.files.iter().any(|file| from(&file.content))
    }

    /// Every path of the host in it, except those of images.
    fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = self.files.iter_mut().filter_map(|file| match &mut file.content {
            FileContent::From(path) => Some(path),
            FileContent::Text(_) => None,
        });
        let binds = self.binds.iter_mut().map(|bind| &mut bind.from);
        self.kind.paths_mut().chain(&mut self.root).chain(files).chain(binds)
    }

    /// Makes its paths absolute; `base` is the folder that they are relative to.
    pub fn make_absolute(&mut self, base: &Path) {
        for path in self.paths_mut() {
            *path = base.join(&*path);
        }
        if let Some(image) = &mut self.image
            // Only a source that is a path changes; a name at a registry is none.
            && let Ok(source) = image.name.parse::<Source>()
        {
            image.name = source.at(base).to_string();
        }
    }
}

impl Lab {
    /// Whether it names something of the host by path.
    pub(crate) fn has_paths(&self) -> bool {
        let mut tls = self.switches.iter().map(|switch| switch.kind.as_openflow());
        tls.any(|options| options.is_some_and(|of| of.tls.is_some()))
            || self.slices.iter().any(|slice| slice.tls.is_some())
            || self.nodes.iter().any(|node| node.has_paths())
    }

    fn tls_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let switches = self.switches.iter_mut().filter_map(|switch| switch.kind.tls_mut());
        let slices = self.slices.iter_mut().filter_map(|slice| slice.tls.as_mut());
        switches.chain(slices).flat_map(TlsFiles::paths_mut)
    }

    /// Makes its paths absolute; `base` is the folder of its file.
    pub fn make_absolute(&mut self, base: &Path) {
        for path in self.tls_mut() {
            *path = base.join(&*path);
        }
        for node in self.nodes.iter_mut().filter(|node| node.has_paths()) {
            node.make_absolute(base);
        }
    }

    /// Makes paths below this folder relative to it, for a file there.
    pub fn make_relative(&mut self, folder: &Path) {
        let shorten = |path: &mut PathBuf| {
            let inner = path.strip_prefix(folder).ok().map(Path::to_owned);
            if let Some(inner) = inner {
                *path = if inner.as_os_str().is_empty() { ".".into() } else { inner };
            }
        };
        self.tls_mut().for_each(shorten);
        for node in self.nodes.iter_mut().filter(|node| node.has_paths()) {
            node.paths_mut().for_each(shorten);
        }
    }
}
