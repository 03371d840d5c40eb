//! Connections of listeners that not everybody may reach, where the kernel takes no filter for them: the supervisor accepts
//! on its duplicate, resets what comes from elsewhere, and hands the program the rest.
//!
//! Which peers a listener has is remembered when it begins to listen, before anybody can come; of one that is not known,
//! because it was inherited, the rule for its address and the program that accepts counts. accept(2) of other sockets
//! is made here, too: the program could put a listener in their place after a look at them.
//!
//! A call that has to wait does so in a room, for which one thread polls: it takes up no thread of the supervisor.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use netloom_policy::pattern::Peers;
use netloom_policy::{Program, Protocol, Request};
use netloom_sys::admission::filters_tcp;
use netloom_sys::process::{Status, timespec};
use netloom_sys::seccomp::{Call, Caller, Listener, Outcome, Sight, perform};
use netloom_sys::{Failure, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::address::Address;
use crate::judge::{Judge, Question, State};
use crate::peers::{self, Unlimited};
use crate::perform::{Blocked, Done, LOOK_IDLE, interrupted, shared, signalled, stops};
use crate::prepare::{
    Accepting, Act, CLOSE_ON_EXEC, NONBLOCK, Prepared, cookie, listens_at, place,
};
use crate::socket::{Socket, was_connected};
use crate::who::Who;

/// How a TCP listener is closed to all but its peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// By a filter in the kernel, or not at all: then the listener is refused.
    #[default]
    Kernel,
    /// By a filter, or where the kernel takes none by a look at each connection.
    Either,
    /// By a look at each connection, whatever the kernel takes.
    Accept,
}

impl Gate {
    /// What a policy needs here that [limits](netloom_policy::Policy::limits_peers) peers or does not.
    pub fn here(limits: bool) -> Gate {
        if limits && !filters_tcp() { Gate::Either } else { Gate::Kernel }
    }

    /// Whether the calls that accept are notified.
    pub(crate) fn watches(self) -> bool {
        self != Gate::Kernel
    }
}

/// Attempts on one listener, until others have their turn.
const BATCH: usize = 16;
/// Listeners that are remembered. One that is forgotten is judged as one that was inherited.
const REMEMBERED: usize = 4096;

/// Listeners, and calls that wait for their connections.
#[derive(Debug, Default)]
pub(crate) struct Accepts {
    gate: Gate,
    limits: Mutex<Limits>,
    /// Calls that have come into the room since its thread looked.
    new: Mutex<Vec<Waiting>>,
    bell: OnceLock<OwnedFd>,
    /// Held from a look for a connection until it is taken, since the supervisor's threads share listeners that block.
    taking: Mutex<()>,
}

/// The peers that may reach listeners, by their cookies; `None` is all.
#[derive(Debug, Default)]
struct Limits {
    all: HashMap<u64, Option<Arc<Peers>>>,
    order: VecDeque<u64>,
}

impl Limits {
    fn set(&mut self, cookie: u64, peers: Option<Arc<Peers>>) {
        if self.all.insert(cookie, peers).is_none() {
            self.order.push_back(cookie);
        }
        // A program may make listeners without end; the oldest is the likeliest to be closed.
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

/// A call that accepts.
#[derive(Debug)]
struct Waiting {
    call: Call,
    caller: Caller,
    accepting: Accepting,
    cookie: Option<u64>,
    /// Whether it waits where there is no connection.
    waits: bool,
    /// Until when.
    until: Option<Instant>,
    /// A signal of its process was there at the last look.
    shared: bool,
}

impl Waiting {
    /// Answers the call. Before, its duplicate is closed: the program may close its own, and bind another one there.
    fn answer(self, done: Done, around: Around<'_>) {
        let Waiting { call, accepting, .. } = self;
        drop(accepting);
        crate::perform::answer(around.listener, call.id, done);
    }
}

/// What an attempt has come to.
enum Step {
    Done(Done),
    /// A connection with its peer's address.
    Came(OwnedFd, Vec<u8>),
    /// One from elsewhere has gone.
    Again,
    Later,
}

/// What accepting needs of the supervisor.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) listener: &'a Listener,
    pub(crate) blocked: &'a Blocked,
    pub(crate) sight: &'a Sight,
    pub(crate) judge: &'a dyn Judge,
}

impl Accepts {
    pub(crate) fn of(gate: Gate) -> Accepts {
        Accepts { gate, ..Accepts::default() }
    }

    /// Whether there are calls that accept.
    pub(crate) fn watches(&self) -> bool {
        self.gate.watches()
    }

    /// Makes the room ready, before any call comes.
    pub(crate) fn open(&self) -> Result<()> {
        if self.watches() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let bell = eventfd(0, flags).map_err(|e| Failure::new("guard", "make a bell of", e))?;
            let _ = self.bell.set(bell);
        }
        Ok(())
    }

    /// Keeps all but `peers` from the socket of a call that was allowed; `None` is everybody.
    ///
    /// # Errors
    /// Why they cannot be kept from it; then the call must not be made.
    pub(crate) fn limit(
        &self,
        act: &Act,
        peers: Option<Peers>,
    ) -> std::result::Result<(), Unlimited> {
        let by_kernel = || peers.as_ref().map_or(Ok(()), |peers| peers::limit(act, peers));
        let tcp = match act {
            Act::Listen { fd, .. } if self.watches() => is_tcp(fd.as_fd()).then_some(fd),
            _ => None,
        };
        let Some(fd) = tcp else { return by_kernel() };
        // Subflows of MPTCP may come from other addresses than the one that accept(2) tells.
        if peers.is_some() && peers::is_mptcp(fd.as_fd()) {
            return Err(peers::NO_MPTCP);
        }
        match self.gate {
            Gate::Accept => {}
            Gate::Kernel | Gate::Either => by_kernel().or_else(|unlimited| match unlimited {
                // Linux 6.18 refuses filters of TCP sockets to all but root: accept(2) judges each
                // connection.
                peers::ROOT_ONLY => Ok(()),
                other => Err(other),
            })?,
        }
        self.remember(fd, peers)
    }

    /// One that has peers keeps them, as it would keep a filter.
    fn remember(&self, fd: &OwnedFd, peers: Option<Peers>) -> std::result::Result<(), Unlimited> {
        // Without a cookie (before Linux 4.12) it is never known, and always judged when it accepts.
        let Some(cookie) = cookie(fd) else { return Ok(()) };
        let mut limits = lock(&self.limits);
        let known = limits.all.get(&cookie).cloned().flatten();
        match (known, peers.map(Arc::new)) {
            (Some(known), Some(peers)) if known != peers => Err(peers::OTHERS),
            (known, peers) => {
                limits.set(cookie, peers.or(known));
                Ok(())
            }
        }
    }

    /// A socket of a message that must not be handed over: another process would accept any peer by it, since it may
    /// listen, or does.
    pub(crate) fn kept<'a>(&self, act: &'a Act) -> Option<&'a OwnedFd> {
        let messages = match act {
            _ if !self.watches() => vec![],
            Act::Send { message, .. } => vec![message],
            Act::SendMany { messages, .. } => messages.iter().map(|(message, _)| message).collect(),
            _ => vec![],
        };
        let mut all = messages.into_iter().flat_map(|message| &message.descriptors);
        all.find(|fd| {
            let open_to_all = || {
                let known =
                    cookie(fd).and_then(|cookie| lock(&self.limits).all.get(&cookie).cloned());
                known == Some(None)
            };
            is_tcp(fd.as_fd()) && !was_connected(fd) && !open_to_all()
        })
    }

    /// Accepts for a call, or has it wait in the room.
    pub(crate) fn begin(
        &self,
        call: Call,
        caller: Caller,
        accepting: Accepting,
        around: Around<'_>,
    ) {
        let fd = &accepting.fd;
        let flags = rustix::fs::fcntl_getfl(fd);
        let waits = !flags.is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK));
        let limit = sockopt::socket_timeout(fd, sockopt::Timeout::Recv).ok().flatten();
        let until = limit.filter(|_| waits).and_then(|limit| Instant::now().checked_add(limit));
        let cookie = cookie(fd);
        let one = Waiting { call, caller, accepting, cookie, waits, until, shared: false };
        // net/socket.c reserves the descriptor before it waits for a connection, so EMFILE comes at
        // once.
        if one.caller.is_full() {
            return one.answer(Done::failed(Errno::MFILE), around);
        }
        if let Some(one) = self.advance(one, around) {
            lock(&self.new).push(one);
            self.ring();
        }
    }

    /// Attends to the calls that wait, until `ended` and a [ring](Accepts::ring).
    pub(crate) fn attend(&self, around: Around<'_>, ended: &AtomicBool) {
        let Some(bell) = self.bell.get() else { return };
        let mut waiting: Vec<Waiting> = vec![];
        let mut looked = Instant::now();
        while !ended.load(Ordering::SeqCst) {
            // The list `new` is only read after the bell is silenced: a call that is pushed later
            // rings again.
            let came = sleep(bell, &waiting, looked + LOOK_IDLE);
            let looks = looked.elapsed() >= LOOK_IDLE;
            if looks {
                looked = Instant::now();
            }
            // Not one of the others is answered before, since they came earlier.
            let all = waiting.drain(..).zip(came);
            let left = all.filter_map(|(one, came)| self.visit(one, came, looks, around)).collect();
            waiting = left;
            let _ = rustix::io::read(bell, &mut [0; 8]);
            waiting.append(&mut lock(&self.new));
        }
    }

    /// Has the room's thread look.
    pub(crate) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            // Full, it has rung.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// One call's turn; it is given back if it goes on waiting.
    fn visit(&self, one: Waiting, came: Came, looks: bool, around: Around<'_>) -> Option<Waiting> {
        if came.ended || (looks && !around.listener.is_waiting(one.call.id)) {
            return None;
        }
        let one = if came.ready || !one.waits { self.advance(one, around)? } else { one };
        if one.until.is_some_and(|until| until <= Instant::now()) {
            one.answer(Done::failed(Errno::AGAIN), around);
            return None;
        }
        if looks { look(one, around) } else { Some(one) }
    }

    /// Accepts until a connection is there that may come; gives the call back if it is to wait.
    fn advance(&self, one: Waiting, around: Around<'_>) -> Option<Waiting> {
        // A stream of rejected connections must not keep the thread from the other calls.
        for _ in 0..BATCH {
            match self.step(&one, around) {
                Step::Done(done) => {
                    one.answer(done, around);
                    return None;
                }
                Step::Came(connection, address) => {
                    let done = hand_over(&one, connection, &address, around);
                    one.answer(done, around);
                    return None;
                }
                Step::Again => {}
                Step::Later => break,
            }
        }
        Some(one)
    }

    fn step(&self, one: &Waiting, around: Around<'_>) -> Step {
        if one.waits && !may_accept(&one.accepting.fd) {
            return Step::Later;
        }
        // A connection that it cannot take stays in the queue.
        if one.caller.is_full() {
            return Step::Done(Done::failed(Errno::MFILE));
        }
        // Once before, since it may be bound elsewhere meanwhile; and once after, since it may listen only by then.
        let Some(before) = self.peers(one, around) else { return Step::Done(Done::Gone) };
        let (connection, address) = match self.take(one, around) {
            Ok(Ok(accepted)) => accepted,
            Ok(Err(error)) => match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
                Errno::INTR => return Step::Later,
                // Somebody else was quicker.
                Errno::AGAIN if one.waits => return Step::Later,
                errno => return Step::Done(Done::failed(errno)),
            },
            Err(Errno::AGAIN) if one.waits => return Step::Later,
            Err(errno) => return Step::Done(Done::failed(errno)),
        };
        let Some(after) = self.peers(one, around) else { return Step::Done(Done::Gone) };
        if may_come(before.as_deref(), &address) && may_come(after.as_deref(), &address) {
            return Step::Came(connection, address);
        }
        reset(&connection);
        Step::Again
    }

    /// Accepts without a wait, unless a process outside is quicker.
    fn take(
        &self,
        one: &Waiting,
        around: Around<'_>,
    ) -> Prepared<std::io::Result<(OwnedFd, Vec<u8>)>> {
        let Accepting { fd, flags, .. } = &one.accepting;
        // O_NONBLOCK belongs to the open file, which the program shares: it cannot be set for this
        // call alone. Of two threads that see one connection, the second would block in accept(2).
        let _taking = one.waits.then(|| lock(&self.taking));
        // Also of one that did not block: it may by now.
        if !may_accept(fd) {
            return Err(Errno::AGAIN);
        }
        let accept = || perform::accept(fd.as_fd(), flags & NONBLOCK);
        around.blocked.briefly(|| place::as_caller(&one.caller, accept))
    }

    /// The peers that may reach a listener; none where it does not listen.
    #[expect(clippy::option_option, reason = "the outer one is a call that has vanished")]
    fn peers(&self, one: &Waiting, around: Around<'_>) -> Option<Option<Arc<Peers>>> {
        if !one.accepting.is_tcp {
            return Some(None);
        }
        let known = one.cookie.and_then(|cookie| lock(&self.limits).all.get(&cookie).cloned());
        if let Some(known) = known {
            return Some(known);
        }
        // Nobody may come yet, and nothing is remembered: its rule counts from when it listens.
        if !listens(&one.accepting.fd) {
            return Some(Some(Arc::new(Peers::of([]))));
        }
        let peers = by_rule(one, around).map(Arc::new);
        if !around.listener.is_waiting(one.call.id) {
            return None;
        }
        if let Some(cookie) = one.cookie {
            let mut limits = lock(&self.limits);
            // It may have begun to listen again meanwhile.
            let known = limits.all.get(&cookie).cloned();
            let settled = known.unwrap_or(peers);
            limits.set(cookie, settled.clone());
            return Some(settled);
        }
        Some(peers)
    }
}

/// Whether peers may connect from an address.
fn may_come(peers: Option<&Peers>, address: &[u8]) -> bool {
    let is_theirs = |peers: &Peers| match Address::read(address) {
        Some(Address::Ip(from, _)) => peers.contains(from),
        _ => false,
    };
    peers.is_none_or(is_theirs)
}

pub(crate) fn listens(fd: &OwnedFd) -> bool {
    sockopt::socket_acceptconn(fd).unwrap_or(false)
}

/// The peers that may reach an unknown listener: by the rule by which the program would listen there.
fn by_rule(one: &Waiting, around: Around<'_>) -> Option<Peers> {
    let want = listens_at(&one.accepting.fd)?;
    let program = Program { path: one.caller.program(around.sight), sha256: None };
    let request = Request {
        program: program.clone(),
        direction: want.direction,
        protocol: want.protocol,
        target: want.target,
    };
    let (who, state) = (Who::of(one.caller.tid(), program), || State::Waiting);
    around.judge.peers(&Question { who: &who, request: &request, state: &state })
}

/// The state of a call that waits.
#[derive(Clone, Copy)]
struct Came {
    /// Its thread has ended.
    ended: bool,
    /// Its socket has something.
    ready: bool,
}

/// Waits for connections, for ends of threads, for the bell, and for `look` if anybody waits.
fn sleep(bell: &OwnedFd, waiting: &[Waiting], look: Instant) -> Vec<Came> {
    let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
    for one in waiting {
        fds.push(PollFd::new(&one.accepting.fd, PollFlags::IN));
        fds.push(PollFd::new(&one.caller, PollFlags::IN));
    }
    let first = waiting.iter().filter_map(|one| one.until).chain([look]).min();
    // A call that must not wait is here only because a batch of rejected connections ended.
    let unfinished = waiting.iter().any(|one| !one.waits);
    let span = match first {
        _ if unfinished => Some(Duration::ZERO),
        _ if waiting.is_empty() => None,
        first => first.map(|first| first.saturating_duration_since(Instant::now())),
    };
    // Interrupted, nothing has come.
    let _ = poll(&mut fds, span.map(timespec).as_ref());
    let (pairs, _) = fds[1..].as_chunks::<2>();
    let had = |fd: &PollFd<'_>| !fd.revents().is_empty();
    pairs.iter().map(|[fd, thread]| Came { ended: had(thread), ready: had(fd) }).collect()
}

/// Whether accept(2) would return at once: there is a connection, or an error.
fn may_accept(fd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    let ready = poll(&mut polled, Some(&timespec(Duration::ZERO)));
    // A socket that does not listen is not readable, but accept(2) fails at once with EINVAL.
    ready != Ok(0) || !listens(fd)
}

/// Looks for signals: as the kernel, which restarts the call or has it fail (signal(7)).
fn look(mut one: Waiting, around: Around<'_>) -> Option<Waiting> {
    let status = Status::of(one.caller.tid()).unwrap_or_default();
    let done = if stops(&status, one.caller.tid()) {
        // No time limit is asked for: after a stop the kernel has the wait go on.
        Done::Outcome(Outcome::Interrupted)
    } else if signalled(&status) {
        Done::Outcome(interrupted(&one.accepting.fd, sockopt::Timeout::Recv))
    } else if one.shared && shared(&status) {
        // No other thread has taken it: this one is meant. If not, it sees no more than an early return.
        Done::failed(Errno::INTR)
    } else {
        one.shared = shared(&status);
        return Some(one);
    };
    one.answer(done, around);
    None
}

/// Writes the peer's address where the call wants it, as accept(2) does.
fn hand_over(one: &Waiting, connection: OwnedFd, address: &[u8], around: Around<'_>) -> Done {
    let Accepting { address: at, length: length_at, flags, .. } = one.accepting;
    // The number of a caller that is gone may name another thread, whose memory is not to be
    // written.
    if !around.listener.is_waiting(one.call.id) {
        return Done::Gone;
    }
    if at != 0
        && let Err(errno) = write_address(&one.caller, at, length_at, address)
    {
        return Done::failed(errno);
    }
    Done::Descriptor(connection, flags & CLOSE_ON_EXEC != 0)
}

fn write_address(
    caller: &Caller,
    at: u64,
    length_at: u64,
    address: &[u8],
) -> std::result::Result<(), Errno> {
    let room = caller.bytes(length_at, 4).map_err(|_| Errno::FAULT)?;
    let room = room.try_into().map_or(0, i32::from_ne_bytes);
    let room = usize::try_from(room).map_err(|_| Errno::INVAL)?;
    // As `move_addr_to_user` in net/socket.c: the address is cut to the room, its length is told
    // whole.
    let length = u32::try_from(address.len()).unwrap_or(0);
    caller.write(at, &address[..room.min(address.len())]).map_err(|_| Errno::FAULT)?;
    caller.write(length_at, &length.to_ne_bytes()).map_err(|_| Errno::FAULT)
}

/// Ends a connection at once: its other side hears of a reset.
fn reset(connection: &OwnedFd) {
    // Otherwise it ends as any other, when it is closed.
    let _ = sockopt::set_socket_linger(connection, Some(Duration::ZERO));
}

fn is_tcp(fd: BorrowedFd<'_>) -> bool {
    Socket::of(fd).is_ok_and(|socket| socket.protocol == Protocol::Tcp && socket.is_ip())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
