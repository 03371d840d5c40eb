//! Event loop of a switch's process: connections, messages, and relaying frames.
//!
//! Single-threaded; only epoll blocks. Work per client or uplink is bounded at a time, so that none delays
//! the others. It sleeps without a timer, except while it awaits ports of an earlier process and while an
//! uplink is held. Of all client messages, only the owner's stop request ends it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use netloom_shm::inbox::PeerInbox;
use netloom_shm::protocol::{Channel, Message, Reason, Refused};
use netloom_sys::{Failure, process};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::process::{Resource, Rlimit, Signal};

use crate::access::Gate;
use crate::client::{Client, Gone, Role};
use crate::edges::Edges;
use crate::error::SWITCH;
use crate::options::Options;
use crate::plane::{Plane, Ports};
use crate::received::{Received, read};
use crate::relay::Hub;
use crate::state::{State, StateFile};
use crate::system::now;
use crate::{Error, Result};

/// Most connections that are not ports; beyond it the oldest is dropped.
const MOST_GUESTS: usize = 128;

/// Most connections accepted, and most messages of one client read, before the next client's turn.
const TURN: usize = 16;

/// What a switch's process is called in lists of processes: at most 15 bytes (prctl(2)).
pub const NAME: &str = "netloom-switch";

/// Runs a switch whose ports and managers connect to `listener` (SOCK_SEQPACKET, listening), until it
/// receives a stop request or SIGTERM. `socket` is the path that the listener is bound to, removed at the
/// end. `state` is the file with the knowledge of an earlier process of the switch; it is created if missing.
/// Established edges continue after the switch ends.
///
/// Call it with a single thread; it names the process `netloom-switch` and blocks SIGTERM.
///
/// # Errors
/// The process cannot be set up; [`Error::BrokenState`] if the state file is malformed. Client errors are
/// answered to the client.
pub fn serve(listener: OwnedFd, socket: &Path, state: &Path, options: &Options) -> Result<()> {
    serve_beside(None, listener, socket, state, options)
}

/// The same for a switch that has the kernel forward among ports that are interfaces.
///
/// # Errors
/// As [`serve`].
pub fn serve_beside(
    plane: Option<Plane>,
    listener: OwnedFd,
    socket: &Path,
    state: &Path,
    options: &Options,
) -> Result<()> {
    process::set_name(NAME);
    let signals = process::catch(&[Signal::TERM.as_raw()])
        .map_err(|e| Failure::new(SWITCH, "catch signals", e))?;
    let mut server = Server::new(listener, signals, state, options)?;
    server.take_plane(plane)?;
    let bound = identity(socket);
    let ended = server.run();
    // Another switch may own the path by now.
    if bound.is_some() && identity(socket) == bound {
        let _ = std::fs::remove_file(socket);
    }
    ended
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(path).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// The source of an event, encoded in the epoll data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Signal,
    Listener,
    Client(u64),
    Uplink(u8),
    /// The programs in the kernel tell of frames.
    Plane,
}

impl Key {
    const CLIENT: u64 = 1 << 62;
    const UPLINK: u64 = 1 << 61;

    fn number(self) -> u64 {
        match self {
            Key::Signal => 0,
            Key::Listener => 1,
            Key::Plane => 2,
            Key::Client(id) => Key::CLIENT | id,
            Key::Uplink(number) => Key::UPLINK | u64::from(number),
        }
    }

    fn of(number: u64) -> Key {
        match number {
            0 => Key::Signal,
            1 => Key::Listener,
            2 => Key::Plane,
            n if n & Key::CLIENT != 0 => Key::Client(n & !Key::CLIENT),
            n => Key::Uplink(n.to_le_bytes()[0]),
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) joins: u64,
    pub(crate) refused: u64,
    pub(crate) expelled: u64,
}

pub(crate) struct Server {
    epoll: OwnedFd,
    listener: OwnedFd,
    signals: OwnedFd,
    /// Closed briefly when descriptors run out, to accept and reject a connection.
    spare: Option<OwnedFd>,
    pub(crate) gate: Gate,
    pub(crate) options: Options,
    pub(crate) file: StateFile,
    pub(crate) state: State,
    /// The state has changed in ways that may be lost.
    pub(crate) dirty: bool,
    pub(crate) clients: BTreeMap<u64, Client>,
    next: u64,
    pub(crate) hub: Hub,
    pub(crate) edges: Edges,
    /// What forwards among ports that are interfaces.
    pub(crate) plane: Option<Plane>,
    pub(crate) tally: Tally,
    /// Seconds since 1970.
    pub(crate) since: u64,
    /// Until when ports of an earlier process are awaited, if there are any.
    awaiting: Option<Instant>,
    pub(crate) stop: bool,
}

impl Server {
    fn new(listener: OwnedFd, signals: OwnedFd, state: &Path, options: &Options) -> Result<Server> {
        let setup = |operation| move |e: Errno| Error::from(Failure::new(SWITCH, operation, e));
        let file = StateFile::new(state);
        let state = file.read()?;
        // Write at once: a switch that cannot write must find out before it has ports.
        file.write(&state)?;
        raise_limit();
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(setup("make an epoll"))?;
        // A client that leaves before accept must not block the loop.
        rustix::io::ioctl_fionbio(&listener, true)
            .map_err(setup("make the socket non-blocking"))?;
        let awaiting = (!state.ports.is_empty()).then(|| Instant::now() + options.grace);
        let server = Server {
            spare: spare(&epoll),
            gate: Gate {
                owner: rustix::process::geteuid().as_raw(),
                group: options.group.unwrap_or_else(|| rustix::process::getegid().as_raw()),
                mode: options.mode,
            },
            options: options.clone(),
            file,
            hub: Hub::new(&state.rules, options)?,
            state,
            dirty: false,
            clients: BTreeMap::new(),
            next: 0,
            edges: Edges::default(),
            plane: None,
            tally: Tally::default(),
            since: now(),
            awaiting,
            stop: false,
            epoll,
            listener,
            signals,
        };
        server.watch(server.signals.as_fd(), Key::Signal).map_err(setup("watch signals"))?;
        server.watch(server.listener.as_fd(), Key::Listener).map_err(setup("watch the socket"))?;
        Ok(server)
    }

    fn run(&mut self) -> Result<()> {
        while !self.stop {
            for key in self.wait()? {
                match key {
                    Key::Signal => self.stop = true,
                    Key::Listener => self.accept(),
                    Key::Client(id) => self.attend(id),
                    Key::Uplink(_) => self.hub.wake_up(),
                    Key::Plane => self.learn_results(),
                }
            }
            for number in self.hub.relay(Instant::now()) {
                self.expel_port(number);
            }
            for (from, open) in self.hub.due() {
                self.open_due(from, &open);
            }
            for hint in self.hub.hints() {
                self.tell(hint);
            }
            if self.awaiting.is_some_and(|until| until <= Instant::now()) {
                self.give_up_waiting();
            }
            self.look_through_results();
            self.save_if_dirty();
        }
        self.save_if_dirty();
        Ok(())
    }

    fn wait(&self) -> Result<Vec<Key>> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; 64];
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let look = self.plane.as_ref().and_then(Plane::pause);
        let pauses = self.hub.pause().into_iter().chain(self.awaiting.map(left)).chain(look);
        let timeout = pauses.min();
        let timeout = timeout.map(process::timespec);
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(count) => Ok(events.iter().take(count).map(|e| Key::of({ e.data }.u64())).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(e) => Err(Failure::new(SWITCH, "wait", e).into()),
        }
    }

    /// Watches a descriptor, level-triggered: an event as long as there is something to read.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, key: Key) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(key.number()), EventFlags::IN)
    }

    /// Watches an uplink's bell, edge-triggered: one event per ring.
    pub(crate) fn watch_bell(&self, fd: BorrowedFd<'_>, number: u8) -> rustix::io::Result<()> {
        let data = EventData::new_u64(Key::Uplink(number).number());
        epoll::add(&self.epoll, fd, data, EventFlags::IN | EventFlags::ET)
    }

    /// Stops watching a descriptor. Others hold it too, so closing it would not end the watch.
    pub(crate) fn unwatch(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    fn take_plane(&mut self, plane: Option<Plane>) -> Result<()> {
        self.plane = plane;
        let Some(plane) = &self.plane else { return Ok(()) };
        let watched = self.watch(plane.fd(), Key::Plane);
        watched.map_err(|e| Failure::new(SWITCH, "watch the kernel's notices", e).into())
    }

    /// Keeps results for frames that the programs tell of.
    fn learn_results(&mut self) {
        let Some(plane) = &mut self.plane else { return };
        let ports = Here { state: &self.state, hub: &self.hub };
        for notice in plane.notices() {
            plane.learn(&notice, self.hub.rules(), &ports);
        }
    }

    fn look_through_results(&mut self) {
        let Some(plane) = &mut self.plane else { return };
        let ports = Here { state: &self.state, hub: &self.hub };
        for hint in plane.look(self.hub.rules().0, &ports) {
            self.tell(hint);
        }
    }

    /// Ends what programs forward: something that it depends on is about to change, or has just changed.
    pub(crate) fn end_results(&mut self) {
        if let Some(plane) = &mut self.plane {
            plane.end_all();
        }
    }

    fn accept(&mut self) {
        for _ in 0..TURN {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => self.welcome(socket),
                Err(Errno::MFILE | Errno::NFILE) => {
                    // Otherwise epoll would report it forever.
                    drop(self.spare.take());
                    drop(rustix::net::accept_with(&self.listener, flags));
                    self.spare = spare(&self.epoll);
                    return;
                }
                // A client that left before accept does not matter.
                Err(_) => return,
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd) {
        let Ok(channel) = Channel::from_fd(socket) else { return };
        // A client whose user is not known could not be judged.
        let Ok(peer) = channel.peer() else { return };
        self.make_room();
        self.next += 1;
        if self.watch(channel.as_fd(), Key::Client(self.next)).is_ok() {
            self.clients.insert(self.next, Client::new(channel, peer));
        }
    }

    /// Drops the oldest guest if there are too many, from the user with the most guests, so that nobody can
    /// keep others out.
    fn make_room(&mut self) {
        let guests = || self.clients.iter().filter(|(_, c)| !matches!(c.role, Role::Port(_)));
        if guests().count() < MOST_GUESTS {
            return;
        }
        let mut by_user = BTreeMap::<u32, usize>::new();
        for (_, client) in guests() {
            *by_user.entry(client.peer.uid).or_default() += 1;
        }
        let most = by_user.iter().max_by_key(|(_, count)| **count).map(|(uid, _)| *uid);
        // Numbers only rise, so the first of a user is the oldest.
        let oldest = guests().find(|(_, c)| Some(c.peer.uid) == most).map(|(id, _)| *id);
        if let Some(id) = oldest {
            self.expel(id);
        }
    }

    /// Reads a client's messages, and sends what its socket can take.
    fn attend(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.has_unread() && client.flush().is_err() {
            return self.expel(id);
        }
        for _ in 0..TURN {
            // A manager that does not read its answers gets no further requests read.
            let waits = |c: &Client| c.has_unread() && matches!(c.role, Role::Manager(_));
            let Some(client) = self.clients.get_mut(&id).filter(|c| !waits(c)) else { break };
            let heard = read(client);
            if matches!(heard, Received::Nothing) || !self.hear(id, heard) {
                break;
            }
        }
        self.look_after(id);
    }

    /// Handles a client's message; returns whether there may be more.
    fn hear(&mut self, id: u64, heard: Received) -> bool {
        match (heard, self.port_of(id)) {
            (Received::Part, None) => {}
            (Received::Request { id: of, body }, None) => self.answer(id, of, &body),
            (Received::Join(application), None) => self.join(id, *application),
            (Received::Open { to, ring }, Some(from)) => self.open(from, to, ring),
            (Received::Close { number, direction }, Some(at)) => self.close(at, number, direction),
            (Received::Moved, Some(_)) => self.end_results(),
            (Received::Closed | Received::Bye, _) => {
                self.dismiss(id);
                return false;
            }
            (Received::Nothing, _) => return false,
            (Received::Wrong(text), _) => {
                self.refuse(id, Reason::Protocol, 0, &text);
                self.expel(id);
                return false;
            }
            (Received::Join(_) | Received::Request { .. } | Received::Part, Some(_))
            | (Received::Open { .. } | Received::Close { .. } | Received::Moved, None) => {
                self.refuse(id, Reason::Protocol, 0, "not now");
                self.expel(id);
                return false;
            }
        }
        true
    }

    fn port_of(&self, id: u64) -> Option<u8> {
        match self.clients.get(&id)?.role {
            Role::Port(number) => Some(number),
            _ => None,
        }
    }

    /// Sends a refusal. Text beyond a message's capacity is cut.
    pub(crate) fn refuse(&mut self, id: u64, reason: Reason, number: u8, text: &str) {
        self.tally.refused += u64::from(number == 0);
        let Some(client) = self.clients.get_mut(&id) else { return };
        let most = netloom_shm::protocol::MOST_TEXT;
        let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        let text = text.get(..end.unwrap_or(0)).unwrap_or_default();
        // A client that does not read this either is dropped at the next message.
        let _ = client.channel.send(&Message::Refused(Refused { reason, number, text }), &[]);
    }

    /// Sends or queues a message for a client; drops the client if neither is possible.
    pub(crate) fn post(
        &mut self,
        id: u64,
        message: Message<'static>,
        with: Vec<std::rc::Rc<OwnedFd>>,
    ) -> std::result::Result<(), Gone> {
        let Some(client) = self.clients.get_mut(&id) else { return Err(Gone) };
        let posted = client.post(message, with);
        if posted.is_err() {
            self.expel(id);
        } else {
            self.look_after(id);
        }
        posted
    }

    /// Updates the events that epoll watches for a client.
    pub(crate) fn look_after(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let unread = client.has_unread();
        if unread == client.watched {
            return;
        }
        client.watched = unread;
        let flags = match (unread, &client.role) {
            (false, _) => EventFlags::IN,
            // Its requests are not read until it has read its answers: to watch them would end each sleep at once.
            (true, Role::Manager(_)) => EventFlags::OUT,
            (true, _) => EventFlags::IN | EventFlags::OUT,
        };
        let data = EventData::new_u64(Key::Client(id).number());
        let _ = epoll::modify(&self.epoll, &client.channel, data, flags);
    }

    /// Drops a client because of its behaviour.
    pub(crate) fn expel(&mut self, id: u64) {
        self.tally.expelled += 1;
        self.dismiss(id);
    }

    fn expel_port(&mut self, number: u8) {
        if let Some(id) = self.hub.port(number).map(|port| port.client) {
            self.expel(id);
        }
    }

    /// Forgets a client and its port.
    pub(crate) fn dismiss(&mut self, id: u64) {
        let Some(client) = self.clients.remove(&id) else { return };
        self.unwatch(client.channel.as_fd());
        if let Role::Port(number) = client.role {
            self.leave(number);
        }
    }

    /// Ports of an earlier process that have not come back are given up.
    fn give_up_waiting(&mut self) {
        self.awaiting = None;
        let lost = |number: &u8| !self.hub.has(*number);
        let lost: Vec<u8> = self.state.ports.iter().map(|p| p.number).filter(lost).collect();
        for number in lost {
            self.leave(number);
        }
    }

    fn save_if_dirty(&mut self) {
        // If such changes cannot be written now, the next change writes them.
        if std::mem::take(&mut self.dirty) && self.file.write(&self.state).is_err() {
            self.dirty = true;
        }
    }
}

/// The connected ports.
struct Here<'a> {
    state: &'a State,
    hub: &'a Hub,
}

impl Ports for Here<'_> {
    fn number(&self, name: &str) -> Option<u8> {
        let known = self.state.ports.iter().find(|known| known.name == name)?;
        self.hub.has(known.number).then_some(known.number)
    }

    fn name(&self, number: u8) -> Option<&str> {
        let known = self.state.ports.iter().find(|known| known.number == number)?;
        self.hub.has(number).then_some(known.name.as_str())
    }

    fn inbox(&self, number: u8) -> Option<&PeerInbox> {
        self.hub.port(number).map(|port| &**port.downlink.inbox())
    }
}

/// A descriptor to sacrifice when descriptors run out.
fn spare(any: &OwnedFd) -> Option<OwnedFd> {
    any.try_clone().ok()
}

/// Raises the descriptor limit: four per port exceed many systems' default.
fn raise_limit() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        for key in [Key::Signal, Key::Listener, Key::Plane, Key::Client(0), Key::Client(1 << 40)] {
            assert_eq!(Key::of(key.number()), key);
        }
        for number in 1..=u8::MAX {
            assert_eq!(Key::of(Key::Uplink(number).number()), Key::Uplink(number));
        }
    }
}
