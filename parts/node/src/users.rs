//! What changing owners and users means in a node.
//!
//! The lab's user namespace says which users there are; a node may have less of that than the others. What is set here
//! is inherited by all that the node's programs start.

use netloom_sys::{Result, caps, fake_chown};
use serde::{Deserialize, Serialize};

/// What a node's programs get when they change owners, users and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Users {
    /// What the kernel says: all users of the lab's user namespace are there.
    #[default]
    Kernel,
    /// "Done", and nothing is: they stay root.
    Pretended,
    /// A refusal: they stay root, although the lab has more users.
    RootAlone,
}

impl Users {
    /// Begins with it, for this process and its future children; before its capabilities are limited.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn begin(self) -> Result<()> {
        match self {
            Users::Kernel => Ok(()),
            Users::Pretended => fake_chown::begin(),
            Users::RootAlone => caps::stay_root(),
        }
    }
}
