//! The guest's side of the serial line: programs that the host's users start, their input and output.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use netloom_sys::process::{Exit, with_open_mask};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::programs::command_of;
use crate::frames::{Exec, Frame, Kind, MOST, MOST_ON_WAY, Stream};
use crate::queue::{Queue, Window};

/// Exit statuses as a shell gives them: the program does not exist, or cannot be run.
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;

/// How much of a program's output is sent at once.
const PIECE: usize = 4096;

/// A program that a user started.
struct Session {
    number: u32,
    pid: Pid,
    input: Option<OwnedFd>,
    typed: Queue,
    /// No more input comes.
    input_ended: bool,
    outputs: [Option<OwnedFd>; 2],
    /// Output that its reader has not taken.
    shown: Window,
    exit: Option<Exit>,
}

/// The agent.
pub(super) struct Agent {
    line: OwnedFd,
    stream: Stream,
    sessions: Vec<Session>,
    state: Option<String>,
}

impl Agent {
    pub(super) fn open(line: OwnedFd) -> Agent {
        Agent { line, stream: Stream::default(), sessions: Vec::new(), state: None }
    }

    pub(super) fn hello(&mut self) {
        self.send(&Frame::new(Kind::Hello, 0, &[]));
    }

    /// Whether the host knows that the guest is ready.
    pub(super) fn told_ready(&self) -> bool {
        self.state.as_deref() == Some("")
    }

    /// Says what the guest waits for, if that has changed.
    pub(super) fn tell_state(&mut self, lacks: &str) {
        if self.state.as_deref() != Some(lacks) {
            // The line takes frames up to a length; the rest of a reason is not needed.
            let cut = lacks.as_bytes();
            self.send(&Frame::new(Kind::State, 0, cut.get(..MOST).unwrap_or(cut)));
            self.state = Some(lacks.to_owned());
        }
    }

    /// Adds the descriptors to wait for.
    pub(super) fn wanted<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.line, PollFlags::IN));
        for session in &self.sessions {
            // Without room nothing is read: the program waits for its reader.
            let outputs = session.outputs.iter().flatten().filter(|_| session.shown.room() > 0);
            fds.extend(outputs.map(|fd| PollFd::new(fd, PollFlags::IN)));
            if let Some(input) = session.input.as_ref().filter(|_| !session.typed.is_empty()) {
                fds.push(PollFd::new(input, PollFlags::OUT));
            }
        }
    }

    /// Handles everything that is pending; returns whether the guest shall end.
    pub(super) fn serve(&mut self, env: &[(String, String)]) -> bool {
        let ends = self.read_line(env);
        for index in 0..self.sessions.len() {
            self.carry(index);
        }
        self.finish();
        ends
    }

    fn read_line(&mut self, env: &[(String, String)]) -> bool {
        let mut ends = false;
        let mut buffer = [0; 4096];
        if pending(&self.line)
            && let Ok(count @ 1..) = rustix::io::read(&self.line, &mut buffer)
        {
            // At once: the host sends no more than the terminal
            // holds before it hears this (`MOST_ON_LINE`).
            self.send(&Frame::taken(0, count));
            self.stream.push(buffer.get(..count).unwrap_or(&[]));
            while let Ok(Some(frame)) = self.stream.next() {
                ends |= frame.kind == Kind::Stop;
                self.take(frame, env);
            }
        }
        ends
    }

    fn take(&mut self, frame: Frame, env: &[(String, String)]) {
        if frame.kind == Kind::Exec {
            return self.begin(&frame, env);
        }
        let found = self.sessions.iter_mut().find(|s| s.number == frame.session);
        let Some(session) = found else { return };
        match frame.kind {
            Kind::Input if frame.data.is_empty() => session.input_ended = true,
            Kind::Input => session.typed.push(frame.data),
            Kind::Taken => {
                let count = frame.number().and_then(|count| usize::try_from(count).ok());
                session.shown.give_back(count.unwrap_or(0));
            }
            Kind::Close => {
                // Closed first: a program that ignores signals ends by its output.
                (session.input, session.outputs) = (None, [None, None]);
                // It may have ended.
                let _ = rustix::process::kill_process_group(session.pid, Signal::KILL);
            }
            _ => {}
        }
    }

    fn begin(&mut self, frame: &Frame, env: &[(String, String)]) {
        let Ok(exec) = serde_json::from_slice::<Exec>(&frame.data) else { return };
        let mut all = env.to_vec();
        all.extend(exec.env);
        let mut command = command_of(&exec.argv, &all);
        command
            // A group of its own: when its user leaves, all that it started is killed with it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Signals are blocked here, and a program would inherit that.
        let child = with_open_mask(|| command.spawn());
        let started = child.and_then(|mut child| {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or(std::io::ErrorKind::InvalidData)?;
            let input = child.stdin.take().map(OwnedFd::from);
            let outputs =
                [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
            // One slow program must not hold up the line.
            for fd in input.iter().chain(outputs.iter().flatten()) {
                rustix::io::ioctl_fionbio(fd, true)?;
            }
            Ok((pid, input, outputs))
        });
        match started {
            Ok((pid, input, outputs)) => self.sessions.push(Session {
                number: frame.session,
                pid,
                input,
                typed: Queue::default(),
                input_ended: false,
                outputs,
                shown: Window::new(MOST_ON_WAY),
                exit: None,
            }),
            Err(e) => {
                let program = exec.argv.first().map_or("", String::as_str);
                let words = format!("netloom: {program}: {e}\n");
                let missing = e.kind() == std::io::ErrorKind::NotFound;
                let code = if missing { NOT_FOUND } else { NOT_RUNNABLE };
                // As a shell does: the reason on its errors, the status as its own.
                self.send(&Frame::new(Kind::Errors, frame.session, words.as_bytes()));
                self.send(&Frame::new(Kind::Exit, frame.session, &code.to_le_bytes()));
            }
        }
    }

    /// Moves a program's input and output.
    fn carry(&mut self, index: usize) {
        self.carry_input(index);
        for (place, kind) in [(0, Kind::Output), (1, Kind::Errors)] {
            let mut buffer = vec![0; PIECE];
            loop {
                let session = &mut self.sessions[index];
                let Some(output) =
                    session.outputs[place].as_ref().filter(|_| session.shown.room() > 0)
                else {
                    break;
                };
                match rustix::io::read(output, &mut *buffer) {
                    Ok(0) => session.outputs[place] = None,
                    Ok(count) => {
                        let number = session.number;
                        let data = buffer.get(..count).unwrap_or(&[]);
                        let frame = Frame::new(kind, number, data);
                        // What the client was given comes back as whole messages, heads included.
                        session.shown.spend(frame.encode().len());
                        self.send(&frame);
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
    }

    fn carry_input(&mut self, index: usize) {
        let session = &mut self.sessions[index];
        let taken = match &session.input {
            Some(input) => session.typed.flush(input),
            // Nobody reads it any more.
            None => session.typed.clear(),
        };
        if session.input_ended && session.typed.is_empty() {
            // The program reads the end of its input.
            session.input = None;
        }
        if taken > 0 {
            let frame = Frame::taken(session.number, taken);
            self.send(&frame);
        }
    }

    /// A child has ended that a user may have started.
    pub(super) fn ended(&mut self, pid: Pid, exit: Exit) {
        if let Some(session) = self.sessions.iter_mut().find(|s| s.pid == pid) {
            session.exit = Some(exit);
        }
    }

    /// Tells the ends of programs whose output has ended, too.
    fn finish(&mut self) {
        // A program that has ended may have left output in its pipes.
        let over = |s: &Session| s.outputs.iter().all(Option::is_none);
        let ended: Vec<(u32, Exit)> = self
            .sessions
            .iter()
            .filter(|s| over(s))
            .filter_map(|s| Some((s.number, s.exit?)))
            .collect();
        for (number, exit) in ended {
            self.send(&Frame::new(Kind::Exit, number, &exit.shell_code().to_le_bytes()));
            self.sessions.retain(|s| s.number != number);
        }
    }

    /// Writes a frame; the machine's process reads all the time.
    fn send(&mut self, frame: &Frame) {
        let bytes = frame.encode();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(&self.line, rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or(&[]),
                Err(Errno::INTR) => {}
                // Without a host nobody hears.
                Err(_) => return,
            }
        }
    }
}

/// Whether the line can be read without waiting.
fn pending(line: &OwnedFd) -> bool {
    netloom_sys::process::wait_readable(line.as_fd(), std::time::Duration::ZERO)
}
