//! Why a text is not a value of a key, and what may have been meant.

use std::fmt;

use netloom_config::{Kind, closest, quote, resolve};

/// Why a text is not a value of a key, and what may have been meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    /// The fault: one line, without the key.
    pub problem: String,
    /// Help, one line.
    pub help: Option<String>,
}

impl Misread {
    /// `expected WHAT, found TEXT`.
    pub(crate) fn expected(what: &str, text: &str) -> Misread {
        format!("expected {what}, found {}", found(text)).into()
    }

    /// The same with help.
    pub(crate) fn with(self, help: Option<String>) -> Misread {
        Misread { help, ..self }
    }
}

impl From<String> for Misread {
    fn from(problem: String) -> Misread {
        Misread { problem, help: None }
    }
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

/// A value as shown in messages about files: quoted if it is text.
pub(crate) fn found(text: &str) -> String {
    match resolve(text) {
        Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) => text.to_owned(),
        _ => quote(text),
    }
}

pub(crate) fn unknown_key(key: &str, keys: &[&str]) -> Misread {
    // `limits.memory`, as files nest it.
    let last = key.rsplit('.').next().filter(|last| keys.contains(last));
    let help = match last.or_else(|| closest(key, keys.iter().copied())) {
        Some(near) => format!("did you mean {}?", quote(near)),
        None => format!("keys: {}", keys.join(", ")),
    };
    Misread::from(format!("unknown key {}", quote(key))).with(Some(help))
}
