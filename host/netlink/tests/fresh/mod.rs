//! Fresh network namespaces for tests.
//!
//! Each namespace is made by a thread of its own that then ends; it lives by its descriptor. As
//! root that needs nothing more; else the test binary runs itself again in a user namespace, for
//! one test. Where neither is allowed a test is skipped, visibly.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const INSIDE: &str = "NETLOOM_NETLINK_TEST_IN_USERNS";

/// A network namespace that goes with this value.
#[derive(Debug)]
pub(crate) struct NetNs(File);

impl NetNs {
    pub(crate) fn create() -> io::Result<Self> {
        on_thread(|| {
            unshare(libc::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net").map(Self)
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Runs `body` on a thread in this namespace and gives what it gives.
    pub(crate) fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        on_thread(|| {
            move_into_link_name_space(self.fd(), Some(LinkNameSpaceType::Network))
                .expect("enter the namespace");
            body()
        })
    }
}

/// Runs `body` of `test`, which is the test's own function, with `N` fresh namespaces, or skips the test.
pub(crate) fn with_netns<T, const N: usize>(test: &T, body: impl FnOnce([NetNs; N])) {
    match (0..N).map(|_| NetNs::create()).collect::<io::Result<Vec<_>>>() {
        Ok(spaces) => body(spaces.try_into().expect("N were made")),
        Err(error) if std::env::var_os(INSIDE).is_some() => {
            panic!("network namespace in a user namespace: {error}")
        }
        Err(_) => again_in_user_namespace(&netloom_kit::test_name(test)),
    }
}

fn again_in_user_namespace(test: &str) {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let mut command = netloom_kit::again_by_name(test);
    command.env(INSIDE, "1");
    let enter = move || {
        unshare(libc::CLONE_NEWUSER)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
    };
    // SAFETY: the closure runs in the forked child, whose allocator glibc keeps usable, and takes
    // no lock that another thread could hold.
    unsafe { command.pre_exec(enter) };
    match command.output() {
        Ok(out) => {
            let (said, errors) =
                (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
            let ran = out.status.success() && said.contains("1 passed");
            assert!(ran, "{test} in a user namespace: {}\n{said}\n{errors}", out.status);
        }
        Err(error) => {
            netloom_kit::record_skip(test, &netloom_kit::lacking("userns", &error.to_string()))
        }
    }
}

fn on_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare takes no pointer; a new namespace concerns only the calling thread, which
    // is one of ours.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
