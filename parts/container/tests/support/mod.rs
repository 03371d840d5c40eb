//! Layers made by hand, stores of images made of them, and a registry that does as it is told.

pub(crate) mod layer;
pub(crate) mod server;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netloom_container::{Layer, Limits, Owners, Record, Store, unpack};
use netloom_oci::Digest;
use netloom_oci::manifest::{Platform, Settings};
use netloom_oci::media::Packing;

pub(crate) use layer::Tar;

/// A store in a folder of its own.
pub(crate) struct Scratch {
    pub(crate) store: Store,
    _folder: tempfile::TempDir,
}

pub(crate) fn scratch() -> Scratch {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("images")).unwrap();
    Scratch { store, _folder: folder }
}

/// Owners that this process can make: root's, or all its own.
pub(crate) fn owners() -> Owners {
    if netloom_kit::is_root() { Owners::Root } else { Owners::One }
}

/// Packed layers as a record, whose files are put into the store.
pub(crate) fn image(store: &Store, layers: &[Vec<u8>]) -> Record {
    let mut below = None;
    let mut all = Vec::new();
    for bytes in layers {
        let digest = Digest::of(bytes);
        std::fs::write(store.blob(&digest), bytes).unwrap();
        let chain = digest.above(below.as_ref());
        below = Some(chain.clone());
        let (blob, packing, bytes) = (digest.clone(), Packing::Plain, bytes.len() as u64);
        all.push(Layer { diff_id: digest, blob, bytes, packing, chain });
    }
    Record {
        name: "test:1".to_owned(),
        digest: Digest::of(b"manifest"),
        platform: Platform::linux(std::env::consts::ARCH),
        created: None,
        fetched: 0,
        settings: Settings::default(),
        layers: all,
    }
}

/// Unpacks layers; the trees, the lowest first.
pub(crate) fn trees(scratch: &Scratch, layers: &[Vec<u8>]) -> Vec<PathBuf> {
    let record = image(&scratch.store, layers);
    unpack::unpack(&scratch.store, &record, owners(), Limits::default())
        .unwrap_or_else(|e| panic!("{}", netloom_sys::describe(&e)));
    unpack::trees(&scratch.store, &record.layers, owners()).unwrap()
}

/// Why layers cannot be unpacked.
pub(crate) fn refusal(scratch: &Scratch, layers: &[Vec<u8>], limits: Limits) -> String {
    let record = image(&scratch.store, layers);
    let refused = unpack::unpack(&scratch.store, &record, owners(), limits).unwrap_err();
    netloom_sys::describe(&refused)
}

/// Permission bits, with set-id and sticky bits.
pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

pub(crate) fn is_whiteout(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let found = std::fs::symlink_metadata(path).unwrap();
    found.file_type().is_char_device() && found.rdev() == 0
}

pub(crate) fn is_opaque(path: &Path) -> bool {
    ["trusted.overlay.opaque", "user.overlay.opaque"].iter().any(|name| {
        let mut value = [0; 8];
        matches!(rustix::fs::getxattr(path, *name, &mut value[..]), Ok(1))
    })
}

/// Only the folders of complete objects have entries.
pub(crate) fn nothing_is_half_made(store: &Store) {
    let staging = store.root().join("staging");
    let left: Vec<_> = std::fs::read_dir(staging).unwrap().flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
