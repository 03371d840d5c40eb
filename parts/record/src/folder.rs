//! Where a recording is: one folder a lab, with its segments, their indexes, a lock and a status file.

use std::fs::File;
use std::path::{Path, PathBuf};

use netloom_sys::Failure;
use netloom_sys::trusted::{TrustedDir, is_missing};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::status::{Status, Told};
use crate::stored::Stored;
use crate::{Error, Result};

const LOCK: &str = "lock";
const STATUS: &str = "status.json";
const ASKED: &str = "asked";
const LOG: &str = "record.log";

/// A recording's folder.
#[derive(Debug)]
pub struct Folder {
    lab: String,
    dir: TrustedDir,
}

/// Segments, the oldest first, by their numbers.
pub type Segments = Vec<u64>;

impl Folder {
    /// Where this user's recordings are: `records` in [`netloom_sys::data::folder`].
    ///
    /// # Errors
    /// An ordinary user without a home.
    pub fn root() -> Result<PathBuf> {
        let none = || Failure::new("recordings", "find their folder", "there is no HOME");
        Ok(netloom_sys::data::folder().ok_or_else(none)?.join("records"))
    }

    /// The folder of a lab, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or others could change it.
    pub fn make(root: &Path, lab: &str) -> Result<Folder> {
        loop {
            match TrustedDir::make_in_home(root)?.make_dir(lab) {
                // Its recording was deleted before it was open.
                Err(error) if is_missing(&error) && root.is_dir() => {}
                made => return Ok(Folder { lab: lab.to_owned(), dir: made? }),
            }
        }
    }

    /// The folder of a lab that was recorded.
    ///
    /// # Errors
    /// [`Error::None`]; others could change it.
    pub fn open(root: &Path, lab: &str) -> Result<Folder> {
        let none = || Error::None { lab: lab.to_owned() };
        if !root.is_dir() {
            return Err(none());
        }
        let dir = TrustedDir::make_in_home(root)?.dir(lab)?.ok_or_else(none)?;
        Ok(Folder { lab: lab.to_owned(), dir })
    }

    /// The labs that were recorded, by name; none where the folder cannot be read.
    pub fn labs(root: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut names: Vec<String> =
            folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The lab.
    pub fn lab(&self) -> &str {
        &self.lab
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn dir(&self) -> &TrustedDir {
        &self.dir
    }

    /// Takes the lock: its holder may write the recording. The kernel frees it with the process.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn lock(&self) -> Result<File> {
        loop {
            let file = self.dir.open_file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.dir.is(LOCK, &file) => return Ok(file),
                // It was removed with the recording meanwhile: its holder would be alone with it.
                Ok(()) => {}
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                    return Err(Error::Busy { lab: self.lab.clone(), pid: self.holder() });
                }
                Err(e) => return Err(Failure::path(self.dir.path_of(LOCK), "lock", e).into()),
            }
        }
    }

    /// Whether a lock is that of this folder still: the folder may have been removed around its holder.
    pub(crate) fn has_lock(&self, lock: &File) -> bool {
        self.dir.is(LOCK, lock)
    }

    /// As [`Folder::lock`]; makes the folder again if the recording is deleted meanwhile.
    pub(crate) fn lock_to_write(&mut self) -> Result<File> {
        loop {
            match self.lock() {
                Err(Error::Sys(error)) if is_missing(&error) => {}
                taken => return taken,
            }
            let root = self.dir.path().parent().unwrap_or(self.dir.path()).to_owned();
            *self = Folder::make(&root, &self.lab)?;
        }
    }

    /// The process that holds the lock. Not for this process itself: its lock would end with the file that is opened here.
    pub fn holder(&self) -> Option<i32> {
        let file = self.dir.open_file(LOCK, OFlags::RDWR).ok()?;
        let asked = Flock::from(FlockType::WriteLock);
        let found = fcntl_getlk(&file, &asked).ok()??;
        found.pid.map(|pid| pid.as_raw_nonzero().get())
    }

    /// The numbers of its segments.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn segments(&self) -> Result<Segments> {
        let names = self.dir.entries()?;
        let number = |name: &std::ffi::OsString| {
            let number = name.to_str()?.strip_suffix(SEGMENT)?.parse().ok()?;
            // Not `+5.pcapng`; and the next one needs a number, too.
            (name.to_str()? == segment_name(number) && number < u64::MAX).then_some(number)
        };
        let mut found: Segments = names.iter().filter_map(|(name, _)| number(name)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The index of a segment that is stored, of which only the head was read; `None` if the segment has to be read instead.
    pub(crate) fn index(&self, number: u64) -> Option<Stored> {
        let file = self.dir.open_file(index_name(number), OFlags::RDONLY).ok()?;
        let stored = Stored::read(file)?;
        (stored.brief.index.head.number == number).then_some(stored)
    }

    /// Removes a segment with its index: that first, since nothing would remove one without a segment.
    pub(crate) fn remove(&self, number: u64) -> Result<()> {
        self.dir.remove_file(index_name(number))?;
        self.dir.remove_file(segment_name(number))?;
        Ok(())
    }

    /// Removes what a kill or a full disk left: indexes of no segment, and files that were not written to their end.
    pub(crate) fn remove_strays(&self) -> Result<()> {
        for (name, _) in self.dir.entries()? {
            let Some(name) = name.to_str() else { continue };
            let number = |name: &str, ending: &str| {
                name.strip_suffix(ending).and_then(|number| number.parse::<u64>().ok())
            };
            let is_lone = number(name, INDEX).is_some_and(|of| !self.dir.has(segment_name(of)));
            let is_half = name.strip_suffix(HALF).is_some_and(|name| {
                number(name, INDEX).or_else(|| number(name, SEGMENT)).is_some()
            });
            if is_lone || is_half {
                self.dir.remove_file(name)?;
            }
        }
        Ok(())
    }

    /// Writes a file whole, or leaves nothing of it.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        self.dir.write(name, content).inspect_err(|_| {
            // What stands there was not written to its end.
            drop(self.dir.remove_file(format!("{name}{HALF}")));
        })?;
        Ok(())
    }

    /// Empties and opens the recorder's log.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn log(&self) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND;
        Ok(self.dir.open_file(LOG, flags)?)
    }

    /// Removes a recording that nobody writes.
    ///
    /// # Errors
    /// [`Error::Busy`]; something cannot be removed.
    pub fn delete(self) -> Result<()> {
        let lock = match self.lock() {
            // Another removed it first.
            Err(Error::Sys(error)) if is_missing(&error) => {
                return Err(Error::None { lab: self.lab });
            }
            taken => taken?,
        };
        for (name, _) in self.dir.entries()? {
            if name != LOCK {
                self.dir.remove_file(&name)?;
            }
        }
        // It is held until the end: who takes it then finds that it has no name.
        self.dir.remove_file(LOCK)?;
        let removed = std::fs::remove_dir(self.dir.path());
        drop(lock);
        match removed {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            // A recorder began between the two.
            Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                Err(Error::Busy { lab: self.lab.clone(), pid: self.holder() })
            }
            removed => {
                let failed = Failure::of(self.dir.path().display().to_string(), "remove");
                Ok(removed.map_err(failed)?)
            }
        }
    }

    /// What the recorder said last.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn status(&self) -> Result<Option<Status>> {
        let Some(content) = self.dir.read(STATUS)? else { return Ok(None) };
        let wrong = |e| Failure::path(self.dir.path_of(STATUS), "read", e);
        Ok(Some(serde_json::from_slice(&content).map_err(wrong)?))
    }

    /// What the recorder said last, if it can be read: packets are found without it.
    pub fn told(&self) -> Told {
        match self.status() {
            Ok(status) => Told { status: status.unwrap_or_default(), problem: None },
            Err(error) => {
                let problem = format!("{}; it counts as missing", netloom_sys::describe(&error));
                Told { status: Status::default(), problem: Some(problem) }
            }
        }
    }

    /// Refuses the recording of another lab of this name that is there, in another runtime folder: in one ring, nobody could tell
    /// their links and nodes apart. `told` is what its recorder said last, `lab` the folder of the lab that is meant.
    ///
    /// # Errors
    /// [`Error::Another`].
    pub fn refuse_another(&self, told: &Status, lab: &Path) -> Result<()> {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        match real(&told.runtime) {
            Some(other) if real(lab).as_ref() != Some(&other) => {
                Err(Error::Another { lab: self.lab.clone(), folder: self.path().to_owned(), other })
            }
            _ => Ok(()),
        }
    }

    /// Asks the recorder to say at once how it goes: at this time, by which the question is told from one before.
    ///
    /// # Errors
    /// The disk is full.
    pub fn ask(&self, now_ns: u64) -> Result<()> {
        Ok(self.dir.write(ASKED, now_ns.to_string().as_bytes())?)
    }

    /// What [`Folder::ask`] said last.
    pub fn asked(&self) -> Option<Vec<u8>> {
        self.dir.read(ASKED).ok().flatten()
    }

    /// Says how it goes.
    ///
    /// # Errors
    /// The disk is full.
    pub fn tell(&self, status: &Status) -> Result<()> {
        let content = serde_json::to_vec(status)
            .map_err(|e| Failure::path(self.dir.path_of(STATUS), "write", e))?;
        Ok(self.dir.write(STATUS, &content)?)
    }
}

const SEGMENT: &str = ".pcapng";
const INDEX: &str = ".index";
/// Ends the name of a file that is being written, as `TrustedDir::write` says.
const HALF: &str = ".new";

pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:010}{SEGMENT}")
}

pub(crate) fn index_name(number: u64) -> String {
    format!("{number:010}{INDEX}")
}
