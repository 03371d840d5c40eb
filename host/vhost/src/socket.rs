//! The socket between a port and its front end: listened on, or connected to.
//!
//! A listening socket is a file of mode 0600 from its first moment. A file that a killed process has left is replaced,
//! one that is listened on is not. Only processes of the port's own user, of root and of one more user are taken.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_sys::{Failure, scm};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;

use crate::{Error, Result};

/// Longest wait for the rest of a request.
pub(crate) const REST: Duration = Duration::from_secs(1);

/// Who makes the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// We listen: QEMU's `-chardev socket,path=PATH,reconnect=1`, cloud-hypervisor's `vhost_mode=client`.
    #[default]
    Listen,
    /// The front end listens: QEMU's `-chardev socket,path=PATH,server=on`, cloud-hypervisor's `vhost_mode=server`.
    Connect,
}

/// A listening socket, removed with this.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
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
        let listener =
            Listener { file: identity(path).unwrap_or_default(), socket, path: path.into() };
        listener.socket.set_nonblocking(true).map_err(failed("listen"))?;
        if let Some(owner) = owner {
            std::os::unix::fs::chown(path, Some(owner), None)
                .map_err(failed("give to its user"))?;
        }
        Ok(listener)
    }

    /// The next front end that may connect, if any waits.
    pub(crate) fn accept(&self, user: Option<u32>) -> Option<UnixStream> {
        loop {
            let (stream, _) = self.socket.accept().ok()?;
            if is_welcome(&stream, user) && prepare(&stream).is_some() {
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
        if identity(&self.path) == Some(self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// The file gets the mode of the socket itself (unix(7)), so nobody can connect before it is set.
fn bind_privately(path: &Path) -> io::Result<UnixListener> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, 4)?;
    Ok(socket.into())
}

/// Removes a socket on which nobody listens.
fn remove_dead(path: &Path) -> Result<()> {
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    match UnixStream::connect(path) {
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
    /// All of it: reading it does not block.
    Whole,
    /// Not all yet.
    Part,
    /// None, and none will.
    End,
}

/// Looks at the next request without taking it: a header of 12 bytes, the last four of which are the length of the rest.
pub(crate) fn look(stream: &UnixStream) -> Come {
    let mut header = [0; 12];
    let flags = net::RecvFlags::PEEK | net::RecvFlags::DONTWAIT;
    let seen = match net::recv(stream, &mut header, flags) {
        Ok((_, 0)) => return Come::End,
        Ok((_, seen)) => seen,
        Err(Errno::AGAIN | Errno::INTR) => return Come::Part,
        Err(_) => return Come::End,
    };
    let [.., a, b, c, d] = header;
    let wanted = u64::from(u32::from_ne_bytes([a, b, c, d])) + 12;
    let waiting = rustix::io::ioctl_fionread(stream).unwrap_or(0);
    if seen == header.len() && waiting >= wanted { Come::Whole } else { Come::Part }
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
/// Flags: the protocol's version, an answer, and that one is wanted.
const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Takes the next request if it is whole and is this one.
pub(crate) fn take_enable(stream: &UnixStream) -> Option<Enable> {
    let mut message = [0; 20];
    let flags = net::RecvFlags::PEEK | net::RecvFlags::DONTWAIT;
    let (_, seen) = net::recv(stream, &mut message, flags).ok()?;
    let (words, _) = message.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let [SET_VRING_ENABLE, flags, 8, index, num] = words[..] else { return None };
    if seen < message.len() || flags & !NEED_REPLY != VERSION {
        return None;
    }
    net::recv(stream, &mut message, net::RecvFlags::DONTWAIT).ok()?;
    Some(Enable { index, num, needs_reply: flags & NEED_REPLY != 0 })
}

/// Answers it.
pub(crate) fn answer_enable(mut stream: &UnixStream, done: bool) -> io::Result<()> {
    let words = [SET_VRING_ENABLE, VERSION | REPLY, 8].map(u32::to_ne_bytes);
    let value = u64::from(!done).to_ne_bytes();
    io::Write::write_all(&mut stream, &[words.as_flattened(), &value].concat())
}

fn is_welcome(stream: &UnixStream, user: Option<u32>) -> bool {
    let Ok(peer) = scm::peer_uid(stream) else { return false };
    peer == geteuid().as_raw() || peer == 0 || user == Some(peer)
}
