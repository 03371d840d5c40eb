//! Standard input, which stands for a lab file by `-`, and why such files cannot be read.

use std::io::{self, Read};
use std::sync::OnceLock;

use anyhow::Result;
use netloom_model::MAX_BYTES;

/// The path that stands for standard input.
pub(crate) const STDIN: &str = "-";

/// Standard input in messages.
pub(crate) const STDIN_SHOWN: &str = "(standard input)";

/// A lab file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{shown}: {operation}: {source}")]
pub(crate) struct Unreadable {
    pub(crate) shown: String,
    pub(crate) operation: &'static str,
    pub(crate) source: io::Error,
}

/// The content of standard input, which is read once: a verb that starts over gets the same text.
pub(crate) fn read() -> Result<Vec<u8>> {
    static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
    if TEXT.get().is_none() {
        let mut text = Vec::new();
        // One byte more than allowed tells a text that is too large.
        let mut input = io::stdin().lock().take(MAX_BYTES + 1);
        input.read_to_end(&mut text).map_err(|source| Unreadable {
            shown: STDIN_SHOWN.to_owned(),
            operation: "read",
            source,
        })?;
        TEXT.get_or_init(|| text);
    }
    let text = TEXT.get().cloned().unwrap_or_default();
    let too_large = netloom_model::too_large(STDIN_SHOWN, text.len() as u64);
    too_large.map_or(Ok(text), |too_large| Err(too_large.into()))
}
