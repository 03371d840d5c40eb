//! Parses flag values.

use anyhow::{Context, Result};

/// Parses a number after a flag.
pub(super) fn number(flag: &str, value: Option<&String>) -> Result<u64> {
    let value = value.with_context(|| format!("{flag} needs a number"))?;
    value.parse().with_context(|| format!("{flag}: `{value}` is not a number"))
}

/// Parses a small number after a flag.
pub(super) fn small(flag: &str, value: Option<&String>) -> Result<u32> {
    u32::try_from(number(flag, value)?).with_context(|| format!("{flag}: too many"))
}
