//! The supervisor: threads that receive calls, judge them, make them, and answer.
//!
//! One thread at a time waits for calls. It does what is quick by itself, which saves a change of threads; before it
//! does what may take long (asking, connecting), it lets another one wait, so that no program waits for another's
//! question. Any failure inside is a denial.

use std::collections::{HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use netloom_policy::{Direction, Program, Request};
use netloom_sys::Result;
use netloom_sys::seccomp::launch::{Place, launch};
use netloom_sys::seccomp::{Call, Caller, Listener, Outcome};
use rustix::io::Errno;

use crate::calls;
use crate::judge::{Judge, Judgement, Question};
use crate::perform::{Blocked, Done, perform, state};
use crate::prepare::{Act, Deed, Want, cookie, prepare};
use crate::who::Who;

/// Starts a program under guard.
///
/// # Errors
/// The program cannot be started, or the kernel lacks what a supervisor needs.
pub fn start(command: Command, place: Place) -> Result<(Child, Supervisor)> {
    let launched = launch(command, calls::filter(), place)?;
    Ok((launched.child, Supervisor::of(launched.listener)))
}

/// Answers the calls of programs under one filter.
#[derive(Debug)]
pub struct Supervisor {
    listener: Listener,
    /// Held by the thread that waits for calls.
    turn: Mutex<()>,
    /// Threads that wait for the turn or have it.
    ready: AtomicUsize,
    blocked: Blocked,
    /// Sockets that were allowed to bind to a port, and so may listen on it.
    bound: Mutex<Remembered>,
    ended: AtomicBool,
}

/// The last sockets that were bound.
#[derive(Debug, Default)]
struct Remembered {
    all: HashSet<u64>,
    order: VecDeque<u64>,
}

/// Sockets that are remembered. One that is forgotten asks once more.
const REMEMBERED: usize = 4096;

impl Remembered {
    fn add(&mut self, cookie: u64) {
        if self.all.insert(cookie) {
            self.order.push_back(cookie);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

type Turn<'t> = Option<MutexGuard<'t, ()>>;

impl Supervisor {
    /// A supervisor of those who have the filter of `listener`.
    pub fn of(listener: Listener) -> Supervisor {
        Supervisor {
            listener,
            turn: Mutex::new(()),
            ready: AtomicUsize::new(0),
            blocked: Blocked::default(),
            bound: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Answers calls until no process has the filter any more.
    ///
    /// # Errors
    /// The kernel refuses to hand out calls; all further ones fail then.
    pub fn serve(&self, judge: &dyn Judge) -> Result<()> {
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| self.blocked.watch(&self.listener, &self.ended));
            std::thread::scope(|scope| self.work(scope, judge, &failed));
            self.ended.store(true, Ordering::Relaxed);
            watch.thread().unpark();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// A thread's life: waits for its turn, then for a call.
    fn work<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        judge: &'s dyn Judge,
        failed: &'s Mutex<Option<netloom_sys::Error>>,
    ) {
        own_umask();
        loop {
            self.ready.fetch_add(1, Ordering::SeqCst);
            let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let received =
                if self.ended.load(Ordering::SeqCst) { Ok(None) } else { self.listener.receive() };
            self.ready.fetch_sub(1, Ordering::SeqCst);
            match received {
                Ok(Some(call)) => {
                    let pass = move |turn: &mut Turn<'s>| self.pass(scope, judge, failed, turn);
                    self.handle(&call, judge, Some(turn), &pass);
                }
                Ok(None) => break,
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    break;
                }
            }
            // Threads that outlived a burst end.
            if self.ready.load(Ordering::SeqCst) >= 4 {
                return;
            }
        }
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Gives the turn to another thread, and makes one if none is ready.
    fn pass<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        judge: &'s dyn Judge,
        failed: &'s Mutex<Option<netloom_sys::Error>>,
        turn: &mut Turn<'s>,
    ) {
        if turn.take().is_some() && self.ready.load(Ordering::SeqCst) == 0 {
            let builder = std::thread::Builder::new().name("guard".into()).stack_size(256 << 10);
            // Without another thread this one answers first; then it comes back.
            let _ = builder.spawn_scoped(scope, move || self.work(scope, judge, failed));
        }
    }

    /// Answers a call.
    fn handle<'s>(
        &'s self,
        call: &Call,
        judge: &dyn Judge,
        mut turn: Turn<'s>,
        pass: &dyn Fn(&mut Turn<'s>),
    ) {
        let refuse = |errno: Errno| Done::Outcome(Outcome::Errno(errno.raw_os_error()));
        let caller = match Caller::of(&self.listener, call) {
            Ok(Some(caller)) => caller,
            Ok(None) => return,
            Err(_) => return self.answer(call, refuse(Errno::PERM)),
        };
        let done = match prepare(&caller, call) {
            Err(errno) => refuse(errno),
            Ok(deed) => match self.judged(call, &caller, &deed, judge, &mut turn, pass) {
                Judgement::Allow => {
                    self.remember(&deed);
                    if may_block(&deed.act) {
                        pass(&mut turn);
                    }
                    perform(deed.act, &self.blocked, &self.listener, call.id, &caller)
                }
                Judgement::Deny(errno) => Done::Outcome(Outcome::Errno(errno)),
                Judgement::Withdrawn => Done::Outcome(Outcome::Interrupted),
            },
        };
        self.answer(call, done);
    }

    /// The strictest verdict on all that a call wants.
    fn judged<'s>(
        &'s self,
        call: &Call,
        caller: &Caller,
        deed: &Deed,
        judge: &dyn Judge,
        turn: &mut Turn<'s>,
        pass: &dyn Fn(&mut Turn<'s>),
    ) -> Judgement {
        if deed.wants.is_empty() || self.may_listen(deed) {
            return Judgement::Allow;
        }
        let program = program_of(caller.tid());
        for want in &deed.wants {
            let request = request(program.clone(), want);
            let verdict = judge.known(&request).unwrap_or_else(|| {
                pass(turn);
                let who = Who::of(caller.tid());
                let state = || state(&self.listener, call.id, caller.tid());
                judge.decide(&Question { who: &who, request: &request, state: &state })
            });
            if verdict != Judgement::Allow {
                return verdict;
            }
        }
        // What was read of /proc was the caller's only if it still waits.
        if self.listener.is_waiting(call.id) { Judgement::Allow } else { Judgement::Withdrawn }
    }

    /// Whether a socket is to listen that was allowed to bind.
    fn may_listen(&self, deed: &Deed) -> bool {
        let Act::Listen { fd, .. } = &deed.act else { return false };
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        cookie(fd).is_some_and(|cookie| bound.all.contains(&cookie))
    }

    fn remember(&self, deed: &Deed) {
        if let (Act::Bind { fd, .. }, Some(want)) = (&deed.act, deed.wants.first())
            && want.direction == Direction::In
            && let Some(cookie) = cookie(fd)
        {
            self.bound.lock().unwrap_or_else(PoisonError::into_inner).add(cookie);
        }
    }

    /// A call that vanished meanwhile needs no answer; one that the kernel does not take is refused.
    fn answer(&self, call: &Call, done: Done) {
        let answered = match done {
            Done::Outcome(outcome) => self.listener.answer(call.id, outcome),
            Done::Descriptor(fd, close) => give(&self.listener, call.id, &fd, close),
            Done::Gone => Ok(false),
        };
        if let Err(error) = answered {
            let errno = error.raw_os_error().unwrap_or_else(|| Errno::PERM.raw_os_error());
            let _ = self.listener.answer(call.id, Outcome::Errno(errno));
        }
    }
}

fn give(listener: &Listener, id: u64, fd: &OwnedFd, close: bool) -> Result<bool> {
    use std::os::fd::AsFd;
    listener.answer_with(id, fd.as_fd(), close)
}

/// Whether a call may wait for a network or a reader.
fn may_block(act: &Act) -> bool {
    matches!(act, Act::Connect { .. } | Act::Send { .. } | Act::SendMany { .. })
}

fn program_of(tid: i32) -> Program {
    let path = std::fs::read_link(format!("/proc/{tid}/exe"));
    let path = path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    Program { path, sha256: None }
}

fn request(program: Program, want: &Want) -> Request {
    let Want { direction, protocol, target } = want.clone();
    Request { program, direction, protocol, target }
}

/// A umask of this thread's own, which bind(2) sets to each caller's.
fn own_umask() {
    // Where it is refused, files are made with the supervisor's umask.
    let _ = netloom_sys::seccomp::perform::own_file_attributes();
}
