//! A list of requests to the kernel, each tied to its object.
//!
//! Requests are encoded on pushing, one after the other, ready to send. Sequence numbers are
//! written when the batch is run. Invariant: `entries[i].end` is where message `i` ends and message
//! `i + 1` begins.

use std::ops::Range;
use std::sync::Arc;

use crate::uapi::{ACK, HEADER};

/// A request's effect on its object; decides what a tolerant request forgives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Creates an object: forgives that it exists already.
    Create,
    /// Alters or removes an object: forgives that it is absent.
    Touch,
}

impl Purpose {
    fn forgives(self, errno: i32) -> bool {
        match self {
            Self::Create => errno == libc::EEXIST,
            Self::Touch => {
                // No such link, table or discipline, route, address.
                [libc::ENODEV, libc::ENOENT, libc::ESRCH, libc::EADDRNOTAVAIL].contains(&errno)
            }
        }
    }
}

/// A change that a [`Batch`] can carry. Implemented by the request types of this crate.
pub trait Request: sealed::Encode {
    /// The verb used in error texts, e.g. `create`.
    fn operation(&self) -> &'static str;
    /// The request's effect on its object.
    fn purpose(&self) -> Purpose;
    /// The meaning of an error number for this kind of request, for kernels that do not explain.
    #[must_use]
    fn meaning(_errno: i32) -> Option<&'static str>
    where
        Self: Sized,
    {
        None
    }
}

pub(crate) mod sealed {
    /// Appends the message of a request.
    pub trait Encode {
        /// Appends one whole netlink message to `bytes`.
        fn encode(&self, bytes: &mut Vec<u8>);
    }
}

/// Requests in order, to be run by [`Socket::run`](crate::Socket::run).
///
/// ```no_run
/// use netloom_netlink::{Address, Batch, BridgeSpec, Change, Socket};
///
/// let mut batch = Batch::new();
/// batch.push("switch \"s1\"", &BridgeSpec { index: Some(7), ..BridgeSpec::new("s1") });
/// batch.push("address \"10.0.0.1/24\"", &Address::new(7, "10.0.0.1/24".parse()?));
/// batch.push("link \"lo\"", &Change::of(1).up());
/// Socket::open()?.run(&mut batch)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) object: Arc<str>,
    pub(crate) operation: &'static str,
    forgives: Option<Purpose>,
    meaning: fn(i32) -> Option<&'static str>,
    end: usize,
}

impl Entry {
    pub(crate) fn meaning(&self, errno: i32) -> Option<String> {
        (self.meaning)(errno).map(str::to_owned)
    }

    pub(crate) fn forgives(&self, errno: i32) -> bool {
        self.forgives.is_some_and(|purpose| purpose.forgives(errno))
    }
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request. `object` names its object in errors, with its kind and in quotes: `link
    /// "h1:eth0--r1:eth1"`. A name shared by many requests is cheapest as a cloned `Arc`.
    pub fn push(&mut self, object: impl Into<Arc<str>>, request: &impl Request) {
        self.add(object.into(), request, None);
    }

    /// Adds a request whose work may already be done: creating an existing object (`EEXIST`), altering
    /// or removing an absent one (`ENODEV`, `ENOENT`, `ESRCH`, `EADDRNOTAVAIL`) is not a failure.
    pub fn push_tolerant(&mut self, object: impl Into<Arc<str>>, request: &impl Request) {
        self.add(object.into(), request, Some(request.purpose()));
    }

    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all requests and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    pub(crate) fn entry(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    /// The longest run of requests from `first` within both limits, at least one.
    pub(crate) fn chunk(&self, first: usize, bytes: usize, count: usize) -> Range<usize> {
        let limit = self.start(first) + bytes;
        let last = self.entries.len().min(first + count.max(1));
        let fitting = self.entries[first..last].partition_point(|entry| entry.end <= limit);
        // One at least, so that a message longer than a chunk does not stop the list.
        first..first + fitting.max(1)
    }

    /// Numbers the messages of `chunk` from `sequence`, requests an answer to the one at
    /// `answering` (errors are answered anyway) and returns their bytes.
    pub(crate) fn stamp(&mut self, chunk: Range<usize>, answering: usize, sequence: u32) -> &[u8] {
        let (from, to) = (self.start(chunk.start), self.entries[chunk.end - 1].end);
        let mut number = sequence;
        for index in chunk {
            let start = self.start(index);
            debug_assert!(self.entries[index].end >= start + HEADER);
            self.bytes[start + 8..start + 12].copy_from_slice(&number.to_ne_bytes());
            number = number.wrapping_add(1);
        }
        let last = self.start(answering);
        let flags = u16::from_ne_bytes([self.bytes[last + 6], self.bytes[last + 7]]) | ACK;
        self.bytes[last + 6..last + 8].copy_from_slice(&flags.to_ne_bytes());
        &self.bytes[from..to]
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.entries[before].end)
    }

    fn add<R: Request>(&mut self, object: Arc<str>, request: &R, forgives: Option<Purpose>) {
        request.encode(&mut self.bytes);
        let end = self.bytes.len();
        let (operation, meaning) = (request.operation(), R::meaning);
        self.entries.push(Entry { object, operation, forgives, meaning, end });
    }
}

#[cfg(test)]
mod tests;
