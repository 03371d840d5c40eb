//! The state file: records are appended as things change, and it is written anew when it has grown.
//!
//! Each append is one write, before whoever asked for the change is answered; so a process that is killed has lost
//! nothing that it confirmed. The file is not forced to a disk: it need not outlive the machine's run, as the switch does not.
//! Written anew, it is made under another name and renamed, so it is always whole. Its mode is 0600.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use netloom_sys::Failure;

use crate::state::{Content, Record};
use crate::{Error, Result};

/// Longest file in bytes that is read: a million entries need a fifth of it.
const MOST: u64 = 2 << 30;

/// Bytes that the file may have before it is written anew, beside twice what it had then, or what the tables need.
const SPARE: u64 = 4 << 20;

/// The file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    beside: PathBuf,
    file: Option<File>,
    /// Bytes now, and when it was written anew.
    length: u64,
    base: u64,
}

impl Journal {
    /// The file at a path, which need not exist; nothing is read or written yet.
    pub(crate) fn new(path: &Path) -> Journal {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        Journal { path: path.to_owned(), beside: beside.into(), file: None, length: 0, base: 0 }
    }

    /// What it says; `None` if there is no file, or an empty one.
    ///
    /// # Errors
    /// [`Error::Failed`], or [`Error::BrokenState`] if it is malformed or contradictory.
    pub(crate) fn read(&self) -> Result<Option<Content>> {
        let broken = |reason: String| Error::BrokenState { path: self.path.clone(), reason };
        let failed = |e: std::io::Error| Error::from(Failure::new(self.object(), "read", e));
        match std::fs::metadata(&self.path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
            Ok(facts) if !facts.is_file() => return Err(broken("it is no file".into())),
            Ok(facts) if facts.len() > MOST => {
                return Err(broken(format!("{} bytes; at most {MOST}", facts.len())));
            }
            Ok(_) => {}
        }
        let bytes = std::fs::read(&self.path).map_err(failed)?;
        let (content, whole) = Content::read(&bytes).map_err(broken)?;
        Ok((whole > 0).then_some(content))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// [`Error::Failed`]; the old content is then intact.
    pub(crate) fn rewrite(&mut self, records: impl Iterator<Item = Record>) -> Result<()> {
        let failed = |e: std::io::Error| Error::from(Failure::new(self.object(), "write", e));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&self.beside).map_err(failed)?;
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        let (mut buffer, mut length) = (vec![], 0);
        for record in records {
            buffer.clear();
            // What cannot be said cannot have been asked for by a message either.
            if record.write(&mut buffer).is_ok() {
                writer.write_all(&buffer).map_err(failed)?;
                length += buffer.len();
            }
        }
        let file = writer.into_inner().map_err(|e| failed(e.into_error()))?;
        std::fs::rename(&self.beside, &self.path).map_err(failed)?;
        self.length = u64::try_from(length).unwrap_or(u64::MAX);
        (self.base, self.file) = (self.length, Some(file));
        Ok(())
    }

    /// Appends records, already as bytes.
    ///
    /// # Errors
    /// [`Error::Failed`]; the file is then to be written anew.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let wrote = match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        self.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        wrote.map_err(|e| {
            // A part of it may have been written.
            self.file = None;
            Failure::new(self.object(), "append to", e).into()
        })
    }

    /// Whether it is to be written anew: most of it is no more than what has been replaced. The tables need `needed` bytes.
    pub(crate) fn is_long(&self, needed: u64) -> bool {
        self.file.is_none() || self.length > 2 * self.base.max(needed) + SPARE
    }

    /// The file in errors.
    fn object(&self) -> String {
        format!("openflow switch: state file {}", self.path.display())
    }
}
