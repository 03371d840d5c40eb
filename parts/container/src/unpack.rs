//! Unpacks a layer of the store into its folder: made in `staging`, checked, then renamed into its place. The packed file
//! of a layer that is refused goes, unless a kept image needs it.

use std::fs::File;
use std::path::{Path, PathBuf};

use netloom_oci::media::Packing;
use netloom_sys::Failure;
use serde::{Deserialize, Serialize};

use crate::error::wrong_digest;
use crate::options::{Limits, Owners};
use crate::tar::{self, Trouble};
use crate::tree::Tree;
use crate::unpacking::Plain;
use crate::{Error, Layer, Result, Store, pins, store};

/// The tree of a layer's folder, and what stands beside it.
const TREE: &str = "fs";
const ABOUT: &str = "about.json";

/// Facts about an unpacked layer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct About {
    /// Bytes of the archive.
    bytes: u64,
    /// Its entries.
    entries: u64,
    /// It hides all layers below.
    #[serde(default)]
    hides_all: bool,
}

/// The trees of an image's layers, the lowest first, as an overlay needs them: those below one that hides all are left
/// out.
///
/// # Errors
/// One of them is not there.
pub fn trees(store: &Store, layers: &[Layer], owners: Owners) -> Result<Vec<PathBuf>> {
    let mut trees = Vec::new();
    for layer in layers {
        let folder = store.layer(&layer.chain, owners);
        let about = folder.join(ABOUT);
        let about: About = store::read(&about).map_err(|e| Failure::path(&about, "read", e))?;
        if about.hides_all {
            trees.clear();
        }
        trees.push(folder.join(TREE));
    }
    Ok(trees)
}

/// Whether a layer is unpacked.
pub fn is_there(store: &Store, layer: &Layer, owners: Owners) -> bool {
    store.layer(&layer.chain, owners).join(ABOUT).exists()
}

/// Unpacks the layers of an image whose packed ones are in the store, in this process, which must have the rights to make
/// files as `owners` says.
///
/// # Errors
/// Layer, entry and step.
pub fn unpack(store: &Store, record: &crate::Record, owners: Owners, limits: Limits) -> Result<()> {
    let job = Job { store, image: &record.name, layers: &record.layers, owners, limits };
    (0..record.layers.len()).try_for_each(|index| job.unpack(index, &mut |_| ()))
}

/// The layers to unpack, and their owner.
pub(crate) struct Job<'a> {
    pub(crate) store: &'a Store,
    pub(crate) image: &'a str,
    pub(crate) layers: &'a [Layer],
    pub(crate) owners: Owners,
    pub(crate) limits: Limits,
}

impl Job<'_> {
    /// Unpacks one of the layers, unless it is there; those below are. `tell` hears of unpacked bytes.
    pub(crate) fn unpack(&self, index: usize, tell: &mut dyn FnMut(u64)) -> Result<()> {
        let layer = &self.layers[index];
        if is_there(self.store, layer, self.owners) {
            return Ok(());
        }
        let kind = if self.owners.are_kept() { "many-" } else { "one-" };
        let _held = self.store.hold(kind, &layer.chain)?;
        // Again, under the lock: another process may have unpacked it.
        if is_there(self.store, layer, self.owners) {
            return Ok(());
        }
        let (staged, _locked) = self.store.stage(&format!("layer-{}", layer.chain.short()))?;
        let done = self.fill(&staged, index, tell).and_then(|()| {
            let place = self.store.layer(&layer.chain, self.owners);
            Ok(std::fs::rename(&staged, &place).map_err(|e| Failure::path(place, "put", e))?)
        });
        if let Err(e) = &done {
            store::remove_tree(&staged);
            // Not for this machine's faults: with room or rights the same file may succeed.
            let is_refused = matches!(e, Error::Layer { .. } | Error::Digest { .. });
            if is_refused && !pins::need(self.store, &layer.blob) {
                let _ = std::fs::remove_file(self.store.blob(&layer.blob));
            }
        }
        done
    }

    fn fill(&self, staged: &Path, index: usize, tell: &mut dyn FnMut(u64)) -> Result<()> {
        let layer = &self.layers[index];
        let tree = staged.join(TREE);
        std::fs::create_dir(&tree).map_err(|e| Failure::path(&tree, "make folder", e))?;
        let below = trees(self.store, &self.layers[..index], self.owners)?;
        let mut tree = Tree::new(&tree, &below, self.owners)?;
        let blob = self.store.blob(&layer.blob);
        let file = File::open(&blob).map_err(|e| Failure::path(&blob, "open", e))?;
        let mut plain = Plain::of(file, packing_of(&blob)?, self.limits.bytes);
        let entries = tar::apply(&mut plain, &mut tree, self.limits, tell)
            .map_err(|trouble| self.trouble(index, &trouble))?;
        let bytes = plain.come();
        let found = plain
            .finish()
            .map_err(|e| self.trouble(index, &Trouble { entry: None, wrong: e.into() }))?;
        // Over all bytes, also behind the archive's end.
        if found != layer.diff_id {
            let what = format!("{}, unpacked", self.named(index));
            return Err(wrong_digest(self.image, &what, &layer.diff_id, &found));
        }
        let about = About { bytes, entries, hides_all: tree.hides_all };
        // Last: its presence says that the layer is whole.
        self.store.write(&staged.join(ABOUT), &about)
    }

    /// `layer 2 of 5, sha256:…`
    fn named(&self, index: usize) -> String {
        format!("layer {} of {}, {}", index + 1, self.layers.len(), self.layers[index].blob)
    }

    fn trouble(&self, index: usize, trouble: &Trouble) -> Error {
        let entry =
            trouble.entry.as_ref().map(|entry| format!("entry {entry:?}: ")).unwrap_or_default();
        let (step, why) = (trouble.wrong.step, &trouble.wrong.why);
        let why = format!("{}: {entry}{step}: {why}", self.named(index));
        let image = self.image.to_owned();
        match trouble.wrong.is_machines {
            true => Error::Unpack { image, why },
            false => Error::Layer { image, why },
        }
    }
}

/// How a layer is packed: what its bytes look like counts, since media types are wrong now and then.
fn packing_of(blob: &Path) -> Result<Packing> {
    use std::io::Read;
    let mut first = [0; 4];
    let read = File::open(blob).and_then(|mut file| file.read(&mut first));
    let count = read.map_err(|e| Failure::path(blob, "read", e))?;
    Ok(Packing::seen(&first[..count]))
}
