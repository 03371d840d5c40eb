//! Which labs use which images: a lab's pin counts as long as its folder has a state.

use std::fs;
use std::path::{Path, PathBuf};

use netloom_oci::Digest;
use serde::{Deserialize, Serialize};

use crate::locks::Held;
use crate::store::{self, Store};
use crate::{Record, Result};

/// What a lab uses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pin {
    /// The lab's name.
    pub lab: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its images.
    pub images: Vec<Record>,
}

impl Pin {
    /// Whether the lab is still there.
    fn counts(&self) -> bool {
        self.folder.join("state.json").exists()
    }
}

/// The store, held so that nobody removes from it.
#[derive(Debug)]
pub struct Hold(#[allow(dead_code, reason = "alive, it holds the store")] Held);

/// Holds the store.
///
/// # Errors
/// Somebody removes from it, and does not end.
pub fn hold(store: &Store) -> Result<Hold> {
    store.share().map(Hold)
}

/// Notes what a lab uses, before it does. Who notes holds the store until the lab's state is written.
///
/// # Errors
/// The store cannot be written.
pub fn pin(store: &Store, pin: &Pin) -> Result<()> {
    store.write(&place(store, &pin.folder), pin)
}

/// Takes a lab's pin away.
pub fn release(store: &Store, folder: &Path) {
    let _ = fs::remove_file(place(store, folder));
}

/// The pins that count, by lab. Others stay: one may be that of a lab that is coming up, whose state is not written yet.
pub fn all(store: &Store) -> Vec<Pin> {
    let mut found: Vec<Pin> = noted(store).into_iter().filter(Pin::counts).collect();
    found.sort_by(|a, b| a.lab.cmp(&b.lab));
    found
}

/// Removes the pins that do not count. The caller holds the store alone, so that no lab is coming up.
pub(crate) fn sweep(store: &Store) {
    for entry in fs::read_dir(store.at("pins")).into_iter().flatten().flatten() {
        if !store::read::<Pin>(&entry.path()).is_ok_and(|pin| pin.counts()) {
            // Written for a lab that never came up, or unreadable.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether an image or a lab needs a packed layer.
pub(crate) fn need(store: &Store, blob: &Digest) -> bool {
    // Labs that are coming up count here: their layers must not go while they are unpacked.
    let of_labs = noted(store).into_iter().flat_map(|pin| pin.images);
    let mut images = store.records().into_iter().chain(of_labs);
    images.any(|record| record.layers.iter().any(|layer| layer.blob == *blob))
}

/// All pins, also of labs that are coming up.
fn noted(store: &Store) -> Vec<Pin> {
    let files = fs::read_dir(store.at("pins")).into_iter().flatten().flatten();
    files.filter_map(|entry| store::read(&entry.path()).ok()).collect()
}

fn place(store: &Store, folder: &Path) -> PathBuf {
    // A path may be longer than a file's name.
    let hash = Digest::of(folder.as_os_str().as_encoded_bytes());
    store.at("pins").join(format!("{}.json", &hash.hex()[..32]))
}
