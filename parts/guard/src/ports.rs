//! Sockets of which it matters later how they got their port: by a judgement, after which they may listen on it, or by the
//! kernel's choice.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use netloom_policy::{Direction, Port, Protocol};

use crate::prepare::{Act, Operation, Want, cookie, place};

/// Sockets with ports.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    /// Those that were allowed to bind to a port, and so may listen on that one.
    bound: Mutex<Remembered>,
    /// Those whose port the kernel chose.
    free: Mutex<Remembered>,
}

/// The last sockets of a kind, by their cookies, with their ports if they have some.
#[derive(Debug, Default)]
struct Remembered {
    all: HashMap<u64, Option<u32>>,
    order: VecDeque<u64>,
}

/// Sockets that are remembered. One that is forgotten asks once more.
const REMEMBERED: usize = 4096;

impl Remembered {
    fn add(&mut self, cookie: u64, port: Option<u32>) {
        if self.all.insert(cookie, port).is_none() {
            self.order.push_back(cookie);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

/// The socket that gets a port by a call, if one does.
#[derive(Debug)]
pub(crate) struct Gained {
    judged: Option<(u64, Option<u32>)>,
    chosen: Option<u64>,
}

impl Gained {
    /// By a call that was not made yet.
    pub(crate) fn by(deed: &Operation) -> Gained {
        let wanted = |test: &dyn Fn(&Want) -> bool| deed.wants.iter().any(test);
        let (judged, chosen): (Option<&OwnedFd>, Option<&OwnedFd>) = match &deed.act {
            Act::Bind { fd, .. } | Act::Listen { fd, .. }
                if wanted(&|want| want.direction == Direction::In) =>
            {
                (Some(fd), None)
            }
            // Binding to a port that the kernel chooses is not judged.
            Act::Bind { fd, place } if deed.wants.is_empty() && place.has_free_port() => {
                (None, Some(fd))
            }
            // A socket of UDP gets one by sending, too, and by connecting.
            Act::Connect { fd, .. } | Act::Send { fd, .. } | Act::SendMany { fd, .. }
                if wanted(&|want| want.protocol == Protocol::Udp) && place::has_no_port(fd) =>
            {
                (None, Some(fd))
            }
            _ => (None, None),
        };
        let judged = judged.and_then(cookie).map(|cookie| (cookie, port_of(deed)));
        Gained { judged, chosen: chosen.and_then(cookie) }
    }
}

impl Ports {
    /// The call was made.
    pub(crate) fn add(&self, gained: Gained) {
        if let Some((cookie, port)) = gained.judged {
            lock(&self.bound).add(cookie, port);
        }
        if let Some(cookie) = gained.chosen {
            lock(&self.free).add(cookie, None);
        }
    }

    /// Whether a socket is to listen that was allowed to bind.
    pub(crate) fn may_listen(&self, deed: &Operation) -> bool {
        let Act::Listen { fd, .. } = &deed.act else { return false };
        let bound = cookie(fd).and_then(|cookie| lock(&self.bound).all.get(&cookie).copied());
        bound.is_some_and(|port| port_of(deed).is_none_or(|now| port == Some(now)))
    }

    /// Says of a port that is to be listened on whether the kernel chose it, earlier or now.
    pub(crate) fn tell_free(&self, deed: &mut Operation) {
        let (Act::Listen { fd, .. } | Act::SetOption { fd, .. }) = &deed.act else { return };
        for want in deed.wants.iter_mut().filter(|want| want.direction == Direction::In) {
            let Some(cookie) = cookie(fd) else { return };
            let mut free = lock(&self.free);
            match want.target.port() {
                Port::Free(_) => free.add(cookie, None),
                _ if free.all.contains_key(&cookie) => want.target.set_free(),
                _ => {}
            }
        }
    }
}

/// The port at which a call is to be reached.
fn port_of(deed: &Operation) -> Option<u32> {
    deed.wants.iter().find(|want| want.direction == Direction::In)?.target.port().number()
}

fn lock(mutex: &Mutex<Remembered>) -> MutexGuard<'_, Remembered> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
