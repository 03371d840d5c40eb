//! The state file of a switch: records of what changes (`netloom_ofconn::record_file`), read and written as [`Record`]s.

use std::path::Path;

use netloom_ofconn::record_file::RecordFile;

use crate::state::Content;
use crate::{Error, Result};

/// The file in errors.
const OBJECT: &str = "openflow switch: state file";

/// The file.
#[derive(Debug)]
pub(crate) struct Journal(RecordFile);

impl Journal {
    /// The file at a path, which need not exist; nothing is read or written yet.
    pub(crate) fn new(path: &Path) -> Journal {
        Journal(RecordFile::new(path, OBJECT))
    }

    /// What it says; `None` if there is no file, or an empty one.
    ///
    /// # Errors
    /// [`Error::Failed`], or [`Error::BrokenState`] if it is malformed or contradictory.
    pub(crate) fn read(&self) -> Result<Option<Content>> {
        let path = self.0.path().to_owned();
        let Some(bytes) = self.0.read()? else { return Ok(None) };
        let broken = |reason: String| Error::BrokenState { path, reason };
        let (content, whole) = Content::read(&bytes).map_err(broken)?;
        Ok((whole > 0).then_some(content))
    }

    /// Begins to write another file that is to replace this one; what is appended meanwhile is in both.
    ///
    /// # Errors
    /// [`Error::Failed`]; the old content is then intact. The same holds for [`Journal::more`] and [`Journal::finish`].
    pub(crate) fn begin(&mut self) -> Result<()> {
        Ok(self.0.begin()?)
    }

    /// Writes more records of it, already as bytes.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub(crate) fn more(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.more(bytes)?)
    }

    /// Puts it in the place of the old one.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub(crate) fn finish(&mut self) -> Result<()> {
        Ok(self.0.finish()?)
    }

    /// Appends records, already as bytes.
    ///
    /// # Errors
    /// [`Error::Failed`]; the file is then to be rewritten.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.append(bytes)?)
    }

    /// Whether it is to be rewritten: most of it is no more than what has been replaced. The tables need `needed` bytes.
    pub(crate) fn is_long(&self, needed: u64) -> bool {
        self.0.is_long(needed)
    }
}
