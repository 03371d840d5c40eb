//! The sequence number with which a TCP socket begins (tcp(7), `TCP_REPAIR`).
//!
//! The kernel chooses it at random unless somebody who may administer the network has set it before the socket connects.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The queue of what is sent, and the end of repair without a probe of the other side (`linux/tcp.h`).
const SEND_QUEUE: libc::c_int = 2;
const OFF: libc::c_int = -1;

/// Gives a socket that has not been connected the sequence number of its first segment.
///
/// # Errors
/// EPERM without CAP_NET_ADMIN in the network's user namespace; else the kernel's. The socket can be used in any case.
pub fn begin_at(fd: BorrowedFd<'_>, sequence: u32) -> io::Result<()> {
    set(fd, libc::TCP_REPAIR, 1)?;
    let chosen = set(fd, libc::TCP_REPAIR_QUEUE, SEND_QUEUE)
        .and_then(|()| set(fd, libc::TCP_QUEUE_SEQ, sequence.cast_signed()));
    set(fd, libc::TCP_REPAIR, OFF)?;
    chosen
}

fn set(fd: BorrowedFd<'_>, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = libc::socklen_t::try_from(size_of_val(&value)).map_err(io::Error::other)?;
    let from = (&raw const value).cast();
    // SAFETY: the kernel reads `value`, of that size.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, option, from, size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
