//! Files of a lab's folder, read, written and removed by descriptors of folders that are checked first.

use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::fs::File;

use netloom_sys::trusted::TrustedDir;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{Folder, LOCK, SOCKETS, STATE, State, remove_common_dir};
use crate::store::whole_file;
use crate::{Error, Result};

impl Folder {
    /// The folder; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Untrusted`].
    pub(super) fn dir(&self) -> Result<Option<TrustedDir>> {
        let failed = Error::in_runtime(&self.runtime);
        let Some(common) = TrustedDir::open(&self.runtime).map_err(&failed)? else {
            return Ok(None);
        };
        common.dir(&self.name).map_err(failed)
    }

    /// The folder, where it has to be.
    pub(super) fn there(&self) -> Result<TrustedDir> {
        let gone = || Error::at(self.path(), "open")(rustix::io::Errno::NOENT);
        self.dir()?.ok_or_else(gone)
    }

    /// A folder in it.
    fn sub(&self, name: &str) -> Result<Option<TrustedDir>> {
        let Some(own) = self.dir()? else { return Ok(None) };
        own.dir(name).map_err(Error::in_runtime(&self.runtime))
    }

    /// Whether something of this name is in it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.dir().ok().flatten().is_some_and(|own| own.has(name))
    }

    /// Names in it, or in a folder in it; none of what is not there or cannot be listed.
    pub(crate) fn names_in(&self, sub: Option<&str>) -> Vec<OsString> {
        let dir = sub.map_or_else(|| self.dir(), |name| self.sub(name));
        let entries = dir.ok().flatten().and_then(|dir| dir.entries().ok());
        entries.into_iter().flatten().map(|(name, _)| name).collect()
    }

    /// The folder of the inits' sockets, if there is one.
    pub(crate) fn sockets_dir(&self) -> Result<Option<TrustedDir>> {
        self.sub(SOCKETS)
    }

    pub(super) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        whole_file::write_json(&self.there()?, name, value)
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.there()?.write(name, bytes).map_err(Error::in_runtime(&self.runtime))
    }

    /// A state under this name; `None` if there is none. One with a key that this version does not know, wherever that is, is
    /// of a newer one or was written by somebody else, and may mean something else.
    pub(super) fn read_state_file(&self, name: &str) -> Result<Option<State>> {
        let Some(own) = self.dir()? else { return Ok(None) };
        let read = own.read(name).map_err(Error::in_runtime(own.path()));
        let Some(text) = read.map_err(|error| self.unreadable(&own, name, error))? else {
            return Ok(None);
        };
        let state = netloom_form::read::<State>(&text).map_err(|reason| Error::Unreadable {
            file: own.path_of(name),
            reason,
            lab: self.name.clone(),
        });
        state.map(|state| Some(state.renewed()))
    }

    pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<Option<T>> {
        let Some(own) = self.dir()? else { return Ok(None) };
        whole_file::read_json(&own, name).map_err(|error| self.unreadable(&own, name, error))
    }

    /// What to do about a file in it that cannot be read.
    fn unreadable(&self, own: &TrustedDir, name: &str, error: Error) -> Error {
        match error {
            Error::Untrusted { .. } => error,
            // What passes says nothing about the file.
            Error::Failed(failure) if !failure.raw_os_error().is_some_and(is_passing) => {
                Error::Unreadable {
                    file: own.path_of(name),
                    reason: failure.source().map_or_else(String::new, ToString::to_string),
                    lab: self.name.clone(),
                }
            }
            other => other,
        }
    }

    /// Opens a file in it to write at its end.
    pub(crate) fn append_to(&self, name: &str) -> Result<File> {
        let opened =
            self.there()?.open_file(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE);
        opened.map_err(Error::in_runtime(&self.runtime))
    }

    /// Keeps the state under another name, unless something has that.
    pub(super) fn keep(&self, name: &str) -> Result<()> {
        self.there()?.link(STATE, name).map(drop).map_err(Error::in_runtime(&self.runtime))
    }

    /// Removes what has this name in it; what is not there is removed already.
    pub(crate) fn remove_part(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let failed = Error::in_runtime(&self.runtime);
        self.dir()?.map_or(Ok(()), |own| own.remove_all(name).map_err(failed))
    }

    /// The same in a folder in it.
    pub(crate) fn remove_in(&self, sub: &str, name: &str) -> Result<()> {
        let failed = Error::in_runtime(&self.runtime);
        self.sub(sub)?.map_or(Ok(()), |dir| dir.remove_all(name).map_err(failed))
    }

    /// Removes everything in the folder except the lock.
    pub fn empty(&self) -> Result<()> {
        let (own, failed) = (self.there()?, Error::in_runtime(&self.runtime));
        for (name, _) in own.entries().map_err(&failed)? {
            if name != LOCK {
                own.remove_all(name).map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// Removes the folder with its content, the lock last.
    pub fn remove(&self) -> Result<()> {
        self.empty()?;
        let failed = Error::in_runtime(&self.runtime);
        if let Some(common) = TrustedDir::open(&self.runtime).map_err(&failed)? {
            common.remove_all(&self.name).map_err(failed)?;
        }
        remove_common_dir(&self.runtime);
        Ok(())
    }
}

/// Whether the kernel refuses something for want of descriptors or memory.
fn is_passing(error: i32) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(Errno::raw_os_error).contains(&error)
}
