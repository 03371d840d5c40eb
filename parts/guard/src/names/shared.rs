//! What the threads share that carry messages: name servers, asking programs, awaited answers, and the book.
//!
//! A query goes on only if the asking program may look up its name. A note is made only of an answer to a query that was
//! carried to the server which sent it. Both is done by the relay's thread, which alone knows the judge; threads of streams
//! [bring](Shared::bring) their matters to it.

use std::collections::VecDeque;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use netloom_packet::dns::{self, Question};
use netloom_policy::{Direction, Program, Protocol, Request, Target};
use rustix::event::{EventfdFlags, eventfd};

use super::book::Book;
use super::home::Home;
use super::seats::{Asker, Seats};
use crate::judge::{self, Judge, Judgement, State};
use crate::who::Who;

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
    pub(super) streams: TcpListener,
}

/// What the relay's threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) book: Mutex<Book>,
    pub(super) seats: Seats,
    ended: AtomicBool,
    bell: OwnedFd,
    /// Closed for a moment when descriptors run out, to accept a connection and close it.
    spare: Mutex<Option<OwnedFd>>,
    brought: Mutex<Vec<Brought>>,
    /// Connections that are carried now.
    pub(super) streams: AtomicUsize,
    /// From where the real servers are asked.
    pub(super) home: Arc<Home>,
}

/// The names to decide or note.
#[derive(Debug)]
pub(super) enum Matter {
    /// A name is to be looked up; it is empty if it cannot be read.
    Query(String),
    /// Addresses of a name, each with the seconds for which it holds.
    Answer(String, Vec<(IpAddr, u32)>),
}

#[derive(Debug)]
struct Brought {
    matter: Matter,
    asker: Option<Arc<Asker>>,
    reply: Sender<bool>,
}

impl Shared {
    pub(super) fn new(home: Arc<Home>) -> rustix::io::Result<Shared> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let spare = Mutex::new(bell.try_clone().ok());
        Ok(Shared {
            book: Mutex::default(),
            seats: Seats::default(),
            ended: AtomicBool::new(false),
            bell,
            spare,
            brought: Mutex::default(),
            streams: AtomicUsize::new(0),
            home,
        })
    }

    /// Whether the relay is to end.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Ends the relay.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.ring();
    }

    fn ring(&self) {
        // A bell that cannot be rung has rung already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Has the relay's thread settle a matter; whether it may go on. Nothing may after the end.
    pub(super) fn bring(&self, matter: Matter, asker: Option<Arc<Asker>>) -> bool {
        let (reply, settled) = channel();
        let mut brought = self.brought();
        // What comes after the end is settled by nobody, and what has come before is cleared away after it.
        if self.has_ended() {
            return false;
        }
        brought.push(Brought { matter, asker, reply });
        drop(brought);
        self.ring();
        settled.recv().unwrap_or(false)
    }

    /// Closes the first connection that waits at a listener, where there is no descriptor left for it.
    pub(super) fn turn_away(&self, listener: &TcpListener) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        drop(spare.take());
        // One that has left meanwhile needs nothing.
        drop(listener.accept());
        *spare = self.bell.try_clone().ok();
    }

    /// Settles what was brought.
    pub(super) fn attend(&self, judge: &dyn Judge) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        for Brought { matter, asker, reply } in std::mem::take(&mut *self.brought()) {
            // A stream that has ended needs no reply.
            let _ = reply.send(self.settle(matter, asker.as_deref(), judge));
        }
    }

    /// No thread settles any more: waiting threads are woken.
    pub(super) fn leave(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.brought().clear();
    }

    fn brought(&self) -> std::sync::MutexGuard<'_, Vec<Brought>> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a query, or notes an answer.
    pub(super) fn settle(&self, matter: Matter, asker: Option<&Asker>, judge: &dyn Judge) -> bool {
        match matter {
            Matter::Query(name) => may_look_up(name, asker, judge),
            Matter::Answer(name, addresses) => {
                let program = asker.map_or("", |asker| asker.who.program.path.as_str());
                let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
                book.add(&name, program, &addresses, Instant::now(), judge);
                true
            }
        }
    }
}

/// Whether the asking program may look a name up.
fn may_look_up(name: String, asker: Option<&Asker>, judge: &dyn Judge) -> bool {
    let nobody = || Program { path: String::new(), sha256: None };
    let program = asker.map_or_else(nobody, |asker| asker.who.program.clone());
    let target = Target::Name(name);
    let request = Request { program, direction: Direction::Out, protocol: Protocol::Dns, target };
    let verdict = judge.known(&request).unwrap_or_else(|| {
        let unknown;
        let who = match asker {
            Some(asker) => &asker.who,
            None => {
                unknown = Who::unknown();
                &unknown
            }
        };
        let state = || asker.map_or(State::Gone, Asker::state);
        judge.decide(&judge::Question { who, request: &request, state: &state })
    });
    verdict == Judgement::Allow
}

impl AsFd for Shared {
    /// Readable when the relay is to end, or to settle something.
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

    /// What there is to note of an answer, if it is one to a query here.
    pub(super) fn answered(&mut self, bytes: &[u8]) -> Option<Matter> {
        let answer = dns::read(bytes).filter(|message| message.is_response)?;
        let is_awaited = self.take(answer.id, &answer.question);
        let notes = is_awaited && !answer.addresses.is_empty();
        notes.then_some(Matter::Answer(answer.question.name, answer.addresses))
    }

    fn take(&mut self, id: u16, question: &Question) -> bool {
        let at = self.0.iter().position(|(own, asked, _)| *own == id && asked == question);
        at.is_some_and(|at| self.0.remove(at).is_some())
    }
}

/// The name that a query asks for; empty if it asks for none that can be read, or for more.
pub(super) fn name_of(query: &[u8]) -> String {
    dns::asked(query).map_or(String::new(), |question| question.name)
}
