//! Ports join, open edges to each other, and leave.
//!
//! An edge opens only between ports that may exchange frames by the rules: two members that both break them
//! have no memory in common. Opening preserves frame order: the switch relays the sender's earlier frames before it announces
//! the edge to the receiver, and the receiver drains the switch's ring to it before it reads the edge. A port
//! that does not read its messages gets no further edges.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use netloom_bridge::Vid;
use netloom_shm::memory::Foreign;
use netloom_shm::protocol::{Direction, EdgeName, Joined, Message, Peer, Reason, Token, VERSION};
use netloom_shm::wake::Bell;
use netloom_sys::describe;
use rustix::process::Pid;

use crate::application::Application;
use crate::client::Role;
use crate::notices::Hint;
use crate::port::{Brought, Made, Open, Port, length, make};
use crate::seats::{Refusal, Seat, Wish, seat};
use crate::server::Server;
use crate::state::Known;
use crate::system::random;

/// Most messages queued for a port, beyond its socket's buffer, while others may open edges to it: each
/// unannounced edge holds two descriptors here.
const MOST_UNREAD: usize = 32;

impl Server {
    pub(crate) fn join(&mut self, id: u64, application: Application) {
        if let Err((reason, text)) = self.try_join(id, application) {
            self.refuse(id, reason, 0, &text);
            self.dismiss(id);
        }
    }

    fn try_join(&mut self, id: u64, application: Application) -> Result<(), Refusal> {
        let Some(client) = self.clients.get(&id) else { return Ok(()) };
        if application.version != VERSION {
            let text = format!("version {}; the switch has {VERSION}", application.version);
            return Err((Reason::Version, text));
        }
        let Application { number, ref name, token, capabilities, ref edges, .. } = application;
        let who = client.person();
        // With a token a client asks for an awaited port itself.
        if token == Token::default() && self.gate.admits(who) {
            self.replace_awaited(name, who.uid);
        }
        let Some(client) = self.clients.get(&id) else { return Ok(()) };
        let wish = Wish { number, name, token, who };
        let seat = seat(&wish, &self.gate, &self.state, |number| self.hub.has(number))?;
        let peer = client.peer;
        let known = self.known(seat, name, peer)?;
        let (name, edges) = (name.clone(), edges.clone());
        let brought = Brought {
            client: id,
            peer,
            number: known.number,
            generation: known.generation,
            capabilities,
            inbox: application.inbox,
            uplink: application.uplink,
        };
        let made = make(brought, &self.hub.inbox, self.options.downlink)
            .map_err(|text| (Reason::Memory, text))?;
        // A port that returns has its record already.
        if let Seat::New(_) = seat {
            self.remember(Known { name, ..known.clone() })?;
        }
        self.seat(id, &known, made);
        self.adopt_edges(id, known.number, &edges);
        Ok(())
    }

    /// Gives up an awaited port whose process has ended, since it cannot come back: it makes room for a port
    /// of the same user with the same name. Ports with edges to it are told.
    fn replace_awaited(&mut self, name: &str, uid: u32) {
        let awaited = |known: &&Known| {
            known.name == name
                && known.uid == uid
                && !self.hub.has(known.number)
                && has_ended(known)
        };
        let number = self.state.ports.iter().find(awaited).map(|known| known.number);
        number.into_iter().for_each(|number| self.leave(number));
    }

    /// The record of a joining client.
    fn known(&self, seat: Seat, name: &str, peer: Peer) -> Result<Known, Refusal> {
        let number = match seat {
            Seat::Old(number) => {
                let known = self.state.ports.iter().find(|port| port.number == number);
                let none = || (Reason::Token, "no such port is awaited".to_owned());
                return known.cloned().ok_or_else(none);
            }
            Seat::New(number) => number,
        };
        let token: Token = random().map_err(|e| (Reason::Other, describe(&e)))?;
        let generation = self.state.generation;
        let Peer { pid, uid, .. } = peer;
        Ok(Known { number, name: name.to_owned(), token, generation, uid, pid })
    }

    /// Saves a new port before the client learns that it is one.
    fn remember(&mut self, known: Known) -> Result<(), Refusal> {
        self.state.generation = self.state.generation.wrapping_add(1).max(1);
        self.state.ports.push(known);
        self.file.write(&self.state).map_err(|e| {
            // What is not in the file would not be known to the next process, which would give its number away.
            self.state.ports.pop();
            (Reason::Other, describe(&e))
        })?;
        self.dirty = false;
        Ok(())
    }

    fn seat(&mut self, id: u64, known: &Known, made: Made) {
        let Made { port, given: [ring, up, down] } = made;
        let number = known.number;
        let fds = [self.hub.page().fd(), self.hub.inbox.fd()];
        let [Ok(page), Ok(inbox)] = fds.map(|fd| fd.try_clone_to_owned()) else {
            self.forget(number);
            return self.expel(id);
        };
        // Without its bell nobody would hear it: it is better off without a port.
        if self.watch_bell(port.bell.as_fd(), number).is_err() {
            self.forget(number);
            return self.expel(id);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.role = Role::Port(number);
        }
        self.hub.put(number, port);
        self.tally.joins += 1;
        let joined =
            Joined { version: VERSION, number, generation: known.generation, token: known.token };
        let with = vec![Rc::new(page), Rc::new(inbox), ring, up, down];
        // If the client is gone already, it is dismissed and so leaves.
        let _ = self.post(id, Message::Joined(joined), with);
    }

    /// Records the edges of a returning port; their other ends are connected, awaited, or gone.
    fn adopt_edges(&mut self, id: u64, number: u8, edges: &[EdgeName]) {
        for edge in edges {
            if !self.hub.has(number) {
                return;
            }
            let other = self.state.ports.iter().find(|port| port.number == edge.number);
            let is_permitted = match edge.direction {
                Direction::Out => self.hub.permits(number, edge.number),
                Direction::In => self.hub.permits(edge.number, number),
            };
            // Rules may have changed, or the number have become another port's, while there was no switch.
            if !is_permitted || other.is_none_or(|other| other.generation != edge.generation) {
                let EdgeName { number, generation, .. } = *edge;
                let _ = self.post(id, Message::PortGone { number, generation }, vec![]);
                continue;
            }
            match edge.direction {
                Direction::Out => self.edges.adopt((number, edge.number)),
                Direction::In => self.edges.adopt((edge.number, number)),
            }
        }
    }

    /// A port wants to send to another over its own ring.
    pub(crate) fn open(&mut self, from: u8, to: u8, ring: OwnedFd) {
        // Now, so that a refusal is soon; and once more when its turn has come: the receiver may have left by then.
        let checked = self.receiver(from, to).map(drop);
        match checked.and_then(|()| check_ring(&ring).map_err(|text| (Reason::Memory, text))) {
            Ok(()) => self.hub.ask(from, to, ring),
            Err(refusal) => self.refuse_edge(from, to, refusal),
        }
    }

    /// Opens a requested edge: the sender's earlier frames are relayed.
    pub(crate) fn open_due(&mut self, from: u8, open: &Open) {
        if let Err(refusal) = self.try_open(from, open.to, &open.ring) {
            self.refuse_edge(from, open.to, refusal);
        }
    }

    fn refuse_edge(&mut self, from: u8, to: u8, (reason, text): Refusal) {
        if let Some(client) = self.hub.port(from).map(|port| port.client) {
            self.refuse(client, reason, to, &text);
        }
    }

    /// The receiver for a new edge.
    fn receiver(&self, from: u8, to: u8) -> Result<&Port, Refusal> {
        let receiver = self.hub.port(to).filter(|_| from != to);
        let receiver = receiver.ok_or_else(|| (Reason::NoPort, format!("no port {to}")))?;
        if !self.hub.permits(from, to) {
            return Err((Reason::Denied, format!("ports {from} and {to} share no VLAN")));
        }
        let unread = self.clients.get(&receiver.client).map_or(0, |client| client.unread());
        // Each message about an edge holds descriptors until it is read.
        if unread >= MOST_UNREAD {
            return Err((Reason::Other, format!("port {to} does not read its messages")));
        }
        Ok(receiver)
    }

    fn try_open(&mut self, from: u8, to: u8, ring: &OwnedFd) -> Result<(), Refusal> {
        let other = |e: String| (Reason::Other, e);
        let receiver = self.receiver(from, to)?;
        let (receiver_id, inbox) = (receiver.client, receiver.inbox.clone());
        let receiver_generation = receiver.generation;
        let Some(sender) = self.hub.port(from) else { return Ok(()) };
        let (sender_id, generation) = (sender.client, sender.generation);
        let bell = Bell::create().map_err(|e| other(describe(&e)))?;
        let copy = |fd: std::os::fd::BorrowedFd<'_>| {
            fd.try_clone_to_owned().map(Rc::new).map_err(|e| other(e.to_string()))
        };
        let (bell, ring_fd) = (copy(bell.fd())?, copy(ring.as_fd())?);
        let edge = Message::Edge { from, generation };
        // The receiver first: when the sender begins to write, somebody reads.
        if self.post(receiver_id, edge, vec![ring_fd, bell.clone()]).is_err() {
            return Err((Reason::NoPort, format!("no port {to}")));
        }
        self.edges.add((from, to), length(ring));
        let opened = Message::Opened { to, generation: receiver_generation };
        // If the sender is gone, its edges are gone with it.
        let _ = self.post(sender_id, opened, vec![inbox, bell]);
        Ok(())
    }

    /// Tells a sender where a station is. One that does not read its messages is not told: its frames are
    /// relayed nevertheless.
    pub(crate) fn tell(&mut self, hint: Hint) {
        let Some(id) = self.hub.port(hint.from).map(|port| port.client) else { return };
        let Some(client) = self.clients.get_mut(&id).filter(|client| !client.has_unread()) else {
            return;
        };
        let vid = hint.vid.map_or(0, Vid::number);
        let message = Message::Station { number: hint.to, vid, mac: hint.mac.0 };
        let _ = client.channel.send(&message, &[]);
    }

    /// Closes the edges that the rules no longer permit. For each end the other is gone, unless an edge in the
    /// other direction stays.
    pub(crate) fn close_forbidden(&mut self) {
        let hub = &self.hub;
        for (from, to) in self.edges.remove_if(|(from, to)| !hub.permits(from, to)) {
            for (at, other, direction) in [(from, to, Direction::Out), (to, from, Direction::In)] {
                let Some(id) = self.hub.port(at).map(|port| port.client) else { continue };
                let known = self.state.ports.iter().find(|known| known.number == other);
                let message = match known.filter(|_| !self.hub.permits(to, from)) {
                    Some(Known { generation, .. }) => {
                        Message::PortGone { number: other, generation: *generation }
                    }
                    None => Message::Close { number: other, direction },
                };
                let _ = self.post(id, message, vec![]);
            }
        }
    }

    /// A port closed an edge at its end; the other end is told if the edge existed.
    pub(crate) fn close(&mut self, at: u8, number: u8, direction: Direction) {
        let ends = match direction {
            Direction::Out => (at, number),
            Direction::In => (number, at),
        };
        if !self.edges.remove(ends) {
            return;
        }
        let Some(other) = self.hub.port(number).map(|port| port.client) else { return };
        let direction = direction.reversed();
        let _ = self.post(other, Message::Close { number: at, direction }, vec![]);
    }

    /// A port leaves: what it has sent is relayed, everything kept for it is dropped.
    pub(crate) fn leave(&mut self, number: u8) {
        // Frames that were sent before the end are not lost by it.
        self.hub.finish(number, Instant::now());
        let here = self.hub.take(number);
        self.end_results();
        if let Some(port) = &here {
            self.unwatch(port.bell.as_fd());
        }
        let known = self.state.ports.iter().find(|known| known.number == number);
        let generation = known.map(|known| known.generation);
        self.forget(number);
        self.end_temporary(number);
        let others = self.edges.leave(number);
        let Some(generation) = generation else { return };
        for other in others {
            let Some(id) = self.hub.port(other).map(|port| port.client) else { continue };
            let _ = self.post(id, Message::PortGone { number, generation }, vec![]);
        }
    }

    fn forget(&mut self, number: u8) {
        self.state.ports.retain(|known| known.number != number);
        self.dirty = true;
    }
}

/// Whether the port's process has certainly ended. If its pid has been reused, the port is awaited for its
/// full time.
fn has_ended(known: &Known) -> bool {
    let found = Pid::from_raw(known.pid.max(0)).map(rustix::process::test_kill_process);
    found == Some(Err(rustix::io::Errno::SRCH))
}

/// Refuses descriptors that no receiver would accept as a ring.
fn check_ring(ring: &OwnedFd) -> Result<(), String> {
    use netloom_shm::layout::ring as at;
    let (least, most) = (at::LEAST_ARENA + at::ARENA_AT, at::MOST_ARENA + at::ARENA_AT);
    let opened = Foreign::open("ring", ring.as_fd(), at::MAGIC, least, most);
    opened.map(drop).map_err(|e| describe(&e))
}
