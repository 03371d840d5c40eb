//! Why a server ends before its client ends it.

use std::io;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the server ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Where a message begins cannot be told.
    #[error(
        "language client: a header of a message is expected, as \"Content-Length: 120\", not {found:?}"
    )]
    Header {
        /// What is there.
        found: String,
    },
    /// Its input ended too early.
    #[error("language client: its input ends within a message")]
    Cut,
    /// Its input failed.
    #[error("language client: read its messages")]
    Read(#[source] io::Error),
    /// It takes no answers.
    #[error("language client: write an answer")]
    Write(#[source] io::Error),
    /// The machine gives no thread.
    #[error("language server: start its reader")]
    Thread(#[source] io::Error),
}
