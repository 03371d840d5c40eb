//! Classic filters of sockets (socket(7), `SO_ATTACH_FILTER`): put on a socket, and read from it.
//!
//! The kernel checks the instructions and refuses invalid ones. It copies them: nothing here outlives a call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Longest filter (`BPF_MAXINSNS`).
pub const MOST: usize = 4096;
const NOTHING: libc::sock_filter = libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 };

/// Puts a filter on the socket, in place of the one it has, at once.
///
/// # Errors
/// EINVAL if it is longer than [`MOST`] or invalid; else the kernel's: EPERM for a locked filter, or where the kernel lets
/// only root filter such sockets.
pub fn attach(fd: BorrowedFd<'_>, code: &[libc::sock_filter]) -> io::Result<()> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let len = u16::try_from(code.len()).map_err(invalid)?;
    let program = libc::sock_fprog { len, filter: code.as_ptr().cast_mut() };
    let size = libc::socklen_t::try_from(size_of_val(&program)).map_err(invalid)?;
    // SAFETY: the kernel reads `program`, of that size, and the `len` instructions to which it leads.
    let done = unsafe {
        let program = (&raw const program).cast();
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program, size)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The socket's filter; empty if it has none.
///
/// # Errors
/// The kernel's: EACCES for a filter that cannot be read.
pub fn attached(fd: BorrowedFd<'_>) -> io::Result<Vec<libc::sock_filter>> {
    let mut code = vec![NOTHING; MOST];
    let mut length = libc::socklen_t::try_from(MOST).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: for this option the length counts instructions: the kernel writes at most so many, and `code` has them.
    let done = unsafe {
        let into = code.as_mut_ptr().cast();
        let length = &raw mut length;
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, into, length)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    code.truncate(usize::try_from(length).unwrap_or(0));
    Ok(code)
}
