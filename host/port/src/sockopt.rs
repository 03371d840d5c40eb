//! Socket options that rustix does not have: integers and small structures, as in packet(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A structure of C that any bytes are a valid value of.
///
/// # Safety
/// Every bit pattern must be a value of the type, and it must have no padding.
pub(crate) unsafe trait Plain: Copy + Default {}
// SAFETY: any four bytes are an i32.
unsafe impl Plain for i32 {}
// SAFETY: any eight bytes are two u32.
unsafe impl Plain for [u32; 2] {}

/// Sets an integer.
pub(crate) fn set(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer is to a live i32 and the length is its size.
    let ret = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), SIZE_OF_INT) };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const SIZE_OF_INT: libc::socklen_t = 4;

/// Reads a value.
pub(crate) fn get<T: Plain>(socket: impl AsFd, level: i32, name: i32) -> io::Result<T> {
    let fd = socket.as_fd().as_raw_fd();
    let mut value = T::default();
    let mut length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    let at = (&raw mut value).cast();
    // SAFETY: the pointer is to a live T of which any bytes are a value; the length is its size.
    let ret = unsafe { libc::getsockopt(fd, level, name, at, &raw mut length) };
    if ret == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
