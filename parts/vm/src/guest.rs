//! Process 1 of a User-mode Linux guest that has the node's files as its root.
//!
//! It lays a layer of memory over those files, so that the guest can write; sets the plan's interfaces, addresses and
//! routes; runs `setup` and `run`; keeps a shell on the console; and serves as the agent of the machine's process on the
//! serial line. On request it ends the guest's programs and powers the machine off.

mod agent;
mod mounts;
mod network;
mod programs;

use std::convert::Infallible;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use netloom_sys::process::{self, Exit, next_signal, timespec};
use netloom_sys::{describe, sysctl};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::system::RebootCommand;

use self::agent::Agent;
use self::programs::Programs;
use crate::Result;
use crate::error::failed;
use crate::spec::Spec;

pub use self::programs::become_shell;

/// The serial line to the machine's process.
const LINE: &str = "/dev/ttyS0";

/// How long programs may take to end.
const GRACE: Duration = Duration::from_millis(300);

/// How long the guest may sleep. User-mode Linux may fall asleep just after input has come, and then sleeps until its
/// next timer (arch/um/os-Linux/time.c: what comes before sigsuspend(2) does not end that).
const WAKE: Duration = Duration::from_millis(50);

/// How often conditions of `ready` are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Becomes the guest's process 1; `data` is the file that says what to do.
///
/// # Errors
/// The guest cannot be set up: its kernel panics when this returns, which ends the machine.
pub fn run(data: &Path) -> Result<Infallible> {
    // On a host it would mount over the user's files.
    if rustix::process::getpid() != Pid::INIT {
        return Err(crate::Error::Refused("only a guest's first process does this".to_owned()));
    }
    let text = fs::read(data).map_err(failed(data.display().to_string(), "read"))?;
    let spec: Spec = serde_json::from_slice(&text).map_err(failed("guest", "understand"))?;
    // Before any program runs, whose end it tells.
    let signals = process::catch(&[Signal::CHILD.as_raw(), Signal::INT.as_raw()])?;
    mounts::set_up(&spec)?;
    network::set_up(&spec.node)?;
    for (path, value) in &spec.node.sysctls {
        // This kernel may lack what the host's has.
        let _ = sysctl::set(path.trim_start_matches('-'), value);
    }
    let agent = Agent::open(line()?);
    let mut guest = Guest { programs: Programs::new(&spec), agent, signals, ending: None, spec };
    guest.serve()
}

/// A guest that runs.
struct Guest {
    spec: Spec,
    programs: Programs,
    agent: Agent,
    signals: OwnedFd,
    /// Until when programs may end.
    ending: Option<Instant>,
}

impl Guest {
    fn serve(&mut self) -> Result<Infallible> {
        self.agent.hello();
        self.programs.start();
        loop {
            self.tell_state();
            let until = self.next_time();
            self.wait(until);
            self.on_signals();
            if self.agent.serve(self.programs.env()) {
                self.begin_end();
            }
            self.programs.restart_due();
            if let Some(until) = self.ending
                && (Instant::now() >= until || !self.programs.run_any())
            {
                power_off();
            }
        }
    }

    fn next_time(&self) -> Option<Instant> {
        // Once ready, only sleep must be broken up now and then.
        let look = if self.agent.told_ready() { WAKE } else { LOOK };
        let look = Some(Instant::now() + look);
        [look, self.ending, self.programs.next_restart()].into_iter().flatten().min()
    }

    fn wait(&self, until: Option<Instant>) {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        self.agent.wanted(&mut fds);
        let timeout = until.map(|at| timespec(at.saturating_duration_since(Instant::now())));
        // Interrupted or refused: the loop looks at everything again.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    }

    fn on_signals(&mut self) {
        while let Some(signal) = next_signal(&self.signals) {
            // The keys of a power button, as User-mode Linux tells them.
            if signal == Signal::INT.as_raw() {
                self.begin_end();
            }
        }
        // All that ended: several ends may come as one signal.
        while let Ok(Some((pid, exit))) = process::reap() {
            if !self.programs.ended(pid, exit) {
                self.agent.ended(pid, exit);
            }
        }
    }

    fn begin_end(&mut self) {
        if self.ending.is_none() {
            self.ending = Some(Instant::now() + GRACE);
            self.programs.stop();
        }
    }

    fn tell_state(&mut self) {
        if self.agent.told_ready() {
            return;
        }
        let lacks = self.programs.lacks(&self.spec.node.ready).unwrap_or_default();
        self.agent.tell_state(&lacks);
    }
}

/// The serial line, for bytes of any value.
fn line() -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let line = rustix::fs::open(LINE, flags, Mode::empty()).map_err(failed(LINE, "open"))?;
    let mut mode = rustix::termios::tcgetattr(&line).map_err(failed(LINE, "read the mode of"))?;
    mode.make_raw();
    // A terminal would change bytes: CR to LF, Ctrl-C to a signal.
    rustix::termios::tcsetattr(&line, rustix::termios::OptionalActions::Now, &mode)
        .map_err(failed(LINE, "set the mode of"))?;
    Ok(line)
}

/// Ends the machine.
fn power_off() -> ! {
    rustix::fs::sync();
    // As process 1 of a kernel of its own it may.
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
    process::exit_now(1)
}

/// A line on the console.
fn tell(text: &str) {
    use std::io::Write;
    // Without a console there is nobody to tell.
    let _ = writeln!(std::io::stdout(), "netloom: {text}");
}

/// The words of an exit status.
fn ended_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited {code}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
    }
}

/// A failure that does not keep the guest from working.
fn tolerate<T>(done: Result<T>) {
    if let Err(e) = done {
        tell(&describe(&e));
    }
}
