//! Files and folders that a program sees, and cannot write: read-only mounts of themselves in a mount namespace.
//!
//! A program whose user namespace is below that of the mount namespace can neither change nor remove such a mount, nor
//! put another file in its place (rename(2) and unlink(2) say EBUSY). It does not keep a user that may rename folders above
//! from making others of the same names. See mount_namespaces(7), mount_setattr(2).

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;

use crate::mount_attributes::{READ_ONLY, set};
use crate::{Failure, Result, seccomp};

/// Moves this process into a mount namespace, and into a user namespace as the same user, in which it may [`seal`]. The process
/// must have one thread; programs that it starts must enter user namespaces of their own.
///
/// # Errors
/// The kernel refuses a namespace or a mount; the process may be in new namespaces by then.
pub fn enter() -> Result<()> {
    seccomp::launch::enter_user_as_oneself()
        .map_err(|e| Failure::new("user namespace", "enter", e))?;
    // SAFETY: a new mount namespace shares no descriptor table, and the process has one thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|e| Failure::new("mount namespace", "unshare", e))?;
    // Later mounts outside are seen here, but not the other way.
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", slave)
        .map_err(|e| Failure::path("/", "receive mounts", e).into())
}

/// Lets a path only be read from now on; not by folders that are open ([`crate::inherited::reopen_folders`]).
///
/// # Errors
/// The kernel refuses the mount.
pub fn seal(path: &Path) -> Result<()> {
    rustix::mount::mount_bind(path, path).map_err(|e| Failure::path(path, "mount on itself", e))?;
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|e| Failure::path(path, "name", io::Error::from(e)))?;
    set(rustix::fs::CWD, &name, 0, READ_ONLY)
        .map_err(|e| Failure::path(path, "make read-only", e).into())
}
