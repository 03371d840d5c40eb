//! Failures of a node, with the node's name and the operation.

use std::error::Error as StdError;
use std::io;

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a node or of the spawner.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused, or the exchange with an init or the spawner failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A node's init reported a failure.
    #[error("node {node:?}: {report}")]
    Init {
        /// The node.
        node: String,
        /// The init's words.
        report: String,
    },
    /// The spawner could not carry out a request.
    #[error("spawner: {report}")]
    Refused {
        /// Its message.
        report: String,
    },
    /// A caller in a node may not enter the nodes inside it.
    #[error(
        "node {node:?}: a caller in the node around it may not enter it, only start programs in it: make the node \
         around it with `privileged: true`, or call from outside of it"
    )]
    MayNotEnter {
        /// The node.
        node: String,
    },
    /// `--no-root` would expose the caller's files to nodes that others manage.
    #[error(
        "node {node:?}: --no-root would show the caller's files, by /proc, to programs that others manage: it is only \
         for nodes without `children` that are in no other node"
    )]
    ShowsFiles {
        /// The node.
        node: String,
    },
    /// A program could not be started in a node.
    #[error("{program}: {source}")]
    Program {
        /// The program's name.
        program: String,
        /// The cause.
        source: io::Error,
    },
}

/// For `map_err`: a failure of `operation` on a node.
pub(crate) fn failed<E: Into<Box<dyn StdError + Send + Sync>>>(
    node: &str,
    operation: &'static str,
) -> impl Fn(E) -> Error {
    let failed = Failure::of(format!("node {node:?}"), operation);
    move |source| failed(source).into()
}
