//! One call of a child, handled as a supervisor handles a program's: what a kernel claims to do is not always what it does.
//!
//! The child calls, a signal arrives for it, its memory is read, its descriptor duplicated, and it gets another one for an
//! answer. The process that rehearses must have one thread.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdGetfdFlags, Signal, WaitOptions, kill_process, waitpid};

use super::Caller;
use super::listener::{Call, Listener, install};
use super::program::{Answer, Filter, Machine, Rule};
use crate::process::{self, Forked, Namespaces};
use crate::{Failure, Result};

/// What the child's call points to.
const WORDS: &[u8; 9] = b"rehearsal";
/// How long the child may take to call.
const BOUND: Duration = Duration::from_secs(30);
/// How long a call is looked at after its signal.
const LOOKS: u32 = 5;
const LOOK: Duration = Duration::from_millis(1);

/// Rehearses; `own_user` puts the child into a user namespace of its own.
///
/// # Errors
/// What did not work.
pub(super) fn rehearse(own_user: bool) -> Result<()> {
    let (told, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed("prepare"))?;
    // SAFETY: the caller's process has one thread.
    match unsafe { process::fork(Namespaces::NONE, None) }? {
        Forked::Child => process::exit_now(call(own_user, &tell)),
        Forked::Parent(child) => {
            drop(tell);
            let handled = handle(child, &told);
            if handled.is_err() {
                // It has ended, or waits for an answer.
                let _ = kill_process(child, Signal::KILL);
            }
            let ended = waitpid(Some(child), WaitOptions::empty()).map_err(failed("wait for"))?;
            handled?;
            match ended.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(()),
                _ => Err(failure("answer", "its call did not return the descriptor")),
            }
        }
    }
}

/// The child's part; its exit code.
fn call(own_user: bool, tell: &OwnedFd) -> i32 {
    if own_user && super::launch::enter_user_as_oneself().is_err() {
        return 2;
    }
    let number = u32::try_from(libc::SYS_connect).unwrap_or_default();
    let rules = [Rule { number, clauses: &[], otherwise: Answer::Notify }];
    let filter = Filter::compile(&[(Machine::OWN, &rules)]);
    // The handler of interruptions does nothing, as is wanted here.
    super::perform::Interrupter::here();
    if rustix::thread::set_no_new_privs(true).is_err() {
        return 3;
    }
    // Memory belongs to the user namespace in which its program was executed. Here that is the caller's, so that
    // nobody but root would see it otherwise.
    let _ = process::show();
    let Ok((listener, waits)) = install(&filter) else { return 4 };
    let listener = OwnedFd::from(listener);
    let mut message = [0; 5];
    message[..4].copy_from_slice(&listener.as_raw_fd().to_ne_bytes());
    message[4] = u8::from(waits);
    if rustix::io::write(tell, &message).is_err() {
        return 5;
    }
    // SAFETY: the supervisor answers; were the kernel to make the call, it would read 9 bytes, which WORDS has.
    let result =
        unsafe { libc::syscall(libc::SYS_connect, tell.as_raw_fd(), WORDS.as_ptr(), WORDS.len()) };
    i32::from(result < 0)
}

/// The supervisor's part.
fn handle(child: Pid, told: &OwnedFd) -> Result<()> {
    let mut message = [0; 5];
    let length = rustix::io::read(told, &mut message).map_err(failed("hear of"))?;
    if length != message.len() {
        return Err(failure("hear of", "it could not install a filter"));
    }
    let number = i32::from_ne_bytes([message[0], message[1], message[2], message[3]]);
    let pidfd = process::pidfd(child)?;
    let taken = rustix::process::pidfd_getfd(pidfd.as_fd(), number, PidfdGetfdFlags::empty());
    let listener = Listener::from(taken.map_err(failed("take the listener of"))?);
    if !listener.wait(BOUND) {
        return Err(failure("receive a call of", "there was none"));
    }
    let call = listener.receive()?;
    let call = call.ok_or_else(|| failure("receive a call of", "it ended"))?;
    if message[4] != 0 {
        signal(child, &listener, &call)?;
    }
    answer(&listener, &call)
}

/// A call that waits through signals waits through this one.
fn signal(child: Pid, listener: &Listener, call: &Call) -> Result<()> {
    kill_process(child, Signal::URG).map_err(failed("signal"))?;
    for _ in 0..LOOKS {
        if !listener.is_waiting(call.id) {
            return Err(failure("wait through a signal for", "its call was interrupted"));
        }
        process::wait_end(process::pidfd(child)?, LOOK);
    }
    Ok(())
}

fn answer(listener: &Listener, call: &Call) -> Result<()> {
    let caller = Caller::of(listener, call)?;
    let caller = caller.ok_or_else(|| failure("look at", "its call vanished"))?;
    if caller.bytes(call.arguments[1], WORDS.len())? != WORDS {
        return Err(failure("read memory of", "it was not what the call points to"));
    }
    let number = i32::try_from(call.arguments[0]).unwrap_or(-1);
    let fd = caller.descriptor(number)?;
    if listener.answer_with(call.id, fd.as_fd(), true)? {
        Ok(())
    } else {
        Err(failure("give a descriptor to", "its call vanished"))
    }
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    operation: &'static str,
) -> impl FnOnce(E) -> crate::Error {
    move |source| Failure::new("a guarded process", operation, source).into()
}

fn failure(operation: &'static str, reason: &'static str) -> crate::Error {
    Failure::new("a guarded process", operation, reason).into()
}
