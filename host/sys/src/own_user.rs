//! A user namespace of a node's own, and the network namespace that it owns.
//!
//! The kernel checks a process's capabilities against the user namespace that owns what the process acts on, and
//! a network namespace is owned by the user namespace in which it was made (user_namespaces(7)). Nobody returns
//! from a user namespace, and without rights over the host's nobody builds a node's file system. So a
//! [`Helper`] makes both namespaces; the node's init moves into the network at once, and into the user
//! namespace when the rest is set up. Users and groups are mapped to themselves, so files keep their owners.
//! Where the kernel refuses user namespaces, the host's owns the network.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::process::{self, Forked, Namespaces};
use crate::{Error, Failure, Result, describe, namespace, scm};

/// What a helper reports: the user namespace owns the network, or there is no user namespace.
const OWNED: &[u8] = b"owned";
const BARE: &[u8] = b"bare";

/// How long a helper may take to end.
const END: Duration = Duration::from_secs(30);

/// How many user namespaces there may be; 0 forbids them.
const MOST: &str = "/proc/sys/user/max_user_namespaces";

/// A process that makes the namespaces and holds them until they are taken over, or until nobody can.
#[derive(Debug)]
pub struct Helper {
    pid: Pid,
    pidfd: OwnedFd,
    socket: OwnedFd,
    /// Its user namespace is new and has no map yet.
    fresh: bool,
}

impl Helper {
    /// Starts a helper. The network will be owned by the user namespace `user`, else by a new one. The calling
    /// process must have one thread; it need not collect the helper if the kernel does.
    ///
    /// # Errors
    /// The kernel refuses another process.
    pub fn start(user: Option<BorrowedFd<'_>>) -> Result<Helper> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(unix, packets, SocketFlags::CLOEXEC, None)
            .map_err(|e| Failure::new("network namespace", "make a socket for", e))?;
        match process::fork_alone(Namespaces::NONE, None)? {
            Forked::Child => {
                drop(ours);
                work(user, &theirs)
            }
            Forked::Parent(pid) => {
                let pidfd = process::pidfd(pid)?;
                Ok(Helper { pid, pidfd, socket: ours, fresh: user.is_none() })
            }
        }
    }

    /// Waits for the network namespace and moves the calling process into it. `/proc` must be that of the PID
    /// namespace in which the helper was started, and the caller have its user namespace's capabilities.
    ///
    /// # Errors
    /// The helper's, or the kernel's.
    pub fn enter_network(self) -> Result<Taken> {
        let mut text = [0; 1024];
        let (n, _) = scm::receive(&self.socket, &mut text)?;
        let user = match &text[..n] {
            OWNED => Some(self.user()?),
            BARE => None,
            words => return Err(refused(&String::from_utf8_lossy(words))),
        };
        rustix::thread::move_into_link_name_space(
            self.open("net")?.as_fd(),
            Some(LinkNameSpaceType::Network),
        )
        .map_err(|e| Failure::new("network namespace", "enter", e))?;
        // It lived when all was opened, so the pid was its own.
        match process::has_ended(self.pidfd.as_fd()) {
            true => Err(refused("the process that made it was killed")),
            false => Ok(Taken { user, helper: Some(self.pidfd) }),
        }
    }

    fn user(&self) -> Result<OwnedFd> {
        if self.fresh {
            for map in ["uid_map", "gid_map"] {
                let own = format!("/proc/self/{map}");
                let text =
                    std::fs::read_to_string(&own).map_err(|e| Failure::path(own, "read", e))?;
                let path = self.path(map);
                std::fs::write(&path, to_themselves(&text))
                    .map_err(|e| Failure::path(path, "write", e))?;
            }
        }
        self.open("user")
    }

    fn open(&self, kind: &str) -> Result<OwnedFd> {
        let path = self.path(&format!("ns/{kind}"));
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| Failure::path(path, "open namespace", e).into())
    }

    fn path(&self, entry: &str) -> String {
        format!("/proc/{}/{entry}", self.pid.as_raw_nonzero())
    }
}

/// A network that was taken over from its helper.
#[derive(Debug)]
pub struct Taken {
    user: Option<OwnedFd>,
    /// Until it has been seen to end.
    helper: Option<OwnedFd>,
}

impl Taken {
    /// Waits for the end of the helper, which is near: best after other work, since it needs a processor to end.
    ///
    /// # Errors
    /// The helper does not end.
    pub fn wait(&mut self) -> Result<()> {
        let Some(helper) = self.helper.take() else { return Ok(()) };
        match process::wait_end(&helper, END) {
            true => Ok(()),
            false => Err(refused("the process that made it does not end")),
        }
    }

    /// The user namespace that owns the network; `None` where the kernel refuses one.
    pub fn user(&self) -> Option<BorrowedFd<'_>> {
        self.user.as_ref().map(AsFd::as_fd)
    }

    /// [`Taken::wait`], then the user namespace for [`namespace::enter_user`].
    ///
    /// # Errors
    /// The helper does not end.
    pub fn finish(mut self) -> Result<Option<OwnedFd>> {
        self.wait()?;
        Ok(self.user)
    }
}

fn refused(words: &str) -> Error {
    let words = if words.is_empty() { "the process that makes it was killed" } else { words };
    Failure::new("network namespace of the node", "make", words.to_owned()).into()
}

/// The helper's work. It ends when nobody has the other end of the socket any more.
fn work(user: Option<BorrowedFd<'_>>, socket: &OwnedFd) -> ! {
    // Should that be refused, the socket's end is noticed all the same.
    let _ = process::die_with_parent(true);
    let made = make(user);
    let words = match &made {
        Ok(report) => (*report).to_vec(),
        Err(e) => describe(e).into_bytes(),
    };
    // Without a reader the report is not needed.
    let _ = scm::send(socket, &words[..words.len().min(1000)], &[]);
    let _ = scm::receive(socket, &mut [0; 1]);
    process::exit_now(0)
}

fn make(user: Option<BorrowedFd<'_>>) -> Result<&'static [u8]> {
    if let Some(user) = user {
        namespace::enter_user(user)?;
        namespace::new_network()?;
        return Ok(OWNED);
    }
    let both = UnshareFlags::NEWUSER | UnshareFlags::NEWNET;
    // SAFETY: new namespaces share no descriptor table; this process was just forked and has one thread.
    match unsafe { rustix::thread::unshare_unsafe(both) } {
        Ok(()) => Ok(OWNED),
        Err(e) if are_forbidden(e) => namespace::new_network().map(|()| BARE),
        Err(e) => {
            let bound = "user namespace (user.max_user_namespaces bounds their number)";
            Err(Failure::new(bound, "make", e).into())
        }
    }
}

/// Whether the kernel has no user namespaces, or forbids them; else there are too many.
fn are_forbidden(refusal: Errno) -> bool {
    match refusal {
        Errno::INVAL | Errno::PERM | Errno::ACCESS | Errno::NOSYS => true,
        _ => std::fs::read_to_string(MOST).is_ok_and(|most| most.trim() == "0"),
    }
}

/// The map (user_namespaces(7)) of a user namespace inside the one with the map `outer`: each number that is mapped
/// there stands for itself.
fn to_themselves(outer: &str) -> String {
    let line = |line: &str| {
        let mut fields = line.split_whitespace();
        let (inside, _, count) = (fields.next()?, fields.next()?, fields.next()?);
        Some(format!("{inside} {inside} {count}\n"))
    };
    outer.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_mapped_to_itself() {
        let of_host = "         0          0 4294967295\n";
        assert_eq!(to_themselves(of_host), "0 0 4294967295\n");
        let of_container = "0 100000 65536\n70000 200000 10\n";
        assert_eq!(to_themselves(of_container), "0 0 65536\n70000 70000 10\n");
    }
}
