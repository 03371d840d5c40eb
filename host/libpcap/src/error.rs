//! libpcap's refusals, in its own words.

use netloom_sys::Unsupported;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A call of libpcap that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine has no libpcap.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// An expression that libpcap rejects.
    #[error("filter {expression:?}: compile: {message}")]
    Expression {
        /// The expression.
        expression: String,
        /// libpcap's message.
        message: String,
    },
    /// An expression that libpcap accepts and the kernel would reject.
    #[error("filter {expression:?}: check")]
    Filter {
        /// The expression.
        expression: String,
        /// The fault of its program.
        #[source]
        source: netloom_filter::Error,
    },
    /// An interface that cannot be captured on, or not any longer.
    #[error("interface {interface:?}: {operation}: {message}")]
    Interface {
        /// The interface's name.
        interface: String,
        /// The operation tried.
        operation: &'static str,
        /// libpcap's message.
        message: String,
    },
    /// No thread without sockets.
    #[error(transparent)]
    Failed(#[from] netloom_sys::Error),
    /// libpcap gave no handle.
    #[error("libpcap: {operation}: out of memory")]
    Memory {
        /// The operation tried.
        operation: &'static str,
    },
}
