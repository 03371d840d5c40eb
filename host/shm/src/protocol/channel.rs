//! The socket for messages and their descriptors; the same for switch and port.
//!
//! Non-blocking: an otherwise idle user waits on the descriptor. Descriptors are close-on-exec from
//! the start; a message with the wrong number of them is refused and they are closed. A peer that
//! is gone is a result, never a signal. unix(7), cmsg(3).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use netloom_sys::Failure;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    sockopt,
};

use super::{MOST_DESCRIPTORS, MOST_MESSAGE, Message};
use crate::{Error, Result};

/// A channel's name in errors.
const OBJECT: &str = "switch socket";
/// Connections that may wait for acceptance.
const BACKLOG: i32 = 256;

/// One end of a connection between a switch and a port or a manager.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
    received: Box<[u8]>,
    encoded: Vec<u8>,
}

/// The outcome of a [`Channel::receive`].
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A message with the descriptors of its kind.
    Message {
        /// The message.
        message: Message<'a>,
        /// As many as [`Message::descriptors`] states.
        descriptors: Vec<OwnedFd>,
    },
    /// Nothing is pending.
    Nothing,
    /// The peer is gone.
    Closed,
}

/// The outcome for a message given to [`Channel::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It will be received.
    Done,
    /// The peer does not read: not sent.
    Full,
    /// The peer is gone: not sent.
    Closed,
}

/// The peer (SO_PEERCRED of socket(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id, 0 if not visible here.
    pub pid: i32,
    /// Effective user id when it connected.
    pub uid: u32,
    /// Effective group id when it connected.
    pub gid: u32,
}

impl Peer {
    /// The process at the other end of a connected socket of the machine.
    ///
    /// # Errors
    /// [`Error::Failed`] if the kernel refuses.
    pub fn of(socket: BorrowedFd<'_>) -> Result<Peer> {
        let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).map_err(|e| {
            Failure::new(OBJECT, "read the peer's credentials", io::Error::other(e))
        })?;
        // SAFETY: found is a live ucred, for which any bytes are valid, and length is its size.
        let ret = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        if ret != 0 {
            return Err(Failure::new(
                OBJECT,
                "read the peer's credentials",
                io::Error::last_os_error(),
            )
            .into());
        }
        Ok(Peer { pid: found.pid, uid: found.uid, gid: found.gid })
    }
}

impl Channel {
    /// Connects to a switch's socket; if its backlog is full, waits at most `patience`.
    ///
    /// # Errors
    /// [`Error::Failed`]: ENOENT or ECONNREFUSED if there is no switch, EACCES without permission.
    pub fn connect(path: &Path, patience: Duration) -> Result<Channel> {
        let failed =
            |operation| move |e: Errno| Error::from(Failure::new(object(path), operation, e));
        let fd = socket(SocketFlags::CLOEXEC).map_err(failed("open"))?;
        if patience.is_zero() {
            rustix::io::ioctl_fionbio(&fd, true).map_err(failed("make non-blocking"))?;
        } else {
            // With a full backlog, connect(2) waits as long as SO_SNDTIMEO says.
            sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(patience))
                .map_err(failed("bound the wait"))?;
        }
        let (address, _held) = address(path).map_err(failed("find"))?;
        rustix::net::connect(&fd, &address).map_err(failed("connect"))?;
        Channel::from_fd(fd)
    }

    /// A channel from a connected socket made by [`Channel::connect`], [`Listener::accept`] or
    /// socketpair(2).
    ///
    /// # Errors
    /// [`Error::Failed`] if it is not a socket.
    pub fn from_fd(fd: OwnedFd) -> Result<Channel> {
        rustix::io::ioctl_fionbio(&fd, true)
            .map_err(|e| Failure::new(OBJECT, "make non-blocking", e))?;
        let received = vec![0; MOST_MESSAGE + 1].into_boxed_slice();
        Ok(Channel { fd, received, encoded: Vec::new() })
    }

    /// Two connected ends.
    ///
    /// # Errors
    /// [`Error::Failed`] if the kernel refuses.
    pub fn pair() -> Result<(Channel, Channel)> {
        let (a, b) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|e| Failure::new(OBJECT, "make a pair", e))?;
        Ok((Channel::from_fd(a)?, Channel::from_fd(b)?))
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// [`Error::Failed`] if the kernel refuses.
    pub fn peer(&self) -> Result<Peer> {
        Peer::of(self.fd.as_fd())
    }

    /// Sends one message with its descriptors.
    ///
    /// # Errors
    /// [`Error::Message`] if it exceeds a limit or has the wrong number of descriptors;
    /// [`Error::Failed`] if the kernel refuses otherwise.
    pub fn send(&mut self, message: &Message<'_>, with: &[BorrowedFd<'_>]) -> Result<Posted> {
        message.encode(&mut self.encoded)?;
        if with.len() != message.descriptors() {
            let reason = "not as many descriptors as its kind has";
            return Err(Error::Message { operation: "write", reason });
        }
        send(&self.fd, &self.encoded, with)
    }

    /// Sends a message; if the peer does not read, waits at most the given time.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn send_wait(
        &mut self,
        message: &Message<'_>,
        with: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> Result<Posted> {
        match self.send(message, with)? {
            Posted::Full if wait(&self.fd, PollFlags::OUT, timeout)? => self.send(message, with),
            other => Ok(other),
        }
    }

    /// Receives the next message.
    ///
    /// # Errors
    /// [`Error::Message`] if the bytes are not a valid message, or it has the wrong number of descriptors:
    /// that message is lost, its descriptors are closed. [`Error::Failed`] if the kernel refuses.
    pub fn receive(&mut self) -> Result<Incoming<'_>> {
        let Some((length, descriptors, cut)) = receive(&self.fd, &mut self.received)? else {
            return Ok(Incoming::Nothing);
        };
        let wrong = |reason| Err(Error::Message { operation: "read", reason });
        // An empty message looks the same; none is valid.
        if length == 0 && descriptors.is_empty() {
            return Ok(Incoming::Closed);
        }
        if cut {
            return wrong("too long, or too many descriptors");
        }
        let message = Message::decode(self.received.get(..length).unwrap_or_default())?;
        if descriptors.len() != message.descriptors() {
            return wrong("not as many descriptors as its kind has");
        }
        Ok(Incoming::Message { message, descriptors })
    }

    /// Waits until a message may be present or the peer is gone; returns whether that came within the time.
    ///
    /// # Errors
    /// [`Error::Failed`] if the kernel refuses.
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        wait(&self.fd, PollFlags::IN, timeout)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A switch's socket, to which ports and managers connect.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Creates the socket file. An existing one is not removed, and dropping this does not remove it.
    ///
    /// # Errors
    /// [`Error::Failed`]: EADDRINUSE if the file exists, of a live or a dead switch.
    pub fn bind(path: &Path) -> Result<Listener> {
        let failed =
            |operation| move |e: Errno| Error::from(Failure::new(object(path), operation, e));
        let fd = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).map_err(failed("open"))?;
        let (address, _held) = address(path).map_err(failed("find"))?;
        rustix::net::bind(&fd, &address).map_err(failed("make"))?;
        rustix::net::listen(&fd, BACKLOG).map_err(failed("listen"))?;
        Ok(Listener { fd, path: path.to_owned() })
    }

    /// The next connection.
    ///
    /// # Errors
    /// [`Error::Failed`], e.g. EMFILE.
    pub fn accept(&self) -> Result<Option<Channel>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(&self.fd, flags) {
            Ok(fd) => Channel::from_fd(fd).map(Some),
            // CONNABORTED: the peer left before it was accepted.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(e) => Err(Failure::new(object(&self.path), "accept", e).into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn object(path: &Path) -> String {
    format!("switch {path:?}")
}

fn socket(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// The address of a path; for one too long, an address through its directory's descriptor, which
/// must stay open while the address is used.
fn address(path: &Path) -> rustix::io::Result<(SocketAddrUnix, Option<OwnedFd>)> {
    match SocketAddrUnix::new(path) {
        Err(Errno::NAMETOOLONG) => {}
        other => return other.map(|address| (address, None)),
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::NAMETOOLONG);
    };
    let folder = rustix::fs::open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((SocketAddrUnix::new(short)?, Some(folder)))
}

fn send(fd: &OwnedFd, bytes: &[u8], with: &[BorrowedFd<'_>]) -> Result<Posted> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() && !control.push(SendAncillaryMessage::ScmRights(with)) {
        return Err(Error::Message { operation: "write", reason: "too many descriptors" });
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        return match rustix::net::sendmsg(fd, &[IoSlice::new(bytes)], &mut control, flags) {
            Ok(_) => Ok(Posted::Done),
            Err(Errno::INTR) => continue,
            // TOOMANYREFS: too many descriptors of ours are waiting to be read by peers.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS) => {
                Ok(Posted::Full)
            }
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Ok(Posted::Closed),
            Err(e) => Err(Failure::new(OBJECT, "send", e).into()),
        };
    }
}

/// The message's length, its descriptors, whether it was truncated.
type Read = (usize, Vec<OwnedFd>, bool);

fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> Result<Option<Read>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = loop {
        let mut into = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(fd, &mut into, &mut control, flags) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            // It left without having read all: the same as its end.
            Err(Errno::CONNRESET | Errno::NOTCONN) => return Ok(Some((0, Vec::new(), false))),
            Err(e) => return Err(Failure::new(OBJECT, "receive", e).into()),
        }
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    let cut = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    Ok(Some((message.bytes, descriptors, cut)))
}

/// Whether one of `events` (or a hang-up) came within the time.
fn wait(fd: &OwnedFd, events: PollFlags, timeout: Duration) -> Result<bool> {
    let begun = Instant::now();
    let mut polled = [PollFd::new(fd, events)];
    loop {
        let left = Timespec::try_from(timeout.saturating_sub(begun.elapsed()))
            .map_err(|e| Failure::new(OBJECT, "wait", io::Error::other(e)))?;
        match rustix::event::poll(&mut polled, Some(&left)) {
            Ok(found) => return Ok(found > 0),
            // A signal says nothing of the peer.
            Err(Errno::INTR) => {}
            Err(e) => return Err(Failure::new(OBJECT, "wait", e).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use netloom_kit::wait_until;

    use super::*;

    extern "C" fn nothing(_: libc::c_int) {}

    /// Whether a thread of this process sleeps.
    fn sleeps(thread: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
    }

    #[test]
    fn a_signal_ends_no_wait() {
        // SAFETY: zeros are a valid action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as *const () as usize;
        // SAFETY: the handler does nothing, and the action lives through the call.
        let set = unsafe { libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let (tell, told) = channel();
        let long = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                wait(&theirs, PollFlags::IN, long).unwrap()
            });
            let thread = told.recv().unwrap();
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            wait_until("it waits", long, || sleeps(thread).then_some(()));
            // SAFETY: the call takes numbers alone; the thread is one of this process.
            let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, libc::SIGURG) };
            assert_eq!(sent, 0);
            // Its handler has run, and it waits again, or has ended.
            let pending = || {
                let path = format!("/proc/self/task/{thread}/status");
                let text = std::fs::read_to_string(path).unwrap_or_default();
                text.lines()
                    .any(|line| line.starts_with("SigPnd:") && !line.ends_with("0000000000000000"))
            };
            wait_until("the signal is taken", long, || {
                (waiting.is_finished() || !pending() && sleeps(thread)).then_some(())
            });
            assert!(!waiting.is_finished());
            rustix::io::write(&ours, b"x").unwrap();
            assert!(waiting.join().unwrap());
        });
    }
}
