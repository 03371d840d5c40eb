//! What can go wrong when frames are sent and received.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the object and the operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was to be sent cannot be.
    #[error(transparent)]
    Traffic(#[from] netloom_traffic::Error),
    /// A packet socket.
    #[error(transparent)]
    Rawsock(#[from] netloom_rawsock::Error),
    /// Frames made in the kernel.
    #[error(transparent)]
    Ebpf(#[from] netloom_ebpf::Error),
    /// A switch in shared memory.
    #[error(transparent)]
    Shm(#[from] netloom_shm::Error),
    /// An interface could not be asked about.
    #[error(transparent)]
    Netlink(#[from] netloom_netlink::Error),
    /// A capture file.
    #[error(transparent)]
    Pcap(#[from] netloom_pcap::Error),
    /// A capture file could not be opened.
    #[error("capture file: open")]
    Open(#[source] io::Error),
    /// A thread could not be started or could not enter a namespace.
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
    /// A frame is longer than the interface takes.
    #[error("interface {index}: send frames of {length} bytes: it takes at most {most}")]
    TooLong {
        /// The interface.
        index: u32,
        /// The longest frame's length, without check sequence.
        length: u32,
        /// The most that it takes.
        most: u32,
    },
    /// An engine cannot send this there.
    #[error("engine {engine}: {reason}")]
    Engine {
        /// The engine.
        engine: &'static str,
        /// Why not, and what else.
        reason: String,
    },
    /// The other end of a pair takes no frames made in the kernel, and is out of reach.
    #[error(
        "interface {index}: its other end takes no frames that are made in the kernel: it needs an XDP \
         program there, or the engine \"ring\""
    )]
    FarEnd {
        /// The interface.
        index: u32,
    },
    /// The interface is down.
    #[error("interface {index}: send: it is down")]
    Down {
        /// The interface.
        index: u32,
    },
    /// The interface, or the switch, is no more.
    #[error("{object}: send: it is gone")]
    Gone {
        /// What it was.
        object: String,
    },
}

impl Error {
    pub(crate) fn call(
        object: impl Into<String>,
        operation: &'static str,
        source: impl Into<io::Error>,
    ) -> Error {
        Error::Call { object: object.into(), operation, source: source.into() }
    }
}
