//! What a state says of an image.

use std::path::PathBuf;

use netloom_oci::manifest::Settings;
use serde::{Deserialize, Serialize};

/// An image as a lab uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// The digest of its manifest.
    pub digest: String,
    /// The folders of its layers, the lowest first.
    pub layers: Vec<PathBuf>,
    /// What its program runs with.
    pub settings: Settings,
}
