//! A file of records: appended to as things change, and rewritten when it has grown.
//!
//! Each append is one write, before the requester of the change is answered; so a process that is killed has lost
//! nothing that it confirmed. The file is not forced to a disk: it need not outlive the machine's run. Rewritten, it
//! is made under another name and renamed, so it is always whole; that may be done some at a time, while what changes is
//! appended to both. Its mode is 0600. What records are is the caller's.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use netloom_sys::Failure;

use crate::Time;

/// Longest file in bytes that is read.
const MOST: u64 = 2 << 30;

/// Bytes that the file may have before it is rewritten, beside twice what it had then, or what its content needs.
const SPARE: u64 = 4 << 20;

/// Records that are written at once.
const PIECE: usize = 1 << 20;

/// Nanoseconds before a file that could not be written is tried again: others are to be served meanwhile.
const PAUSE: Time = 10_000_000_000;

/// When a file that could not be written may be tried again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry(Time);

impl Retry {
    /// Whether it may be tried now.
    pub fn is_due(self, now: Time) -> bool {
        now >= self.0
    }

    /// It could not be written now.
    pub fn failed(&mut self, now: Time) {
        self.0 = now + PAUSE;
    }
}

/// The file.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    beside: PathBuf,
    /// Whose it is, in failures.
    object: &'static str,
    file: Option<File>,
    /// The one that is being written, and its bytes.
    new: Option<(File, u64)>,
    /// Bytes now, and when it was rewritten.
    length: u64,
    base: u64,
}

impl RecordFile {
    /// The file at a path, which need not exist; nothing is read or written yet. `object` says whose it is, in failures.
    pub fn new(path: &Path, object: &'static str) -> RecordFile {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let (path, beside) = (path.to_owned(), beside.into());
        RecordFile { path, beside, object, file: None, new: None, length: 0, base: 0 }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it has; `None` if there is no file.
    ///
    /// # Errors
    /// The system refuses, it is not a file, or it is longer than any that was written here.
    pub fn read(&self) -> Result<Option<Vec<u8>>, Failure> {
        let wrong = |reason: String| self.failed("read")(io::Error::other(reason));
        match std::fs::metadata(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.failed("read")(e)),
            Ok(facts) if !facts.is_file() => return Err(wrong("it is not a file".into())),
            Ok(facts) if facts.len() > MOST => {
                return Err(wrong(format!("{} bytes; at most {MOST}", facts.len())));
            }
            Ok(_) => {}
        }
        std::fs::read(&self.path).map(Some).map_err(self.failed("read"))
    }

    /// Replaces the file. `next` appends the next record to what it is given, and returns whether there was one.
    ///
    /// # Errors
    /// The system refuses; the old content is then intact.
    pub fn rewrite(&mut self, mut next: impl FnMut(&mut Vec<u8>) -> bool) -> Result<(), Failure> {
        self.begin()?;
        let mut buffer = vec![];
        while next(&mut buffer) {
            if buffer.len() >= PIECE {
                self.more(&buffer)?;
                buffer.clear();
            }
        }
        self.more(&buffer)?;
        self.finish()
    }

    /// Begins to write another file that is to replace this one. Records appended meanwhile are in both.
    ///
    /// # Errors
    /// The system refuses; the old content is then intact. The same holds for [`RecordFile::more`] and
    /// [`RecordFile::finish`], after which one may start over.
    pub fn begin(&mut self) -> Result<(), Failure> {
        let mut options = OpenOptions::new();
        // One may be there that was not finished.
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&self.beside).map_err(self.failed("write"))?;
        self.new = Some((file, 0));
        Ok(())
    }

    /// Writes more records of it.
    ///
    /// # Errors
    /// As [`RecordFile::begin`].
    pub fn more(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        // Mostly no other file is being written.
        let Some((file, length)) = &mut self.new else { return Ok(()) };
        *length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let wrote = file.write_all(bytes);
        if wrote.is_err() {
            self.new = None;
        }
        wrote.map_err(self.failed("write"))
    }

    /// Puts it in the place of the old one.
    ///
    /// # Errors
    /// As [`RecordFile::begin`].
    pub fn finish(&mut self) -> Result<(), Failure> {
        let Some((file, length)) = self.new.take() else { return Ok(()) };
        std::fs::rename(&self.beside, &self.path).map_err(self.failed("write"))?;
        (self.length, self.base, self.file) = (length, length, Some(file));
        Ok(())
    }

    /// Appends records.
    ///
    /// # Errors
    /// The system refuses; the file is then to be rewritten.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let wrote = match &mut self.file {
            Some(file) => file.write_all(bytes),
            // A file is opened by rewriting it alone, so that it never begins in an earlier one's
            // middle.
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        self.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        wrote.map_err(|e| {
            // A part of it may have been written.
            self.file = None;
            self.failed("append to")(e)
        })?;
        self.more(bytes)
    }

    /// Whether it is to be rewritten: most of it is no more than what has been replaced. Its content needs `needed` bytes.
    pub fn is_long(&self, needed: u64) -> bool {
        self.file.is_none() || self.length > 2 * self.base.max(needed) + SPARE
    }

    fn failed(&self, operation: &'static str) -> impl FnOnce(io::Error) -> Failure + use<> {
        let object = format!("{} {}", self.object, self.path.display());
        move |e| Failure::new(object, operation, e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn of(records: &[&[u8]]) -> impl FnMut(&mut Vec<u8>) -> bool {
        let mut all: Vec<Vec<u8>> = records.iter().rev().map(|one| one.to_vec()).collect();
        move |to| all.pop().map(|one| to.extend(one)).is_some()
    }

    #[test]
    fn it_has_what_was_written_and_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut file = RecordFile::new(&path, "a test: file");
        assert_eq!(file.read().unwrap(), None);
        assert!(file.append(b"x").is_err() && file.is_long(0), "nothing was begun");
        file.rewrite(of(&[b"ab", b"c"])).unwrap();
        file.append(b"de").unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"abcde"[..]));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!file.is_long(0));
        file.append(&vec![0; 5 << 20]).unwrap();
        assert!(file.is_long(0) && !file.is_long(1 << 20));
        file.rewrite(of(&[])).unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some(&b""[..]));
        file.append(b"old").unwrap();
        file.begin().unwrap();
        file.more(b"ab").unwrap();
        file.append(b"new").unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"oldnew"[..]));
        file.more(b"cd").unwrap();
        file.finish().unwrap();
        file.append(b"er").unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some(&b"abnewcder"[..]));
        let why = RecordFile::new(folder.path(), "a test: file").read().unwrap_err().to_string();
        assert!(why.starts_with("a test: file /"), "{why}");
    }
}
