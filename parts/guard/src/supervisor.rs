//! The supervisor: threads that receive calls, judge them, make them, and answer.
//!
//! While a thread is busy with what takes long, another one waits for the next call ([`crate::turn`]), so that no program
//! waits for another's question, connection or memory. What may take long (asking, connecting, sending) is done by a
//! bounded number of threads; more of it waits in a queue, which costs two descriptors each. Any failure inside is a
//! denial.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use netloom_policy::{Direction, Port, Program};
use netloom_sys::seccomp::launch::{Place, launch};
use netloom_sys::seccomp::perform::Interrupter;
use netloom_sys::seccomp::{Call, Caller, Callers, Listener, Outcome, Sight};
use netloom_sys::{Failure, Result};
use rustix::io::Errno;

use crate::accept::{Accepts, Around, Gate, listens};
use crate::calls::{self, Kind, kind};
use crate::job::{Job, request};
use crate::judge::{Judge, Judgement, Question, State};
use crate::names::home::{Files, Home};
use crate::names::{Names, PendingCall};
use crate::peers;
use crate::perform::{Blocked, Desk, Done, state};
use crate::ports::{Gained, Ports};
use crate::prepare::{Act, Kept, Operation, Prepared, Want, listens_at, prepare};
use crate::socket::Socket;
use crate::turn::{Ticket, Turn};
use crate::who::Who;

/// Starts a program under guard.
///
/// # Errors
/// The program cannot be started, or the kernel lacks what a supervisor needs.
pub fn start(command: Command, place: Place) -> Result<(Child, Supervisor)> {
    start_by(command, place, Gate::default())
}

/// Starts a program whose listeners are kept from others by this gate.
///
/// # Errors
/// As [`start`].
pub fn start_by(command: Command, place: Place, gate: Gate) -> Result<(Child, Supervisor)> {
    let filter = calls::filter(place.bars_others(), gate.watches());
    let launched = launch(command, filter, place)?;
    let (files, home) = (Files::read(), Home::default());
    let supervisor = Supervisor::at(launched.listener, Sight::here()?, &files, home, gate);
    Ok((launched.child, supervisor))
}

/// Answers the calls of programs under one filter.
#[derive(Debug)]
pub struct Supervisor {
    listener: Listener,
    callers: Callers,
    /// The files of the place where the program runs.
    sight: Sight,
    kept: Kept,
    turn: Turn,
    /// All threads that receive, for the end.
    threads: Mutex<Vec<Interrupter>>,
    /// One of them has ended.
    left: Condvar,
    slow: Mutex<Slow>,
    blocked: Blocked,
    ports: Ports,
    /// Held while a socket is bound or begins to listen, where its peers matter.
    binding: Mutex<()>,
    accepts: Accepts,
    names: Names,
    ended: AtomicBool,
}

/// Most threads; a program whose memory cannot be read at once holds one for each of its calls.
const MOST_THREADS: usize = 512;
/// Most threads that ask, connect or send; the others are left for what is quick.
const MOST_SLOW: usize = 256;

/// What may take long.
#[derive(Debug, Default)]
struct Slow {
    /// Threads that do it.
    busy: usize,
    /// What waits for one of them.
    queue: VecDeque<Job>,
}

/// What all threads share.
struct Shared<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    judge: &'s dyn Judge,
    failed: &'s Mutex<Option<netloom_sys::Error>>,
}

impl Clone for Shared<'_, '_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for Shared<'_, '_> {}

/// A thread's place, for one call.
#[derive(Clone, Copy)]
struct WorkerSlot<'s, 'e> {
    shared: Shared<'s, 'e>,
    ticket: Ticket,
}

impl Supervisor {
    /// A supervisor of those who have the filter of `listener`, in a place with these files, names and network.
    pub(crate) fn at(
        listener: Listener,
        sight: Sight,
        files: &Files,
        home: Home,
        gate: Gate,
    ) -> Supervisor {
        Supervisor {
            listener,
            callers: Callers::default(),
            sight,
            kept: Kept::default(),
            turn: Turn::default(),
            threads: Mutex::default(),
            left: Condvar::new(),
            slow: Mutex::default(),
            blocked: Blocked::default(),
            ports: Ports::default(),
            binding: Mutex::default(),
            accepts: Accepts::of(gate),
            names: Names::of(files, home),
            ended: AtomicBool::new(false),
        }
    }

    /// Answers calls until no process has the filter any more.
    ///
    /// # Errors
    /// The kernel refuses to hand out calls, or gives no thread; all further calls fail then.
    pub fn serve(&self, judge: &dyn Judge) -> Result<()> {
        more_descriptors();
        self.listener.wake_synchronously();
        self.accepts.open()?;
        judge.follow_paths(&|path| self.sight.follow(path));
        self.kept.note(&judge.kept_paths(), &self.sight);
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            let shared = Shared { scope, judge, failed: &failed };
            if let Err(source) = self.employ(shared) {
                *lock(&failed) = Some(Failure::new("guard", "start a thread of", source).into());
                return;
            }
            if self.accepts.watches() {
                let attend = || self.accepts.attend(self.around(judge), &self.ended);
                let builder = std::thread::Builder::new().name("guard".into());
                if let Err(source) = builder.stack_size(256 << 10).spawn_scoped(scope, attend) {
                    // A waiting caller would never be attended to: the listener is closed, and all calls fail.
                    *lock(&failed) =
                        Some(Failure::new("guard", "start a thread of", source).into());
                    self.ended.store(true, Ordering::SeqCst);
                }
            }
            let attend = || self.names.attend(judge);
            let builder = std::thread::Builder::new().name("guard-names".into());
            if let Err(source) = builder.stack_size(256 << 10).spawn_scoped(scope, attend) {
                // A program that asks the resolver would never hear of it.
                *lock(&failed) = Some(Failure::new("guard", "start a thread of", source).into());
                self.ended.store(true, Ordering::SeqCst);
            }
            let mut seen = None;
            self.blocked
                .watch(&self.listener, &self.ended, || self.look_for_long(shared, &mut seen));
            self.accepts.ring();
            self.names.end();
            self.dismiss();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn around<'a>(&'a self, judge: &'a dyn Judge) -> Around<'a> {
        Around { listener: &self.listener, blocked: &self.blocked, sight: &self.sight, judge }
    }

    /// Starts a thread, which takes its turn.
    fn employ<'s>(&'s self, shared: Shared<'s, '_>) -> std::io::Result<()> {
        // The default of 2 MiB would be 1 GiB of address space for all of them.
        let builder = std::thread::Builder::new().name("guard".into()).stack_size(256 << 10);
        builder.spawn_scoped(shared.scope, move || self.work(shared)).map(drop)
    }

    /// A thread's life: waits for a call, and answers it.
    fn work<'s>(&'s self, shared: Shared<'s, '_>) {
        own_umask();
        let this = Interrupter::here();
        lock(&self.threads).push(this);
        while self.turn.wait() && self.answer_some(shared) {}
        lock(&self.threads).retain(|thread| *thread != this);
        self.left.notify_all();
    }

    /// Answers calls for as long as this thread has the turn; false at the end.
    fn answer_some<'s>(&'s self, shared: Shared<'s, '_>) -> bool {
        loop {
            let call = match self.listener.next(&self.ended) {
                Ok(Some(call)) => call,
                Ok(None) => return false,
                Err(error) => {
                    *lock(shared.failed) = Some(error);
                    self.ended.store(true, Ordering::SeqCst);
                    return false;
                }
            };
            let ticket = self.turn.received();
            self.handle(call, WorkerSlot { shared, ticket }, false);
            if !self.turn.keep(ticket) {
                return true;
            }
        }
    }

    /// Has another thread wait for calls from now on, if this one does for its call.
    fn pass<'s>(&'s self, post: WorkerSlot<'s, '_>) {
        if self.turn.pass(post.ticket) && lock(&self.threads).len() < MOST_THREADS {
            // Without another thread this one answers first, and comes back.
            let _ = self.employ(post.shared);
        }
    }

    /// Whether a thread is busy with a quick call; takes the turn from one that was at the last look, with the same.
    fn look_for_long<'s>(&'s self, shared: Shared<'s, '_>, seen: &mut Option<Ticket>) -> bool {
        let busy = self.turn.busy();
        if let Some(ticket) = busy.filter(|_| busy == *seen) {
            self.pass(WorkerSlot { shared, ticket });
        }
        *seen = busy;
        busy.is_some()
    }

    /// Ends the threads that wait for calls: older kernels do not wake them when there can be none any more.
    fn dismiss(&self) {
        self.turn.end();
        let mut threads = lock(&self.threads);
        while !threads.is_empty() {
            threads.iter().for_each(|thread| thread.interrupt());
            let waited = self.left.wait_timeout(threads, Duration::from_millis(1));
            threads = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reads a call, and answers it if that is quick.
    fn handle<'s>(&'s self, call: Call, post: WorkerSlot<'s, '_>, again: bool) {
        let caller = match self.callers.of(&self.listener, &call) {
            Ok(Some(caller)) => caller,
            Ok(None) => return,
            Err(_) => return self.answer(&call, refusal(Errno::PERM)),
        };
        let mut deed = match prepare(&caller, &call, &self.sight) {
            Ok(deed) => deed,
            // The thread that is known by this id has ended, and this is another one.
            Err(Errno::SRCH) if !again => {
                self.callers.forget(call.tid);
                return self.handle(call, post, true);
            }
            Err(errno) => return self.answer(&call, refusal(errno)),
        };
        self.callers.learn(&self.listener, &call, &caller, &self.sight);
        if kind(call.machine, call.number) == Some(Kind::Mounts) {
            self.callers.forget(call.tid);
        }
        let judge = post.shared.judge;
        if let Act::Accept(accepting) = deed.act {
            return self.accepts.begin(call, caller, accepting, self.around(judge));
        }
        if let Some(fd) = self.accepts.kept(&deed.act) {
            self.tell_kept(&call, &caller, fd, judge);
            drop(deed);
            return self.answer(&call, refusal(peers::KEPT.errno));
        }
        self.ports.tell_free(&mut deed);
        if deed.reaches_files() {
            deed.tell_paths(&judge.kept_paths(), &self.sight, &self.kept);
        }
        let asks = !deed.wants.is_empty() && !self.ports.may_listen(&deed);
        let listeners = if judge.limits_peers() { listeners(&deed) } else { vec![] };
        let path = match asks || !listeners.is_empty() {
            true => caller.program(&self.sight),
            false => String::new(),
        };
        let program = Program { path, sha256: None };
        let sure = caller.is_known() && deed.act.is_held();
        let gained = Gained::by(&deed);
        let mut job = Job { call, caller, deed, gained, listeners, program, sure };
        if !asks {
            job.deed.wants.clear();
        }
        self.names.tell_resolver(&job.deed.act, &mut job.deed.wants, &job.call);
        for want in &mut job.deed.wants {
            let program = &job.program.path;
            self.names.add_to(&mut want.target, want.direction, program, judge);
        }
        match job.known(judge) {
            Some(Judgement::Allow) if !may_block(&job.deed.act) => self.carry_out(job, judge),
            Some(Judgement::Allow) => {
                job.deed.wants.clear();
                self.take_time(job, post);
            }
            Some(Judgement::Deny(errno)) => self.answer(&job.call, denial(errno)),
            Some(Judgement::Withdrawn) | None => self.take_time(job, post),
        }
    }

    /// Does what may take long, unless as many threads do as may; then one of those does it later.
    fn take_time<'s>(&'s self, mut job: Job, post: WorkerSlot<'s, '_>) {
        let asks = !job.deed.wants.is_empty();
        if asks || job.deed.waits {
            self.pass(post);
        }
        let mut slow = lock(&self.slow);
        let is_full = slow.busy >= MOST_SLOW;
        // In a question or in the queue time passes: the thread's number may be another's
        // afterwards.
        job.sure &= !asks && !is_full;
        if is_full {
            slow.queue.push_back(job);
            return;
        }
        slow.busy += 1;
        drop(slow);
        let mut next = Some(job);
        while let Some(job) = next {
            self.settle(job, post.shared.judge);
            let mut slow = lock(&self.slow);
            next = slow.queue.pop_front();
            if next.is_none() {
                slow.busy -= 1;
                return;
            }
            drop(slow);
            self.pass(post);
        }
    }

    /// Judges a call, asking if need be, and makes it.
    fn settle(&self, mut job: Job, judge: &dyn Judge) {
        match job.judged(&self.listener, judge) {
            Judgement::Allow => self.carry_out(job, judge),
            Judgement::Deny(errno) => self.answer(&job.call, denial(errno)),
            Judgement::Withdrawn => self.withdraw(&job),
        }
    }

    /// Nobody waits for a verdict any more: the thread takes its signal, and makes its call again if that restarts it.
    fn withdraw(&self, job: &Job) {
        match state(&self.listener, job.call.id, job.caller.tid()) {
            State::Gone => {}
            State::Signalled => self.answer(&job.call, Done::Outcome(Outcome::Interrupted)),
            // Without a signal the program would see the kernel's own number for it.
            State::Waiting => self.answer(&job.call, refusal(Errno::ACCESS)),
        }
    }

    /// Makes an allowed call.
    fn carry_out(&self, job: Job, judge: &dyn Judge) {
        // Facts read of /proc and of memory by the thread's number are the caller's only if it still waits.
        if !job.sure && !self.listener.is_waiting(job.call.id) {
            return;
        }
        let _turn = match self.limit(&job, judge) {
            Ok(turn) => turn,
            Err(errno) => return self.answer(&job.call, refusal(errno)),
        };
        let Job { call, caller, program, deed, gained, .. } = job;
        let (blocked, listener) = (&self.blocked, &self.listener);
        let asked = PendingCall { call: &call, caller: &caller, program: &program, listener };
        let act = match self.names.lead(deed.act, &asked) {
            Ok(act) => act,
            Err(errno) => return self.answer(&call, refusal(errno)),
        };
        let done = Desk { blocked, listener, id: call.id, caller: &caller }.perform(act);
        if let Done::Outcome(Outcome::Value(_)) = &done {
            self.ports.add(gained);
        }
        self.answer(&call, done);
    }

    /// Keeps all but its peers from a socket that is about to be bound or to listen. The returned guard is held until
    /// it is: meanwhile no socket gets another address.
    fn limit(&self, job: &Job, judge: &dyn Judge) -> Prepared<Option<MutexGuard<'_, ()>>> {
        let act = &job.deed.act;
        let Some(fd) = peers::socket_of(act).filter(|_| judge.limits_peers()) else {
            return Ok(None);
        };
        let turn = is_ip(fd).then(|| lock(&self.binding));
        if let Act::Listen { .. } = act
            && !is_at(fd, job.listeners.first())
        {
            // Another thread has bound it since it was judged.
            return Err(Errno::INVAL);
        }
        for want in &job.listeners {
            job.question(&self.listener, &request(&job.program, want), |question| {
                let limited = self.accepts.limit(act, judge.peers(question));
                limited.map_err(|peers::Unlimited { why, errno }| {
                    judge.unlimited(question, why, errno.raw_os_error());
                    errno
                })
            })?;
        }
        // What was read of the program by its number is the caller's only if its call still waits.
        if !job.listeners.is_empty() && !self.listener.is_waiting(job.call.id) {
            return Err(Errno::PERM);
        }
        Ok(turn)
    }

    /// Tells of a listener that is not handed to another process.
    fn tell_kept(&self, call: &Call, caller: &Caller, fd: &OwnedFd, judge: &dyn Judge) {
        if let Some(want) = listens(fd).then(|| listens_at(fd)).flatten() {
            let program = Program { path: caller.program(&self.sight), sha256: None };
            let request = request(&program, &want);
            let who = Who::of(caller.tid(), program);
            let state = || state(&self.listener, call.id, caller.tid());
            let question = Question { who: &who, request: &request, state: &state };
            judge.unlimited(&question, peers::KEPT.why, peers::KEPT.errno.raw_os_error());
        }
    }

    fn answer(&self, call: &Call, done: Done) {
        crate::perform::answer(&self.listener, call.id, done);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refusal(errno: Errno) -> Done {
    denial(errno.raw_os_error())
}

fn denial(errno: i32) -> Done {
    Done::Outcome(Outcome::Errno(errno))
}

/// Listeners that a call asks for.
fn listeners(deed: &Operation) -> Vec<Want> {
    deed.wants.iter().filter(|want| want.direction == Direction::In).cloned().collect()
}

/// Whether a socket that is to listen is where it was judged. Whether the kernel chose its port no longer shows.
fn is_at(fd: &OwnedFd, judged: Option<&Want>) -> bool {
    let mut now = listens_at(fd);
    if let (Some(now), Some(Port::Free(_))) = (&mut now, judged.map(|want| want.target.port())) {
        now.target.set_free();
    }
    now.as_ref() == judged
}

fn is_ip(fd: &OwnedFd) -> bool {
    use std::os::fd::AsFd;
    Socket::of(fd.as_fd()).is_ok_and(Socket::is_ip)
}

/// Calls that wait for an answer hold descriptors: this process's limit is raised as far as it may be.
fn more_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer, calls beyond them fail.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Whether a call may wait for a network or a reader.
fn may_block(act: &Act) -> bool {
    matches!(act, Act::Connect { .. } | Act::Send { .. } | Act::SendMany { .. })
}

/// A umask of this thread's own, which bind(2) sets to each caller's.
fn own_umask() {
    // Where it is refused, files are made with the supervisor's umask.
    let _ = netloom_sys::seccomp::perform::own_file_attributes();
}
