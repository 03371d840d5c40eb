//! A network namespace apart from all others, and sockets in it, for an ordinary user's process with threads.
//!
//! A process with threads cannot enter a user namespace, and an ordinary user cannot enter a network
//! namespace without. So a [`IsolatedNetns`] is a process that did both, has nothing else, and makes sockets on request. What
//! the sockets may do there (bind to any port, set addresses) is decided by whose user namespace it is: the
//! caller's user owns it (user_namespaces(7)). The process ends with its value, or with the caller.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, WaitOptions};
use rustix::thread::UnshareFlags;

use crate::process::{self, Forked, Namespaces};
use crate::{Failure, Result, scm};

/// Bytes of a request: family and type of a socket, as numbers.
const REQUEST: usize = 8;

/// The namespace.
#[derive(Debug)]
pub struct IsolatedNetns {
    process: Pid,
    maker: Maker,
}

/// Sockets of another network, from a process that is there and [makes](make) them.
#[derive(Debug)]
pub struct Maker {
    /// One request at a time; closed before the process is collected.
    channel: Mutex<Option<OwnedFd>>,
}

/// Both ends of a channel: for [`Maker::of`], and for the process that [makes](make) sockets.
///
/// # Errors
/// The kernel's.
pub fn channel() -> Result<(OwnedFd, OwnedFd)> {
    let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let pair = rustix::net::socketpair(unix, packets, SocketFlags::CLOEXEC, None);
    pair.map_err(|e| Failure::new("network namespace", "make a socket for", e).into())
}

impl IsolatedNetns {
    /// Makes it, with `lo` down.
    ///
    /// # Errors
    /// User namespaces or network namespaces are refused to this user.
    pub fn start() -> Result<IsolatedNetns> {
        let (ours, theirs) = channel()?;
        // SAFETY: the child only makes system calls on its own stack: it takes no lock, allocates nothing and does not
        // return, so that the state in which other threads were does not matter to it.
        let process = match unsafe { process::fork(Namespaces::NONE, None) }? {
            Forked::Child => serve(theirs.as_fd()),
            Forked::Parent(process) => process,
        };
        drop(theirs);
        let apart = IsolatedNetns { process, maker: Maker::of(ours) };
        apart.maker.answer(None).map(drop)?;
        Ok(apart)
    }

    /// A socket there, closed on exec.
    ///
    /// # Errors
    /// The kernel's.
    pub fn socket(&self, family: AddressFamily, kind: SocketType) -> Result<OwnedFd> {
        self.maker.socket(family, kind)
    }
}

impl Maker {
    /// Asks by this end of a [`channel`].
    pub fn of(channel: OwnedFd) -> Maker {
        Maker { channel: Mutex::new(Some(channel)) }
    }

    /// A socket there, closed on exec.
    ///
    /// # Errors
    /// The kernel's, or there is no maker.
    pub fn socket(&self, family: AddressFamily, kind: SocketType) -> Result<OwnedFd> {
        let mut request = [0; REQUEST];
        request[..4].copy_from_slice(&u32::from(family.as_raw()).to_ne_bytes());
        request[4..].copy_from_slice(&kind.as_raw().to_ne_bytes());
        let made = self.answer(Some(&request))?;
        made.ok_or_else(|| ended().into())
    }

    /// Sends a request, and waits for the answer: an error, or a socket.
    fn answer(&self, request: Option<&[u8]>) -> Result<Option<OwnedFd>> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channel.as_ref().ok_or_else(ended)?;
        if let Some(request) = request {
            scm::send(channel, request, &[])?;
        }
        let mut answer = [0];
        let (length, made) = scm::receive(channel, &mut answer)?;
        match (length, answer) {
            (1, [0]) => Ok(made.into_iter().next()),
            (1, [errno]) => {
                let error = io::Error::from_raw_os_error(i32::from(errno));
                Err(Failure::new("network namespace", "make", error).into())
            }
            _ => Err(ended().into()),
        }
    }
}

impl Drop for IsolatedNetns {
    fn drop(&mut self) {
        self.maker.channel.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // It ends because the channel did.
        let _ = rustix::process::waitpid(Some(self.process), WaitOptions::empty());
    }
}

fn ended() -> Failure {
    Failure::new("network namespace", "ask for", "the process that makes sockets there has ended")
}

/// The child's life: enters the namespaces, and makes sockets until nobody can ask any more.
fn serve(channel: BorrowedFd<'_>) -> ! {
    close_others(channel.as_raw_fd());
    // Keys of the terminal are for others.
    let _ = rustix::process::setsid();
    if report(channel, enter()).is_err() {
        process::exit_now(1);
    }
    while make(channel) {}
    process::exit_now(0)
}

/// Waits for a request for a socket of this process's network, and answers it; whether there may be another one. Makes only
/// system calls, with memory of its own stack.
pub fn make(channel: BorrowedFd<'_>) -> bool {
    let mut request = [0; REQUEST];
    match rustix::net::recv(channel, &mut request, RecvFlags::empty()) {
        Ok((_, REQUEST)) => {}
        Err(Errno::INTR) => return true,
        _ => return false,
    }
    let [family, kind] = [&request[..4], &request[4..]].map(word);
    let made = u16::try_from(family).map_err(|_| Errno::INVAL).and_then(|family| {
        let (family, kind) = (AddressFamily::from_raw(family), SocketType::from_raw(kind));
        rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
    });
    let sent = match &made {
        Ok(socket) => hand(channel, socket.as_fd()),
        Err(errno) => report(channel, Err(*errno)),
    };
    sent.is_ok()
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word))
}

/// Root needs no user namespace, and is in one of its own where it can.
fn enter() -> std::result::Result<(), Errno> {
    let both = UnshareFlags::NEWUSER | UnshareFlags::NEWNET;
    // SAFETY: new namespaces share no descriptor table; this process was just forked and has one thread.
    unsafe { rustix::thread::unshare_unsafe(both) }
        // SAFETY: as above.
        .or_else(|_| unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) })
}

/// Everything that was copied from the caller, such as the ends of others' pipes.
fn close_others(kept: i32) {
    let close = |first: u32, last: u32| {
        // SAFETY: the process uses no other descriptor than `kept`, which lies outside.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    };
    let kept = kept.unsigned_abs();
    if kept > 0 {
        close(0, kept - 1);
    }
    close(kept + 1, u32::MAX);
}

fn report(
    channel: BorrowedFd<'_>,
    done: std::result::Result<(), Errno>,
) -> std::result::Result<(), Errno> {
    let errno = done.err().map_or(0, |errno| u8::try_from(errno.raw_os_error()).unwrap_or(1));
    rustix::net::send(channel, &[errno], SendFlags::NOSIGNAL).map(drop)
}

fn hand(channel: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket];
    if !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(channel, &[io::IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// The number of a socket's network namespace (`SO_NETNS_COOKIE`, Linux 5.14), never used again while the machine runs.
///
/// # Errors
/// The kernel's: ENOPROTOOPT before Linux 5.14.
pub fn network_of(socket: impl AsFd) -> Result<u64> {
    let mut cookie = 0_u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes to `cookie`, which has as many, and to `length`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match done {
        0 => Ok(cookie),
        _ => {
            Err(Failure::new("socket", "ask for the network of", io::Error::last_os_error()).into())
        }
    }
}

/// linux/asm-generic/socket.h.
const NETNS_COOKIE: libc::c_int = 71;
