//! The socket between a port and its front end: listened on, or connected to.
//!
//! A listening socket is a file of mode 0600 from its first moment. A file that a killed process has left is replaced,
//! one that is listened on is not. Only processes of the port's own user, of root and of one more user are taken, except at a
//! socket that was given: who reaches that is its giver's to decide.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_sys::private_socket::{self, Named};
use netloom_sys::{Failure, scm};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{self, SocketFlags, SocketType};
use rustix::process::geteuid;

use crate::{Error, Result};

/// Longest wait for the rest of a request.
pub(crate) const REST: Duration = Duration::from_secs(1);

/// The side that makes the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// We listen: QEMU's `-chardev socket,path=PATH,reconnect=1`, cloud-hypervisor's `vhost_mode=client`.
    #[default]
    Listen,
    /// The front end listens: QEMU's `-chardev socket,path=PATH,server=on`, cloud-hypervisor's `vhost_mode=server`.
    Connect,
}

/// A listening socket, whose file is removed with this.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    /// Its file with device and inode; without one the giver of the socket decides which clients reach it.
    file: Option<(PathBuf, (u64, u64))>,
}

impl Listener {
    pub(crate) fn bind(path: &Path, owner: Option<u32>) -> Result<Listener> {
        let failed = |operation: &'static str| {
            move |e: io::Error| Error::from(Failure::path(path, operation, e))
        };
        let socket = match bind_privately(path) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                remove_dead(path)?;
                bind_privately(path)
            }
            other => other,
        };
        let socket = socket.map_err(failed("listen"))?;
        // Of a file without an identity nobody knows later whether it is this one: it then stays.
        let file = (path.to_owned(), identity(path).unwrap_or_default());
        let listener = Listener { socket, file: Some(file) };
        if let Some(owner) = owner {
            Named::hold(path)
                .and_then(|named| named.give(Some(owner), None))
                .map_err(|e| failed("give to its user")(e.into()))?;
        }
        Ok(listener)
    }

    /// A socket that listens already.
    pub(crate) fn given(socket: OwnedFd) -> Result<Listener> {
        // Its giver may have left it blocking, and `accept` must not wait.
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|e| Error::from(Failure::new("the card's socket", "prepare", e)))?;
        Ok(Listener { socket: socket.into(), file: None })
    }

    /// The next front end that may connect, if any waits.
    pub(crate) fn accept(&self, user: Option<u32>) -> Option<UnixStream> {
        loop {
            let (stream, _) = self.socket.accept().ok()?;
            let welcome = self.file.is_none() || is_welcome(&stream, user);
            if welcome && prepare(&stream).is_some() {
                return Some(stream);
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another process may have replaced the file.
        if let Some((path, file)) = &self.file
            && identity(path) == Some(*file)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn bind_privately(path: &Path) -> io::Result<UnixListener> {
    let socket = private_socket::bind(path, SocketType::STREAM, SocketFlags::NONBLOCK)?;
    net::listen(&socket, 4)?;
    Ok(socket.into())
}

/// Removes a socket on which nobody listens.
fn remove_dead(path: &Path) -> Result<()> {
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    match UnixStream::connect(path) {
        // Whatever else is there is not a port's to remove.
        _ if !is_socket && identity(path).is_some() => {
            Err(Failure::path(path, "listen", Errno::EXIST).into())
        }
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .map_err(|e| Failure::path(path, "remove a dead socket", e).into()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Failure::path(path, "listen", e).into()),
        Ok(_) => Err(Error::Taken { path: path.into() }),
    }
}

/// A connection to a front end that listens, if one that may do so does.
pub(crate) fn connect(path: &Path, user: Option<u32>) -> Option<UnixStream> {
    let stream = UnixStream::connect(path).ok()?;
    (is_welcome(&stream, user) && prepare(&stream).is_some()).then_some(stream)
}

/// Bounds how long a front end that says half a message can hold the port up: only its own.
fn prepare(stream: &UnixStream) -> Option<()> {
    stream.set_read_timeout(Some(REST)).ok()?;
    stream.set_write_timeout(Some(REST)).ok()
}

/// What of a front end's next request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Come {
    /// All of it: reading it does not block. What it asks, if it is to enable or disable a queue.
    Whole(Option<Enable>),
    /// Not all yet.
    Part,
    /// None, and none will.
    End,
}

/// Bytes of a request's header: its number, its flags and the length of the rest.
const HEAD: usize = 12;

/// Looks at the next request without taking it.
pub(crate) fn look(stream: &UnixStream) -> Come {
    let mut message = [0; ENABLE];
    let flags = net::RecvFlags::PEEK | net::RecvFlags::DONTWAIT;
    let seen = match net::recv(stream, &mut message, flags) {
        Ok((_, 0)) => return Come::End,
        Ok((_, seen)) => seen,
        Err(Errno::AGAIN | Errno::INTR) => return Come::Part,
        Err(_) => return Come::End,
    };
    let words = message.as_chunks::<4>().0;
    let [request, flags, length, index, num] =
        std::array::from_fn(|at| u32::from_ne_bytes(words[at]));
    // The peek ends early; this counts all bytes that are there.
    let waiting = rustix::io::ioctl_fionread(stream).unwrap_or(0);
    if seen < HEAD || waiting < u64::from(length) + HEAD as u64 {
        return if has_hung_up(stream) { Come::End } else { Come::Part };
    }
    let enables = (request, flags & !NEED_REPLY, length) == (SET_VRING_ENABLE, VERSION, 8);
    let needs_reply = flags & NEED_REPLY != 0;
    Come::Whole(enables.then_some(Enable { index, num, needs_reply }))
}

/// Whether nothing more will come: the rest of a request neither.
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|shown| shown > 0)
}

/// A request to enable or disable a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enable {
    pub(crate) index: u32,
    /// 1 enables, 0 disables.
    pub(crate) num: u32,
    /// The front end waits for an answer.
    pub(crate) needs_reply: bool,
}

const SET_VRING_ENABLE: u32 = 18;
/// Bytes of that request.
const ENABLE: usize = 20;
/// Flags: the protocol's version, an answer, and that one is wanted.
const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Takes the request that was seen to be this one.
pub(crate) fn take_enable(stream: &UnixStream) {
    // `look` has seen all of it, so it neither waits nor fails.
    let _ = net::recv(stream, &mut [0; ENABLE], net::RecvFlags::DONTWAIT);
}

/// Answers it.
pub(crate) fn answer_enable(mut stream: &UnixStream, done: bool) -> io::Result<()> {
    let words = [SET_VRING_ENABLE, VERSION | REPLY, 8].map(u32::to_ne_bytes);
    // 0 is success (REPLY_ACK in vhost-user.rst).
    let value = u64::from(!done).to_ne_bytes();
    io::Write::write_all(&mut stream, &[words.as_flattened(), &value].concat())
}

fn is_welcome(stream: &UnixStream, user: Option<u32>) -> bool {
    let Ok(peer) = scm::peer_uid(stream) else { return false };
    peer == geteuid().as_raw() || peer == 0 || user == Some(peer)
}
