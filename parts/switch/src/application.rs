//! A client's request to become a port.

use std::os::fd::OwnedFd;

use netloom_shm::protocol::{Capabilities, EdgeName, Token};

/// A client's request to become a port, with the memory it brings.
pub(crate) struct Application {
    pub(crate) version: u16,
    pub(crate) number: u8,
    pub(crate) name: String,
    pub(crate) token: Token,
    pub(crate) capabilities: Capabilities,
    pub(crate) edges: Vec<EdgeName>,
    pub(crate) inbox: OwnedFd,
    pub(crate) uplink: OwnedFd,
}
