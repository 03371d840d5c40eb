//! Event loop of a slicer's process: connections of both sides, requests, time.
//!
//! Single-threaded; only epoll blocks. Work of each switch and each slice is bounded in a turn. Rules are in the switches,
//! which forward by them while the slicer is gone; what slices said of them is in a file for the next one ([`memory`]).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::Path;

use netloom_control::{Desk, Folder};
use netloom_ofconn::arrival::Arrivals;
use netloom_ofconn::peers::Peers;
use netloom_ofconn::reach;
use netloom_ofconn::watch::Watcher;
use netloom_ofconn::{READ, Time};
use netloom_slicing::{Key as Secret, SliceId};
use netloom_sys::{Failure, process};
use rustix::process::Signal;

use crate::application::{Application, Policy, SwitchPolicy};
use crate::beginning::{Beginning, Parked};
use crate::control::Slices;
use crate::error::SLICER;
use crate::pace::Pace;
use crate::real::Real;
use crate::system::{self, SECOND, clock};
use crate::turns::{Turns, WorkItem};
use crate::wire::{Whose, Wire};
use crate::{Error, Result};

/// What a slicer's process is called.
pub const NAME: &str = "netloom-slice";

/// Interval of checks whether the folder still exists.
const LOOK: Time = netloom_control::LOOK.as_secs() * SECOND;

/// Runs a slicer that takes requests over `listener` (SOCK_SEQPACKET, listening, mode 0600), until
/// [`crate::control::Request::Stop`], SIGTERM, or the end of `folder`. It makes the socket at which switches connect itself.
///
/// Call it with a single thread; it names the process [`NAME`] and blocks SIGTERM.
///
/// # Errors
/// The process cannot be set up; [`Error::Refused`] if slices are not apart. Client errors are answered to the client.
pub fn serve(listener: OwnedFd, folder: &Path, application: &Application) -> Result<()> {
    process::set_name(NAME);
    let signals = process::catch(&[Signal::TERM.as_raw(), Signal::INT.as_raw()])
        .map_err(|e| Failure::new(SLICER, "catch signals", e))?;
    let mut server = Server::new(listener, signals, folder, application)?;
    let ended = server.run();
    server.remove_sockets();
    ended
}

/// The source of an event, encoded in the epoll data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Signal,
    /// Where clients with requests connect.
    Control,
    Channel(u64),
    /// A connection that is being made.
    Dial(u64),
    /// Where connections that speak OpenFlow arrive.
    Listener(u64),
}

// epoll keeps 64 bits of an entry: the kind stands above the number.
const KINDS: u64 = 60;

impl From<Key> for u64 {
    fn from(key: Key) -> u64 {
        let (kind, id) = match key {
            Key::Signal => (0, 0),
            Key::Control => (1, 0),
            Key::Channel(id) => (3, id),
            Key::Dial(id) => (4, id),
            Key::Listener(id) => (5, id),
        };
        kind << KINDS | id
    }
}

impl From<u64> for Key {
    fn from(number: u64) -> Key {
        let id = number & ((1 << KINDS) - 1);
        match number >> KINDS {
            0 => Key::Signal,
            1 => Key::Control,
            3 => Key::Channel(id),
            4 => Key::Dial(id),
            _ => Key::Listener(id),
        }
    }
}

/// Who arrives at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrives {
    /// Switches.
    Switches,
    /// A client of a virtual switch: the switch's connection, the slice there and its place in the policy.
    Clients(u64, SliceId, usize),
}

/// What slices take, and how often memory is to be given back still.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    bytes: u64,
    due: u8,
    /// Not before: it takes long.
    next: Time,
}

/// This many bytes less are worth it to give memory back.
const WORTH: u64 = 4 << 20;

/// A slicer.
pub(crate) struct Server {
    pub(crate) watcher: Watcher<Key>,
    signals: OwnedFd,
    /// Clients with requests.
    pub(crate) desk: Desk<Slices>,
    pub(crate) application: Application,
    /// Its own: without it nobody finds this process.
    pub(crate) folder: Folder,
    /// Signs what marks LLDP packets.
    pub(crate) secret: Secret,
    /// Connections of both sides.
    pub(crate) wires: BTreeMap<u64, Wire>,
    /// Switches that said who they are, by their connection.
    pub(crate) reals: BTreeMap<u64, Real>,
    /// Switches that one is going on with, by their connection; and those that are away, by their number.
    pub(crate) beginnings: BTreeMap<u64, Beginning>,
    pub(crate) parked: BTreeMap<u64, Parked>,
    /// Connections with messages to read, and those with some to write.
    pub(crate) ready: BTreeSet<u64>,
    pub(crate) unsent: BTreeSet<u64>,
    pub(crate) peers: Peers<Whose>,
    pub(crate) arrivals: Arrivals<Arrives>,
    /// By place in the policy.
    pub(crate) turns: Vec<Turns>,
    /// By slice: what was done last. And the switch that was served last.
    pub(crate) last: BTreeMap<usize, WorkItem>,
    pub(crate) last_switch: u64,
    /// What the slice that went last had had: those that begin to have something to do begin there.
    pub(crate) reached: Time,
    /// How much is done at a time; and the switch that was gone on with last.
    pub(crate) pace: Pace,
    pub(crate) last_begun: u64,
    /// When a slice that is held may go on.
    pub(crate) resume: Option<Time>,
    /// Where what connections send is read to.
    pub(crate) room: Vec<u8>,
    /// Packets left out because a controller does not read.
    pub(crate) left_out: u64,
    /// Connections closed because of what they did.
    pub(crate) dropped: u64,
    pub(crate) trouble: Option<String>,
    /// Seconds since 1970.
    pub(crate) since: u64,
    next: u64,
    /// What slices took the last time that one looked, and whether memory is to be given back.
    pub(crate) taken: Taken,
    /// When connections are looked at for silence.
    pub(crate) look: Time,
    pub(crate) stop: bool,
}

impl Server {
    fn new(
        control: OwnedFd,
        signals: OwnedFd,
        folder: &Path,
        application: &Application,
    ) -> Result<Server> {
        application.policy.check().map_err(Error::Refused)?;
        system::raise_limit();
        let mut server = Server {
            watcher: Watcher::new(SLICER)?,
            signals,
            desk: Desk::new(control)?,
            application: application.clone(),
            folder: Folder::of(folder),
            secret: Secret(
                netloom_sys::random::array().map_err(Failure::of(SLICER, "choose a secret"))?,
            ),
            wires: BTreeMap::new(),
            reals: BTreeMap::new(),
            beginnings: BTreeMap::new(),
            parked: BTreeMap::new(),
            ready: BTreeSet::new(),
            unsent: BTreeSet::new(),
            peers: Peers::default(),
            arrivals: Arrivals::default(),
            turns: vec![],
            last: BTreeMap::new(),
            last_switch: 0,
            reached: 0,
            pace: Pace::default(),
            last_begun: 0,
            resume: None,
            room: vec![0; READ],
            left_out: 0,
            dropped: 0,
            trouble: None,
            since: system::now(),
            next: 0,
            taken: Taken::default(),
            look: 0,
            stop: false,
        };
        server.begin()?;
        Ok(server)
    }

    fn begin(&mut self) -> Result<()> {
        self.watcher.add(&self.signals, Key::Signal, true, false)?;
        self.watcher.add(&self.desk, Key::Control, true, false)?;
        self.set_turns();
        if let Some(path) = self.application.socket.clone() {
            let socket = reach::listen_unix(&path)?;
            self.listen(socket, false, Arrives::Switches)?;
        }
        self.refresh_peers()
    }

    fn run(&mut self) -> Result<()> {
        while !self.stop {
            let span = self.pause();
            for key in self.watcher.wait(span)? {
                self.attend(key)?;
            }
            self.serve(clock())?;
            self.tick();
            self.dial(clock());
            self.look_at_channels(clock())?;
            // Before anything is sent: a later process has to know all that the switch was told.
            self.save();
            self.flush(clock())?;
        }
        Ok(())
    }

    /// How long nothing happens by itself.
    fn pause(&mut self) -> Option<Time> {
        if self.has_work() {
            return Some(0);
        }
        let now = clock();
        let due = [Some(self.look), self.resume];
        let peers = self.peers.deadline();
        let cores = self.reals.values().filter_map(Real::deadline);
        let first = due.into_iter().flatten().chain(peers).chain(cores).min();
        first.map(|at| at.saturating_sub(now))
    }

    fn attend(&mut self, key: Key) -> Result<()> {
        match key {
            Key::Signal => self.stop = true,
            Key::Control => self.serve_clients(),
            Key::Channel(id) => {
                self.make_ready(id);
                // The event may as well be that it can be written to again.
                self.unsent.insert(id);
            }
            Key::Dial(id) => self.dialled(id, clock()),
            Key::Listener(id) => self.welcome(id, clock())?,
        }
        Ok(())
    }

    fn tick(&mut self) {
        let now = clock();
        let due = |real: &Real| real.core.deadline().is_some_and(|at| at <= now);
        let ids: Vec<u64> =
            self.reals.iter().filter(|(_, real)| due(real)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(real) = self.reals.get_mut(&id) else { continue };
            let to = real.tick(now);
            self.deliver(id, to, now);
        }
    }

    /// Changes are saved for a later process before a switch gets them.
    fn save(&mut self) {
        for real in self.reals.values_mut() {
            if let Err(why) = real.save() {
                self.trouble = Some(why);
            }
        }
    }

    /// Gives memory back that slices have given up; what they took is freed some time after it was.
    pub(crate) fn give_back(&mut self, now: Time) {
        let each = |real: &Real| -> u64 {
            let ids = real.slices.keys();
            ids.map(|slice| real.core.counters(*slice).bytes).sum()
        };
        let bytes = self.reals.values().map(each).sum::<u64>();
        if bytes + WORTH < self.taken.bytes {
            self.taken.due = 2;
        }
        self.taken.bytes = bytes;
        if self.taken.due > 0 && now >= self.taken.next {
            self.taken.due -= 1;
            self.taken.next = now + LOOK;
            netloom_sys::memory::give_back();
        }
    }

    fn set_turns(&mut self) {
        let now = clock();
        let slices = self.application.policy.slices.iter();
        self.turns = slices.map(|slice| Turns::new(slice.bounds(), now)).collect();
        self.last.clear();
        self.reached = 0;
    }

    /// Replaces the slices. Switches whose slices change start over; where only controllers change, these do.
    pub(crate) fn set_policy(&mut self, policy: Policy) -> Result<()> {
        policy.check().map_err(Error::Refused)?;
        let old = std::mem::replace(&mut self.application.policy, policy);
        if old == self.application.policy {
            return Ok(());
        }
        let names = |policy: &Policy| -> Vec<String> {
            policy.slices.iter().map(|slice| slice.slice.name.clone()).collect()
        };
        let renumbered = names(&old) != names(&self.application.policy);
        let stays = |server: &Server, datapath: u64, name: &str| {
            let now = server.application.policy.switch(datapath);
            !renumbered && now.is_some_and(|now| server.is_same(&old, now, datapath, name))
        };
        let changed = |server: &Server, datapath: u64, name: &str| !stays(server, datapath, name);
        // Of those what was proved is of no use.
        let reals = self.reals.iter().filter(|(_, one)| changed(self, one.datapath, &one.name));
        let reals: Vec<(u64, u64)> = reals.map(|(id, real)| (*id, real.datapath)).collect();
        let parked = self.parked.iter().filter(|(at, one)| changed(self, **at, &one.name));
        let parked: Vec<u64> = parked.map(|(datapath, _)| *datapath).collect();
        // What has only begun was made for the slices of before.
        let begun: Vec<u64> = self.beginnings.keys().copied().collect();
        for (id, _) in &reals {
            self.close(*id, "its slices have changed")?;
        }
        for id in begun {
            self.close(id, "slices have changed")?;
        }
        for datapath in reals.into_iter().map(|(_, datapath)| datapath).chain(parked) {
            self.parked.remove(&datapath);
        }
        let at = clock();
        if renumbered {
            self.set_turns();
        } else {
            for (turns, slice) in self.turns.iter_mut().zip(&self.application.policy.slices) {
                turns.bound(slice.bounds(), at);
            }
        }
        self.refresh_peers()
    }

    /// Whether a switch's slices are what they were.
    fn is_same(&self, old: &Policy, now: &SwitchPolicy, datapath: u64, name: &str) -> bool {
        let there = |policy: &Policy, switch: &SwitchPolicy| {
            let (slicing, places) = policy.slicing(switch, &self.secret, None).ok()?;
            let slices: Vec<_> =
                slicing.ids().filter_map(|id| slicing.slice(id).cloned()).collect();
            Some((slices, places))
        };
        let before = old.switch(datapath).and_then(|switch| there(old, switch));
        now.name == name && before.is_some() && before == there(&self.application.policy, now)
    }

    fn remove_sockets(&mut self) {
        let paths = self.reals.values_mut().flat_map(|real| std::mem::take(&mut real.services));
        for path in paths.chain(self.application.socket.clone()) {
            // It may be gone with its folder.
            let _ = std::fs::remove_file(path);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        let id = (1 << 59) + 7;
        for key in [Key::Signal, Key::Control, Key::Channel(id), Key::Dial(0), Key::Listener(id)] {
            assert_eq!(Key::from(u64::from(key)), key);
        }
    }
}
