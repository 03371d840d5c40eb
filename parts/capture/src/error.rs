//! What went wrong with a capture: the part, the operation, the reason.

use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A capture that cannot be made or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A classic file of several interfaces.
    #[error("classic pcap has room for one interface, not {interfaces}: write pcapng")]
    OneInterface {
        /// How many there are.
        interfaces: usize,
    },
    /// Options that do not go together.
    #[error("capture: {what}")]
    Options {
        /// What is wrong, in words.
        what: &'static str,
    },
    /// A system call.
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
    /// An engine that gave bytes that are no packets.
    #[error("interface {index}: what its ring holds is not made of packet blocks")]
    Blocks {
        /// The interface.
        index: u32,
    },
    /// Frames that an engine was offered and did not hand out in time when it ended.
    #[error("interface {index}: end: {missing} frames did not come out of the ring")]
    Missing {
        /// The interface.
        index: u32,
        /// How many.
        missing: u64,
    },
    /// A file.
    #[error(transparent)]
    Disk(#[from] netloom_disk::Error),
    /// A packet socket.
    #[error(transparent)]
    Socket(#[from] netloom_rawsock::Error),
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] netloom_ebpf::Error),
    /// A switch in shared memory.
    #[error(transparent)]
    Switch(#[from] netloom_shm::Error),
    /// libpcap.
    #[error(transparent)]
    Libpcap(#[from] netloom_libpcap::Error),
}

impl Error {
    /// An error of a call on `object`.
    pub(crate) fn call(
        object: impl Into<String>,
        operation: &'static str,
        source: impl Into<io::Error>,
    ) -> Self {
        Error::Call { object: object.into(), operation, source: source.into() }
    }
}
