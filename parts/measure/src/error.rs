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
    /// A point.
    #[error(transparent)]
    Ebpf(#[from] netloom_ebpf::Error),
    /// An interface could not be asked about.
    #[error(transparent)]
    Netlink(#[from] netloom_netlink::Error),
    /// A namespace could not be entered.
    #[error(transparent)]
    Sys(#[from] netloom_sys::Error),
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
    /// What was asked of a session is out of order.
    #[error("session {id}: {operation}: it is {state}")]
    Order {
        /// Its number.
        id: u64,
        /// What was asked.
        operation: &'static str,
        /// What it is.
        state: &'static str,
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
