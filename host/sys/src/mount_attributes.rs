//! Attributes of mounts, by mount_setattr(2) (Linux 5.12).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `MOUNT_ATTR_RDONLY` and `MOUNT_ATTR_NODEV` of linux/mount.h.
pub(crate) const READ_ONLY: u64 = 1;
pub(crate) const NO_DEVICES: u64 = 4;

/// `struct mount_attr` of mount_setattr(2), first published size.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Gives the mount at a name below a directory these attributes (mount_setattr(2)); `flags` are `AT_` flags.
pub(crate) fn set(
    dir: impl AsFd,
    name: &CStr,
    flags: libc::c_uint,
    attributes: u64,
) -> io::Result<()> {
    let attributes = Attributes { set: attributes, clear: 0, propagation: 0, user_namespace: 0 };
    let (at, size) = (&raw const attributes, size_of::<Attributes>());
    let here = dir.as_fd().as_raw_fd();
    // SAFETY: the kernel reads the name up to its NUL, and `size` bytes of the attributes; both outlive the call.
    let done =
        unsafe { libc::syscall(libc::SYS_mount_setattr, here, name.as_ptr(), flags, at, size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
