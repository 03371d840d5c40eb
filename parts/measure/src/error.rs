//! Failures of a measurement.

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the object and the operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid marking.
    #[error(transparent)]
    Marking(#[from] netloom_marking::Error),
    /// An eBPF program failed.
    #[error(transparent)]
    Ebpf(#[from] netloom_ebpf::Error),
    /// The machine or the user lacks a required feature.
    #[error("{0}")]
    Unsupported(#[from] netloom_sys::Unsupported),
    /// An interface could not be queried.
    #[error(transparent)]
    Netlink(#[from] netloom_netlink::Error),
    /// A namespace could not be entered.
    #[error(transparent)]
    Sys(#[from] netloom_sys::Error),
    /// An operation on a point failed.
    #[error("interface {netif:?}, {direction}: {operation}")]
    Point {
        /// The interface.
        netif: String,
        /// The direction of frames.
        direction: &'static str,
        /// The operation.
        operation: &'static str,
        /// The cause.
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
    /// A session does not measure at this interface.
    #[error("session {id}: interface {netif:?}: it does not measure there")]
    NoSpot {
        /// The session.
        id: u64,
        /// The interface.
        netif: String,
    },
    /// A request does not fit the session's state.
    #[error("session: {operation}: it is {state}")]
    Order {
        /// The request.
        operation: &'static str,
        /// The state.
        state: &'static str,
    },
    /// An invalid request.
    #[error("{object}: {reason}")]
    Invalid {
        /// The object.
        object: String,
        /// Why not.
        reason: String,
    },
    /// The period is too short for this measurement.
    #[error(
        "period of {period} ns: too short: {reason}; take a period of {least} ns or more{}", or(.remedy)
    )]
    Period {
        /// The period in nanoseconds.
        period: u64,
        /// The shortest possible one in nanoseconds.
        least: u64,
        /// What does not fit into it.
        reason: String,
        /// What else would help, possibly empty.
        remedy: &'static str,
    },
    /// A limit is exceeded.
    #[error("{object}: {reason}")]
    TooMany {
        /// The object.
        object: String,
        /// The limit.
        reason: String,
    },
    /// A thread could not be started.
    #[error(transparent)]
    Failed(#[from] Failure),
}

fn or(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!(", or {remedy}") }
}
