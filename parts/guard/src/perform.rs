//! Makes an allowed call on the duplicate, for as long as the caller's own would take.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_sys::process::Status;
use netloom_sys::seccomp::perform::{self, Interrupter, Message};
use netloom_sys::seccomp::{Caller, Listener, Outcome};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketType, shutdown, sockopt};

use crate::judge::State;
use crate::prepare::{Act, Outgoing, Place, gather, place};

/// How often blocked calls are checked: the longest delay of a signal, and of giving up a killed program's connection.
const LOOK: Duration = Duration::from_millis(10);
/// The same while no call blocks.
pub(crate) const LOOK_IDLE: Duration = Duration::from_millis(50);

/// What becomes of a call.
pub(crate) enum Done {
    /// The program gets this.
    Outcome(Outcome),
    /// The program gets a descriptor of this, closed on exec or not.
    Descriptor(OwnedFd, bool),
    /// There is no caller left.
    Gone,
}

impl Done {
    /// Fails with an error.
    pub(crate) fn failed(errno: Errno) -> Done {
        Done::Outcome(Outcome::Errno(errno.raw_os_error()))
    }

    fn of(result: std::io::Result<i64>) -> Done {
        Done::Outcome(match result {
            Ok(value) => Outcome::Value(value),
            Err(error) => Outcome::Errno(error.raw_os_error().unwrap_or(libc_eio())),
        })
    }
}

fn libc_eio() -> i32 {
    Errno::IO.raw_os_error()
}

/// Calls that block now, by thread.
#[derive(Debug, Default)]
pub(crate) struct Blocked(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    interrupter: Interrupter,
    /// The call and its thread; `None` if it is to end soon in any case.
    of: Option<(u64, i32)>,
}

impl Blocked {
    /// Interrupts calls whose caller is gone or signalled, until no process has the filter any more. Each round also calls
    /// `looks`, which returns whether the next round is to come soon.
    pub(crate) fn watch(
        &self,
        listener: &Listener,
        ended: &AtomicBool,
        mut looks: impl FnMut() -> bool,
    ) {
        while !ended.load(Ordering::SeqCst) {
            let soon = looks() || !self.lock().is_empty();
            let span = if soon { LOOK } else { LOOK_IDLE };
            if listener.is_unused(span) {
                ended.store(true, Ordering::SeqCst);
            }
            // /proc is read without the lock, so that threads can begin calls meanwhile. A call
            // that is new by then is interrupted in vain, and made again.
            let mut waiting: Vec<(u64, i32)> =
                self.lock().iter().filter_map(|one| one.of).collect();
            waiting.retain(|(id, tid)| state(listener, *id, *tid) == State::Waiting);
            let entries = self.lock();
            let late = entries.iter().filter(|one| one.of.is_none_or(|of| !waiting.contains(&of)));
            late.for_each(|one| one.interrupter.interrupt());
        }
    }

    /// Repeats a call that was interrupted, until it ends or its caller has something else to do.
    fn run(
        &self,
        listener: &Listener,
        (id, tid): (u64, i32),
        fd: &OwnedFd,
        mut call: impl FnMut() -> std::io::Result<i64>,
    ) -> Done {
        let interrupter = Interrupter::here();
        self.lock().push(Entry { interrupter, of: Some((id, tid)) });
        let done = loop {
            // A blocking connect(2) that is made again after EINTR waits on for the same handshake
            // (net/ipv4/af_inet.c, `SS_CONNECTING`).
            match call() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    match state(listener, id, tid) {
                        State::Waiting => {}
                        State::Gone => break Done::Gone,
                        State::Signalled => {
                            break Done::Outcome(interrupted(fd, sockopt::Timeout::Send));
                        }
                    }
                }
                ended => break Done::of(ended),
            }
        };
        self.leave(interrupter);
        done
    }

    /// Makes a call that does not block, unless somebody else is quicker: then it is interrupted soon.
    pub(crate) fn briefly<T>(&self, call: impl FnOnce() -> T) -> T {
        let interrupter = Interrupter::here();
        self.lock().push(Entry { interrupter, of: None });
        let done = call();
        self.leave(interrupter);
        done
    }

    fn leave(&self, interrupter: Interrupter) {
        self.lock().retain(|entry| entry.interrupter != interrupter);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Answers a call. One that vanished meanwhile needs no answer; one that the kernel does not take is refused.
pub(crate) fn answer(listener: &Listener, id: u64, done: Done) {
    let answered = match done {
        Done::Outcome(outcome) => listener.answer(id, outcome),
        Done::Descriptor(fd, close) => listener.answer_with(id, fd.as_fd(), close),
        Done::Gone => Ok(false),
    };
    if let Err(error) = answered {
        let errno = error.raw_os_error().unwrap_or_else(|| Errno::PERM.raw_os_error());
        let _ = listener.answer(id, Outcome::Errno(errno));
    }
}

/// What became of a call: by the listener, and by the thread's pending signals (proc_pid_status(5)) and its process's
/// stop.
pub(crate) fn state(listener: &Listener, id: u64, tid: i32) -> State {
    if !listener.is_waiting(id) {
        return State::Gone;
    }
    let status = Status::of(tid).unwrap_or_default();
    if signalled(&status) || stops(&status, tid) { State::Signalled } else { State::Waiting }
}

/// Whether a signal waits that this thread will take. One for the whole process may be taken by another thread.
pub(crate) fn signalled(status: &Status) -> bool {
    // The kernel gives a signal for the process to any thread that does not block it (signal(7)).
    let alone = status.field("Threads") == Some("1");
    mask(status, "SigPnd") & !mask(status, "SigBlk") != 0 || (alone && shared(status))
}

/// Whether a signal waits for the whole process that this thread may take.
pub(crate) fn shared(status: &Status) -> bool {
    mask(status, "ShdPnd") & !mask(status, "SigBlk") != 0
}

/// Whether the thread's process is being stopped: another thread has stopped already, and this one is to when its call
/// ends. Until then no process that waits for it hears of a stop.
pub(crate) fn stops(status: &Status, tid: i32) -> bool {
    if status.field("Threads") == Some("1") {
        return false;
    }
    let tasks = std::fs::read_dir(format!("/proc/{tid}/task")).into_iter().flatten().flatten();
    let others = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    let other = others.into_iter().find(|other: &i32| *other != tid);
    let other = other.and_then(|other| Status::of(format_args!("{tid}/task/{other}")));
    other.is_some_and(|other| other.field("State").is_some_and(|state| state.starts_with('T')))
}

fn mask(status: &Status, key: &str) -> u64 {
    status.field(key).and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0)
}

/// A signal ends a call for good where the socket has a time limit for it, and restarts it elsewhere (signal(7)).
pub(crate) fn interrupted(fd: &OwnedFd, limit: sockopt::Timeout) -> Outcome {
    match sockopt::socket_timeout(fd, limit) {
        Ok(None) => Outcome::Interrupted,
        _ => Outcome::Errno(Errno::INTR.raw_os_error()),
    }
}

/// A call that waits, and what is needed to make it.
pub(crate) struct Desk<'d> {
    pub(crate) blocked: &'d Blocked,
    pub(crate) listener: &'d Listener,
    pub(crate) id: u64,
    pub(crate) caller: &'d Caller,
}

impl Desk<'_> {
    /// Makes the call.
    pub(crate) fn perform(&self, act: Act) -> Done {
        match act {
            Act::Continue => Done::Outcome(Outcome::Continue),
            Act::Connect { fd, place, probe } => self.connect(&fd, &place, probe),
            Act::Bind { fd, place } => Done::of(place::bind(&fd, &place, self.caller).map(|()| 0)),
            Act::Listen { fd, backlog, port } => {
                // A client of a UNIX socket sees the listener.
                let listen = || place::listen(&fd, backlog, port).map(|()| 0);
                Done::of(self.rightly(true, listen))
            }
            Act::Send { fd, message, flags } => {
                let done = self.send(&fd, message, flags);
                self.complain(&done, &fd, flags);
                done
            }
            Act::SendMany { fd, messages, flags } => self.send_many(&fd, messages, flags),
            Act::SetOption { fd, level, option, value } => {
                let set = || perform::set_option(fd.as_fd(), level, option, &value).map(|()| 0);
                Done::of(self.rightly(true, set))
            }
            Act::Create { family, kind, number } => {
                place::as_caller(self.caller, || create(family, kind, number))
                    .unwrap_or_else(Done::failed)
            }
            // By [`crate::accept`].
            Act::Accept(_) => Done::failed(Errno::NOSYS),
        }
    }

    fn blocking(&self, fd: &OwnedFd, call: impl FnMut() -> std::io::Result<i64>) -> Done {
        self.blocked.run(self.listener, (self.id, self.caller.tid()), fd, call)
    }

    /// With the caller's rights where they count.
    fn rightly(
        &self,
        count: bool,
        call: impl FnOnce() -> std::io::Result<i64>,
    ) -> std::io::Result<i64> {
        if count { place::as_caller(self.caller, call)? } else { call() }
    }

    fn connect(&self, fd: &OwnedFd, place: &Place, probe: bool) -> Done {
        let address = place.address();
        let connect = || perform::connect(fd.as_fd(), &address).map(|()| 0);
        let done = self.blocking(fd, || self.rightly(place.sees_rights(), connect));
        if probe && shutdown(fd, Shutdown::Write).is_err() {
            // Without that the socket could send to peers that nobody was asked about.
            return Done::Outcome(Outcome::Errno(Errno::ACCESS.raw_os_error()));
        }
        done
    }

    /// Sends a message; a stream's is copied piece by piece, and sent as long as its reader takes it.
    fn send(&self, fd: &OwnedFd, outgoing: Outgoing, flags: i32) -> Done {
        let (mut rest, signature) = (outgoing.rest.clone(), outgoing.signature.clone());
        let mut ready = ready(outgoing);
        let mut total = 0;
        loop {
            let length = ready.message.data.len();
            match self.blocking(fd, || self.rightly(ready.sees_rights, || sent(fd, &ready, flags)))
            {
                Done::Outcome(Outcome::Value(sent)) => {
                    total += sent;
                    if usize::try_from(sent).ok() != Some(length) || rest.is_empty() {
                        break;
                    }
                }
                failed if total == 0 => return failed,
                _ => break,
            }
            match gather(self.caller, &mut rest, false) {
                // Descriptors and other control messages went with the first part, and must not go
                // twice.
                Ok(data) => {
                    let control = signature.clone();
                    ready.message = Message { data, control, address: vec![] };
                }
                Err(_) => break,
            }
        }
        Done::Outcome(Outcome::Value(total))
    }

    fn send_many(&self, fd: &OwnedFd, messages: Vec<(Outgoing, u64)>, flags: i32) -> Done {
        let mut count = 0;
        for (message, length_at) in messages {
            let done = self.send(fd, message, flags);
            let Done::Outcome(Outcome::Value(length)) = done else {
                self.complain(&done, fd, flags);
                return if count == 0 { done } else { Done::Outcome(Outcome::Value(count)) };
            };
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            // It was sent, as by the kernel, which tells of those before it.
            if self.caller.write(length_at, &length.to_ne_bytes()).is_err() {
                return if count == 0 {
                    Done::failed(Errno::FAULT)
                } else {
                    Done::Outcome(Outcome::Value(count))
                };
            }
            count += 1;
        }
        Done::Outcome(Outcome::Value(count))
    }

    /// A closed stream kills its writer by SIGPIPE unless it forbids that: the supervisor's own call never raises it.
    fn complain(&self, done: &Done, fd: &OwnedFd, flags: i32) {
        // MSG_NOSIGNAL.
        const NO_SIGNAL: i32 = 0x4000;
        let broken =
            matches!(done, Done::Outcome(Outcome::Errno(e)) if *e == Errno::PIPE.raw_os_error());
        let stream = sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::STREAM);
        if broken && stream && flags & NO_SIGNAL == 0 {
            // A thread that is gone needs no signal.
            let _ = rustix::process::pidfd_send_signal(self.caller, rustix::process::Signal::PIPE);
        }
    }
}

/// A message with its address, and the descriptors that it names.
struct Ready {
    message: Message,
    sees_rights: bool,
    _held: (Option<Place>, Vec<OwnedFd>),
}

fn ready(outgoing: Outgoing) -> Ready {
    let Outgoing { mut message, place, descriptors, sees_rights, .. } = outgoing;
    message.address = place.as_ref().map(|to| to.address().into_owned()).unwrap_or_default();
    Ready { message, sees_rights, _held: (place, descriptors) }
}

fn sent(fd: &OwnedFd, message: &Ready, flags: i32) -> std::io::Result<i64> {
    let sent = perform::send(fd.as_fd(), &message.message, flags)?;
    Ok(i64::try_from(sent).unwrap_or(i64::MAX))
}

fn create(family: u32, kind: u32, number: u32) -> Done {
    use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
    let invalid = || Done::Outcome(Outcome::Errno(Errno::INVAL.raw_os_error()));
    let Ok(family) = u16::try_from(family) else { return invalid() };
    let flags = SocketFlags::from_bits_retain(kind & !0xF);
    let protocol = std::num::NonZeroU32::new(number).map(Protocol::from_raw);
    let (family, kind) = (AddressFamily::from_raw(family), SocketType::from_raw(kind & 0xF));
    // The supervisor's copy is always closed on exec; the flag that was asked for is set on the
    // program's.
    let close_on_exec = flags.contains(SocketFlags::CLOEXEC);
    match socket_with(family, kind, flags | SocketFlags::CLOEXEC, protocol) {
        Ok(fd) => Done::Descriptor(fd, close_on_exec),
        Err(error) => Done::Outcome(Outcome::Errno(error.raw_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(threads: u32, thread: u64, process: u64, blocked: u64) -> Status {
        let text = format!(
            "Name:\tx\nThreads:\t{threads}\nSigPnd:\t{thread:016x}\nShdPnd:\t{process:016x}\nSigBlk:\t{blocked:016x}\n"
        );
        Status::from(text)
    }

    #[test]
    fn a_signal_that_is_blocked_does_not_wait_for_the_call() {
        assert!(!signalled(&status(1, 0, 0, 0)));
        assert!(signalled(&status(4, 2, 0, 0)));
        assert!(!signalled(&status(4, 2, 0, 2)));
        assert!(signalled(&status(1, 0, 2, 0)));
    }

    #[test]
    fn a_signal_of_the_process_may_be_another_threads() {
        assert!(!signalled(&status(2, 0, 2, 0)));
    }
}
