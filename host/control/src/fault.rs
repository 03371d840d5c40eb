//! Why a request has no answer.

use netloom_sys::Failure;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The system refused, or the wait was too long.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The answer cannot be read, or is one to something else.
    #[error("message: {0}")]
    Message(String),
    /// The listening process belongs to another user.
    #[error("control socket: the other end is user {0}")]
    Stranger(u32),
    /// The process refused the request.
    #[error("{0}")]
    Refused(String),
    /// The process ended before it answered.
    #[error("its process has ended")]
    Ended,
}

/// Longest part of an unexpected answer that is shown, in characters.
const SHOWN: usize = 60;

/// An answer that the request does not have.
pub fn unexpected(answer: &impl std::fmt::Debug) -> Fault {
    let text: String = format!("{answer:?}").chars().take(SHOWN).collect();
    Fault::Message(format!("an answer to something else: {text}"))
}
