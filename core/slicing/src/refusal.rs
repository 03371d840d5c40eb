//! Why a message of a controller is refused, for it and for people.

use netloom_openflow::{FlowMod, GroupMod, Instruction, Reason, text};

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

/// Actions and buckets of a message that are shown, and letters of its text: refusals are kept for people.
const SHOWN: usize = 8;
const MOST_TEXT: usize = 500;

/// The first of them; whether there are more is noted.
fn few<T: Clone>(all: &[T], short: &mut bool) -> Vec<T> {
    *short |= all.len() > SHOWN;
    all.iter().take(SHOWN).cloned().collect()
}

/// A text; of a long one the beginning.
fn brief(text: &str, short: bool) -> String {
    let end = text.char_indices().nth(MOST_TEXT).map(|(at, _)| at);
    let whole = text.get(..end.unwrap_or(text.len())).unwrap_or(text);
    format!("{whole}{}", if short || end.is_some() { " \u{2026}" } else { "" })
}

/// A change of rules as text; of a long one the beginning.
pub(crate) fn flow(said: &FlowMod) -> String {
    let mut short = false;
    let mut instructions = few(&said.instructions, &mut short);
    for instruction in &mut instructions {
        if let Instruction::ApplyActions(all) | Instruction::WriteActions(all) = instruction {
            *all = few(all, &mut short);
        }
    }
    let whole = FlowMod { instructions, matching: said.matching.clone(), ..*said };
    brief(&text::print_flow(&whole), short)
}

/// A change of a group as text; of a long one the beginning.
pub(crate) fn group(said: &GroupMod) -> String {
    let mut short = false;
    let mut buckets = few(&said.buckets, &mut short);
    for bucket in &mut buckets {
        bucket.actions = few(&bucket.actions, &mut short);
    }
    brief(&text::print_group(&GroupMod { buckets, ..*said }), short)
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
