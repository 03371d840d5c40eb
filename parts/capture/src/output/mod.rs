//! Where chunks go: files, or a pipe.
//!
//! An output takes chunks in order, and says of each frame once whether it is written or lost. It is
//! used by the writer's thread alone.

mod files;
mod pipe;

pub use files::FileOptions;
pub(crate) use files::Files;
pub(crate) use pipe::Pipe;

use std::path::PathBuf;

use netloom_disk::How;
use rustix::io::Errno;

use crate::Error;
use crate::queue::Chunk;

/// Why an output does not go on.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no space. What was given is kept, for [`Output::go_on`].
    Full,
    /// Nobody reads it any more.
    ReaderGone,
    /// It failed.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Refused {
    fn from(error: E) -> Refused {
        match error.into() {
            Error::Disk(netloom_disk::Error::Full { .. }) => Refused::Full,
            Error::Disk(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {
                Refused::Full
            }
            other => Refused::Failed(other),
        }
    }
}

/// What there is to tell of an output at its end.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) bytes: u64,
    pub(crate) how: Option<How>,
}

/// Takes chunks.
pub(crate) trait Output: Send {
    /// Takes a chunk.
    fn write(&mut self, chunk: Chunk) -> Result<(), Refused>;

    /// Does what is to be done when there is nothing to write, and what was refused for want of space.
    fn go_on(&mut self) -> Result<(), Refused>;

    /// Ends it whole.
    fn finish(&mut self) -> Result<(), Refused>;

    /// Gives up what is not written yet: it is lost.
    fn abandon(&mut self);

    /// What was made.
    fn made(&self) -> Made;
}
