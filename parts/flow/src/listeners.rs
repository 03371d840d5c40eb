//! Places where connections that speak OpenFlow arrive: the switch's UNIX socket, and addresses that it was told.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// A place where connections arrive.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: OwnedFd,
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
}

/// All places.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) places: BTreeMap<u64, Listening>,
    /// Closed for a moment when descriptors run out, to accept a connection and close it.
    pub(crate) spare: Option<OwnedFd>,
}
