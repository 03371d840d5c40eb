//! The main loop of the wire process: it carries out requests from its control socket.
//!
//! One thread here listens, others carry ([`crate::worker`]); they communicate by channels. Clients
//! may come and go, wires stay. No client can end the process except by [`Request::Stop`], and a
//! client that does not read its answers loses its connection, not others' time.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use netloom_sys::{Failure, process};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::net::SocketFlags;
use rustix::process::Signal;

use crate::carrier::Carrier;
use crate::control::{
    self, Answer, DirectionSpec, DirectionState, Fates, MOST_RECORDS, PortKind, Request, WireState,
};
use crate::error::WIRES;
use crate::worker::{Worker, unwake, wake};
use crate::{Error, Result};

/// What the process of wires is called.
pub const NAME: &str = "netloom-wire";

/// Interval of checks whether the directory still exists.
const LOOK: Duration = Duration::from_secs(5);

/// Most threads that carry frames.
const MOST_WORKERS: usize = 4;

/// Most simultaneous connections; further ones are closed at once.
const MOST_CLIENTS: usize = 32;

/// Serves the control socket `listener` (SOCK_SEQPACKET, listening, mode 0600) until
/// [`Request::Stop`], SIGTERM, or the end of `folder`, the socket's directory.
///
/// Call it while the process has one thread; it names the process `netloom-wire`, blocks SIGTERM
/// and starts the threads that carry frames.
///
/// # Errors
/// The process cannot be set up. Client errors are answered to the clients.
pub fn serve(listener: OwnedFd, folder: &Path) -> Result<()> {
    process::set_name(NAME);
    let signals = process::catch(&[Signal::TERM.as_raw()])
        .map_err(|e| Failure::new(WIRES, "catch signals", e))?;
    Server::new(listener, signals, folder)?.run()
}

/// The worker of a direction.
#[derive(Clone, Copy)]
struct Lane {
    worker: usize,
    key: u64,
}

#[derive(Default)]
struct Wire {
    lanes: [Option<Lane>; 2],
    /// The final states of directions that have ended.
    ended: WireState,
    /// The clients that wait for its end.
    waiting: Vec<u64>,
    removing: bool,
}

struct Client {
    number: u64,
    socket: OwnedFd,
    /// Whether its request is still unanswered.
    waits: bool,
}

/// A direction that has ended.
type End = (usize, usize, DirectionState);

struct Server {
    listener: OwnedFd,
    signals: OwnedFd,
    folder: PathBuf,
    /// Device and inode of the directory.
    identity: Option<(u64, u64)>,
    workers: Vec<Worker>,
    wires: BTreeMap<usize, Wire>,
    clients: Vec<Client>,
    ends: Receiver<End>,
    end: Sender<End>,
    ended: Arc<OwnedFd>,
    next: u64,
    stop: bool,
}

impl Server {
    fn new(listener: OwnedFd, signals: OwnedFd, folder: &Path) -> Result<Server> {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS);
        let workers = (0..count).map(Worker::start).collect::<Result<Vec<_>>>()?;
        let ended = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| Failure::new(WIRES, "make an eventfd", e))?;
        let (end, ends) = mpsc::channel();
        // A client that leaves before it is accepted must not block us.
        rustix::io::ioctl_fionbio(&listener, true)
            .map_err(|e| Failure::new(WIRES, "make the socket non-blocking", e))?;
        Ok(Server {
            listener,
            signals,
            identity: identity(folder),
            folder: folder.to_owned(),
            workers,
            wires: BTreeMap::new(),
            clients: Vec::new(),
            ends,
            end,
            ended: Arc::new(ended),
            next: 0,
            stop: false,
        })
    }

    fn run(&mut self) -> Result<()> {
        while !self.stop {
            let ready = self.wait()?;
            if ready.is_empty() && identity(&self.folder) != self.identity {
                return Ok(());
            }
            for who in ready {
                match who {
                    Who::Signal => return Ok(()),
                    Who::Newcomer => self.accept(),
                    Who::End => self.note_ends(),
                    Who::Client(number) => self.hear(number),
                    Who::Leaver(number) => self.clients.retain(|c| c.number != number),
                }
            }
        }
        Ok(())
    }

    /// Waits until something happens; returns nothing when it is time to check the directory.
    fn wait(&self) -> Result<Vec<Who>> {
        let mut who = vec![Who::Signal, Who::Newcomer, Who::End];
        let mut fds = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&*self.ended, PollFlags::IN),
        ];
        for client in &self.clients {
            // A client that awaits an answer is only watched for its end.
            let (flags, kind) = if client.waits {
                (PollFlags::empty(), Who::Leaver(client.number))
            } else {
                (PollFlags::IN, Who::Client(client.number))
            };
            fds.push(PollFd::new(&client.socket, flags));
            who.push(kind);
        }
        match rustix::event::poll(&mut fds, Some(&process::timespec(LOOK))) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(vec![Who::End]),
            Err(e) => return Err(Failure::new(WIRES, "wait", e).into()),
        }
        let ready = who.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(who, _)| who).collect())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // A client that has left again does not matter.
        let Ok(socket) = rustix::net::accept_with(&self.listener, flags) else { return };
        if control::check_peer(&socket).is_err() || self.clients.len() >= MOST_CLIENTS {
            return;
        }
        let number = self.number();
        self.clients.push(Client { number, socket, waits: false });
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn hear(&mut self, number: u64) {
        let Some(client) = self.clients.iter().find(|c| c.number == number) else { return };
        let again = Some(rustix::io::Errno::AGAIN.raw_os_error());
        let answer = match control::receive_value(&client.socket) {
            Ok(Some((request, fds))) => self.obey(number, request, fds),
            Err(Error::Message(reason)) => Err(Error::Message(reason)),
            Err(Error::Failed(failure)) if failure.raw_os_error() == again => return,
            Ok(None) | Err(_) => return self.clients.retain(|c| c.number != number),
        };
        match answer {
            Ok(Some(answer)) => self.answer(number, &answer),
            Ok(None) => {}
            Err(e) => self.answer(number, &Answer::Failed(reason(&e))),
        }
    }

    fn answer(&mut self, number: u64, answer: &Answer) {
        let Some(client) = self.clients.iter_mut().find(|c| c.number == number) else { return };
        client.waits = false;
        // A client that does not read its answers is dropped.
        if control::send_value(&client.socket, answer, &[]).is_err() {
            self.clients.retain(|c| c.number != number);
        }
    }

    /// Carries out a request; `None` if the answer comes later.
    fn obey(&mut self, who: u64, request: Request, fds: Vec<OwnedFd>) -> Result<Option<Answer>> {
        match request {
            Request::Add { wire, ports, directions } => {
                self.add(wire, &ports, &fds, &directions)?;
            }
            Request::Set { wire, direction, impairments } => {
                check(&impairments)?;
                self.with(wire, direction, move |c| c.set(&impairments))?;
            }
            Request::Remove { wire, drain } => {
                self.remove(wire, drain, who)?;
                return Ok(None);
            }
            Request::List { wire } => return self.list(wire).map(Some),
            Request::Fates { wire, direction, keep } => {
                let keep = keep.min(MOST_RECORDS);
                self.with(wire, direction, move |c| c.kept().keep(keep))?;
            }
            Request::ReadFates { wire, direction, after, most } => {
                let most = most.min(MOST_RECORDS);
                let read = move |c: &mut Carrier| c.kept().read(after, most);
                let (records, missed) = self.with(wire, direction, read)?;
                return Ok(Some(Answer::Fates(Fates { records, missed })));
            }
            Request::Stop => self.stop = true,
        }
        Ok(Some(Answer::Done))
    }

    fn add(
        &mut self,
        wire: usize,
        ports: &[PortKind],
        fds: &[OwnedFd],
        directions: &[Option<DirectionSpec>; 2],
    ) -> Result<()> {
        if self.wires.contains_key(&wire) {
            return Err(Error::Refused(format!("wire {wire}: there is one of this number")));
        }
        if ports.len() != fds.len() {
            let (ports, fds) = (ports.len(), fds.len());
            let text = format!("wire {wire}: {ports} ports, {fds} descriptors");
            return Err(Error::Refused(text));
        }
        let inputs = directions.each_ref().map(|d| d.as_ref().map(|d| d.input));
        if inputs[0].is_some() && inputs[0] == inputs[1] {
            return Err(Error::Refused(format!("wire {wire}: two directions have one input")));
        }
        let open = |place: usize| -> Result<_> {
            let no_port = || Error::Refused(format!("wire {wire}: no port {place}"));
            let (kind, fd) = ports.get(place).zip(fds.get(place)).ok_or_else(no_port)?;
            let fd = fd.try_clone().map_err(|e| Failure::new(WIRES, "copy a descriptor", e))?;
            Ok(netloom_port::from_fd((*kind).into(), fd)?)
        };
        let mut carriers = [None, None];
        for (carrier, spec) in carriers.iter_mut().zip(directions) {
            let Some(spec) = spec else { continue };
            check(&spec.impairments)?;
            let (input, output) = (open(spec.input)?, open(spec.output)?);
            *carrier = Some(Carrier::new(input, output, &spec.impairments, spec.seed));
        }
        let mut new = Wire::default();
        for (lane, carrier) in new.lanes.iter_mut().zip(carriers) {
            if let Some(carrier) = carrier {
                *lane = Some(self.carry(carrier)?);
            }
        }
        self.wires.insert(wire, new);
        Ok(())
    }

    /// Gives a direction to the worker with the fewest.
    fn carry(&mut self, carrier: Carrier) -> Result<Lane> {
        let key = self.number();
        let idlest = self.workers.iter_mut().enumerate().min_by_key(|(_, w)| w.load);
        let (index, worker) = idlest.ok_or_else(|| Error::Refused("no threads".into()))?;
        worker.add(key, carrier)?;
        worker.load += 1;
        Ok(Lane { worker: index, key })
    }

    fn lane(&self, wire: usize, direction: usize) -> Result<Lane> {
        let no_wire = || Error::Refused(format!("wire {wire}: there is none"));
        let lanes = &self.wires.get(&wire).ok_or_else(no_wire)?.lanes;
        let lane = lanes.get(direction).copied().flatten();
        lane.ok_or_else(|| Error::Refused(format!("wire {wire}: no direction {direction}")))
    }

    fn with<T: Send + 'static>(
        &self,
        wire: usize,
        direction: usize,
        work: impl FnOnce(&mut Carrier) -> T + Send + 'static,
    ) -> Result<T> {
        let lane = self.lane(wire, direction)?;
        self.workers[lane.worker].with(lane.key, work)
    }

    fn list(&self, only: Option<usize>) -> Result<Answer> {
        let mut wires = BTreeMap::new();
        for (number, wire) in &self.wires {
            if only.is_some_and(|only| only != *number) {
                continue;
            }
            let mut state = wire.ended.clone();
            for (direction, lane) in wire.lanes.iter().enumerate() {
                if lane.is_some() && state[direction].is_none() {
                    // One that is just ending is reported in the answer to its removal.
                    state[direction] = self.with(*number, direction, Carrier::state).ok();
                }
            }
            wires.insert(*number, state);
        }
        match only {
            Some(wire) if wires.is_empty() => {
                Err(Error::Refused(format!("wire {wire}: there is none")))
            }
            _ => Ok(Answer::Wires(wires)),
        }
    }

    fn remove(&mut self, number: usize, drain: bool, who: u64) -> Result<()> {
        let Some(wire) = self.wires.get_mut(&number) else {
            return Err(Error::Refused(format!("wire {number}: there is none")));
        };
        wire.waiting.push(who);
        let first = !std::mem::replace(&mut wire.removing, true);
        if let Some(client) = self.clients.iter_mut().find(|c| c.number == who) {
            client.waits = true;
        }
        for (direction, lane) in wire.lanes.iter().enumerate() {
            let Some(lane) = lane else { continue };
            let done: Option<crate::worker::Removed> = first.then(|| {
                let (end, ended) = (self.end.clone(), self.ended.clone());
                let done = move |state| {
                    // The server ends only with its workers.
                    let _ = end.send((number, direction, state));
                    wake(&ended);
                };
                Box::new(done) as _
            });
            self.workers[lane.worker].remove(lane.key, drain, done)?;
        }
        self.answer_if_ended(number);
        Ok(())
    }

    fn note_ends(&mut self) {
        unwake(&self.ended);
        while let Ok((number, direction, state)) = self.ends.try_recv() {
            let Some(wire) = self.wires.get_mut(&number) else { continue };
            if let Some(lane) = wire.lanes[direction].take() {
                self.workers[lane.worker].load -= 1;
            }
            wire.ended[direction] = Some(state);
            self.answer_if_ended(number);
        }
    }

    fn answer_if_ended(&mut self, number: usize) {
        if self.wires.get(&number).is_none_or(|w| w.lanes.iter().any(Option::is_some)) {
            return;
        }
        if let Some(wire) = self.wires.remove(&number) {
            let answer = Answer::Removed(Box::new(wire.ended));
            for client in wire.waiting {
                self.answer(client, &answer);
            }
        }
    }
}

/// The source of an event.
enum Who {
    Signal,
    Newcomer,
    End,
    Client(u64),
    Leaver(u64),
}

fn check(impairments: &netloom_impair::Impairments) -> Result<()> {
    impairments.check().map_err(|p| Error::Refused(format!("{}: {}", p.key, p.reason)))
}

/// An error as answered: the client's own error adds the same prefix.
fn reason(error: &Error) -> String {
    match error {
        Error::Refused(reason) => reason.clone(),
        Error::Port(e) => netloom_sys::describe(e),
        Error::Message(reason) => format!("message: {reason}"),
        other => netloom_sys::describe(other),
    }
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(folder).ok()?;
    Some((stat.st_dev, stat.st_ino))
}
