//! The netlink socket: sends batches, matches answers, lists tables.
//!
//! The kernel processes a netlink message within `sendmsg`, in order, so only the last message of a
//! chunk requests an answer; refusals are answered unasked. A chunk never exceeds the send buffer,
//! nor the number of answers that the receive buffer holds, so none is lost even if every message
//! is refused. The socket is connected to the kernel: nobody else can write to it. Specification:
//! netlink(7).

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netloom_sys::Failure;
use rustix::net::netlink::{GENERIC, NETFILTER, SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt,
};

use crate::batch::Batch;
use crate::decode::{Message, answer, i32_at, messages};
use crate::error::{Error, Refusal, Result, SOCKET};
use crate::uapi::{DUMP_INTERRUPTED, HEADER, NLMSG_DONE, NLMSG_ERROR};

/// Requested buffer size per direction, in bytes.
const WANTED_BUFFER: usize = 4 << 20;
/// Bytes per `sendmsg`; larger ones gain nothing and need larger kernel allocations.
const CHUNK_BYTES: usize = 256 << 10;
/// The most that one answer takes of the receive buffer, including the kernel's bookkeeping: an
/// answer with an explanation is below 1 KiB, and memory is counted in rounded-up blocks.
const ANSWER_COST: usize = 2304;
/// The kernel sizes a dump's datagrams by the reader's buffer, up to this.
const RECEIVE_BYTES: usize = 32 << 10;
/// The answer is queued when `sendmsg` returns; this only bounds the wait on a fault.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// How often a dump is restarted because the table changed.
const DUMP_TRIES: u32 = 16;

/// A netlink socket of one network namespace.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    received: Vec<u8>,
    chunk_bytes: usize,
    chunk_count: usize,
}

impl Socket {
    /// Opens a route socket in the calling thread's network namespace. It stays there, wherever the
    /// thread goes.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses the socket or one of its settings.
    pub fn open() -> Result<Self> {
        let socket = Self::open_with(None, WANTED_BUFFER)?;
        // Without it (before Linux 4.20) dump filters are ignored; answers are filtered here as
        // well, so nothing depends on it.
        let _ = socket.enable(libc::NETLINK_GET_STRICT_CHK);
        Ok(socket)
    }

    /// Opens a socket for a few queries: cheaper, with the system's own buffers. Not for batches.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub fn open_to_ask() -> Result<Self> {
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(failed("open"))?;
        rustix::net::connect(&fd, &SocketAddrNetlink::new(0, 0)).map_err(failed("connect"))?;
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(ANSWER_WAIT))
            .map_err(failed("set timeout"))?;
        let (received, chunk_bytes) = (vec![0; RECEIVE_BYTES], RECEIVE_BYTES);
        Ok(Self { fd, sequence: 1, received, chunk_bytes, chunk_count: 1 })
    }

    /// Opens a netfilter socket in the network namespace of the calling thread.
    pub(crate) fn open_netfilter() -> Result<Self> {
        Self::open_with(Some(NETFILTER), WANTED_BUFFER)
    }

    /// Opens a socket for socket monitoring in the network namespace of the calling thread.
    pub(crate) fn open_diag() -> Result<Self> {
        Self::open_with(Some(SOCK_DIAG), WANTED_BUFFER)
    }

    /// Opens a generic netlink socket in the network namespace of the calling thread.
    pub(crate) fn open_generic() -> Result<Self> {
        Self::open_with(Some(GENERIC), WANTED_BUFFER)
    }

    fn open_with(protocol: Option<Protocol>, wanted_buffer: usize) -> Result<Self> {
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )
        .map_err(failed("open"))?;
        Self::over_with(fd, wanted_buffer)
    }

    /// A route socket that another process opened, in the network namespace of that process.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub fn over(fd: OwnedFd) -> Result<Self> {
        Self::over_with(fd, RECEIVE_BYTES)
    }

    fn over_with(fd: OwnedFd, wanted_buffer: usize) -> Result<Self> {
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::connect(&fd, &kernel).map_err(failed("connect"))?;
        set_buffers(&fd, wanted_buffer).map_err(failed("set buffer size"))?;
        let timeout = sockopt::Timeout::Recv;
        sockopt::set_socket_timeout(&fd, timeout, Some(ANSWER_WAIT))
            .map_err(failed("set timeout"))?;
        let send_buffer = sockopt::socket_send_buffer_size(&fd).map_err(failed("read size"))?;
        let receive_buffer = sockopt::socket_recv_buffer_size(&fd).map_err(failed("read size"))?;
        let socket = Self {
            fd,
            sequence: 1,
            received: vec![0; RECEIVE_BYTES],
            // The kernel reserves 32 bytes of the send buffer.
            chunk_bytes: CHUNK_BYTES.min(send_buffer.saturating_sub(32)),
            chunk_count: (receive_buffer / ANSWER_COST).max(1),
        };
        // Refusals then omit the request's body, which bounds their size; without explanations
        // (before Linux 4.12) errors are only less detailed.
        socket.enable(libc::NETLINK_CAP_ACK).map_err(failed("set short answers"))?;
        let _ = socket.enable(libc::NETLINK_EXT_ACK);
        Ok(socket)
    }

    /// Sends all requests, in order, and continues past refusals. The batch is empty afterwards.
    ///
    /// # Errors
    /// [`Error::Refused`] with every refused request; [`Error::Failed`] if sending or receiving
    /// itself failed; it is then unknown which of the remaining requests were done.
    pub fn run(&mut self, batch: &mut Batch) -> Result<()> {
        let mut refusals = Vec::new();
        let outcome = self.run_chunks(batch, &mut refusals);
        // After an error, too: what was sent must not be sent again.
        batch.clear();
        outcome?;
        if refusals.is_empty() { Ok(()) } else { Err(Error::Refused(refusals)) }
    }

    fn run_chunks(&mut self, batch: &mut Batch, refusals: &mut Vec<Refusal>) -> Result<()> {
        let mut first = 0;
        while first < batch.len() {
            let chunk = batch.chunk(first, self.chunk_bytes, self.chunk_count);
            first = chunk.end;
            // Requests are done in order: when the last is answered, all before it are done.
            let answering = chunk.end - 1;
            self.run_chunk(batch, chunk, answering, refusals)?;
        }
        Ok(())
    }

    /// Sends all requests as one datagram whose first and last messages are its brackets; the
    /// kernel applies it whole or not at all.
    pub(crate) fn run_transaction(&mut self, batch: &mut Batch) -> Result<()> {
        let mut refusals = Vec::new();
        // Kernels before 6.10 do not answer the closing bracket.
        let answering = batch.len() - 2;
        self.run_chunk(batch, 0..batch.len(), answering, &mut refusals)?;
        if refusals.is_empty() { Ok(()) } else { Err(Error::Refused(refusals)) }
    }

    fn run_chunk(
        &mut self,
        batch: &mut Batch,
        chunk: Range<usize>,
        answering: usize,
        refusals: &mut Vec<Refusal>,
    ) -> Result<()> {
        let count = chunk.len();
        // A refused opening bracket is the only answer.
        let bracketed = answering + 1 < chunk.end;
        let sequence = self.take_sequence(count);
        self.send(batch.stamp(chunk.clone(), answering, sequence))?;
        let mut answered = false;
        while !answered {
            let length = self.receive()?;
            for message in messages(&self.received[..length]) {
                let Some(place) = place_of(&message, sequence, count) else { continue };
                answered |= chunk.start + place == answering || (bracketed && place == 0);
                refusals.extend(refusal(&message, batch, chunk.start + place));
            }
        }
        Ok(())
    }

    /// Sends one query that has one answer, and decodes it with `read`; `None` if the kernel
    /// answers with one of the error numbers in `absent`.
    pub(crate) fn ask<T>(
        &mut self,
        question: &mut [u8],
        (object, operation): (&str, &'static str),
        absent: &[i32],
        read: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        let sequence = self.begin(question)?;
        loop {
            let length = self.receive()?;
            for message in messages(&self.received[..length]) {
                // An answer to an earlier query that was given up.
                if message.sequence != sequence {
                    continue;
                }
                if message.kind == NLMSG_ERROR {
                    let failure = failure_of(&message, object, operation);
                    return match failure {
                        Some(failure) if absent.contains(&failure.errno) => Ok(None),
                        Some(failure) => Err(Error::Refused(vec![failure])),
                        // An acknowledgement, before which there was no answer.
                        None => Err(Error::Answer { object: object.into(), operation }),
                    };
                }
                let answer = read(&message);
                let unclear = || Error::Answer { object: object.into(), operation };
                return answer.map(Some).ok_or_else(unclear);
            }
        }
    }

    /// Lists a table: sends the dump request `question` and decodes every message with `read`,
    /// which returns `None` for entries to skip. Restarts if the table changed meanwhile.
    pub(crate) fn dump<T>(
        &mut self,
        question: &mut [u8],
        table: &'static str,
        read: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>> {
        for _ in 0..DUMP_TRIES {
            // A list that was cut by a change may miss entries or have some twice.
            if let Some(entries) = self.dump_once(question, table, &read)? {
                return Ok(entries);
            }
        }
        Err(Error::Changing { table, tries: DUMP_TRIES })
    }

    fn dump_once<T>(
        &mut self,
        question: &mut [u8],
        table: &'static str,
        read: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let sequence = self.begin(question)?;
        let mut entries = Vec::new();
        let mut changed = false;
        loop {
            let length = self.receive()?;
            for message in messages(&self.received[..length]) {
                // An answer to an earlier query that was given up.
                if message.sequence != sequence {
                    continue;
                }
                // Read to its end all the same: a socket runs one dump at a time (EBUSY).
                changed |= message.flags & DUMP_INTERRUPTED != 0;
                match message.kind {
                    NLMSG_DONE | NLMSG_ERROR => {
                        refuse_dump(&message, table)?;
                        return Ok((!changed).then_some(entries));
                    }
                    _ => entries.extend(read(&message)),
                }
            }
        }
    }

    /// Numbers and sends one query.
    fn begin(&mut self, question: &mut [u8]) -> Result<u32> {
        let sequence = self.take_sequence(1);
        debug_assert!(question.len() >= HEADER);
        question[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.send(question)?;
        Ok(sequence)
    }

    pub(crate) fn take_sequence(&mut self, count: usize) -> u32 {
        let first = self.sequence;
        // Numbers may wrap; an answer is only compared with those outstanding.
        #[expect(clippy::cast_possible_truncation)]
        let step = count as u32;
        self.sequence = first.wrapping_add(step);
        first
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<()> {
        rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, bytes, SendFlags::empty()))
            .map(drop)
            .map_err(failed("send"))
    }

    /// Reads one datagram into the buffer and returns its length.
    fn receive(&mut self) -> Result<usize> {
        let buffer = &mut self.received;
        let (_, length) = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.fd, buffer.as_mut_slice(), RecvFlags::TRUNC)
        })
        .map_err(failed("receive"))?;
        // A datagram that was cut would pass for a shorter table.
        if length > buffer.len() {
            let source = io::Error::from_raw_os_error(libc::EMSGSIZE);
            return Err(Failure::new(SOCKET, "receive", source).into());
        }
        Ok(length)
    }

    fn enable(&self, option: libc::c_int) -> rustix::io::Result<()> {
        self.set_option(option, 1)
    }

    /// Sets an integer option of level `SOL_NETLINK`.
    pub(crate) fn set_option(&self, option: libc::c_int, value: u32) -> rustix::io::Result<()> {
        const SIZE: libc::socklen_t = 4;
        // SAFETY: the descriptor is open as long as `self` lives; the value is on this stack and 4
        // bytes long, as c_int is on Linux.
        let code = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_NETLINK,
                option,
                (&raw const value).cast(),
                SIZE,
            )
        };
        if code == 0 { Ok(()) } else { Err(last_errno()) }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The index of this answer in a chunk of `count` messages from `first`.
fn place_of(message: &Message<'_>, first: u32, count: usize) -> Option<usize> {
    let place = usize::try_from(message.sequence.wrapping_sub(first)).ok()?;
    (message.kind == NLMSG_ERROR && place < count).then_some(place)
}

fn refusal(message: &Message<'_>, batch: &Batch, index: usize) -> Option<Refusal> {
    let entry = batch.entry(index);
    // An answer too short to decode is a refusal for an unknown reason.
    let (errno, explanation) = answer(message).unwrap_or((libc::EPROTO, None));
    let explanation = explanation.or_else(|| entry.meaning(errno));
    let failure =
        Refusal { object: entry.object.clone(), operation: entry.operation, errno, explanation };
    (errno != 0 && !entry.forgives(errno)).then_some(failure)
}

fn failure_of(message: &Message<'_>, object: &str, operation: &'static str) -> Option<Refusal> {
    let (errno, explanation) = answer(message)?;
    let failure = Refusal { object: object.into(), operation, errno, explanation };
    (errno != 0).then_some(failure)
}

/// The end of a dump carries its outcome, like an error.
fn refuse_dump(message: &Message<'_>, table: &'static str) -> Result<()> {
    let errno = i32_at(message.payload, 0).map_or(0, i32::saturating_neg);
    if errno == 0 {
        return Ok(());
    }
    let explanation =
        if message.kind == NLMSG_ERROR { answer(message).and_then(|(_, text)| text) } else { None };
    Err(Error::Refused(vec![Refusal {
        object: table.into(),
        operation: "list",
        errno,
        explanation,
    }]))
}

/// Beyond the system's limit if allowed, else up to the limit.
fn set_buffers(fd: &OwnedFd, wanted: usize) -> rustix::io::Result<()> {
    // The forced ones need CAP_NET_ADMIN (socket(7)).
    sockopt::set_socket_send_buffer_size_force(fd, wanted)
        .or_else(|_| sockopt::set_socket_send_buffer_size(fd, wanted))?;
    sockopt::set_socket_recv_buffer_size_force(fd, wanted)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, wanted))
}

fn last_errno() -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&io::Error::last_os_error())
        .unwrap_or(rustix::io::Errno::INVAL)
}

pub(crate) fn failed(operation: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
    move |errno| Failure::new(SOCKET, operation, errno).into()
}

#[cfg(test)]
mod tests;
