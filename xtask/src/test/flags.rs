//! Parses flag values.

use anyhow::{Context, Result};

/// Parses a number after a flag.
pub(super) fn number(flag: &str, value: Option<&String>) -> Result<u64> {
    let value = value.with_context(|| format!("{flag} needs a number"))?;
    value.parse().with_context(|| format!("{flag}: `{value}` is no number"))
}
