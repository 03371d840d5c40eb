//! A program under guard, from its start to its end, as the caller's process sees it: terminal, signals, questions.
//!
//! The caller's process supervises; its deputy starts the program. Where questions may be asked, the program
//! has a terminal of its own. A killed supervisor ends the program by the deputy, and its calls fail from that moment.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netloom_control::envelope::{self, Received};
use netloom_sys::isolated_netns::{self, Maker};
use netloom_sys::seccomp::launch::Place;
use netloom_sys::seccomp::{Listener, Sight};
use netloom_sys::{Failure, disposition, process, terminal};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Signal;

use crate::accept::Gate;
use crate::deputy::{Deputy, Event, Notice, SOCKET, Startup};
use crate::desk::Desk;
use crate::error::{Error, Result};
use crate::judge::Judge;
use crate::names::home::{Files, Home};
use crate::screen::Screen;
use crate::supervisor::Supervisor;
use crate::tty::Tty;

/// How long the supervisor's threads may take to notice that nobody is left.
const LEAVE: Duration = Duration::from_secs(5);

/// The terminal of this session.
///
/// # Errors
/// There is none (ENXIO), or another program has it for itself (EBUSY).
pub fn terminal() -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open("/dev/tty", flags, Mode::empty())?)
}

/// A program that is about to be started.
#[derive(Debug)]
pub struct Guarded {
    program: String,
    socket: OwnedFd,
    /// Makes sockets of the program's network.
    maker: OwnedFd,
    gate: Gate,
    signals: OwnedFd,
    /// The caller's terminal, and this side of the program's.
    terminals: Option<(Tty, OwnedFd)>,
}

impl Guarded {
    /// Prepares to start `program` (its name in errors), which may only read what is `sealed`. Questions are asked on
    /// `terminal`, if there is one; `gate` keeps others than its peers from a listener. The process must have one thread:
    /// it is to be forked, and the child to [run](Deputy::run) the deputy.
    ///
    /// # Errors
    /// The kernel refuses a terminal, a socket or signals.
    pub fn prepare(
        program: &str,
        terminal: Option<OwnedFd>,
        place: Place,
        sealed: Vec<PathBuf>,
        gate: Gate,
    ) -> Result<(Guarded, Deputy)> {
        let fail = |operation: &'static str| {
            move |e: rustix::io::Errno| Error::from(Failure::new("guard", operation, e))
        };
        let (socket, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            // Keeps messages apart, as datagrams do, and shows the end of the other side, as
            // streams do.
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(fail("make a socket"))?;
        let (maker, makes) = isolated_netns::channel()?;
        let (terminals, inner) = match terminal {
            None => (None, None),
            Some(tty) => {
                let (ours, theirs) = terminal::pair()?;
                // A terminal works without a size, so an error does not stop the start.
                if let Ok(size) = rustix::termios::tcgetwinsize(&tty) {
                    let _ = rustix::termios::tcsetwinsize(&ours, size);
                }
                let outer = tty.try_clone();
                let outer = outer.map_err(|e| Failure::new("guard", "copy a terminal", e))?;
                (Some((Tty::take(tty), ours)), Some((outer, theirs)))
            }
        };
        let passed_on = process::FOR_PROGRAMS.iter().chain(&process::OF_KEYS);
        let mut caught: Vec<i32> = passed_on.map(|signal| signal.as_raw()).collect();
        // The program inherits signals that are ignored (nohup(1)): they are not to be passed on to
        // it.
        caught.retain(|number| !disposition::is_ignored(*number));
        caught.push(Signal::WINCH.as_raw());
        let signals = process::catch(&caught)?;
        // What outlives a killed deputy becomes a child of this process.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let place = Place { unkept: true, ..place };
        let deputy = Deputy { socket: theirs, maker: makes, place, gate, terminals: inner, sealed };
        Ok((
            Guarded { program: program.to_owned(), socket, maker, gate, signals, terminals },
            deputy,
        ))
    }

    /// Waits until the program runs; whether what was to be sealed is. The deputy must have been forked, and this process's copy of it dropped.
    ///
    /// # Errors
    /// The program cannot be started, or the kernel lacks what a supervisor needs.
    pub fn started(&mut self) -> Result<(Supervisor, bool)> {
        let program = self.program.clone();
        let (errno, words) = match envelope::receive(SOCKET, &self.socket)? {
            Received::Value(Event::Started(began), mut fds) => {
                // The deputy appends its terminal to the three descriptors that always come.
                let own = if began.own_terminal { fds.pop() } else { None };
                match <[OwnedFd; 3]>::try_from(fds) {
                    Ok(parts) => return self.begun(began, parts, own),
                    Err(_) => (None, "no listener came".to_owned()),
                }
            }
            Received::Value(Event::Refused(errno, words), _) => (errno, words),
            Received::Value(..) | Received::Malformed(_) | Received::Ended => {
                (None, "its deputy has ended".to_owned())
            }
        };
        let source = std::io::Error::from_raw_os_error(errno.unwrap_or(0));
        use rustix::io::Errno;
        let known = errno.map(Errno::from_raw_os_error);
        Err(match known {
            // seccomp(2): a filter of this thread has a listener already, and the kernel allows
            // one.
            Some(Errno::BUSY) => Error::Nested { program },
            Some(
                Errno::NOENT
                | Errno::ACCESS
                | Errno::NOEXEC
                | Errno::ISDIR
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::TOOBIG
                | Errno::TXTBSY,
            ) => Error::Program { program, source },
            _ => unsupported(words).into(),
        })
    }

    /// A program that has begun, with its listener, root and mounts, and this side of its terminal if it has one of its own.
    fn begun(
        &mut self,
        began: Startup,
        [listener, root, mounts]: [OwnedFd; 3],
        own: Option<OwnedFd>,
    ) -> Result<(Supervisor, bool)> {
        if let (Some((tty, inner)), Some(own)) = (&mut self.terminals, own) {
            *inner = own;
            tty.share();
        }
        let sight = Sight::of(root, mounts)?;
        Ok((self.supervisor(listener, sight, &began.files)?, began.sealed))
    }

    fn supervisor(&self, listener: OwnedFd, sight: Sight, files: &Files) -> Result<Supervisor> {
        let maker = self.maker.try_clone();
        let maker = maker.map_err(|e| Failure::new("guard", "copy a socket", e))?;
        let home = Home::by(Maker::of(maker));
        Ok(Supervisor::at(Listener::from(listener), sight, files, home, self.gate))
    }

    /// Supervises the program to its end; its exit status as a shell gives it. `timeout` is how long a question is
    /// shown; without it, until it is answered.
    ///
    /// # Errors
    /// The program's terminal cannot be used, or the kernel handed out no more calls: they all failed from then on.
    pub fn attend(
        self,
        supervisor: Supervisor,
        judge: Arc<dyn Judge>,
        desk: Arc<Desk>,
        timeout: Option<Duration>,
    ) -> Result<i32> {
        let (done, over) = std::sync::mpsc::channel();
        let serving = std::thread::Builder::new().name("guard".into()).spawn(move || {
            // A caller that has given up does not listen.
            let _ = done.send(supervisor.serve(judge.as_ref()));
        });
        serving.map_err(|e| Failure::new("thread of guard", "start", e))?;
        let Guarded { socket, signals, terminals, .. } = self;
        let (tty, inner) = terminals.unzip();
        let screen = match (&tty, inner) {
            (Some(tty), Some(inner)) => Some(
                Screen::new(tty, inner, Arc::clone(&desk), timeout)
                    .map_err(|e| Failure::new("terminal of the program", "read", e))?,
            ),
            _ => None,
        };
        let mut front = Front { socket, signals, screen };
        let code = front.wait();
        // Before the wait: a question on the screen would hold its thread until somebody answers.
        desk.close();
        if let Some(screen) = front.screen {
            screen.finish();
        }
        // The program has ended, so its exit status counts, also when a thread does not come back.
        match over.recv_timeout(LEAVE) {
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(())) | Err(_) => Ok(code),
        }
    }
}

fn unsupported(words: String) -> netloom_sys::Unsupported {
    netloom_sys::Unsupported {
        feature: "guard",
        reason: words,
        needs:
            "system call filters with a supervisor: Linux 5.19 or newer, with CONFIG_SECCOMP_FILTER"
                .into(),
    }
}

/// What the caller's process waits for.
struct Front<'t> {
    socket: OwnedFd,
    signals: OwnedFd,
    screen: Option<Screen<'t>>,
}

impl Front<'_> {
    fn wait(&mut self) -> i32 {
        loop {
            self.sleep();
            while let Some(sent) = process::next_sent(&self.signals) {
                self.signalled(sent);
            }
            if let Some(screen) = &mut self.screen {
                screen.turn();
            }
            if !process::wait_readable(&self.socket, Duration::ZERO) {
                continue;
            }
            match envelope::receive(SOCKET, &self.socket) {
                Ok(Received::Value(Event::Stopped, _)) => self.stop(),
                Ok(Received::Value(Event::Ended(code), _)) => return code,
                Ok(Received::Value(..) | Received::Malformed(_)) => {}
                Ok(Received::Ended) | Err(_) => {
                    // A deputy that ends without a word was killed. Its orphans are this process's
                    // children now.
                    process::end_descendants();
                    return 128 + Signal::KILL.as_raw();
                }
            }
        }
    }

    fn sleep(&self) {
        let mut fds = vec![
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        let look = self.screen.as_ref().and_then(Screen::look_in).map(process::timespec);
        fds.extend(self.screen.iter().flat_map(Screen::polls));
        // Interrupted or not, the caller checks every source.
        let _ = rustix::event::poll(&mut fds, look.as_ref());
    }

    fn signalled(&mut self, sent: process::Sent) {
        let signal = Signal::from_named_raw(sent.number);
        match (&mut self.screen, signal) {
            (Some(screen), Some(Signal::WINCH)) => screen.fit(),
            // By its terminal the program hears of it, too.
            (Some(screen), Some(Signal::HUP)) => screen.hang_up(),
            (_, Some(Signal::CONT)) => self.tell(&Notice::Continue),
            // Keys reach the program by itself where it shares this process's group; what a process sends to this one
            // does not.
            (None, Some(Signal::INT | Signal::QUIT)) if !sent.by_process => {}
            (None, Some(Signal::WINCH)) => {}
            _ => self.tell(&Notice::Signal(sent.number)),
        }
    }

    /// The program has stopped, as Ctrl-Z wants: so does this process, with its group.
    fn stop(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.leave();
        }
        // Nobody would continue a group without a shell: there the kernel takes no notice of this.
        let _ = rustix::process::kill_process_group(rustix::process::getpgrp(), Signal::TSTP);
        self.tell(&Notice::Continue);
    }

    fn tell(&self, told: &Notice) {
        // A deputy that is gone shows at the next look.
        let _ = envelope::send(SOCKET, &self.socket, told, &[]);
    }
}
