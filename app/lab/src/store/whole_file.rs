//! Files that are never partial: written under another name and renamed.
//!
//! For state that must survive a kill of the lab process at any moment. Nothing is synced to disk: the state
//! does not outlive the machine's uptime.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Writes a file readable by its owner alone, replacing an existing one.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(&beside).and_then(|mut f| f.write_all(bytes));
    written.and_then(|()| fs::rename(&beside, path)).map_err(Error::at(path, "write"))
}

/// Writes a value as JSON, like [`write`].
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    // Mostly as long as the one before: a large lab's is 2 MB, which takes longer to grow than to write.
    let before = fs::metadata(path).map_or(0, |found| found.len());
    let mut text = Vec::with_capacity(usize::try_from(before + before / 8).unwrap_or(0));
    serde_json::to_writer(&mut text, value).map_err(Error::at(path, "encode"))?;
    write(path, &text)
}

/// The value that [`write_json`] wrote; `None` if there is no file.
pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::at(path, "read")(e)),
    };
    serde_json::from_slice(&text).map(Some).map_err(Error::at(path, "read"))
}
