//! The main loop of the wire process: it carries out requests from its control socket.
//!
//! One thread here listens, others carry ([`crate::worker`]); they communicate by channels. Clients
//! may come and go, wires stay. No client can end the process except by [`Request::Stop`], and a
//! client that does not read its answers loses its connection, not others' time.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use netloom_control::{Desk, Folder, Incoming, LOOK};
use netloom_filter::Program;
use netloom_sys::{Failure, process};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::process::Signal;

use crate::carrier::Carrier;
use crate::control::{
    Answer, DirectionSpec, DirectionState, Fates, MOST_RECORDS, PortKind, Request, WireState, Wires,
};
use crate::error::WIRES;
use crate::worker::{Worker, unwake, wake};
use crate::{Error, Result};

/// What the process of wires is called.
pub const NAME: &str = "netloom-wire";

/// Most threads that carry frames.
const MOST_WORKERS: usize = 4;

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

/// A direction that has ended.
type End = (usize, usize, DirectionState);

struct Server {
    desk: Desk<Wires>,
    signals: OwnedFd,
    folder: Folder,
    workers: Vec<Worker>,
    wires: BTreeMap<usize, Wire>,
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
        Ok(Server {
            desk: Desk::new(listener)?,
            signals,
            folder: Folder::of(folder),
            workers,
            wires: BTreeMap::new(),
            ends,
            end,
            ended: Arc::new(ended),
            next: 0,
            stop: false,
        })
    }

    fn run(&mut self) -> Result<()> {
        while !self.stop {
            let [signal, asked, ended] = self.wait()?;
            // The folder is looked at in quiet moments alone: that takes a system call.
            if signal || (!asked && !ended && self.folder.is_gone()) {
                return Ok(());
            }
            if ended {
                self.note_ends();
            }
            if asked {
                self.serve_clients();
            }
        }
        Ok(())
    }

    /// Waits until something happens: a signal, a request, the end of a direction; or until it is time to look at the folder.
    fn wait(&self) -> Result<[bool; 3]> {
        let mut fds = [
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.desk, PollFlags::IN),
            PollFd::new(&*self.ended, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, Some(&process::timespec(LOOK))) {
            Ok(_) => Ok([0, 1, 2].map(|at: usize| !fds[at].revents().is_empty())),
            // As if a direction had ended: a signal comes before it is time to look.
            Err(rustix::io::Errno::INTR) => Ok([false, false, true]),
            Err(e) => Err(Failure::new(WIRES, "wait", e).into()),
        }
    }

    fn serve_clients(&mut self) {
        for Incoming { by, request, with } in self.desk.turn() {
            match self.obey(by, request, with) {
                Ok(None) => {}
                Ok(Some(answer)) => self.desk.answer(by, &answer),
                Err(e) => self.desk.reply(by, Err(e.reason())),
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Carries out a request; `None` if the answer comes later.
    fn obey(&mut self, who: u64, request: Request, fds: Vec<OwnedFd>) -> Result<Option<Answer>> {
        match request {
            Request::Add { wire, ports, directions } => {
                self.add(wire, &ports, &fds, &directions)?;
            }
            Request::Set { wire, direction, impairments } => {
                // First, so that what is refused has changed nothing.
                let dropping = check(&impairments)?;
                self.with(wire, direction, move |c| c.set(&impairments, dropping))?;
            }
            Request::Remove { wire, drain } => {
                self.remove(wire, drain, who)?;
                return Ok(None);
            }
            Request::List { wire } => return self.list(wire).map(Some),
            Request::Fates { wire, direction, keep } => {
                // The process serves all wires: none of them may take its memory.
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
        // Each frame would go whichever way read it first.
        if inputs[0].is_some() && inputs[0] == inputs[1] {
            return Err(Error::Refused(format!("wire {wire}: two directions have one input")));
        }
        let open = |place: usize| -> Result<_> {
            let no_port = || Error::Refused(format!("wire {wire}: no port {place}"));
            let (kind, fd) = ports.get(place).zip(fds.get(place)).ok_or_else(no_port)?;
            // Both directions may use one port; each watches and closes a descriptor of its own.
            let fd = fd.try_clone().map_err(|e| Failure::new(WIRES, "copy a descriptor", e))?;
            Ok(netloom_port::from_fd((*kind).into(), fd)?)
        };
        // Both before either starts: of a wire that cannot be made whole no direction runs.
        let mut carriers = [None, None];
        for (carrier, spec) in carriers.iter_mut().zip(directions) {
            let Some(spec) = spec else { continue };
            let dropping = check(&spec.impairments)?;
            let (input, output) = (open(spec.input)?, open(spec.output)?);
            let new = Carrier::new(input, output, &spec.impairments, dropping, spec.seed);
            *carrier = Some(new);
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
        // A direction ends once, however many ask for it; all of them are answered when both have ended.
        let first = !std::mem::replace(&mut wire.removing, true);
        self.desk.defer(who);
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
                self.desk.answer(client, &answer);
            }
        }
    }
}

/// Refuses impairments that cannot be; returns the program of `drop`.
fn check(impairments: &netloom_impair::Impairments) -> Result<Option<Program>> {
    impairments.check().map_err(|p| Error::Refused(format!("{}: {}", p.key, p.reason)))?;
    let compile = |text: &String| {
        let refused = |e| Error::Refused(format!("drop: {}", netloom_sys::describe(&e)));
        // Bounded: in this thread all clients wait for it.
        netloom_libpcap::compile_bounded(text).map_err(refused)
    };
    impairments.drop.as_ref().map(compile).transpose()
}
