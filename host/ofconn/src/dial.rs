//! A peer to connect to: attempts, pauses between them, and its state. Nothing here waits.
//!
//! Attempts are a second apart at first, and eight at most; an answered one starts over at a second. One that is reached from
//! a namespace that is not known yet waits for it. The owner of the [`Peer`] watches its sockets and calls it in time.

use std::os::fd::OwnedFd;

use netloom_sys::describe;
use rustix::net::sockopt;

use crate::reach::{self, Namespaces, Reached};
use crate::{Controller, Target, Time};

/// Nanoseconds in a second.
const SECOND: Time = 1_000_000_000;

/// Pauses between attempts: the first and the longest.
const FIRST: Time = SECOND;
const LONGEST: Time = 8 * SECOND;

/// How long a connection may take to be made.
const PATIENCE: Time = 10 * SECOND;

/// How it stands.
#[derive(Debug)]
pub enum State {
    /// Nothing is under way; the next attempt is at this time.
    Idle(Time),
    /// Its namespace is not known.
    Waiting,
    /// A connection is being made, until this time.
    Dialling(OwnedFd, Time),
    /// Its connection.
    Connected(u64),
    /// Its listener.
    Listening(u64),
}

/// What an attempt has begun.
#[derive(Debug)]
pub enum Begun {
    /// A connection, which is there.
    Connected(OwnedFd),
    /// A place where it may connect, and whether by TLS.
    Listening(OwnedFd, bool),
    /// [`State::Dialling`]: its socket is to be watched for writing.
    Dialling,
    /// Nothing: the state says why.
    Nothing,
}

/// A connection that is there or will be; `W`: whose it is.
#[derive(Debug)]
pub struct Peer<W> {
    /// Where the other end is.
    pub controller: Controller,
    /// Whose it is.
    pub whose: W,
    /// How it stands.
    pub state: State,
    /// Attempts since it answered last.
    pub attempts: u64,
    /// Why the last attempt or connection ended.
    pub reason: Option<String>,
    pause: Time,
}

impl<W> Peer<W> {
    /// One whose first attempt is due now.
    pub fn new(controller: Controller, whose: W, now: Time) -> Peer<W> {
        let state = State::Idle(now);
        Peer { controller, whose, state, attempts: 0, reason: None, pause: FIRST }
    }

    /// When [`Peer::is_due`] becomes true.
    pub fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Idle(at) | State::Dialling(_, at) => Some(at),
            _ => None,
        }
    }

    /// Whether something is to be done by now.
    pub fn is_due(&self, now: Time) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }

    /// Its connection.
    pub fn connection(&self) -> Option<u64> {
        match self.state {
            State::Connected(id) => Some(id),
            _ => None,
        }
    }

    /// Begins an attempt; failures name `whom`.
    pub fn attempt(&mut self, whom: &str, namespaces: &Namespaces, now: Time) -> Begun {
        let from = match &self.controller.namespace {
            None => None,
            Some(name) => match namespaces.get(name) {
                Some(namespace) => Some(namespace),
                None => {
                    self.state = State::Waiting;
                    return Begun::Nothing;
                }
            },
        };
        self.attempts += 1;
        let reached = match &self.controller.target {
            Target::Tcp(to) | Target::Tls(to) => reach::tcp(whom, *to, from),
            Target::Unix(path) => reach::unix(whom, path),
            target @ (Target::Listen(at) | Target::ListenTls(at)) => {
                let tls = matches!(target, Target::ListenTls(_));
                return match reach::listen_tcp(*at, from) {
                    Ok(socket) => Begun::Listening(socket, tls),
                    Err(e) => self.nothing(describe(&e), now),
                };
            }
        };
        match reached {
            Ok(Reached::Done(socket)) => Begun::Connected(socket),
            Ok(Reached::Pending(socket)) => {
                self.state = State::Dialling(socket, now + PATIENCE);
                Begun::Dialling
            }
            Err(e) => self.nothing(describe(&e), now),
        }
    }

    fn nothing(&mut self, reason: String, now: Time) -> Begun {
        self.failed(reason, now);
        Begun::Nothing
    }

    /// The socket that was dialled can be written: it is connected, or has failed. The socket is not to be watched
    /// any more.
    pub fn dialled(&mut self, now: Time) -> Option<OwnedFd> {
        let State::Dialling(socket, _) = &self.state else { return None };
        if let Ok(Err(e)) | Err(e) = sockopt::socket_error(socket) {
            self.failed(std::io::Error::from(e).to_string(), now);
            return None;
        }
        // Only until the owner says what became of the socket.
        match std::mem::replace(&mut self.state, State::Waiting) {
            State::Dialling(socket, _) => Some(socket),
            _ => None,
        }
    }

    /// The last attempt, or the connection, has ended.
    pub fn failed(&mut self, reason: String, now: Time) {
        self.reason = Some(reason);
        self.state = State::Idle(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST);
    }

    /// It has answered: the next attempt is the first again.
    pub fn heard(&mut self) {
        (self.pause, self.attempts, self.reason) = (FIRST, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(target: &str, namespace: Option<&str>) -> Peer<()> {
        let target = target.parse().expect("a target");
        let namespace = namespace.map(str::to_owned);
        Peer::new(Controller { target, namespace }, (), 0)
    }

    #[test]
    fn attempts_are_further_and_further_apart_until_one_is_answered() {
        let (mut peer, mut now) = (peer("unix:/nowhere/at/all", None), 0);
        let spaces = Namespaces::new();
        for pause in [1, 2, 4, 8, 8] {
            assert!(peer.is_due(now));
            assert!(matches!(peer.attempt("controller", &spaces, now), Begun::Nothing));
            assert_eq!(peer.deadline(), Some(now + pause * SECOND));
            now += pause * SECOND;
        }
        assert!(peer.reason.as_deref().is_some_and(|why| why.contains("/nowhere/at/all")));
        peer.heard();
        peer.failed("gone".into(), now);
        assert_eq!((peer.deadline(), peer.attempts), (Some(now + SECOND), 0));
    }

    #[test]
    fn one_in_an_unknown_namespace_waits_for_it() {
        let mut peer = peer("tcp:127.0.0.1", Some("node:c"));
        assert!(matches!(peer.attempt("controller", &Namespaces::new(), 0), Begun::Nothing));
        assert_eq!((peer.deadline(), peer.attempts), (None, 0));
    }
}
