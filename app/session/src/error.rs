//! Failures of a session, with the object and the operation.

use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use netloom_marking::session::Problem;
use netloom_model::lookup::LookupError;
use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the object and the operation.
///
/// Those that only pass on another crate's failure have its words, and have it as their source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request that can be of no use, whatever the machine is like.
    #[error("{0}")]
    Request(String),
    /// A configuration of a measurement has errors.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Configuration(Vec<Problem>),
    /// Nodes lack addresses of the requested families.
    #[error("{lacking}")]
    NoAddress {
        /// The nodes, each with its family, in words.
        lacking: String,
        /// The only family that was asked for, 4 or 6.
        only: Option<u8>,
    },
    /// A destination is neither a node of the lab nor an address.
    #[error("destination {text:?}: it is neither a node of the lab nor an address")]
    Destination {
        /// The request.
        text: String,
    },
    /// Nothing determines a destination.
    #[error("destination: a node or an address is needed")]
    NoDestination,
    /// Nothing determines the station that frames for an address go to.
    #[error("destination {to}: its MAC address is needed: nothing here tells which station it is")]
    NoStation {
        /// The address.
        to: IpAddr,
    },
    /// The sender has no address of the destination's family.
    #[error("source: an address is needed: the sender has no address of that family")]
    NoSource,
    /// A switch's name says where it is, and so does the name of a lab.
    #[error("switch {switch:?}: says where it is, and so does lab {lab}")]
    TwoPlaces {
        /// The switch.
        switch: String,
        /// The lab.
        lab: String,
    },
    /// A target is in a lab, and there is none.
    #[error("there is no lab")]
    NoLab,
    /// The lab has no link to capture.
    #[error("there is no link in the lab")]
    NoLink,
    /// A name was not found in the lab.
    #[error("{0}")]
    Lookup(#[from] LookupError),
    /// The lab did not do what it was asked for.
    #[error("{0}")]
    Lab(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A node cannot be entered.
    #[error("{0}")]
    Node(#[from] netloom_node::Error),
    /// An operation on the system failed.
    #[error("{0}")]
    System(#[from] netloom_sys::Error),
    /// The machine or the user lacks something.
    #[error("{0}")]
    Unsupported(#[from] netloom_sys::Unsupported),
    /// The lab's user namespace cannot be entered.
    #[error("enter the lab's user namespace")]
    UserNamespace(#[source] netloom_sys::Error),
    /// The kernel could not be asked.
    #[error("{0}")]
    Netlink(#[from] netloom_netlink::Error),
    /// An interface could not be looked up, a switch not be joined, a node not be asked, a recording not be sent.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// There is no such interface.
    #[error("interface {interface:?}: there is none of this name here")]
    NoInterface {
        /// The interface.
        interface: String,
    },
    /// There is no such switch.
    #[error("switch {switch:?}: there is none at {}; {hint}", path.display())]
    NoSwitch {
        /// The switch.
        switch: String,
        /// Where it would be.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
    },
    /// Something does not serve the purpose.
    #[error("{object}: {reason}")]
    Unfit {
        /// What it is.
        object: String,
        /// Why not.
        reason: String,
    },
    /// libpcap failed.
    #[error("{0}")]
    Libpcap(#[from] netloom_libpcap::Error),
    /// An engine could not be opened at an interface.
    #[error("interface {interface:?}: capture by {engine}")]
    Engine {
        /// The interface.
        interface: String,
        /// The engine.
        engine: netloom_capture::EngineKind,
        /// The cause.
        #[source]
        source: netloom_capture::Error,
    },
    /// A capture could not be started.
    #[error("{0}")]
    Capture(#[from] netloom_capture::Error),
    /// Frames could not be sent or received.
    #[error("{0}")]
    Generate(#[from] netloom_generate::Error),
    /// The descriptor of a namespace could not be copied.
    #[error("copy a descriptor of the other end")]
    Copy(#[source] io::Error),
    /// A measuring session failed.
    #[error("{0}")]
    Measure(#[from] netloom_measure::Error),
    /// Blocks of several points do not fit together.
    #[error("{0}")]
    Marking(#[from] netloom_marking::Error),
    /// A measuring session ended before its first block was closed.
    #[error("{0}")]
    Ended(String),
}

impl Error {
    /// Whether the request is to blame, not the machine or the lab.
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Error::Request(_)
                | Error::Configuration(_)
                | Error::NoAddress { .. }
                | Error::Destination { .. }
                | Error::NoDestination
                | Error::NoStation { .. }
                | Error::NoSource
                | Error::TwoPlaces { .. }
        )
    }

    /// Something that does not serve the purpose.
    pub(crate) fn unfit(object: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Unfit { object: object.into(), reason: reason.into() }
    }

    /// For `map_err` on questions to a node.
    pub(crate) fn asking(
        node: &str,
        operation: impl Into<Cow<'static, str>>,
    ) -> impl Fn(Error) -> Failure {
        Failure::of(format!("node {node:?}"), operation)
    }

    /// For `map_err` on joining a switch.
    pub(crate) fn joining(switch: &str) -> impl Fn(netloom_shm::Error) -> Failure {
        Failure::of(format!("switch {switch:?}"), "join")
    }
}
