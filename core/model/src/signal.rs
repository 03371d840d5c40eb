//! The signal that asks a program to end.

use serde::{Deserialize, Serialize};

/// A signal that programs know as a request to end, or to end and finish what they are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum StopSignal {
    /// SIGHUP.
    Hup,
    /// SIGINT.
    Int,
    /// SIGKILL.
    Kill,
    /// SIGQUIT.
    Quit,
    /// SIGTERM.
    #[default]
    Term,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// SIGWINCH.
    Winch,
}

/// The words in a lab file, in the order of [`StopSignal`].
pub(crate) const WORDS: [&str; 8] = ["HUP", "INT", "KILL", "QUIT", "TERM", "USR1", "USR2", "WINCH"];

impl StopSignal {
    const ALL: [StopSignal; 8] = [
        StopSignal::Hup,
        StopSignal::Int,
        StopSignal::Kill,
        StopSignal::Quit,
        StopSignal::Term,
        StopSignal::Usr1,
        StopSignal::Usr2,
        StopSignal::Winch,
    ];

    /// What a word in a lab file stands for.
    pub(crate) fn of_word(word: &str) -> Option<StopSignal> {
        WORDS
            .iter()
            .zip(StopSignal::ALL)
            .find(|(known, _)| **known == word)
            .map(|(_, signal)| signal)
    }

    /// Its word in a lab file.
    pub(crate) fn word(self) -> &'static str {
        let known = WORDS.iter().zip(StopSignal::ALL).find(|(_, signal)| *signal == self);
        known.map_or("TERM", |(word, _)| word)
    }

    /// What an image's text stands for: `SIGQUIT`, `QUIT` or `3`.
    pub fn of_text(text: &str) -> Option<StopSignal> {
        let number = match text {
            "1" => "HUP",
            "2" => "INT",
            "3" => "QUIT",
            "9" => "KILL",
            "10" => "USR1",
            "12" => "USR2",
            "15" => "TERM",
            "28" => "WINCH",
            other => other,
        };
        let upper = number.to_ascii_uppercase();
        StopSignal::of_word(upper.strip_prefix("SIG").unwrap_or(&upper))
    }

    /// Whether it is the usual one.
    pub(crate) fn is_usual(&self) -> bool {
        *self == StopSignal::default()
    }
}
