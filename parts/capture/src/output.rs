//! Outputs of chunks: files, or a pipe.
//!
//! An output takes chunks in order, and reports each frame once as written or lost. Only the
//! writer's thread uses it.

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

/// Why an output does not continue.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no space. The data is kept, for [`Output::go_on`].
    Full,
    /// Its reader has gone.
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

/// An output's result at its end.
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

    /// Does pending work, and retries what failed for lack of space.
    fn go_on(&mut self) -> Result<(), Refused>;

    /// Completes the output.
    fn finish(&mut self) -> Result<(), Refused>;

    /// Gives up unwritten data: it is lost.
    fn abandon(&mut self);

    /// The result.
    fn made(&self) -> Made;
}
