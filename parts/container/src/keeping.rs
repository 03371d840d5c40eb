//! Which images are here, and what goes: removed by name, or because nothing needs it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use netloom_oci::Source;
use netloom_sys::Failure;
use serde::Serialize;

use crate::options::Owners;
use crate::pins::{self, Pin};
use crate::{Error, Record, Result, Store, unpacker};

/// An image that is here.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    /// The image.
    #[serde(flatten)]
    pub record: Record,
    /// Bytes of its layers as packed.
    pub bytes: u64,
    /// Labs that use it.
    pub labs: Vec<String>,
}

/// The removed objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Names.
    pub images: Vec<String>,
    /// Unpacked layers.
    pub layers: usize,
    /// Bytes of packed layers.
    pub bytes: u64,
}

/// All images, by name.
pub fn list(store: &Store) -> Vec<Kept> {
    let pins = pins::all(store);
    let kept = |record: Record| {
        let (bytes, labs) = (record.bytes(), labs_of(&pins, &record));
        Kept { record, bytes, labs }
    };
    store.records().into_iter().map(kept).collect()
}

/// The image of a name or of the beginning of a digest.
///
/// # Errors
/// There is none, or several.
pub fn find(store: &Store, text: &str) -> Result<Kept> {
    let all = list(store);
    let name = text.parse::<Source>().map(|source| source.to_string()).ok();
    if let Some(kept) = all.iter().find(|kept| Some(&kept.record.name) == name.as_ref()) {
        return Ok(kept.clone());
    }
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    // Fewer digits would often name several.
    let is_it = |kept: &&Kept| digits.len() >= 6 && kept.record.digest.hex().starts_with(digits);
    let mut found = all.iter().filter(is_it);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(_), Some(_)) => Err(Error::image(text, "several images have this digest: name one")),
        (None, _) => Err(Error::Missing { image: text.to_owned() }),
    }
}

fn labs_of(pins: &[Pin], record: &Record) -> Vec<String> {
    let uses = |pin: &&Pin| {
        pin.images.iter().any(|used| used.name == record.name && used.digest == record.digest)
    };
    pins.iter().filter(uses).map(|pin| pin.lab.clone()).collect()
}

/// Removes images, and what nothing else needs.
///
/// # Errors
/// One is not here, or a lab uses it: then nothing is removed.
pub fn remove(store: &Store, names: &[String]) -> Result<Removed> {
    // Alone: a lab that comes up meanwhile could begin to use what goes.
    let held = store.alone()?;
    // All are checked before one goes.
    let mut going = Vec::new();
    for name in names {
        let kept = find(store, name)?;
        if let Some(lab) = kept.labs.first() {
            return Err(Error::InUse { image: kept.record.name, lab: lab.clone() });
        }
        going.push(kept.record.name);
    }
    going.sort();
    going.dedup();
    for name in &going {
        store.forget(name)?;
    }
    let mut removed = drop_unneeded(store)?;
    removed.images = going;
    // Trees take long to remove, and need no lock: they were moved out of the way.
    drop(held);
    unpacker::clean(store);
    Ok(removed)
}

/// Removes what nothing needs; with `all` also the images that no lab uses.
///
/// # Errors
/// The store is being used, or cannot be written.
pub fn prune(store: &Store, all: bool) -> Result<Removed> {
    let held = store.alone()?;
    let mut going = Vec::new();
    for kept in list(store).into_iter().filter(|kept| all && kept.labs.is_empty()) {
        store.forget(&kept.record.name)?;
        going.push(kept.record.name);
    }
    let mut removed = drop_unneeded(store)?;
    removed.images = going;
    // Under the lock nobody fetches: whatever is there was left behind.
    for folder in ["partial", "locks"] {
        for entry in fs::read_dir(store.at(folder)).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
    }
    drop(held);
    unpacker::clean(store);
    Ok(removed)
}

/// Moves layers that no image and no lab needs to where they are removed, and removes packed ones. The store is held
/// alone.
fn drop_unneeded(store: &Store) -> Result<Removed> {
    pins::sweep(store);
    let mut needed = store.records();
    needed.extend(pins::all(store).into_iter().flat_map(|pin| pin.images));
    let layers = || needed.iter().flat_map(|record| &record.layers);
    let chains: BTreeSet<&str> = layers().map(|layer| layer.chain.hex()).collect();
    let blobs: BTreeSet<&str> = layers().map(|layer| layer.blob.hex()).collect();
    let mut removed = Removed::default();
    for entry in entries(&store.at("blobs")).filter(|(name, _)| !blobs.contains(name.as_str())) {
        removed.bytes += entry.1.metadata().map(|found| found.len()).unwrap_or(0);
        let path = entry.1.path();
        fs::remove_file(&path).map_err(|e| Failure::path(path, "remove", e))?;
    }
    // Root's layers are in the folder of `Many`.
    for owners in [Owners::Many, Owners::One] {
        let folder = store.at(owners.folder());
        for (name, entry) in entries(&folder).filter(|(name, _)| !chains.contains(name.as_str())) {
            let gone = store.at("staging").join(format!("gone-{}-{name}", owners.folder()));
            let path = entry.path();
            // Rename is one step: a killed process leaves no half layer that looks whole.
            fs::rename(&path, gone).map_err(|e| Failure::path(path, "remove", e))?;
            removed.layers += 1;
        }
    }
    Ok(removed)
}

fn entries(folder: &Path) -> impl Iterator<Item = (String, fs::DirEntry)> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry)))
}

/// The names of all images.
pub fn names(store: &Store) -> Vec<String> {
    store.records().into_iter().map(|record| record.name).collect()
}
