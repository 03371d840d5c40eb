//! Values with descriptors between processes: one JSON value a message of a SOCK_SEQPACKET UNIX socket.
//!
//! A value of more than [`MOST_INLINE`] bytes is put into a memfd, whose descriptor follows the others; the
//! message is then [`Envelope::Long`]. Peers are trusted no more than their bytes: a memfd is read, never mapped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_sys::{Failure, scm};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A longer value goes by a memfd: any socket's buffer takes this much in one message.
pub const MOST_INLINE: usize = 32 * 1024;

/// Longest value in bytes.
pub const MOST_MESSAGE: usize = 64 << 20;

/// The form in which a value is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Envelope<T> {
    /// Inline.
    Short(T),
    /// In a memfd of this many bytes, the last descriptor.
    Long(usize),
}

/// What [`receive`] found.
#[derive(Debug)]
pub enum Received<T> {
    /// A value with its descriptors.
    Value(T, Vec<OwnedFd>),
    /// Something else, and why it is none; the connection remains usable.
    Malformed(String),
    /// The peer is gone.
    Ended,
}

/// Sends a value with descriptors; `object` names the socket in errors.
///
/// # Errors
/// The kernel's error.
pub fn send<T: Serialize>(
    object: &str,
    socket: &OwnedFd,
    value: &T,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Failure> {
    let fail = |e: serde_json::Error| Failure::new(object, "write a message", io::Error::from(e));
    let failed = |e| Failure::new(object, "send a message", e);
    let short = serde_json::to_vec(&Envelope::Short(value)).map_err(fail)?;
    if short.len() <= MOST_INLINE {
        return scm::send(socket, &short, fds).map(drop).map_err(failed);
    }
    let body = serde_json::to_vec(value).map_err(fail)?;
    let file = rustix::fs::memfd_create("netloom message", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|e| Failure::new(object, "make room for a message", e))?;
    let mut file = std::fs::File::from(file);
    io::Write::write_all(&mut file, &body)
        .map_err(|e| Failure::new(object, "write a message", e))?;
    let long = serde_json::to_vec(&Envelope::<()>::Long(body.len())).map_err(fail)?;
    let mut all = fds.to_vec();
    all.push(file.as_fd());
    scm::send(socket, &long, &all).map(drop).map_err(failed)
}

/// Receives a value with descriptors; `object` names the socket in errors.
///
/// # Errors
/// The kernel's error: EAGAIN if the socket does not block and nothing is there.
pub fn receive<T: DeserializeOwned>(
    object: &str,
    socket: &OwnedFd,
) -> Result<Received<T>, Failure> {
    let mut buffer = vec![0; MOST_INLINE + 1024];
    let (length, mut fds) = match scm::receive(socket, &mut buffer) {
        Ok(received) => received,
        // The peer closed while messages of ours were unread.
        Err(e) if e.raw_os_error() == Some(Errno::CONNRESET.raw_os_error()) => {
            return Ok(Received::Ended);
        }
        Err(e) => return Err(Failure::new(object, "receive a message", e)),
    };
    if length == 0 {
        return Ok(Received::Ended);
    }
    let read = match serde_json::from_slice(buffer.get(..length).unwrap_or(&[])) {
        Ok(Envelope::Short(value)) => return Ok(Received::Value(value, fds)),
        Ok(Envelope::Long(length)) => memory(fds.pop(), length),
        Err(e) => Err(e.to_string()),
    };
    let value = read.and_then(|body| serde_json::from_slice(&body).map_err(|e| e.to_string()));
    Ok(match value {
        Ok(value) => Received::Value(value, fds),
        Err(reason) => Received::Malformed(reason),
    })
}

/// The content of a memfd. It is read, never mapped: its sender may still change it.
fn memory(file: Option<OwnedFd>, length: usize) -> Result<Vec<u8>, String> {
    let file = file.ok_or("no memory came with it")?;
    if length > MOST_MESSAGE {
        return Err(format!("{length} bytes; at most {MOST_MESSAGE}"));
    }
    // A pipe or a socket could block the read.
    let kind = rustix::fs::fstat(&file).map(|s| rustix::fs::FileType::from_raw_mode(s.st_mode));
    if kind != Ok(rustix::fs::FileType::RegularFile) {
        return Err("the descriptor that came with it is not memory".into());
    }
    let mut body = vec![0; length];
    std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::from(file), &mut body, 0)
        .map_err(|e| format!("read its memory: {e}"))?;
    Ok(body)
}
