//! What happens when a program or a machine ends.

use serde::{Deserialize, Serialize};

/// When a node's init restarts a program that ends: never, on failure (its exit status was not 0), or always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Restart {
    /// Leave it.
    #[default]
    Never,
    /// Restart it when its exit status was not 0.
    #[serde(alias = "on_failure")]
    OnFailure,
    /// Always restart it.
    Always,
}
