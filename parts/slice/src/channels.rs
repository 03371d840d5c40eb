//! Connections of both sides: opened, served a bounded number of messages at a time, asked for echoes, closed.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use netloom_ofconn::tls::Configs;
use netloom_ofconn::{Channel, Gone, Link, Silence, Target, Time};
use netloom_openflow::Version;

use crate::greeting::{self, Heard, WithSwitch};
use crate::real::To;
use crate::server::{Key, Server};
use crate::system::{SECOND, clock};
use crate::wire::{Owner, Side, Wire, owner_of};
use crate::{Error, Result};

/// Queued bytes at which a connection that takes less than it asks for is closed, and those of all connections at which the
/// one with most is.
const MOST_QUEUED: usize = 32 << 20;
const MOST_IN_ALL: usize = 64 << 20;

/// Bytes that all connections may hold of what came in and is not read; this many connections never hold more.
const MOST_HELD: usize = 32 << 20;
const FEW: usize = 200;

impl Server {
    /// Takes over a connection; returns its number.
    pub(crate) fn open(&mut self, link: Link, peer: String, side: Side, now: Time) -> Result<u64> {
        let id = self.number();
        link.bound();
        let mut channel = Channel::new(link, peer, now);
        let first = match &side {
            Side::Slice { switch, .. } => {
                // Nothing translates between versions: a slice is offered the one that its switch speaks.
                let version = self.reals.get(switch).map_or(Version::V13, |real| real.version);
                greeting::hello(&[version])
            }
            Side::Greeting(_) | Side::Beginning | Side::Switch => WithSwitch::begin(),
        };
        channel.post(first, now);
        self.watcher.add(&channel, Key::Channel(id), true, false)?;
        self.wires.insert(id, Wire { channel, side, why: None });
        self.unsent.insert(id);
        // The next look is due at once: it finds when this one has been silent for too long, too.
        self.look = 0;
        Ok(id)
    }

    /// The link over a socket that was connected to a target.
    pub(crate) fn link_to(
        target: &Target,
        socket: OwnedFd,
        configs: Option<&Configs>,
    ) -> Result<Link> {
        match target {
            Target::Tls(to) => {
                let configs = configs.ok_or_else(Server::no_tls)?;
                Ok(Link::Tls(Box::new(configs.connect(socket, to.ip())?)))
            }
            _ => Ok(Link::Plain(socket)),
        }
    }

    pub(crate) fn no_tls() -> Error {
        Error::refused("TLS: no authorities were named")
    }

    /// A switch's messages, this many at most, until then.
    pub(crate) fn serve_switch(&mut self, id: u64, most: usize, end: Time) -> Result<()> {
        for _ in 0..most {
            let Some(bytes) = self.next_message(id)? else { break };
            let now = clock();
            let Some(wire) = self.wires.get_mut(&id) else { break };
            match &mut wire.side {
                Side::Beginning => {
                    let Some(beginning) = self.beginnings.get_mut(&id) else { break };
                    match beginning.hear(&bytes) {
                        Ok(answer) => self.post_all(id, answer, now),
                        Err(reason) => return self.close(id, &reason),
                    }
                }
                Side::Greeting(with) => {
                    let heard = with.hear(&bytes);
                    self.greet(id, heard, now)?;
                }
                Side::Switch => {
                    let Some(real) = self.reals.get_mut(&id) else { break };
                    match real.hear_switch(&bytes, now) {
                        Ok(to) => self.deliver(id, to, now),
                        Err(reason) => return self.close(id, &reason),
                    }
                }
                Side::Slice { .. } => break,
            }
            if clock() > end {
                break;
            }
        }
        Ok(())
    }

    fn greet(
        &mut self,
        id: u64,
        heard: Heard<greeting::SwitchDescription>,
        now: Time,
    ) -> Result<()> {
        match heard {
            Heard::Say(all) => self.post_all(id, all, now),
            Heard::Over(all, why) => {
                self.post_all(id, all, now);
                self.end(id, why);
            }
            Heard::Ready(told) => self.welcome_switch(id, told, now)?,
        }
        Ok(())
    }

    /// Messages for a virtual switch, this many at most, until then, and until one is not done at once; returns how many there
    /// were.
    pub(crate) fn serve_slice(&mut self, id: u64, most: usize, end: Time) -> Result<u64> {
        let mut count = 0;
        for _ in 0..most {
            let Some(bytes) = self.next_message(id)? else { break };
            count += 1;
            let now = clock();
            let Some(wire) = self.wires.get_mut(&id) else { break };
            let Side::Slice { switch, slice, controls, greeted, .. } = &mut wire.side else {
                break;
            };
            let (switch, slice, controls) = (*switch, *slice, *controls);
            let Some(real) = self.reals.get_mut(&switch) else {
                self.close(id, "its switch is gone")?;
                break;
            };
            if *greeted {
                let work = &mut self.pace.work();
                let to = real.hear_controller(slice, id, &bytes, now, work);
                let waits = real.core.is_busy(slice) || !real.core.may_ask(slice);
                self.deliver(switch, to, now);
                if waits || clock() > end || !self.takes(switch) {
                    break;
                }
                continue;
            }
            match greeting::with_controller(real.version, &bytes) {
                Heard::Ready(()) => {
                    *greeted = true;
                    let to = real.join(slice, id, controls, now);
                    self.peers.heard(id);
                    self.deliver(switch, to, now);
                }
                Heard::Say(all) => self.post_all(id, all, now),
                Heard::Over(all, why) => {
                    self.post_all(id, all, now);
                    self.end(id, why);
                }
            }
        }
        Ok(count)
    }

    fn next_message(&mut self, id: u64) -> Result<Option<Vec<u8>>> {
        let Some(wire) = self.wires.get_mut(&id) else { return Ok(None) };
        match wire.channel.next(&mut self.room, clock()) {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => {
                // No whole message is in memory; epoll says when more has come.
                self.ready.remove(&id);
                self.watch(id);
                Ok(None)
            }
            Err(Gone(reason)) => {
                self.close(id, &reason)?;
                Ok(None)
            }
        }
    }

    /// Brings messages of a switch's virtual switches to whom they are for.
    pub(crate) fn deliver(&mut self, switch: u64, all: Vec<To>, now: Time) {
        for to in all {
            match to {
                To::Switch(bytes) => self.post_all(switch, [bytes], now),
                To::One(id, bytes) => self.post_all(id, [bytes], now),
                To::Close(ids, why) => ids.into_iter().for_each(|id| self.end(id, why.clone())),
            }
        }
    }

    pub(crate) fn post_all(&mut self, id: u64, all: impl IntoIterator<Item = Vec<u8>>, now: Time) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        for bytes in all {
            if !wire.channel.post(bytes, now) {
                // The channel counts packets that it leaves out.
                self.left_out += 1;
            }
        }
        self.unsent.insert(id);
    }

    /// Closes a connection after what it is sent.
    fn end(&mut self, id: u64, why: String) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        wire.channel.closing = true;
        wire.why.get_or_insert(why);
        self.unsent.insert(id);
    }

    /// Writes what the connections take.
    pub(crate) fn flush(&mut self, now: Time) -> Result<()> {
        let mut is_long = false;
        // Closing one may add others, which are for the next time.
        for id in std::mem::take(&mut self.unsent) {
            let Some(wire) = self.wires.get_mut(&id) else { continue };
            match wire.channel.flush(now) {
                Ok(()) if wire.channel.closing && wire.channel.is_flushed() => {
                    let why = wire.why.take().unwrap_or_default();
                    self.close(id, &why)?;
                }
                Ok(()) if wire.channel.queued() > MOST_QUEUED => {
                    self.dropped += 1;
                    self.close(id, "it does not read")?;
                }
                Ok(()) => {
                    is_long |= wire.channel.has_backlog();
                    if wire.channel.more && !wire.channel.is_paused() {
                        self.make_ready(id);
                    }
                    self.watch(id);
                }
                Err(Gone(reason)) => self.close(id, &reason)?,
            }
        }
        if is_long {
            self.bound(MOST_IN_ALL, "it does not read", |wire| wire.channel.queued())?;
        }
        if self.wires.len() > FEW { self.bound_held() } else { Ok(()) }
    }

    /// Unread input of all connections together is bounded.
    fn bound_held(&mut self) -> Result<()> {
        let held = |wire: &Wire| wire.channel.held();
        if self.wires.values().map(held).sum::<usize>() <= MOST_HELD {
            return Ok(());
        }
        // Spare memory of the buffers counts; only what is too much without it costs a connection.
        self.wires.values_mut().for_each(|wire| wire.channel.rest());
        self.bound(MOST_HELD, "all connections together say too much at once", held)
    }

    /// The total of all connections is bounded: the largest one is closed.
    fn bound(&mut self, most: usize, why: &str, takes: impl Fn(&Wire) -> usize) -> Result<()> {
        while self.wires.values().map(&takes).sum::<usize>() > most {
            let Some(owner) = self.owner_of_most(&takes) else { return Ok(()) };
            let own = self.wires.iter().filter(|(id, wire)| owner_of(**id, wire) == owner);
            let Some((id, _)) = own.max_by_key(|(_, wire)| takes(wire)) else { return Ok(()) };
            self.dropped += 1;
            self.close(*id, why)?;
        }
        Ok(())
    }

    /// The owner that takes most of something.
    pub(crate) fn owner_of_most(&self, takes: impl Fn(&Wire) -> usize) -> Option<Owner> {
        let mut all: BTreeMap<Owner, usize> = BTreeMap::new();
        for (id, wire) in &self.wires {
            *all.entry(owner_of(*id, wire)).or_default() += takes(wire);
        }
        all.into_iter().max_by_key(|(_, taken)| *taken).map(|(owner, _)| owner)
    }

    /// Tells epoll what a connection waits for.
    pub(crate) fn watch(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let wants = wire.channel.wants();
        if wants != wire.channel.watched {
            wire.channel.watched = wants;
            self.watcher.change(&wire.channel, Key::Channel(id), wants.0, wants.1);
        }
    }

    /// Forgets a connection; with a switch's go those of its slices.
    pub(crate) fn close(&mut self, id: u64, reason: &str) -> Result<()> {
        let Some(wire) = self.wires.remove(&id) else { return Ok(()) };
        self.watcher.drop(&wire.channel);
        self.ready.remove(&id);
        self.unsent.remove(&id);
        self.peers.lost(id, reason, clock());
        let now = clock();
        match wire.side {
            Side::Greeting(_) => self.trouble = Some(format!("{}: {reason}", wire.channel.peer)),
            Side::Beginning => drop(self.beginnings.remove(&id)),
            Side::Switch => self.lost_switch(id)?,
            Side::Slice { switch, slice, .. } => {
                if let Some(real) = self.reals.get_mut(&switch) {
                    let to = real.leave(slice, id, now);
                    self.deliver(switch, to, now);
                }
            }
        }
        Ok(())
    }

    /// Asks silent connections for an echo, and closes those that are silent still, or take nothing.
    pub(crate) fn look_at_channels(&mut self, now: Time) -> Result<()> {
        if now < self.look {
            return Ok(());
        }
        if self.folder.is_gone() {
            self.stop = true;
        }
        self.give_back(now);
        let span = Time::from(self.application.probe.max(1)) * SECOND;
        let mut next = Server::next_look(now);
        let mut wrong = vec![];
        for (id, wire) in &mut self.wires {
            wire.channel.rest();
            let has_more = self.ready.contains(id);
            let at = match wire.channel.silence(now, span, has_more) {
                Silence::Short(at) => at,
                Silence::Long(at) => {
                    let version = match &wire.side {
                        // Before both said hello there is nothing to ask.
                        Side::Greeting(_) | Side::Slice { greeted: false, .. } => None,
                        Side::Beginning => self.beginnings.get(id).map(|one| one.told.version),
                        Side::Switch => self.reals.get(id).map(|real| real.version),
                        Side::Slice { switch, .. } => {
                            self.reals.get(switch).map(|real| real.version)
                        }
                    };
                    if let Some(version) = version {
                        wire.channel.probe(version, now);
                        self.unsent.insert(*id);
                    }
                    at
                }
                Silence::Over(reason) => {
                    wrong.push((*id, reason));
                    continue;
                }
            };
            next = next.min(at);
        }
        self.look = next;
        for (id, reason) in wrong {
            self.dropped += 1;
            self.close(id, reason)?;
        }
        Ok(())
    }
}
