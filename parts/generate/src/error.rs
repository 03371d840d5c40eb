//! Failures of sending and receiving frames.

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the object and the operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The requested traffic is impossible.
    #[error(transparent)]
    Traffic(#[from] netloom_traffic::Error),
    /// A packet socket failed.
    #[error(transparent)]
    Rawsock(#[from] netloom_rawsock::Error),
    /// Frames could not be generated in the kernel.
    #[error(transparent)]
    Ebpf(#[from] netloom_ebpf::Error),
    /// A shared-memory switch failed.
    #[error(transparent)]
    Shm(#[from] netloom_shm::Error),
    /// An interface could not be queried.
    #[error(transparent)]
    Netlink(#[from] netloom_netlink::Error),
    /// A capture file is malformed.
    #[error(transparent)]
    Pcap(#[from] netloom_pcap::Error),
    /// A capture file could not be opened, a thread not be started, or a namespace not be entered.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A frame exceeds the interface's limit.
    #[error("interface {index}: send frames of {length} bytes: it takes at most {most}")]
    TooLong {
        /// The interface.
        index: u32,
        /// The longest frame's length, without check sequence.
        length: u32,
        /// The interface's limit.
        most: u32,
    },
    /// The engine cannot send this traffic to this target.
    #[error("engine {engine}: {reason}")]
    Engine {
        /// The engine.
        engine: &'static str,
        /// Why not, and what would work.
        reason: String,
    },
    /// The peer of a veth pair does not accept frames generated in the kernel, and cannot be reached to
    /// enable it.
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
    /// The interface or the switch no longer exists.
    #[error("{object}: send: it is gone")]
    Gone {
        /// The object that disappeared.
        object: String,
    },
}
