//! The process of a machine: prepares it, starts it, and looks after it until it has ended.
//!
//! One loop over descriptors: signals, the console's terminal, the channel (the guest's agent, or QMP), the socket of
//! clients, and the clients. Frames of the network are carried by threads ([`crate::relay`]). A machine that ends ends
//! this process, with its exit status; whether it is started again is the node's init's to decide.

mod clients;
mod jobs;
mod prepare;
mod probe;
mod talking;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netloom_sys::journal;
use netloom_sys::process::{self, Exit, next_signal, timespec};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use self::clients::{Client, Role};
use crate::console::Console;
use crate::error::failed;
use crate::frames::{Frame, Kind, Stream};
use crate::queue::{Queue, Window};
use crate::spec::{FOLDER, SPEC, STATE, Spec};
use crate::{Error, Result, mconsole, qmp};

/// Its name in the process list.
pub const NAME: &str = "netloom-vm";

/// How long a machine may take to end by itself, and then by QMP, before it is killed.
const GRACE: Duration = Duration::from_millis(700);
const QUIT: Duration = Duration::from_millis(150);

/// The peer of a machine's channel.
#[derive(Debug)]
enum Peer {
    /// The agent of a guest with the node's files; whether it has spoken, and what its line may hold.
    Agent { stream: Stream, listens: bool, line: Window },
    /// QEMU.
    Qmp(qmp::Conversation),
    /// Nobody: User-mode Linux with an initial RAM disk.
    Nobody,
}

/// What a machine gets beyond that whose disk is kept: its guest writes what it holds.
const MORE_GRACE: Duration = Duration::from_secs(20);

/// How much longer than other nodes a machine may take to end.
pub fn more_grace(machine: &netloom_model::kinds::vm::Machine) -> Duration {
    if machine.storage.keep.is_some() { MORE_GRACE } else { Duration::ZERO }
}

/// A machine that runs.
struct Machine {
    pid: Pid,
    signals: OwnedFd,
    listener: OwnedFd,
    terminal: OwnedFd,
    typed: Queue,
    console: Console,
    channel: OwnedFd,
    to_channel: Queue,
    peer: Peer,
    clients: Vec<Client>,
    next_session: u32,
    /// The guest's own words about its readiness; `None` before it has said anything.
    guest: Option<String>,
    /// Whether only the guest knows when it is ready.
    asks_guest: bool,
    shown: Option<String>,
    ending: Option<Ending>,
    /// The running save or restore, and whether it has a disk.
    work: Option<jobs::Work>,
    has_disk: bool,
    /// Whether a card is a port of a switch.
    has_switch_card: bool,
    /// The line to the agent of a QEMU machine's guest.
    agent: Option<talking::AgentLine>,
    /// How long it may take to end by itself.
    grace: Duration,
    /// Whether the guest has reset its machine.
    has_reset: bool,
    /// Whether that is the one way of its board to end.
    ends_by_reset: bool,
}

/// The exit status of a machine whose guest has reset it: an error, so that `restart: on-failure` starts it again.
const RESET: i32 = 1;

/// A machine that shall end: until when by itself, and whether QMP was asked to end it.
struct Ending {
    until: Instant,
    asked: bool,
}

/// Runs the machine that the environment describes; returns its exit status.
///
/// # Errors
/// It cannot be prepared or started.
pub fn serve() -> Result<i32> {
    let text = std::env::var(SPEC).map_err(failed(SPEC, "read"))?;
    let spec: Spec = serde_json::from_str(&text).map_err(failed(SPEC, "understand"))?;
    process::set_name(NAME);
    let mut machine = prepare::start(&spec)?;
    machine.run()
}

impl Machine {
    fn run(&mut self) -> Result<i32> {
        loop {
            self.tell_state()?;
            let ends = self.ending.as_ref().map(|ending| ending.until);
            let asks = self.agent.as_ref().and_then(talking::AgentLine::next);
            let woken = self.wait(ends.into_iter().chain(asks).min());
            if let Some(exit) = self.on_signals()? {
                return Ok(self.finish(exit));
            }
            if woken.terminal {
                self.read_terminal();
            }
            if woken.channel {
                self.read_channel();
            }
            if woken.agent {
                self.read_agent();
            }
            self.ask_agent();
            self.accept();
            // From the last: `leave` moves the last client,
            // which was served, to the place that is free.
            for index in (0..self.clients.len()).rev() {
                let index_woken = woken.clients.get(index).copied().unwrap_or(false);
                if index_woken && !self.serve_client(index) {
                    self.leave(index);
                }
            }
            self.flush();
            self.press();
        }
    }

    fn wait(&self, until: Option<Instant>) -> Woken {
        let wants = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        let sends = !self.to_channel.is_empty() && self.channel_room() > 0;
        let mut fds = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.terminal, wants(true, !self.typed.is_empty())),
            PollFd::new(&self.channel, wants(true, sends)),
        ];
        let agent = usize::from(self.agent.is_some());
        if let Some(line) = &self.agent {
            fds.push(PollFd::new(&line.fd, wants(true, !line.queue.is_empty())));
        }
        for client in &self.clients {
            // A client whose program takes no input is not read: the kernel then makes it wait.
            let reads = !self.typed.is_full() && client.input.room() > 0;
            fds.push(PollFd::new(&client.socket, wants(reads, !client.queue.is_empty())));
        }
        let timeout = until.map(|at| timespec(at.saturating_duration_since(Instant::now())));
        // Interrupted or refused: the loop looks at everything again.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let readable = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::IN | PollFlags::HUP);
        Woken {
            terminal: readable(&fds[2]),
            channel: readable(&fds[3]),
            agent: agent > 0 && readable(&fds[4]),
            clients: fds[4 + agent..].iter().map(readable).collect(),
        }
    }

    /// How much the channel takes now.
    fn channel_room(&self) -> usize {
        match &self.peer {
            Peer::Agent { line, .. } => line.room(),
            Peer::Qmp(_) | Peer::Nobody => usize::MAX,
        }
    }

    /// How the machine ended, if it has.
    fn on_signals(&mut self) -> Result<Option<Exit>> {
        while let Some(signal) = next_signal(&self.signals) {
            if signal == Signal::TERM.as_raw() {
                self.begin_end();
            }
        }
        while let Some((pid, exit)) = process::reap()? {
            if pid == self.pid {
                return Ok(Some(exit));
            }
        }
        Ok(None)
    }

    fn read_terminal(&mut self) {
        let mut buffer = [0; 16 << 10];
        // Nothing has come: at the end it is read without being told that something has.
        let Ok(count) = rustix::io::read(&self.terminal, &mut buffer) else { return };
        let shown = buffer.get(..count).unwrap_or(&[]);
        self.console.take(shown, &mut std::io::stdout().lock());
        for client in self.clients.iter_mut().filter(|c| c.role == Role::Console) {
            // A client that does not read the console misses some of it.
            if !client.queue.is_full() {
                client.tell(&Frame::new(Kind::Output, 0, shown));
            }
        }
    }

    fn read_channel(&mut self) {
        let mut buffer = [0; 16 << 10];
        let Ok(count) = rustix::io::read(&self.channel, &mut buffer) else { return };
        let bytes = buffer.get(..count).unwrap_or(&[]);
        match &mut self.peer {
            Peer::Nobody => {}
            Peer::Qmp(talk) => {
                for heard in talk.take(bytes) {
                    match heard {
                        qmp::QmpMessage::Answer(id, answer) => self.answer_control(id, answer),
                        qmp::QmpMessage::JobEnded(name) => self.job_ended(&name),
                        qmp::QmpMessage::Agent(open) => self.agent_port(open),
                        qmp::QmpMessage::Reset => self.has_reset = true,
                        qmp::QmpMessage::Event => {}
                    }
                }
            }
            Peer::Agent { stream, .. } => {
                stream.push(bytes);
                let mut frames = Vec::new();
                // A line that breaks the rules is noise of the boot: the rest of it is dropped.
                while let Ok(Some(frame)) = stream.next() {
                    frames.push(frame);
                }
                frames.into_iter().for_each(|frame| self.take_answer(frame));
            }
        }
    }

    fn take_answer(&mut self, frame: Frame) {
        match frame.kind {
            Kind::Hello => {
                if let Peer::Agent { listens, .. } = &mut self.peer {
                    *listens = true;
                }
            }
            Kind::Taken => self.take_room(&frame),
            Kind::State => self.guest = Some(String::from_utf8_lossy(&frame.data).into_owned()),
            _ => self.pass_to_session(frame),
        }
    }

    /// What the machine lacks before it is ready.
    fn lacks(&self) -> String {
        if let Some(lacks) = self.console.lacks() {
            return lacks;
        }
        if let Some(line) = &self.agent {
            return line.lacks();
        }
        match (&self.guest, self.asks_guest) {
            (Some(words), true) => words.clone(),
            (None, true) => "its guest has not booted".to_owned(),
            (_, false) => String::new(),
        }
    }

    /// Writes what is lacking into the file that the node's init reads.
    fn tell_state(&mut self) -> Result<()> {
        let lacks = self.lacks();
        if self.shown.as_ref() != Some(&lacks) {
            write_state(&lacks)?;
            self.shown = Some(lacks);
        }
        Ok(())
    }

    /// Asks the machine to end: its guest if that listens, else as a power button would.
    fn begin_end(&mut self) {
        if self.ending.is_some() {
            return;
        }
        match &mut self.peer {
            Peer::Agent { listens: true, .. } => {
                self.to_channel.push(Frame::new(Kind::Stop, 0, &[]).encode());
            }
            Peer::Qmp(talk) => {
                // Which of the two a guest obeys depends on what runs in it.
                self.to_channel.push(talk.command("system_powerdown").1);
                self.agent.iter_mut().for_each(talking::AgentLine::shut_down);
            }
            // A machine that cannot be asked is killed after the grace.
            Peer::Agent { .. } | Peer::Nobody => drop(press_keys("cad")),
        }
        self.ending = Some(Ending { until: Instant::now() + self.grace, asked: false });
    }

    /// Ends a machine that does not end by itself.
    fn press(&mut self) {
        let Some(ending) = self.ending.as_mut().filter(|e| e.until <= Instant::now()) else {
            return;
        };
        match &mut self.peer {
            Peer::Qmp(talk) if !ending.asked => {
                self.to_channel.push(talk.command("quit").1);
                (ending.asked, ending.until) = (true, Instant::now() + QUIT);
            }
            _ => {
                ending.until = Instant::now() + QUIT;
                // It has ended if there is nobody to kill.
                let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
            }
        }
    }

    fn flush(&mut self) {
        // Those that are gone show it by hanging up.
        self.typed.flush(&self.terminal);
        for client in &mut self.clients {
            let shown = client.queue.flush(&client.socket);
            if let Role::Program(session) = client.role
                && shown > 0
            {
                self.to_channel.push(Frame::taken(session, shown).encode());
            }
        }
        self.agent.iter_mut().for_each(talking::AgentLine::flush);
        let sent = self.to_channel.flush_within(&self.channel, self.channel_room());
        if let Peer::Agent { line, .. } = &mut self.peer {
            line.spend(sent);
        }
    }

    /// The machine has ended: shows the rest of its output, ends what it left, and tells its clients.
    fn finish(&mut self, exit: Exit) -> i32 {
        // The last output may not have been read.
        self.read_terminal();
        self.read_channel();
        // User-mode Linux leaves processes when it is killed.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        self.flush();
        match exit.shell_code() {
            0 if self.has_reset && !self.ends_by_reset && self.ending.is_none() => {
                journal::line(format_args!("its guest has reset the machine"));
                RESET
            }
            code => code,
        }
    }
}

/// The readable descriptors.
struct Woken {
    terminal: bool,
    channel: bool,
    agent: bool,
    clients: Vec<bool>,
}

fn write_state(text: &str) -> Result<()> {
    // Renamed into place: the init must not read half of it.
    let new = PathBuf::from(format!("{STATE}.new"));
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, STATE))
        .map_err(failed(STATE, "write"))
}

/// A command for User-mode Linux' management console.
fn press_keys(word: &str) -> Result<()> {
    let socket = PathBuf::from(format!("{FOLDER}/uml/{}/mconsole", crate::command::UMID));
    mconsole::command(&socket, &Spec::file("mconsole"), word)
}

fn refused(words: impl Into<String>) -> Error {
    Error::Refused(words.into())
}
