//! The links of many network namespaces, asked for by one socket.
//!
//! No thread enters a namespace for it, and the ids keep none alive (`IFLA_TARGET_NETNSID`, Linux 4.20). The socket's opener
//! and the caller need CAP_NET_ADMIN over each. Specification: rtnetlink(7).

use std::os::fd::BorrowedFd;

use crate::error::Result;
use crate::query::LinkInfo;
use crate::socket::Socket;
use crate::watch::number;

/// Asks for links of the namespaces that were [added](ManySpaces::add).
#[derive(Debug)]
pub struct ManySpaces(Socket);

impl ManySpaces {
    /// Opens the socket in the calling thread's network namespace, best an empty one: it assigns the ids.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub fn open() -> Result<Self> {
        Socket::open().map(Self)
    }

    /// Makes these namespaces known, each under its unique id, which is not given again.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] with every namespace that could not be added; the others are added.
    pub fn add<'f>(
        &mut self,
        namespaces: impl IntoIterator<Item = (i32, BorrowedFd<'f>)>,
    ) -> Result<()> {
        number(&mut self.0, namespaces)
    }

    /// All links of a namespace, with counters.
    ///
    /// # Errors
    /// As [`Socket::links`]; [`crate::Error::Refused`] if the namespace has gone.
    pub fn links(&mut self, id: i32) -> Result<Vec<LinkInfo>> {
        self.0.links_of(id)
    }
}
