//! How a value stands on the socket: one message, with descriptors.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use netloom_sys::{Failure, scm};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::envelope::{self, Received};

/// How a value stands on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In an [`envelope::Envelope`]: of any length up to [`envelope::MOST_MESSAGE`].
    Envelope,
    /// As it is.
    Bare {
        /// Most bytes.
        most: usize,
    },
}

impl Form {
    /// Sends a value with descriptors. `object` is the socket in failures.
    ///
    /// # Errors
    /// The kernel's: EPIPE if the peer is gone, EAGAIN if it does not read and the socket does not block. A bare value is
    /// too long.
    pub fn send<T: Serialize>(
        self,
        object: &str,
        socket: &OwnedFd,
        value: &T,
        with: &[BorrowedFd<'_>],
    ) -> Result<(), Failure> {
        let Form::Bare { most } = self else { return envelope::send(object, socket, value, with) };
        let bytes = serde_json::to_vec(value).map_err(io::Error::from).and_then(|bytes| {
            let too_long = || io::Error::other(format!("{} bytes; at most {most}", bytes.len()));
            (bytes.len() <= most).then_some(()).ok_or_else(too_long).map(|()| bytes)
        });
        let bytes = bytes.map_err(Failure::of(object, "write a message"))?;
        let sent = scm::send(socket, &bytes, with);
        sent.map(drop).map_err(|e| Failure::new(object, "send a message", e))
    }

    /// Receives a value with descriptors. `object` is the socket in failures.
    ///
    /// # Errors
    /// The kernel's: EAGAIN if the socket does not block and nothing is there.
    pub fn receive<T: DeserializeOwned>(
        self,
        object: &str,
        socket: &OwnedFd,
    ) -> Result<Received<T>, Failure> {
        let Form::Bare { most } = self else { return envelope::receive(object, socket) };
        // One byte more tells that a message was longer.
        let mut buffer = vec![0; most + 1];
        let (length, with) = match scm::receive(socket, &mut buffer) {
            Ok((0, _)) => return Ok(Received::Ended),
            Ok(received) => received,
            Err(e) if e.raw_os_error() == Some(Errno::CONNRESET.raw_os_error()) => {
                return Ok(Received::Ended);
            }
            Err(e) => return Err(Failure::new(object, "receive a message", e)),
        };
        if length > most {
            return Ok(Received::Malformed(format!("more than {most} bytes")));
        }
        let value = serde_json::from_slice(buffer.get(..length).unwrap_or(&[]));
        Ok(match value {
            Ok(value) => Received::Value(value, with),
            Err(e) => Received::Malformed(e.to_string()),
        })
    }
}
