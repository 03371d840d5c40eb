//! What can go wrong when traffic is measured.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the object and the operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something about marking that cannot be.
    #[error(transparent)]
    Marking(#[from] netloom_marking::Error),
    /// The kernel's programs.
    #[error(transparent)]
    Ebpf(#[from] netloom_ebpf::Error),
    /// The machine or the user lacks something.
    #[error(transparent)]
    Unsupported(#[from] netloom_sys::Unsupported),
    /// An interface could not be asked about.
    #[error(transparent)]
    Netlink(#[from] netloom_netlink::Error),
    /// A namespace could not be entered.
    #[error(transparent)]
    Sys(#[from] netloom_sys::Error),
    /// A point.
    #[error("interface {netif:?}, {direction}: {operation}")]
    Point {
        /// The interface.
        netif: String,
        /// Frames of which direction.
        direction: &'static str,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: netloom_ebpf::Error,
    },
    /// There is no such interface.
    #[error("interface {netif:?}: there is none of this name here")]
    NoInterface {
        /// Its name.
        netif: String,
    },
    /// There is no such session.
    #[error("session {id}: there is none of this number")]
    NoSession {
        /// Its number.
        id: u64,
    },
    /// A session has no such filter.
    #[error("session {id}: filter {flow}: there is none of this number")]
    NoFlow {
        /// The session.
        id: u64,
        /// The filter.
        flow: u32,
    },
    /// A session does not measure at such an interface.
    #[error("session {id}: interface {netif:?}: it does not measure there")]
    NoSpot {
        /// The session.
        id: u64,
        /// The interface.
        netif: String,
    },
    /// What was asked of a session is out of order.
    #[error("session: {operation}: it is {state}")]
    Order {
        /// What was asked.
        operation: &'static str,
        /// What it is.
        state: &'static str,
    },
    /// Something that was asked for and cannot be.
    #[error("{object}: {reason}")]
    Invalid {
        /// What.
        object: String,
        /// Why not.
        reason: String,
    },
    /// A period that is too short for what is measured.
    #[error(
        "period of {period} ns: too short: {reason}; take a period of {least} ns or more{}", or(.remedy)
    )]
    Period {
        /// The period in nanoseconds.
        period: u64,
        /// The least one in nanoseconds.
        least: u64,
        /// What does not fit into it.
        reason: String,
        /// What else would help; may be empty.
        remedy: &'static str,
    },
    /// More than may be.
    #[error("{object}: {reason}")]
    TooMany {
        /// What.
        object: String,
        /// How many may be.
        reason: String,
    },
    /// A thread could not be started.
    #[error("{object}: {operation}")]
    Call {
        /// What it was tried on.
        object: String,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: io::Error,
    },
}

fn or(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!(", or {remedy}") }
}

/// An error with all that it comes from, on one line.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        text.push_str(": ");
        text.push_str(&source.to_string());
        at = source.source();
    }
    text
}
