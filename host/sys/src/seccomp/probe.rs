//! Whether this kernel and this user can guard a program, and how well: found by trying, in child processes.
//!
//! Two things are indispensable: calls that are notified, and descriptors of another process. The others make guarding
//! better; each has a fallback, which [`Probed`] puts into words. One call is rehearsed from end to end. The process that asks must have one thread.

use std::os::fd::AsFd;

use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use super::caller::PIDFD_THREAD;
use super::rehearsal::rehearse;
use super::{Filter, Machine, install};
use crate::feature::{enter_own_user_namespace, in_child};
use crate::process::{self, Forked, Namespaces};
use crate::{Failure, Result, Unsupported};

/// What guarding has here, besides what is indispensable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// A call that was received waits through signals that do not kill (`WAIT_KILLABLE_RECV`).
    pub calls_wait: bool,
    /// A thread is named by a descriptor (`PIDFD_THREAD`), so its own table of descriptors is found.
    pub threads: bool,
    /// A program lives in a user namespace of its own: it is readable even if it forbids that.
    pub own_user: bool,
}

impl Probed {
    /// The missing features, with their replacements; empty if all are there.
    pub fn lacks(self) -> Vec<&'static str> {
        let mut lacks = vec![];
        if !self.calls_wait {
            lacks.push(
                "signals interrupt a call that is being decided about (Linux 5.19 has WAIT_KILLABLE_RECV)",
            );
        }
        if !self.threads {
            lacks.push(
                "threads with descriptors of their own are refused (Linux 6.9 has PIDFD_THREAD)",
            );
        }
        if !self.own_user {
            lacks.push(
                "programs that forbid being traced are refused (user namespaces are not allowed)",
            );
        }
        lacks
    }
}

/// Probes all of it.
///
/// # Errors
/// An indispensable feature is missing or refused, with what would provide it.
pub fn supported() -> std::result::Result<Probed, Unsupported> {
    let missing = |needs: &str| {
        let needs = needs.to_owned();
        move |reason: String| Unsupported { feature: "guard", reason, needs }
    };
    in_child(|| filtered().map(drop)).map_err(|reason| match is_guarded(&reason) {
        true => missing("to run it outside of that one")(
            "this process is under a guard already, of netloom or of another program that notifies calls, and the \
             kernel gives a process one"
                .to_owned(),
        ),
        false => missing("Linux 5.14 or later with CONFIG_SECCOMP_FILTER")(reason),
    })?;
    in_child(take_descriptor).map_err(missing(
        "Linux 5.6 or later; if Yama forbids it: sudo sysctl -w kernel.yama.ptrace_scope=1",
    ))?;
    let own_user = in_child(enter_own_user_namespace).is_ok();
    in_child(move || rehearse(own_user)).map_err(missing(
        "a kernel that notifies calls as Linux 5.14 or later does, whose signals leave received calls waiting",
    ))?;
    Ok(Probed {
        calls_wait: in_child(wait_killable).is_ok(),
        threads: in_child(thread).is_ok(),
        own_user,
    })
}

/// Installs a filter that allows everything, with a listener; whether received calls wait.
fn filtered() -> Result<bool> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|e| Failure::new("system call filter", "give up privileges for", e))?;
    install(&Filter::compile(&[(Machine::OWN, &[])])).map(|(_, waits)| waits)
}

/// Whether a filter was refused because there is one with a listener already (seccomp(2)).
fn is_guarded(reason: &str) -> bool {
    reason.contains(&std::io::Error::from_raw_os_error(libc::EBUSY).to_string())
}

fn wait_killable() -> Result<()> {
    match filtered()? {
        true => Ok(()),
        false => Err(refused("wait through signals by")),
    }
}

/// Takes a descriptor of a child, as a supervisor does.
fn take_descriptor() -> Result<()> {
    // SAFETY: in_child runs this in a process with one thread.
    let child = match unsafe { process::fork(Namespaces::NONE, None) }? {
        Forked::Child => loop {
            // Interrupted, it sleeps again.
            let _ = rustix::thread::nanosleep(&rustix::fs::Timespec { tv_sec: 60, tv_nsec: 0 });
        },
        Forked::Parent(child) => child,
    };
    let pidfd = process::pidfd(child);
    let taken = pidfd.and_then(|pidfd| {
        rustix::process::pidfd_getfd(pidfd.as_fd(), 2, PidfdGetfdFlags::empty())
            .map_err(|e| Failure::new("child process", "take a descriptor of", e).into())
    });
    // It waits for nothing else.
    let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
    let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
    taken.map(drop)
}

fn thread() -> Result<()> {
    let flags = PidfdFlags::from_bits_retain(PIDFD_THREAD);
    rustix::process::pidfd_open(rustix::process::getpid(), flags)
        .map(drop)
        .map_err(|e| Failure::new("thread", "open", e).into())
}

fn refused(operation: &'static str) -> crate::Error {
    Failure::new("system call filter", operation, std::io::ErrorKind::Unsupported.to_string())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lack_is_told() {
        let all = Probed { calls_wait: true, threads: true, own_user: true };
        assert!(all.lacks().is_empty());
        let none = Probed { calls_wait: false, threads: false, own_user: false };
        assert_eq!(none.lacks().len(), 3);
    }
}
