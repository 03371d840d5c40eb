//! Event loop of a switch's process: frames, connections, requests, time.
//!
//! Single-threaded; only epoll blocks. Work of each connection and each port is bounded in a turn, so that none delays the
//! others. At the end of a turn, in this order: frames have left, changes are in the state file, then answers
//! leave. A client that gets an answer can rely on both.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use netloom_control::{Desk, Folder};
use netloom_ofconn::arrival::Arrivals;
use netloom_ofconn::reach::{self, Home, Space};
use netloom_ofconn::watch::Watcher;
use netloom_ofconn::{Channel, READ};
use netloom_pipeline::{Options, Switch, Time};
use netloom_sys::{Failure, describe, namespace, process};
use rustix::process::Signal;

use crate::application::Application;
use crate::control::Flow;
use crate::controllers::Controllers;
use crate::engine::Engine;
use crate::error::SWITCH;
use crate::keeping::Keeping;
use crate::pace::Pace;
use crate::ports::Ports;
use crate::spare::Spare;
use crate::system::{self, SECOND, clock};
use crate::unwanted::{Spent, Unwanted};
use crate::{Result, planes};

/// What a switch's process is called.
pub const NAME: &str = "netloom-flow";

/// Frames of a port in a turn.
const FRAMES: usize = 64;

/// How long connections are served in a turn.
const TURN: Time = 2_000_000;

/// Bytes that entries, groups and meters may take together, and how many more for each entry that a table may have.
const LEAST_MEMORY: usize = 128 << 20;
const ENTRY: usize = 1 << 10;

/// Interval of checks whether the folder still exists.
const LOOK: Time = netloom_control::LOOK.as_secs() * SECOND;

/// Runs a switch that takes requests over `listener` (SOCK_SEQPACKET, listening, mode 0600), until
/// [`crate::control::Request::Stop`], SIGTERM, or the end of `folder`. It makes the socket that speaks OpenFlow itself.
///
/// Call it in the network namespace of the ports, with a single thread; it names the process [`NAME`] and blocks SIGTERM.
///
/// # Errors
/// The process cannot be set up; [`crate::Error::BrokenState`] if the state file is malformed. Client errors are
/// answered to the client.
pub fn serve(listener: OwnedFd, folder: &Path, application: &Application) -> Result<()> {
    run(listener, folder, application, || Ok(None))
}

/// The same, called in another network namespace than that of the ports, which it enters. The namespace
/// that it was called in has the name `outside`, for as long as no other is given that name: a process of an ordinary
/// user may not enter it again.
///
/// # Errors
/// As [`serve`].
pub fn serve_in(
    ports: OwnedFd,
    outside: &str,
    listener: OwnedFd,
    folder: &Path,
    application: &Application,
) -> Result<()> {
    run(listener, folder, application, || {
        // Before the process leaves it: an ordinary user could not come back.
        let home = Home::stay()?;
        namespace::enter_network(ports).map_err(Failure::of(SWITCH, "enter its network"))?;
        Ok(Some((outside, home)))
    })
}

fn run<'a>(
    listener: OwnedFd,
    folder: &Path,
    application: &Application,
    enter: impl FnOnce() -> Result<Option<(&'a str, Home)>>,
) -> Result<()> {
    process::set_name(NAME);
    // Before there is another thread, which would not leave them to this one.
    let signals = process::catch(&[Signal::TERM.as_raw()])
        .map_err(|e| Failure::new(SWITCH, "catch signals", e))?;
    let home = enter()?;
    let mut server = Server::new(listener, signals, folder, application)?;
    if let Some((outside, home)) = home {
        server.set_namespace(outside, Some(Space::Home(home)))?;
    }
    let ended = server.run();
    let _ = std::fs::remove_file(&server.application.openflow);
    ended
}

/// The source of an event, encoded in the epoll data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Signal,
    /// Where clients with requests connect.
    Control,
    /// Frames wait.
    Plane,
    /// Links have changed.
    Links,
    Channel(u64),
    /// A connection that is being made.
    Dial(u64),
    /// Where connections that speak OpenFlow arrive.
    Listener(u64),
}

impl Key {
    // epoll keeps 64 bits of an entry: the kind stands above the number.
    const KINDS: u64 = 60;

    fn number(self) -> u64 {
        let (kind, id) = match self {
            Key::Signal => (0, 0),
            Key::Control => (1, 0),
            Key::Plane => (2, 0),
            Key::Links => (3, 0),
            Key::Channel(id) => (5, id),
            Key::Dial(id) => (6, id),
            Key::Listener(id) => (7, id),
        };
        kind << Key::KINDS | id
    }

    fn of(number: u64) -> Key {
        let id = number & ((1 << Key::KINDS) - 1);
        match number >> Key::KINDS {
            0 => Key::Signal,
            1 => Key::Control,
            2 => Key::Plane,
            3 => Key::Links,
            5 => Key::Channel(id),
            6 => Key::Dial(id),
            _ => Key::Listener(id),
        }
    }
}

impl From<Key> for u64 {
    fn from(key: Key) -> u64 {
        key.number()
    }
}

impl From<u64> for Key {
    fn from(number: u64) -> Key {
        Key::of(number)
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Connections that speak OpenFlow: made, and closed because of what they did.
    pub(crate) connections: u64,
    pub(crate) dropped: u64,
    /// Packets that a controller was not told because it does not read.
    pub(crate) packet_ins_dropped: u64,
}

/// A switch.
pub(crate) struct Server {
    pub(crate) watcher: Watcher<Key>,
    signals: OwnedFd,
    /// Clients with requests.
    pub(crate) desk: Desk<Flow>,
    pub(crate) application: Application,
    /// Its own: without it nobody finds this process.
    pub(crate) folder: Folder,
    pub(crate) engine: Engine,
    pub(crate) ports: Ports,
    pub(crate) keeping: Keeping,
    pace: Pace,
    pub(crate) unwanted: Unwanted,
    spare: Spare,
    /// Until when no frames are taken, which are not waited for then.
    resting: Option<Time>,
    pub(crate) channels: BTreeMap<u64, Channel>,
    /// Connections with messages to read, and those with some to write.
    pub(crate) ready: BTreeSet<u64>,
    pub(crate) unsent: BTreeSet<u64>,
    pub(crate) controllers: Controllers,
    pub(crate) arrivals: Arrivals<()>,
    /// Where what connections send is read to.
    pub(crate) room: Vec<u8>,
    pub(crate) tally: Tally,
    pub(crate) trouble: Option<String>,
    /// How many earlier processes there were.
    pub(crate) takeovers: u64,
    /// Seconds since 1970.
    pub(crate) since: u64,
    next: u64,
    /// When connections are looked at for silence.
    pub(crate) look: Time,
    /// The connections whose messages were read last, and whose message was gone on with.
    served: u64,
    proceeded: u64,
    pub(crate) stop: bool,
}

impl Server {
    fn new(
        control: OwnedFd,
        signals: OwnedFd,
        folder: &Path,
        application: &Application,
    ) -> Result<Server> {
        system::raise_limit();
        let watcher = Watcher::new(SWITCH)?;
        let plane = planes::open(application)?;
        let mut server = Server {
            engine: Engine::new(Switch::new(options(application)), plane),
            ports: Ports::new()?,
            keeping: Keeping::new(&application.state),
            pace: Pace::default(),
            unwanted: Unwanted::default(),
            spare: Spare::default(),
            resting: None,
            channels: BTreeMap::new(),
            ready: BTreeSet::new(),
            unsent: BTreeSet::new(),
            controllers: Controllers::default(),
            arrivals: Arrivals::default(),
            room: vec![0; READ],
            tally: Tally::default(),
            trouble: None,
            takeovers: 0,
            since: system::now(),
            next: 0,
            look: 0,
            served: 0,
            proceeded: 0,
            stop: false,
            folder: Folder::of(folder),
            application: application.clone(),
            watcher,
            signals,
            desk: Desk::new(control)?,
        };
        server.begin()?;
        Ok(server)
    }

    fn begin(&mut self) -> Result<()> {
        // First: ports and entries of an earlier process are there before anybody connects.
        self.take_over()?;
        self.watcher.add(&self.signals, Key::Signal, true, false)?;
        self.watcher.add(&self.desk, Key::Control, true, false)?;
        self.watcher.add(self.engine.plane.as_fd(), Key::Plane, true, false)?;
        self.watcher.add(self.ports.as_fd(), Key::Links, true, false)?;
        let socket = reach::listen_unix(&self.application.openflow)?;
        self.listen(socket, false)?;
        let (controllers, tls) =
            (self.application.controllers.clone(), self.application.tls.clone());
        let Err(e) = self.set_controllers(controllers.clone(), tls) else { return Ok(()) };
        // Without TLS it serves all others.
        self.trouble = Some(describe(&e));
        self.set_controllers(controllers, None)
    }

    fn run(&mut self) -> Result<()> {
        while !self.stop {
            let keys = self.wait()?;
            let now = clock();
            for key in keys {
                self.attend(key, now)?;
            }
            self.serve_channels(now)?;
            self.engine.tick(clock())?;
            self.dial(now);
            self.look_at_channels(now)?;
            // Packets that the kernel forwards by itself wake nobody up.
            if self.engine.keeps() {
                self.keeping.counted(now);
            }
            self.save_counters(now)?;
            self.finish_turn()?;
        }
        // What was forwarded until now belongs to the next process's counters.
        self.engine.collect()?;
        self.write_counters(clock());
        self.save();
        Ok(())
    }

    /// Waits for what the next turn is about.
    fn wait(&mut self) -> Result<Vec<Key>> {
        if let Some(until) = self.resting {
            let left = until.saturating_sub(clock());
            if left > 0 {
                return Ok(self
                    .watcher
                    .wait(Some(self.pause().map_or(left, |pause| pause.min(left))))?);
            }
            self.resting = None;
            // It was left out of the epoll for the rest.
            self.watcher.change(self.engine.plane.as_fd(), Key::Plane, true, false);
        }
        let keys = self.watcher.wait(self.pause())?;
        match self.pace.rest(clock()) {
            Some(rest) if keys.contains(&Key::Plane) => {
                // Slept, not waited with frames as an event: those that come meanwhile are to be taken
                // together.
                std::thread::sleep(rest);
                Ok(self.watcher.wait(Some(0))?)
            }
            _ => Ok(keys),
        }
    }

    /// How long nothing happens by itself.
    fn pause(&self) -> Option<Time> {
        // Work that is not done needs no event to go on.
        if self.has_work() || self.keeping.is_rewriting() {
            return Some(0);
        }
        let now = clock();
        let due = [
            self.spare.deadline(),
            self.engine.switch.deadline(),
            self.controllers.peers.deadline(),
            self.keeping.deadline(),
            Some(self.look),
        ];
        due.into_iter().flatten().min().map(|at| at.saturating_sub(now))
    }

    fn attend(&mut self, key: Key, now: Time) -> Result<()> {
        match key {
            Key::Signal => self.stop = true,
            Key::Control => self.serve_clients(),
            Key::Plane => {
                let (before, begun) = (self.engine.told(), clock());
                self.engine.receive(FRAMES, clock)?;
                let told = self.engine.told() - before;
                self.pace.told(told, now);
                self.unwanted.told(told, begun);
                self.keeping.counted(now);
            }
            Key::Links => self.follow_links()?,
            Key::Channel(id) => {
                self.ready.insert(id);
                self.unsent.insert(id);
            }
            Key::Dial(id) => self.dialled(id, now),
            Key::Listener(id) => self.welcome_channels(id, now)?,
        }
        Ok(())
    }

    /// Serves connections in turn, for a bounded time: first those with messages, then what takes long, so that nobody waits
    /// for all that does.
    fn serve_channels(&mut self, start: Time) -> Result<()> {
        // Each half of the turn for one kind of work: neither starves the other.
        let until = start + TURN / 2;
        let with_messages = self.with_messages();
        for id in in_turn(&with_messages, self.served) {
            self.served = id;
            self.serve_channel(id)?;
            if clock() > until {
                break;
            }
        }
        let until = clock() + TURN / 2;
        let unfinished = self.unfinished().collect();
        for id in in_turn(&unfinished, self.proceeded) {
            self.proceeded = id;
            self.serve_channel(id)?;
            if clock() > until {
                break;
            }
        }
        Ok(())
    }

    /// Lets out what the turn brought.
    fn finish_turn(&mut self) -> Result<()> {
        self.post();
        // Before answers leave: see this file's header.
        self.save();
        self.spare.look(self.engine.switch.bytes(), clock());
        self.flush_channels(clock())?;
        self.resting = self.unwanted.pause(clock(), spent).or(self.resting);
        if self.resting.is_some() {
            // Else epoll returns at once, as frames wait.
            self.watcher.change(self.engine.plane.as_fd(), Key::Plane, false, false);
        }
        Ok(())
    }

    /// A number that no other connection or client has had.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// When the folder is to be looked for again.
    pub(crate) fn next_look(now: Time) -> Time {
        now + LOOK
    }
}

/// Connections in their order, from the one behind another on.
fn in_turn(all: &BTreeSet<u64>, last: u64) -> impl Iterator<Item = u64> {
    // Round robin: the loop may have ended before the last of them.
    all.range(last + 1..).chain(all.range(..=last)).copied()
}

/// What this thread has spent; `None` if the kernel does not count.
fn spent() -> Option<Spent> {
    let (ran, waited) =
        process::cpu_time_and_wait(rustix::thread::gettid().as_raw_nonzero().get())?;
    Some(Spent { ran, waited })
}

/// What the tables are to be.
fn options(application: &Application) -> Options {
    let entries = usize::try_from(application.max_entries).unwrap_or(usize::MAX);
    let mut options = Options {
        datapath_id: application.datapath,
        tables: application.tables,
        max_entries: application.max_entries,
        memory: LEAST_MEMORY.max(entries.saturating_mul(ENTRY)),
        // A restarted switch leads each flow to the same bucket as before.
        seed: application.datapath,
        ..Options::default()
    };
    if !application.versions.is_empty() {
        options.versions = application.versions.iter().map(|version| (*version).into()).collect();
    }
    if let Some(name) = options.description.last_mut() {
        name.clone_from(&application.name);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        let id = (1 << 59) + 7;
        for key in [
            Key::Signal,
            Key::Control,
            Key::Plane,
            Key::Links,
            Key::Channel(id),
            Key::Dial(0),
            Key::Listener(id),
        ] {
            assert_eq!(Key::of(key.number()), key);
        }
    }
}
