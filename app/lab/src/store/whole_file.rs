//! Values in files that are never partial: written under another name and renamed.
//!
//! For state that must survive a kill of the lab process at any moment. Nothing is synced to disk: the state
//! does not outlive the machine's uptime.

use netloom_sys::trusted::TrustedDir;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Most bytes that are set aside before they are needed.
const MOST_AHEAD: usize = 64 << 20;

/// Writes a value as JSON, readable by its owner alone, replacing an existing file.
pub(crate) fn write_json(dir: &TrustedDir, name: &str, value: &impl Serialize) -> Result<()> {
    // Mostly as long as the one before: a large lab's is 2 MB, which takes longer to grow than to write. The one before may
    // be anything.
    let before = dir.status(name).and_then(|found| usize::try_from(found.st_size).ok());
    let before = before.unwrap_or_default().min(MOST_AHEAD);
    let mut text = Vec::with_capacity(before + before / 8);
    serde_json::to_writer(&mut text, value).map_err(Error::at(dir.path_of(name), "encode"))?;
    dir.write(name, &text).map_err(Error::in_runtime(dir.path()))
}

/// The value that [`write_json`] wrote; `None` if there is no file.
pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(
    dir: &TrustedDir,
    name: &str,
) -> Result<Option<T>> {
    let Some(text) = dir.read(name).map_err(Error::in_runtime(dir.path()))? else {
        return Ok(None);
    };
    serde_json::from_slice(&text).map(Some).map_err(Error::at(dir.path_of(name), "read"))
}
