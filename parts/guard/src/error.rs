//! Why a program is not run under guard.

use std::io;

/// Why a program is not run under guard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program itself cannot be started.
    #[error("{program}: {source}")]
    Program {
        /// The program to start.
        program: String,
        /// The error of execve(2).
        source: io::Error,
    },
    /// The kernel lacks what a supervisor needs, or forbids it.
    #[error("{0}")]
    Unsupported(#[from] netloom_sys::Unsupported),
    /// A supervisor is there already, and the kernel allows one.
    #[error(
        "program {program:?}: start under guard: it is under a guard already, and a process has one; run it without a \
         second `netloom guard`"
    )]
    Nested {
        /// The program to start.
        program: String,
    },
    /// A system call failed.
    #[error(transparent)]
    Sys(#[from] netloom_sys::Error),
}

impl From<netloom_sys::Failure> for Error {
    fn from(failure: netloom_sys::Failure) -> Self {
        Error::Sys(failure.into())
    }
}

impl Error {
    /// The exit status that shells give a program that does not exist (127) or cannot be executed (126).
    pub fn shell_code(&self) -> Option<i32> {
        match self {
            Error::Program { source, .. } => {
                Some(if source.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
            }
            _ => None,
        }
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
