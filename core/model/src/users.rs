//! Which users and groups a node has.

use serde::{Deserialize, Serialize};

/// The users and groups of a node. Without it a node has the real ones where the machine gives its lab any, else
/// fake ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Ids {
    /// Real ones: programs change to other users, and give files to them.
    Real,
    /// Root alone; changes of users and owners say that they succeeded, and do nothing.
    Fake,
    /// Root alone; changes of users and owners fail.
    One,
}

/// The words in a lab file.
pub(crate) const WORDS: [&str; 3] = ["real", "fake", "one"];

impl Ids {
    /// The word in a lab file.
    pub fn word(self) -> &'static str {
        match self {
            Ids::Real => WORDS[0],
            Ids::Fake => WORDS[1],
            Ids::One => WORDS[2],
        }
    }

    /// What a word in a lab file stands for.
    pub(crate) fn of_word(word: &str) -> Option<Ids> {
        [Ids::Real, Ids::Fake, Ids::One].into_iter().find(|ids| ids.word() == word)
    }
}
