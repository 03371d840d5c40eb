//! Errors of a capture: the part, the operation, the reason.

use netloom_sys::Failure;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A capture that cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A classic file with several interfaces.
    #[error("classic pcap has room for one interface, not {interfaces}: write pcapng")]
    OneInterface {
        /// Their number.
        interfaces: usize,
    },
    /// Incompatible options.
    #[error("capture: {what}")]
    Options {
        /// The fault, in words.
        what: &'static str,
    },
    /// A system call failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// An engine returned bytes that are not packet blocks.
    #[error("interface {index}: its ring does not hold packet blocks")]
    Blocks {
        /// The interface.
        index: u32,
    },
    /// Frames offered to an engine that did not return in time at its end.
    #[error("interface {index}: end: {missing} frames did not come out of the ring")]
    Missing {
        /// The interface.
        index: u32,
        /// Their number.
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
