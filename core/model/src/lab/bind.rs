//! Files and directories of the host that a node sees where they are, not as copies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A file or directory of the host, shown in a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Bind {
    /// Where the node has it: an absolute path without `..`.
    pub to: String,
    /// A path on the host, relative to the lab file.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub from: PathBuf,
    /// Whether the node may change it.
    #[serde(default, skip_serializing_if = "super::is_not")]
    pub write: bool,
}
