//! Programs that start as another user.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// User, group and further groups of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its user id.
    pub user: u32,
    /// Its group id.
    pub group: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// Lets a program start as this user, without the caller's groups and, unless the user is root, its capabilities.
pub fn start_as(command: &mut Command, identity: Identity) {
    let become_it = move || {
        let Identity { user, group, groups } = &identity;
        // SAFETY: the kernel reads as many words as the list has, which lives meanwhile.
        done(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
        // SAFETY: changes this process's credentials and no memory.
        done(unsafe { libc::syscall(libc::SYS_setresgid, *group, *group, *group) })?;
        // The user last: with it go the capabilities that the other two calls need.
        // SAFETY: as above.
        done(unsafe { libc::syscall(libc::SYS_setresuid, *user, *user, *user) })
    };
    // SAFETY: after the fork the closure makes system calls, and neither allocates nor takes locks.
    unsafe { command.pre_exec(become_it) };
}

fn done(answer: libc::c_long) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
