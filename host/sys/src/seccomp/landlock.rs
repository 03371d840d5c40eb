//! The wall behind a filter: a Landlock domain (landlock(7)) in which a program neither binds nor connects TCP sockets by
//! itself, and reaches no process outside: ptrace(2), memory, descriptors; signals where the kernel knows of them.
//!
//! The supervisor, which makes its calls, stands outside. So a call of TCP that slipped past the filter would still fail. Rules cannot be
//! taken away again; children inherit them.

use std::io;
use std::mem::size_of_val;

const CREATE: libc::c_long = libc::SYS_landlock_create_ruleset;
const RESTRICT: libc::c_long = libc::SYS_landlock_restrict_self;
/// `LANDLOCK_CREATE_RULESET_VERSION`.
const VERSION: u32 = 1;
/// The first version that knows TCP (Linux 6.7).
const WITH_NETWORK: libc::c_long = 4;
/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP`.
const TCP: u64 = 3;
/// The first version that keeps signals within the domain (Linux 6.12).
const WITH_SCOPES: libc::c_long = 6;
/// `LANDLOCK_SCOPE_SIGNAL`.
const SIGNALS: u64 = 2;

fn version() -> libc::c_long {
    // SAFETY: asks for a number, and touches no memory.
    unsafe { libc::syscall(CREATE, 0, 0, VERSION) }
}

/// Whether the kernel has domains that know TCP.
pub(super) fn is_available() -> bool {
    version() >= WITH_NETWORK
}

/// Enters such a domain, with this thread and what it starts. Needs no_new_privs.
pub(super) fn enter() -> io::Result<()> {
    // `struct landlock_ruleset_attr`: files, network, and what is kept within. Version 4 has the first two.
    let handled: [u64; 3] = [0, TCP, SIGNALS];
    let handled = if version() >= WITH_SCOPES { &handled[..] } else { &handled[..2] };
    // SAFETY: the kernel reads as many bytes of `handled` as it has.
    let rules = unsafe { libc::syscall(CREATE, handled.as_ptr(), size_of_val(handled), 0) };
    if rules < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: restricts this thread, and touches no memory.
    let done = unsafe { libc::syscall(RESTRICT, rules, 0) };
    let error = io::Error::last_os_error();
    // SAFETY: this function made the descriptor, and gave it to nobody.
    unsafe { libc::syscall(libc::SYS_close, rules) };
    if done == 0 { Ok(()) } else { Err(error) }
}
