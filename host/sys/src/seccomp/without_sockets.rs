//! Work that reaches no network and no service: in a thread that can open no socket.
//!
//! For libraries that look up names (getaddrinfo(3), nsswitch.conf(5)) in what others wrote: files such as `/etc/hosts` and
//! `/etc/services` are read, and nobody is asked.

use super::program::{Answer, Filter, Machine, Rule};
use super::restrict;
use crate::{Failure, Result};

/// The calls that open sockets. Numbers of other machines get ENOSYS.
const RULES: [Rule; 2] = [refused(libc::SYS_socket), refused(libc::SYS_socketpair)];

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel's numbers of calls are small"
)]
const fn refused(number: libc::c_long) -> Rule {
    Rule { number: number as u32, clauses: &[], otherwise: Answer::Errno(libc::EACCES as u16) }
}

/// Does the work in a thread of its own that can open no socket.
///
/// # Errors
/// The kernel has no system call filters, or refuses the thread.
pub fn without_sockets<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    let restricted = || -> Result<T> {
        rustix::thread::set_no_new_privs(true)
            .map_err(|e| Failure::new("thread", "forbid new rights", e))?;
        restrict(&Filter::compile(&[(Machine::OWN, &RULES)]))?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, restricted);
        let done = thread.map_err(|e| Failure::new("thread", "start", e))?.join();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use std::net::{ToSocketAddrs, UdpSocket};

    use super::without_sockets;

    #[test]
    fn the_thread_opens_no_socket_and_others_do() {
        let refused = without_sockets(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        UdpSocket::bind("127.0.0.1:0").unwrap();
    }

    #[test]
    fn files_are_read_there() {
        let length = without_sockets(|| std::fs::read("/proc/self/stat").map(|s| s.len()));
        assert!(length.unwrap().unwrap() > 0);
        // A number needs no look-up.
        assert!(without_sockets(|| "127.0.0.1:1".to_socket_addrs().is_ok()).unwrap());
    }
}
