//! What a node says about its image.

use serde::{Deserialize, Serialize};

/// When an image is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum PullWhen {
    /// If it is not on this machine.
    #[default]
    Missing,
    /// Whenever the lab is made.
    Always,
    /// Never: it must be there.
    Never,
}

/// The words in a lab file.
pub(crate) const WORDS: [&str; 3] = ["missing", "always", "never"];

impl PullWhen {
    /// The word in a lab file.
    pub fn word(self) -> &'static str {
        match self {
            PullWhen::Missing => WORDS[0],
            PullWhen::Always => WORDS[1],
            PullWhen::Never => WORDS[2],
        }
    }

    /// What a word in a lab file stands for.
    pub(crate) fn of_word(word: &str) -> Option<PullWhen> {
        let all = [PullWhen::Missing, PullWhen::Always, PullWhen::Never];
        all.into_iter().find(|when| when.word() == word)
    }
}

/// The image that a node's root is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ImageUse {
    /// Its name, as its source is written: `quay.io/frrouting/frr:9.1.0`, `oci:DIR:NAME`.
    pub name: String,
    /// When it is fetched.
    #[serde(default)]
    pub pull: PullWhen,
    /// Whether the image's own program starts: the lab gives no `run`.
    #[serde(default)]
    pub starts: bool,
    /// Instead of the image's entrypoint, and without the image's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// Instead of the image's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
}
