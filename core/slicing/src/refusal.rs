//! Why a message of a controller is refused, for it and for people.

use netloom_openflow::Reason;

use crate::Example;
use crate::proof::Breach;

/// Why a message of a controller was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error that the controller gets.
    pub reason: Reason,
    /// In words: what it asked for, and why that cannot be.
    pub words: String,
    /// A packet with which it would touch another slice, or leave its own.
    pub example: Option<Example>,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, words: impl Into<String>) -> Refusal {
        Refusal { reason, words: words.into(), example: None }
    }

    /// With what was refused, as text.
    pub(crate) fn about(self, what: &str, text: &str) -> Refusal {
        Refusal { words: format!("{what} \"{text}\": {}", self.words), ..self }
    }
}

impl From<Breach> for Refusal {
    fn from(breach: Breach) -> Refusal {
        Refusal { reason: breach.reason, words: breach.words, example: breach.example }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.words, self.reason.name())?;
        match &self.example {
            Some(example) => write!(f, "; for example {example}"),
            None => Ok(()),
        }
    }
}
