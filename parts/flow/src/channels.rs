//! Connections that speak OpenFlow: served in turn, asked for echoes, closed when they take nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use netloom_ofconn::arrival::{self, Arrival};
use netloom_ofconn::tls::Configs;
use netloom_ofconn::{Channel, Gone, Link, Silence};
use netloom_pipeline::{ConnectionId, Switch, Time};

use netloom_sys::describe;

use crate::application::Target;

use crate::controllers::Whose;
use crate::engine::Engine;

use crate::server::{Key, Server};
use crate::system::{SECOND, clock};

use crate::{Error, Result};

/// Messages of a connection in a turn, and how long they are served.
const MESSAGES: usize = 256;
const SHARE: Time = 500_000;

/// Most bytes that wait for all connections together.
const MOST_QUEUED: usize = 64 << 20;

/// Bytes that all connections may hold of what they have said and is not done; this many connections never hold more.
const MOST_HELD: usize = 24 << 20;
const FEW: usize = 64;

/// Most connections that others made; beyond it the one that has been silent longest makes room.
const MOST_SERVICES: usize = 2048;

/// Types of messages by which controllers answer packets: packet-outs, and changes of entries, groups (in version 1.0 of ports)
/// and meters.
const ANSWERS: [u8; 4] = [13, 14, 15, 29];

impl Server {
    /// Takes over a connection; returns its number.
    pub(crate) fn open_channel(
        &mut self,
        link: Link,
        peer: String,
        whose: Whose,
        now: Time,
    ) -> Result<u64> {
        let id = self.number();
        link.bound();
        let channel = Channel::new(link, peer, now);
        self.watcher.add(&channel, Key::Channel(id), true, false)?;
        self.channels.insert(id, channel);
        // Greetings are queued already, and may change what epoll is asked for.
        self.tally.connections += 1;
        self.unsent.insert(id);
        // Its silence has a deadline of its own, which the next look finds.
        self.look = 0;
        self.engine.note(|switch, out| match whose {
            Whose::Main => switch.connect(ConnectionId(id), None, out),
            Whose::Auxiliary(main, number) => {
                switch.connect(ConnectionId(id), Some((ConnectionId(main), number)), out);
            }
            Whose::Service => switch.connect_service(ConnectionId(id), out),
        })?;
        self.post();
        Ok(id)
    }

    /// Takes connections of a listening socket from now on; returns its number.
    pub(crate) fn listen(&mut self, socket: OwnedFd, tls: bool) -> Result<u64> {
        let id = self.number();
        self.arrivals.listen(&self.watcher, (id, Key::Listener(id)), (socket, tls), ())?;
        Ok(id)
    }

    /// Accepts connections.
    pub(crate) fn welcome_channels(&mut self, id: u64, now: Time) -> Result<()> {
        for _ in 0..arrival::TURN {
            let Some(new) = self.arrivals.next(&self.watcher, id) else { return Ok(()) };
            self.admit(new, now)?;
        }
        Ok(())
    }

    /// A connection that somebody else made.
    fn admit(&mut self, new: Arrival<()>, now: Time) -> Result<()> {
        // Before the new one is counted, so that the limit holds at any moment.
        self.make_room()?;
        let Arrival { socket, peer, tls, .. } = new;
        match self.link_from(socket, tls) {
            Ok(link) => self.open_channel(link, peer, Whose::Service, now).map(drop),
            Err(e) => {
                // A handshake that cannot begin is that peer's trouble; the switch serves on.
                self.trouble = Some(describe(&e));
                Ok(())
            }
        }
    }

    /// The link to a controller that the switch connected to.
    pub(crate) fn link_to(&self, target: &Target, socket: OwnedFd) -> Result<Link> {
        match target {
            Target::Tls(to) => {
                // Controllers are configured by address: certificates are checked for that.
                let secure = self.tls()?.connect(socket, to.ip())?;
                Ok(Link::Tls(Box::new(secure)))
            }
            _ => Ok(Link::Plain(socket)),
        }
    }

    /// The link to somebody who connected to the switch.
    fn link_from(&self, socket: OwnedFd, tls: bool) -> Result<Link> {
        if tls {
            Ok(Link::Tls(Box::new(self.tls()?.accept(socket)?)))
        } else {
            Ok(Link::Plain(socket))
        }
    }

    fn tls(&self) -> Result<&Configs> {
        let configs = self.controllers.configs.as_ref();
        configs.ok_or_else(|| Error::refused("TLS: no authorities were named"))
    }

    fn make_room(&mut self) -> Result<()> {
        // Configured controllers never make room for others.
        let services = || self.channels.iter().filter(|(id, _)| !self.controllers.has(**id));
        if services().count() < MOST_SERVICES {
            return Ok(());
        }
        match services().min_by_key(|(_, channel)| channel.heard).map(|(id, _)| *id) {
            Some(id) => self.drop_channel(id, "it makes room for another"),
            None => Ok(()),
        }
    }

    /// Does what a connection asks for, for a bounded time.
    pub(crate) fn serve_channel(&mut self, id: u64) -> Result<()> {
        let now = clock();
        for _ in 0..MESSAGES {
            // Answers stay in order: no next message before this one is done.
            if self.engine.switch.is_busy(ConnectionId(id)) {
                if !self.goes_on(id) {
                    // Until the other end takes more.
                    self.ready.remove(&id);
                    self.watch_channel(id);
                    return Ok(());
                }
                self.engine.proceed(ConnectionId(id), clock())?;
                self.post();
            } else if !self.serve_message(id, now)? {
                return Ok(());
            }
            // Looked at after the work, so that each turn makes some progress.
            if clock() > now + SHARE {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether what a connection asked for may go on: it takes the answers, or is gone.
    fn goes_on(&self, id: u64) -> bool {
        self.channels.get(&id).is_none_or(|channel| !channel.is_paused())
    }

    /// Connections with messages to read, and none that is not done.
    pub(crate) fn with_messages(&self) -> BTreeSet<u64> {
        let is_busy = |id: u64| self.engine.switch.is_busy(ConnectionId(id));
        self.ready.iter().copied().filter(|id| !is_busy(*id)).collect()
    }

    /// Whether a connection has something to do.
    pub(crate) fn has_work(&self) -> bool {
        !self.with_messages().is_empty() || self.unfinished().next().is_some()
    }

    /// Those whose messages are not done and may go on. All that are gone have one turn: the oldest.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = u64> {
        let all = || self.engine.switch.unfinished().map(|ConnectionId(id)| id);
        // What a closed connection asked for is carried out still, but gets one turn in all.
        let gone = all().find(|id| !self.channels.contains_key(id));
        let here = all().filter(|id| self.channels.contains_key(id) && self.goes_on(*id));
        here.chain(gone)
    }

    /// Reads a connection's next message; returns whether there was one.
    fn serve_message(&mut self, id: u64, now: Time) -> Result<bool> {
        let Some(channel) = self.channels.get_mut(&id) else { return Ok(false) };
        match channel.next(&mut self.room, now) {
            Ok(Some(message)) => {
                let first = channel.received == 1;
                if first {
                    // A first message proves that a controller is there: attempts are counted from
                    // zero.
                    self.controllers.peers.heard(id);
                }
                if message.get(1).is_some_and(|kind| ANSWERS.contains(kind)) {
                    self.unwanted.answered();
                }
                self.engine.message(ConnectionId(id), &message, now)?;
                self.post();
                if first {
                    // Only after the first message the version is known.
                    self.add_auxiliary(id, now);
                }
                Ok(true)
            }
            Ok(None) => {
                self.ready.remove(&id);
                self.watch_channel(id);
                Ok(false)
            }
            Err(Gone(reason)) => self.close_channel(id, &reason).map(|()| false),
        }
    }

    /// Brings what the tables say to the connections' queues.
    pub(crate) fn post(&mut self) {
        let now = clock();
        let Engine { out, switch, .. } = &mut self.engine;
        // Answers may be for a connection that has closed meanwhile.
        for (ConnectionId(id), message) in out.messages.drain(..) {
            let Some(channel) = self.channels.get_mut(&id) else { continue };
            if channel.post(message, now) {
                self.unsent.insert(id);
            } else {
                self.tally.packet_ins_dropped += 1;
            }
            note_room(id, channel, switch);
        }
        for (ConnectionId(id), count) in std::mem::take(&mut out.left_out) {
            self.tally.packet_ins_dropped += count;
            if let Some(channel) = self.channels.get_mut(&id) {
                channel.packet_ins_dropped += count;
            }
        }
        for ConnectionId(id) in out.closed.drain(..) {
            if let Some(channel) = self.channels.get_mut(&id) {
                channel.closing = true;
                self.unsent.insert(id);
            }
        }
        // Port changes are messages to controllers; the plane needs none of them.
        self.engine.out.ports.clear();
    }

    /// Writes what the connections take.
    pub(crate) fn flush_channels(&mut self, now: Time) -> Result<()> {
        // Closing one may put others back: the loop has a set of its own.
        for id in std::mem::take(&mut self.unsent) {
            let Some(channel) = self.channels.get_mut(&id) else { continue };
            let flushed = channel.flush(now);
            note_room(id, channel, &mut self.engine.switch);
            match flushed {
                Ok(()) if channel.closing && channel.is_flushed() => {
                    // The error that says so must leave first (HELLO_FAILED).
                    self.close_channel(id, "no version of OpenFlow is spoken by both")?;
                }
                Ok(()) => {
                    if channel.more && !channel.is_paused() {
                        // A whole message may wait in the buffer, of which epoll tells nothing.
                        self.ready.insert(id);
                    }
                    self.watch_channel(id);
                }
                Err(Gone(reason)) => self.close_channel(id, &reason)?,
            }
        }
        self.bound_channels()
    }

    /// What waits for connections, and what they have said that is not done, is bounded, of all together.
    fn bound_channels(&mut self) -> Result<()> {
        if self.channels.values().map(Channel::queued).sum::<usize>() > MOST_QUEUED {
            self.bound(MOST_QUEUED, "it does not read", |server| {
                server.channels.iter().map(|(id, channel)| (*id, channel.queued())).collect()
            })?;
        }
        // Counting costs a walk through all orders; few connections stay below the limit by
        // themselves.
        if self.channels.len() <= FEW {
            return Ok(());
        }
        let held = |server: &Server| -> BTreeMap<u64, usize> {
            let held = server.channels.iter().map(|(id, channel)| (*id, channel.held()));
            let mut held: BTreeMap<u64, usize> = held.collect();
            for (ConnectionId(id), bytes) in server.engine.switch.held() {
                held.entry(id).and_modify(|held| *held += bytes);
            }
            held
        };
        let said: usize = self.channels.values().map(Channel::held).sum();
        let orders: usize = self.engine.switch.held().map(|(_, bytes)| bytes).sum();
        if said + orders <= MOST_HELD {
            return Ok(());
        }
        // Spare room of buffers counts, too: without it nobody may have to be closed.
        self.channels.values_mut().for_each(Channel::rest);
        self.bound(MOST_HELD, "all connections together say too much at once", held)
    }

    /// What connections take together is bounded: the one that takes most is closed; where those that others made take most,
    /// one of these.
    fn bound(
        &mut self,
        most: usize,
        why: &str,
        takes: impl Fn(&Server) -> BTreeMap<u64, usize>,
    ) -> Result<()> {
        loop {
            let mut all = takes(self);
            let sum: usize = all.values().sum();
            if sum <= most {
                return Ok(());
            }
            let of_controllers: usize = all
                .iter()
                .filter(|(id, _)| self.controllers.has(**id))
                .map(|(_, taken)| taken)
                .sum();
            if 2 * of_controllers < sum {
                // Strangers, not controllers, pay for what strangers take.
                all.retain(|id, _| !self.controllers.has(*id));
            }
            let Some((id, _)) = all.into_iter().max_by_key(|(_, taken)| *taken) else {
                return Ok(());
            };
            self.drop_channel(id, why)?;
        }
    }

    /// Tells epoll what a connection waits for.
    fn watch_channel(&mut self, id: u64) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let wants = channel.wants();
        // One system call fewer for each message.
        if wants != channel.watched {
            channel.watched = wants;
            self.watcher.change(&*channel, Key::Channel(id), wants.0, wants.1);
        }
    }

    /// Closes a connection because of what it did.
    fn drop_channel(&mut self, id: u64, reason: &str) -> Result<()> {
        self.tally.dropped += 1;
        self.close_channel(id, reason)
    }

    /// Forgets a connection.
    pub(crate) fn close_channel(&mut self, id: u64, reason: &str) -> Result<()> {
        let Some(channel) = self.channels.remove(&id) else { return Ok(()) };
        // Before its descriptor closes: numbers of descriptors are reused.
        self.watcher.drop(&channel);
        self.ready.remove(&id);
        self.unsent.remove(&id);
        // After the map: what the tables say to it now is dropped.
        self.engine.note(|switch, out| switch.disconnect(ConnectionId(id), out))?;
        self.controllers.peers.lost(id, reason, clock());
        // Auxiliary connections end with the main one, as OpenFlow 1.3 asks.
        self.end_auxiliary(id)?;
        self.post();
        Ok(())
    }

    /// Asks silent connections for an echo, and closes those that are silent still, or take nothing.
    pub(crate) fn look_at_channels(&mut self, now: Time) -> Result<()> {
        if now < self.look {
            return Ok(());
        }
        // The lab is gone, and nobody will ask this process to stop.
        if self.folder.is_gone() {
            self.stop = true;
        }
        let span = Time::from(self.application.probe.max(1)) * SECOND;
        let mut next = Server::next_look(now);
        let mut wrong = vec![];
        for (id, channel) in &mut self.channels {
            let busy = self.engine.switch.is_busy(ConnectionId(*id));
            let at = match channel.silence(now, span, busy) {
                Silence::Short(at) => at,
                Silence::Long(at) => {
                    // Before both said hello there is nothing to ask.
                    if let Some(version) = self.engine.switch.version(ConnectionId(*id)) {
                        channel.probe(version, now);
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
        // After the loop, which borrows the connections.
        for (id, reason) in wrong {
            self.drop_channel(id, reason)?;
        }
        Ok(())
    }
}

/// Tells the tables whether a connection takes packets.
fn note_room(id: u64, channel: &mut Channel, switch: &mut Switch) {
    let full = channel.is_full();
    if full != channel.full {
        channel.full = full;
        switch.set_full(ConnectionId(id), full);
    }
}
