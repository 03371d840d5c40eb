//! Passes descriptors between processes over a UNIX socket (SCM_RIGHTS, unix(7)).
//!
//! A message carries bytes and up to [`MAX_FDS`] descriptors; received ones are owned and
//! close-on-exec from the start.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::{Failure, Result};

/// Most descriptors in one message.
pub const MAX_FDS: usize = 16;

/// Sends one message.
///
/// # Errors
/// The kernel's error; EPIPE if the peer is gone (no SIGPIPE).
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Failure::new(
            "socket",
            "send too many descriptors",
            std::io::Error::from(std::io::ErrorKind::InvalidInput),
        )
        .into());
    }
    loop {
        match rustix::net::sendmsg(
            &socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        ) {
            Ok(n) => return Ok(n),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::new("socket", "send", e).into()),
        }
    }
}

/// Receives one message into `buffer`; returns the number of bytes and the descriptors received.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match rustix::net::recvmsg(
            &socket,
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Ok(r) => break r.bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::new("socket", "receive", e).into()),
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((received, fds))
}

/// The peer's user id, translated into our user namespace.
pub fn peer_uid(socket: impl AsFd) -> Result<u32> {
    peer(socket).map(|c| c.uid)
}

/// The peer process; for a listening socket's peer, the one that called listen(2). `None` if it is
/// not visible in our PID namespace or has ended.
pub fn peer_pid(socket: impl AsFd) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(peer(socket).ok()?.pid)
}

/// SO_PEERCRED of socket(7); the pid is 0 for processes outside our PID namespace.
fn peer(socket: impl AsFd) -> Result<libc::ucred> {
    let mut cred = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    #[allow(clippy::cast_possible_truncation, reason = "12 bytes")]
    let mut length = std::mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: cred is a valid ucred and length gives its size; both outlive the call.
    let ret = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut length,
        )
    };
    if ret == 0 {
        return Ok(cred);
    }
    let source = std::io::Error::last_os_error();
    Err(Failure::new("socket", "read the peer's credentials", source).into())
}
