//! What the threads share that carry messages: where name servers stand, what is awaited, and the book.
//!
//! A note is made only of an answer to a query that was carried to the server which sent it.

use std::collections::VecDeque;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use netloom_packet::dns::{self, Question};
use rustix::event::{EventfdFlags, eventfd};

use super::book::Book;
use super::home::Home;

/// The port of name servers.
pub(super) const PORT: u16 = 53;
/// Queries of a client whose answers are awaited.
const MOST_QUERIES: usize = 32;
/// Longest query that is kept while its answer is awaited: what resolvers send at most by themselves.
const MOST_KEPT: usize = 1232;

/// A name server's place apart.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) server: IpAddr,
    pub(super) datagrams: UdpSocket,
    pub(super) streams: std::net::TcpListener,
}

/// What the relay's threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) book: Mutex<Book>,
    ended: AtomicBool,
    bell: OwnedFd,
    /// Connections that are carried now.
    pub(super) streams: AtomicUsize,
    /// From where the real servers are asked.
    pub(super) home: Arc<Home>,
}

impl Shared {
    pub(super) fn new(home: Arc<Home>) -> rustix::io::Result<Shared> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (book, ended) = (Mutex::default(), AtomicBool::new(false));
        Ok(Shared { book, ended, bell, streams: AtomicUsize::new(0), home })
    }

    /// Whether the relay is to end.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Ends the relay.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        // A bell that cannot be rung has rung already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Notes an answer, if it is one to a query in `awaited`.
    pub(super) fn note(&self, bytes: &[u8], awaited: &mut Awaited) {
        let Some(answer) = dns::read(bytes).filter(|message| message.is_response) else { return };
        if awaited.take(answer.id, &answer.question) && !answer.addresses.is_empty() {
            let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
            book.add(&answer.question.name, &answer.addresses, Instant::now());
        }
    }
}

impl AsFd for Shared {
    /// Readable when the relay is to end.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Queries whose answers are awaited: number, question, and the message.
#[derive(Debug, Default)]
pub(super) struct Awaited(VecDeque<(u16, Question, Vec<u8>)>);

impl Awaited {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let Some(query) = dns::read(bytes).filter(|message| !message.is_response) else { return };
        // A long one gets no answer if there is no server.
        let kept = if bytes.len() <= MOST_KEPT { bytes.to_vec() } else { vec![] };
        self.0.push_back((query.id, query.question, kept));
        if self.0.len() > MOST_QUERIES {
            self.0.pop_front();
        }
    }

    /// The messages of all, which are awaited no more.
    pub(super) fn take_all(&mut self) -> Vec<Vec<u8>> {
        self.0.drain(..).map(|(_, _, message)| message).collect()
    }

    fn take(&mut self, id: u16, question: &Question) -> bool {
        let at = self.0.iter().position(|(own, asked, _)| *own == id && asked == question);
        at.is_some_and(|at| self.0.remove(at).is_some())
    }
}
