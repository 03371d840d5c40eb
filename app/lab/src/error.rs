//! What went wrong with a lab, with the object and the operation.

use std::io;
use std::path::PathBuf;

use netloom_model::lookup::LookupError;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The edge to the system refused.
    #[error("{object}: {operation}")]
    System {
        /// What it was tried on.
        object: String,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: netloom_sys::Error,
    },
    /// A node or the spawner failed.
    #[error(transparent)]
    Node(#[from] netloom_node::Error),
    /// Links, addresses or routes were refused.
    #[error("{object}: {operation}: {source}")]
    Network {
        /// What it was tried on.
        object: String,
        /// What was tried.
        operation: &'static str,
        /// The refusals.
        source: Box<netloom_netlink::Error>,
    },
    /// This machine or this user lacks something.
    #[error(transparent)]
    Unsupported(#[from] netloom_sys::Unsupported),
    /// A file of the lab's state could not be used.
    #[error("{path:?}: {operation}")]
    State {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: io::Error,
    },
    /// Somebody took the lab down while it was made.
    #[error("was taken down while it was made")]
    TakenDown,
    /// There is no such lab.
    #[error("lab {0:?}: not running")]
    NoLab(String),
    /// There is no such node.
    #[error("node {node:?}: not in lab {lab:?}{hint}")]
    NoNode {
        /// The lab.
        lab: String,
        /// The name asked for.
        node: String,
        /// `; did you mean …`, or nothing.
        hint: String,
    },
    /// There is no such link.
    #[error("link {link:?}: not in lab {lab:?}{hint}")]
    NoLink {
        /// The lab.
        lab: String,
        /// The name asked for.
        link: String,
        /// `; …`, or nothing.
        hint: String,
    },
    /// There is no such switch.
    #[error("switch {switch:?}: not in lab {lab:?}{hint}")]
    NoSwitch {
        /// The lab.
        lab: String,
        /// The name asked for.
        switch: String,
        /// `; …`, or nothing.
        hint: String,
    },
    /// Something still lives in what is to go.
    #[error("{object}: {reason}")]
    Busy {
        /// What it is.
        object: String,
        /// What lives there.
        reason: String,
    },
    /// All of a lab is gone but what somebody else's process keeps.
    #[error(
        "process {pid} ({name}) is not the lab's, but in the network of one of its nodes: that stays until it \
         ends; all else of the lab is gone"
    )]
    Visited {
        /// Its number.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// A setting cannot be used.
    #[error("{object}: {reason}")]
    Invalid {
        /// What was to be set.
        object: String,
        /// Why not.
        reason: String,
    },
    /// A BPF program was refused.
    #[error("{object}: {operation}")]
    Program {
        /// What it was for.
        object: String,
        /// What was tried.
        operation: &'static str,
        /// The refusal.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A shared-memory switch failed.
    #[error("{object}: {operation}")]
    Switch {
        /// The switch.
        object: String,
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The wires' process failed.
    #[error("{object}: {operation}")]
    Wire {
        /// The link.
        object: String,
        /// What was tried.
        operation: &'static str,
        /// The failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The node's init has ended.
    #[error("node {0:?}: its init has ended; `netloom up` of the same file makes it anew")]
    DeadNode(String),
    /// The request cannot be served as things stand.
    #[error("lab {lab:?}: {reason}")]
    Conflict {
        /// The lab.
        lab: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Several failures; teardown goes on past each.
    #[error("{}", .0.iter().map(|e| netloom_sys::describe(e)).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Error>),
}

impl From<LookupError> for Error {
    fn from(error: LookupError) -> Error {
        match error {
            LookupError::NoNode { lab, node, hint } => Error::NoNode { lab, node, hint },
            LookupError::NoLink { lab, link, hint } => Error::NoLink { lab, link, hint },
            LookupError::NoSwitch { lab, switch, hint } => Error::NoSwitch { lab, switch, hint },
            LookupError::Invalid { object, reason } => Error::Invalid { object, reason },
        }
    }
}

impl Error {
    /// What came of work that goes on past failures.
    pub(crate) fn of_all(mut failures: Vec<Error>) -> Result<()> {
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(Error::Several(failures)),
        }
    }

    /// For `map_err` on calls of the system edge.
    pub(crate) fn system(
        object: impl Into<String>,
        operation: &'static str,
    ) -> impl FnOnce(netloom_sys::Error) -> Error {
        let object = object.into();
        move |source| match source {
            netloom_sys::Error::Unsupported(u) => Error::Unsupported(u),
            source => Error::System { object, operation, source },
        }
    }

    /// For `map_err` on calls of netlink.
    pub(crate) fn network(
        object: impl Into<String>,
        operation: &'static str,
    ) -> impl FnOnce(netloom_netlink::Error) -> Error {
        let object = object.into();
        move |source| Error::Network { object, operation, source: Box::new(source) }
    }

    /// For `map_err` on files of the state.
    pub(crate) fn state(
        path: impl Into<PathBuf>,
        operation: &'static str,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::State { path, operation, source }
    }
}

impl From<netloom_sys::Error> for Error {
    fn from(source: netloom_sys::Error) -> Error {
        Error::system("thread", "enter a namespace")(source)
    }
}

/// For `map_err` on calls of BPF.
pub(crate) fn refused(
    object: &str,
    operation: &'static str,
) -> impl FnOnce(netloom_ebpf::Error) -> Error + use<> {
    let object = object.to_owned();
    move |source| match source {
        netloom_ebpf::Error::Unsupported(u) => Error::Unsupported(u),
        source => Error::Program { object, operation, source: Box::new(source) },
    }
}
