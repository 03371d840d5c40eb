//! Outputs of chunks: files, a pipe, or a sink in this process.
//!
//! An output takes chunks in order, and reports each frame once as written or lost. Only the
//! writer's thread uses it.

mod files;
mod handed;
mod pipe;

pub use files::FileOptions;
pub(crate) use files::Files;
pub(crate) use handed::Handed;
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
        let error = error.into();
        let code = match &error {
            Error::Disk(netloom_disk::Error::Full { .. }) => return Refused::Full,
            Error::Disk(error) => error.raw_os_error(),
            // Standard output may be a file.
            Error::Failed(error) => error.raw_os_error(),
            _ => None,
        };
        match code.map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Refused::Full,
            _ => Refused::Failed(error),
        }
    }
}

/// An output's result at its end.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) files: Vec<PathBuf>,
    /// How many gave way to these.
    pub(crate) removed: usize,
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

#[cfg(test)]
mod tests {
    use netloom_sys::Failure;

    use super::*;

    #[test]
    fn a_lack_of_space_is_no_failure_of_an_output() {
        for (code, is_full) in [(Errno::NOSPC, true), (Errno::DQUOT, true), (Errno::IO, false)] {
            let failure = || Failure::new("output", "write", code);
            for refused in
                [Refused::from(failure()), Refused::from(netloom_disk::Error::Failed(failure()))]
            {
                assert_eq!(matches!(refused, Refused::Full), is_full, "{code:?}");
            }
        }
    }
}
