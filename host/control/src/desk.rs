//! The process's side of a control socket: the listening socket and those who ask, behind one descriptor.
//!
//! Nothing blocks. Of each client one request is read in a turn, so none keeps others waiting, and they are answered in
//! order. A client that does not read its answers is dropped.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use netloom_sys::{Failure, private_socket, scm};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType};
use rustix::process::geteuid;

use crate::envelope::Received;
use crate::{Protocol, Trust};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// The number of the listening socket.
const LISTENER: u64 = 0;

/// Makes a listening control socket of mode 0600, in place of that of an earlier process.
///
/// # Errors
/// The system refuses.
pub fn listen(path: &Path) -> Result<OwnedFd, Failure> {
    let failed = |operation| Failure::of(format!("{path:?}"), operation);
    // There may be none.
    let _ = rustix::fs::unlink(path);
    let socket = private_socket::bind(path, SocketType::SEQPACKET, SocketFlags::NONBLOCK)
        .map_err(failed("bind"))?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
    Ok(socket)
}

/// A request.
#[derive(Debug)]
pub struct Incoming<R> {
    /// Who asks.
    pub by: u64,
    /// For what.
    pub request: R,
    /// The descriptors that came with it.
    pub with: Vec<OwnedFd>,
}

#[derive(Debug)]
struct Guest {
    socket: OwnedFd,
    /// Its request is not answered yet: only its end is watched.
    waits: bool,
}

/// Where clients connect, and those that are connected.
#[derive(Debug)]
pub struct Desk<P> {
    epoll: OwnedFd,
    listener: OwnedFd,
    /// Closed for a moment when descriptors run out, to accept a connection and close it.
    spare: Option<OwnedFd>,
    guests: BTreeMap<u64, Guest>,
    last: u64,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> Desk<P> {
    /// Serves a listening socket. The desk itself is a descriptor that is readable when there is something to do.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(listener: OwnedFd) -> Result<Desk<P>, Failure> {
        let failed = |operation| move |e: Errno| Failure::new(P::OBJECT, operation, e);
        // A client that leaves before it is accepted must not block.
        rustix::io::ioctl_fionbio(&listener, true).map_err(failed("make it non-blocking"))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed("make an epoll"))?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)
            .map_err(failed("watch"))?;
        let spare = listener.try_clone().ok();
        let (guests, protocol) = (BTreeMap::new(), PhantomData);
        Ok(Desk { epoll, listener, spare, guests, last: LISTENER, protocol })
    }

    /// Accepts those who wait, and returns the requests that are there.
    pub fn turn(&mut self) -> Vec<Incoming<P::Request>> {
        let mut asked = vec![];
        for id in self.ready() {
            match id {
                LISTENER => self.welcome(),
                id => asked.extend(self.hear(id)),
            }
        }
        asked
    }

    fn ready(&self) -> Vec<u64> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; 64];
        let at_once = netloom_sys::process::timespec(std::time::Duration::ZERO);
        // Interrupted: it stays readable.
        let count = epoll::wait(&self.epoll, &mut events, Some(&at_once)).unwrap_or(0);
        events.iter().take(count).map(|event| { event.data }.u64()).collect()
    }

    fn welcome(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..BACKLOG {
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => self.admit(socket),
                Err(Errno::MFILE | Errno::NFILE) => {
                    // Otherwise it would be reported for ever.
                    drop(self.spare.take());
                    drop(rustix::net::accept_with(&self.listener, flags));
                    self.spare = self.listener.try_clone().ok();
                    return;
                }
                // One that has left again does not matter.
                Err(_) => return,
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd) {
        let own = geteuid().as_raw();
        let root = P::TRUST == Trust::UserAndRoot;
        let known = scm::peer_uid(&socket).is_ok_and(|uid| uid == own || (root && uid == 0));
        if !known || self.guests.len() >= P::MOST_CLIENTS {
            return;
        }
        self.last += 1;
        let data = EventData::new_u64(self.last);
        if epoll::add(&self.epoll, &socket, data, EventFlags::IN).is_ok() {
            self.guests.insert(self.last, Guest { socket, waits: false });
        }
    }

    fn hear(&mut self, id: u64) -> Option<Incoming<P::Request>> {
        let guest = self.guests.get(&id)?;
        let again = Some(Errno::AGAIN.raw_os_error());
        match P::FORM.receive(P::OBJECT, &guest.socket) {
            // Its end alone is watched for then.
            _ if guest.waits => self.close(id),
            Ok(Received::Value(request, with)) => return Some(Incoming { by: id, request, with }),
            Ok(Received::Malformed(reason)) => self.refuse(id, format!("message: {reason}")),
            Err(e) if e.raw_os_error() == again => {}
            Ok(Received::Ended) | Err(_) => self.close(id),
        }
        None
    }

    /// Answers a client. One that does not read its answers is dropped.
    pub fn answer(&mut self, id: u64, answer: &P::Answer) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        if P::FORM.send(P::OBJECT, &guest.socket, answer, &[]).is_err() {
            return self.close(id);
        }
        if std::mem::replace(&mut guest.waits, false) {
            let data = EventData::new_u64(id);
            let _ = epoll::modify(&self.epoll, &guest.socket, data, EventFlags::IN);
        }
    }

    /// Answers a client, or says why not.
    pub fn reply(&mut self, id: u64, answer: Result<P::Answer, String>) {
        match answer {
            Ok(answer) => self.answer(id, &answer),
            Err(reason) => self.refuse(id, reason),
        }
    }

    fn refuse(&mut self, id: u64, reason: String) {
        match P::refuse(reason) {
            Some(answer) => self.answer(id, &answer),
            None => self.close(id),
        }
    }

    /// Reads no further request of a client until it is answered.
    pub fn defer(&mut self, id: u64) {
        if let Some(guest) = self.guests.get_mut(&id) {
            guest.waits = true;
            // Its end is reported all the same.
            let data = EventData::new_u64(id);
            let _ = epoll::modify(&self.epoll, &guest.socket, data, EventFlags::empty());
        }
    }

    /// Closes a client's connection.
    pub fn close(&mut self, id: u64) {
        if let Some(guest) = self.guests.remove(&id) {
            // A child that was forked meanwhile may hold the socket, too; closing would not end the watch then.
            let _ = epoll::delete(&self.epoll, &guest.socket);
        }
    }

    /// Whether a client is still connected.
    pub fn has(&self, id: u64) -> bool {
        self.guests.contains_key(&id)
    }

    /// Its descriptors, while nobody is connected.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.epoll, &self.listener].into_iter().chain(&self.spare).map(AsFd::as_fd)
    }
}

impl<P> AsFd for Desk<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
