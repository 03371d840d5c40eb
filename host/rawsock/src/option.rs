//! Socket options that rustix lacks: integers and small structures, as in packet(7).
//!
//! Invariant: only types for which every bit pattern is valid pass through here.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A C structure for which any bytes are a valid value.
///
/// # Safety
/// Every bit pattern must be a valid value of the type, and it must have no padding.
pub unsafe trait Plain: Copy {}
// SAFETY: any four bytes are an i32.
unsafe impl Plain for i32 {}
// SAFETY: any eight bytes are two u32.
unsafe impl Plain for [u32; 2] {}
// SAFETY: any twelve bytes are three u32.
unsafe impl Plain for [u32; 3] {}
// SAFETY: any 16 bytes are four u32.
unsafe impl Plain for [u32; 4] {}
// SAFETY: any 28 bytes are seven u32.
unsafe impl Plain for [u32; 7] {}
// SAFETY: an int, two shorts and eight bytes, which follow each other without padding.
unsafe impl Plain for libc::packet_mreq {}

/// Sets a value.
///
/// # Errors
/// The kernel's error.
pub fn set<T: Plain>(socket: impl AsFd, level: i32, name: i32, value: T) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let length = length_of::<T>()?;
    // SAFETY: the pointer is to a live T and the length is its size; the kernel only reads it.
    let ret = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a value.
///
/// # Errors
/// The kernel's error.
pub fn get<T: Plain + Default>(socket: impl AsFd, level: i32, name: i32) -> io::Result<T> {
    let fd = socket.as_fd().as_raw_fd();
    let mut value = T::default();
    let mut length = length_of::<T>()?;
    let at = (&raw mut value).cast();
    // SAFETY: the pointer is to a live T, for which any bytes are valid; the length is its size.
    let ret = unsafe { libc::getsockopt(fd, level, name, at, &raw mut length) };
    if ret == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn length_of<T>() -> io::Result<libc::socklen_t> {
    libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)
}
