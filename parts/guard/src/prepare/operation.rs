//! What a call asks for, and how it is done if it is allowed.

use std::os::fd::OwnedFd;

use netloom_policy::{Direction, Protocol, Target};
use netloom_sys::seccomp::Sight;
use netloom_sys::seccomp::perform::Message;

use super::Kept;
use super::place::{Place, unprivileged};

/// What a call asks for, and how it is done if it is allowed.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The requests to decide, in the order of messages; empty if the call reaches nothing.
    pub(crate) wants: Vec<Want>,
    /// How it is done.
    pub(crate) act: Act,
    /// Whether that may wait for others: readers, or another machine.
    pub(crate) waits: bool,
}

impl Operation {
    pub(super) fn quick(wants: Vec<Want>, act: Act) -> Operation {
        Operation { wants, act, waits: false }
    }

    /// Leaves the messages before the first one that has this want: the kernel, too, sends those before one that fails, and
    /// that one fails with the next call. False if there are none.
    pub(crate) fn end_before(&mut self, want: usize) -> bool {
        let message = self.wants.get(want).map_or(0, |want| want.message);
        let Act::SendMany { messages, .. } = &mut self.act else { return false };
        if message > 0 {
            messages.truncate(message);
            self.wants.truncate(want);
        }
        message > 0
    }

    /// Has a call that reaches a socket by its path judged by these other paths, too, where they lead to it, or have
    /// led.
    pub(crate) fn tell_paths(&mut self, paths: &[String], sight: &Sight, kept: &Kept) {
        let Some(want) = self.wants.first().cloned() else { return };
        for path in paths {
            let found = self.act.places().find(|(_, place)| place.is_at(sight, path, kept));
            let Some(message) = found.map(|(message, _)| message) else { continue };
            let also = Want { target: Target::Path(path.clone()), message, ..want.clone() };
            match self.wants.iter_mut().find(|want| want.asks_as(&also)) {
                Some(known) => known.message = known.message.min(message),
                None => self.wants.push(also),
            }
        }
        self.wants.sort_by_key(|want| want.message);
    }

    /// Whether it leads to a file.
    pub(crate) fn reaches_files(&self) -> bool {
        self.act.places().any(|(_, place)| place.is_file())
    }
}

/// A direction, protocol and target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Want {
    pub(crate) direction: Direction,
    pub(crate) protocol: Protocol,
    pub(crate) target: Target,
    /// Of a call with several messages, the first one that wants it, from 0.
    pub(crate) message: usize,
}

impl Want {
    /// Whether it is the same, of whichever message.
    pub(super) fn asks_as(&self, other: &Want) -> bool {
        (self.direction, self.protocol, &self.target)
            == (other.direction, other.protocol, &other.target)
    }
}

/// How an allowed call is done.
#[derive(Debug)]
pub(crate) enum Act {
    /// By the program itself: registers alone were judged.
    Continue,
    /// connect(2) on the duplicate. After a probe, which asks for nothing but an address to send from, the
    /// socket sends nothing.
    Connect { fd: OwnedFd, place: Place, probe: bool },
    /// bind(2) on the duplicate.
    Bind { fd: OwnedFd, place: Place },
    /// listen(2) on the duplicate, on this port of IP.
    Listen { fd: OwnedFd, backlog: i32, port: Option<u16> },
    /// accept4(2) on the duplicate.
    Accept(Accepting),
    /// sendmsg(2) on the duplicate.
    Send { fd: OwnedFd, message: Outgoing, flags: i32 },
    /// sendmmsg(2) on the duplicate: messages, and where the length of each is written.
    SendMany { fd: OwnedFd, messages: Vec<(Outgoing, u64)>, flags: i32 },
    /// setsockopt(2) on the duplicate.
    SetOption { fd: OwnedFd, level: i32, option: i32, value: Vec<u8> },
    /// socket(2) in the supervisor, given to the program.
    Create { family: u32, kind: u32, number: u32 },
}

impl Act {
    /// Where it leads, if it does not stay with its socket, with the number of the message from 0.
    fn places(&self) -> impl Iterator<Item = (usize, &Place)> {
        let (one, many) = match self {
            Act::Connect { place, .. } | Act::Bind { place, .. } => (Some(place), &[][..]),
            Act::Send { message, .. } => (message.place.as_ref(), &[][..]),
            Act::SendMany { messages, .. } => (None, messages.as_slice()),
            _ => (None, &[][..]),
        };
        let many = many.iter().enumerate();
        let many = many.filter_map(|(at, (message, _))| Some((at, message.place.as_ref()?)));
        one.map(|place| (0, place)).into_iter().chain(many)
    }

    /// Whether all of it is held in this process: nothing more is read of the caller, or done to it, by its number.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Act::Connect { place, .. } => !place.is_file() && !may_lend(place.sees_rights()),
            Act::Send { message, .. } => {
                message.rest.is_empty()
                    && !message.place.as_ref().is_some_and(Place::is_file)
                    && !may_lend(message.sees_rights)
            }
            _ => false,
        }
    }
}

/// Whether a call is made with its caller's rights, which are read by its number.
fn may_lend(sees_rights: bool) -> bool {
    sees_rights && !unprivileged()
}

/// `SOCK_NONBLOCK` and `SOCK_CLOEXEC`, all flags that accept4(2) takes.
pub(crate) const NONBLOCK: i32 = 0o4000;
pub(crate) const CLOSE_ON_EXEC: i32 = 0o2_000_000;

/// What a call that accepts asks for.
#[derive(Debug)]
pub(crate) struct Accepting {
    pub(crate) fd: OwnedFd,
    pub(crate) is_tcp: bool,
    pub(crate) flags: i32,
    /// Where the peer's address is to be written, and where its length is; the first is 0 if nowhere.
    pub(crate) address: u64,
    pub(crate) length: u64,
}

/// A message with descriptors that go along, which live until it is sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) message: Message,
    /// Where the rest of a stream's data lies, in the program's memory.
    pub(crate) rest: Vec<(u64, u64)>,
    pub(crate) place: Option<Place>,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Whether it is sent with the caller's rights.
    pub(crate) sees_rights: bool,
    /// The control message with which the rest is sent.
    pub(crate) signature: Vec<u8>,
}
