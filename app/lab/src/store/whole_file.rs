//! Files that are whole or not there: written beside and renamed.
//!
//! For what the lab process must find again after it was killed at any moment. Nothing is forced to the
//! disk: all of it lives no longer than the machine runs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Writes a file that only its owner reads in the place of what is there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(&beside).and_then(|mut f| f.write_all(bytes));
    written.and_then(|()| fs::rename(&beside, path)).map_err(Error::at(path, "write"))
}

/// The same with a value as JSON.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(value).map_err(Error::at(path, "encode"))?;
    write(path, &text)
}

/// What [`write_json`] wrote; `None` where there is no file.
pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::at(path, "read")(e)),
    };
    serde_json::from_slice(&text).map(Some).map_err(Error::at(path, "read"))
}
