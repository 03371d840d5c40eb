//! What a later process has to know of a switch: a file of it.
//!
//! What changes is in the file before the switch hears of it, so a slicer that is killed has told the switch nothing that
//! the next one does not know. If the file is not true of the switch, or cannot be read, the switch is emptied, and the log
//! says why.

use std::path::Path;

use netloom_ofconn::record_file::{RecordFile, Retry};
use netloom_slicing::{Memory, VirtualSwitches, Written};
use netloom_sys::{Failure, journal};

use crate::application::SwitchPolicy;
use crate::system::clock;

/// Bytes that are written at a time.
const PIECE: usize = 32 * 1024;

/// The file in failures.
const OBJECT: &str = "slicer: memory of a switch";

/// The file of a switch, in a folder.
pub(crate) fn file(folder: &Path, datapath: u64) -> RecordFile {
    RecordFile::new(&folder.join(format!("memory-{datapath:016x}")), OBJECT)
}

/// Says why nothing is gone on with.
pub(crate) fn distrusted(switch: &SwitchPolicy, why: &str) {
    let name = &switch.name;
    journal::line(format_args!("netloom-slice: switch {name:?} is emptied: {why}"));
}

/// A file, and how far it is being rewritten.
#[derive(Debug)]
pub(crate) struct Keeping {
    file: RecordFile,
    writing: Option<Written>,
    retry: Retry,
}

impl Keeping {
    pub(crate) fn new(file: RecordFile) -> Keeping {
        Keeping { file, writing: None, retry: Retry::default() }
    }

    /// What it says; `None` if there is no file.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn read(&self) -> Result<Option<Memory>, String> {
        let bytes = self.file.read().map_err(|e| e.to_string())?;
        bytes.map_or(Ok(None), |bytes| Memory::read(&bytes))
    }

    /// Begins to rewrite it.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        self.file.begin()?;
        self.writing = Some(Written::default());
        Ok(())
    }

    /// Continues rewriting it; returns whether that is done.
    ///
    /// # Errors
    /// The system refuses: then it is not being written any more.
    pub(crate) fn goes_on(&mut self, core: &VirtualSwitches) -> Result<bool, Failure> {
        let Some(mut written) = self.writing.take() else { return Ok(true) };
        let mut bytes = vec![];
        let more = core.write_some(&mut written, PIECE, &mut bytes);
        self.file.more(&bytes)?;
        if more {
            self.writing = Some(written);
            return Ok(false);
        }
        self.file.finish()?;
        Ok(true)
    }

    /// Puts what has changed into it, and continues rewriting it if that is due.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn save(&mut self, notes: &[u8], core: &VirtualSwitches) -> Result<(), Failure> {
        if !notes.is_empty() {
            let appended = self.file.append(notes);
            if appended.is_err() {
                return self.write_again(appended, core);
            }
            // How much it needs shows only when it is written; its length when it was last whole stands for that.
            if self.writing.is_none() && self.file.is_long(0) {
                self.begin()?;
            }
        }
        self.goes_on(core).map(drop)
    }

    /// Rewrites at once what could not be appended to: what the switch is told now is to be known. If that fails, too, it is
    /// not tried again for a while.
    fn write_again(
        &mut self,
        appended: Result<(), Failure>,
        core: &VirtualSwitches,
    ) -> Result<(), Failure> {
        let now = clock();
        if !self.retry.is_due(now) {
            return appended;
        }
        let written = self.write(core);
        if written.is_err() {
            self.writing = None;
            self.retry.failed(now);
        }
        written
    }

    fn write(&mut self, core: &VirtualSwitches) -> Result<(), Failure> {
        self.begin()?;
        while !self.goes_on(core)? {}
        Ok(())
    }

    /// Whether it is being rewritten.
    pub(crate) fn is_due(&self) -> bool {
        self.writing.is_some()
    }
}
