//! What the store knows of an image.

use std::time::{SystemTime, UNIX_EPOCH};

use netloom_oci::Digest;
use netloom_oci::manifest::{Config, Descriptor, Manifest, Platform, Settings};
use netloom_oci::media::Packing;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// An image in the store, under one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name, as a source is written.
    pub name: String,
    /// The digest of its manifest or, from `docker save`, of its configuration.
    pub digest: Digest,
    /// For which machines it is.
    pub platform: Platform,
    /// When it was made, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// When it came: Unix time in seconds.
    pub fetched: u64,
    /// What its program runs with.
    pub settings: Settings,
    /// Its layers, the lowest first.
    pub layers: Vec<Layer>,
}

/// A layer of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The digest of its tar archive.
    pub diff_id: Digest,
    /// The digest of that as packed: its file in the store.
    pub blob: Digest,
    /// Bytes as packed.
    pub bytes: u64,
    /// How it is packed.
    pub packing: Packing,
    /// What it and all below it are called: its folder.
    pub chain: Digest,
}

impl Record {
    /// Gives every layer the name of its folder.
    pub(crate) fn chained(mut self) -> Record {
        let mut below: Option<Digest> = None;
        for layer in &mut self.layers {
            // The OCI's ChainID: the same layer above other ones is another folder.
            let chain = layer.diff_id.above(below.as_ref());
            layer.chain = chain.clone();
            below = Some(chain);
        }
        self
    }

    /// Bytes of its layers as packed.
    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.bytes).sum()
    }
}

/// The record of an image from its manifest and configuration.
///
/// # Errors
/// Their layers differ, or one is not a tar archive.
pub(crate) fn of(
    name: &str,
    digest: &Digest,
    manifest: &Manifest,
    config: Config,
) -> Result<Record> {
    let refused = |e: netloom_oci::Error| Error::image(name, e);
    let packings = manifest.packings().map_err(refused)?;
    let diff_ids = &config.rootfs.diff_ids;
    if diff_ids.len() != manifest.layers.len() {
        let (layers, ids) = (manifest.layers.len(), diff_ids.len());
        return Err(Error::image(
            name,
            format!("its manifest has {layers} layers, its config {ids}"),
        ));
    }
    let layer = |((descriptor, diff_id), packing): ((&Descriptor, &Digest), Packing)| Layer {
        diff_id: diff_id.clone(),
        blob: descriptor.digest.clone(),
        bytes: descriptor.size,
        packing,
        chain: diff_id.clone(),
    };
    let layers = manifest.layers.iter().zip(diff_ids).zip(packings).map(layer).collect();
    Ok(with(name, digest.clone(), config, layers))
}

/// The record of an image with these layers.
pub(crate) fn with(name: &str, digest: Digest, config: Config, layers: Vec<Layer>) -> Record {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let record = Record {
        name: name.to_owned(),
        digest,
        platform: config.platform(),
        created: config.created.clone(),
        fetched: now.as_secs(),
        settings: config.config.unwrap_or_default(),
        layers,
    };
    record.chained()
}
