//! Failures of a node, with the node's name and the operation.

use std::io;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a node or of the spawner.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the system layer failed.
    #[error("node {node:?}: {operation}")]
    System {
        /// The node.
        node: String,
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: netloom_sys::Error,
    },
    /// A node's init reported a failure.
    #[error("node {node:?}: {report}")]
    Init {
        /// The node.
        node: String,
        /// The init's words.
        report: String,
    },
    /// The exchange with a node's init failed.
    #[error("node {node:?}: init: {operation}")]
    Control {
        /// The node.
        node: String,
        /// The operation.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// The spawner is gone or sent an invalid answer.
    #[error("spawner: {operation}")]
    Spawner {
        /// The operation.
        operation: &'static str,
        /// The failure.
        #[source]
        source: io::Error,
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
    /// A file could not be copied into or out of a node.
    #[error("{path}: {operation}")]
    Copy {
        /// The path, as the user gave it.
        path: String,
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
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

impl Error {
    /// For `map_err` on calls of the system layer.
    pub(crate) fn system(
        node: &str,
        operation: &'static str,
    ) -> impl FnOnce(netloom_sys::Error) -> Error {
        let node = node.to_owned();
        move |source| Error::System { node, operation, source }
    }
}
