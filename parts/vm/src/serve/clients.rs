//! The clients of a machine's process: consoles, programs in the guest, and requests about the machine.

use std::os::fd::OwnedFd;

use netloom_sys::scm;
use rustix::net::{RecvFlags, SocketFlags};

use super::talking::AgentLine;
use super::{Machine, Peer, press_keys};
use crate::frames::{Frame, HEADER, Kind, MOST, MOST_ON_WAY, Stream};
use crate::queue::{Queue, Window};

/// Why no program can be started in a guest of QEMU.
const NO_AGENT: &str =
    "its guest has no agent that listens (qemu-guest-agent); `netloom shell` is its console";

/// What a client is here for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It has not said so yet.
    New,
    /// The console.
    Console,
    /// A program in the guest, by its session.
    Program(u32),
    /// A request about the machine, by the id of the command that does it.
    Control(u64),
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: OwnedFd,
    pub(super) queue: Queue,
    pub(super) role: Role,
    /// Input that its program has not taken.
    pub(super) input: Window,
}

impl Client {
    pub(super) fn tell(&mut self, frame: &Frame) {
        self.queue.push(frame.encode());
    }

    fn refuse(&mut self, words: &str) {
        self.tell(&Frame::new(Kind::Refused, 0, words.as_bytes()));
    }
}

impl Machine {
    /// Takes new clients of this process's own user.
    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = rustix::net::accept_with(&self.listener, flags) {
            let own = rustix::process::geteuid().as_raw();
            // Every process of the node's network reaches an
            // abstract name: modes of files do not guard it.
            if scm::peer_uid(&socket).is_ok_and(|uid| uid == own) {
                let (queue, input) = (Queue::default(), Window::new(MOST_ON_WAY));
                self.clients.push(Client { socket, queue, role: Role::New, input });
            }
        }
    }

    /// Handles one message of a client; `false` if it has left.
    pub(super) fn serve_client(&mut self, index: usize) -> bool {
        let mut buffer = vec![0; HEADER + MOST];
        let Some(client) = self.clients.get(index) else { return false };
        let count = match rustix::net::recv(&client.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((count, _)) if count > 0 => count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            _ => return false,
        };
        // A message of SOCK_SEQPACKET is a whole frame: nothing is kept for the next one.
        let mut stream = Stream::default();
        stream.push(buffer.get(..count).unwrap_or(&[]));
        match stream.next() {
            Ok(Some(frame)) => self.take_request(index, frame),
            _ => return false,
        }
        true
    }

    fn take_request(&mut self, index: usize, frame: Frame) {
        let role = self.clients[index].role;
        match (frame.kind, role) {
            (Kind::Console, Role::New) => {
                let latest = Frame::new(Kind::Output, 0, self.console.latest());
                self.clients[index].role = Role::Console;
                self.clients[index].tell(&latest);
            }
            (Kind::Input, Role::Console) => self.typed.push(frame.data),
            (Kind::Exec, Role::New) => self.begin_program(index, frame),
            (Kind::Input, Role::Program(session)) => {
                if self.agent.is_some() {
                    return self.input_by_agent(session, &frame.data);
                }
                self.clients[index].input.spend(frame.data.len());
                self.to_channel.push(Frame { session, ..frame }.encode());
            }
            (Kind::Control, Role::New) => self.begin_control(index, &frame.data),
            _ => {}
        }
    }

    fn begin_program(&mut self, index: usize, frame: Frame) {
        let by_agent = self.agent.as_ref().is_some_and(AgentLine::listens);
        let why = match &self.peer {
            Peer::Agent { listens: true, .. } => None,
            Peer::Qmp(_) if by_agent => None,
            Peer::Agent { .. } => Some("its guest has not booted"),
            Peer::Qmp(_) => Some(NO_AGENT),
            Peer::Nobody => {
                Some("its guest has no agent to start programs; `netloom shell` is its console")
            }
        };
        if let Some(why) = why {
            return self.clients[index].refuse(why);
        }
        self.next_session += 1;
        let session = self.next_session;
        self.clients[index].role = Role::Program(session);
        if by_agent {
            return self.begin_by_agent(session, &frame.data);
        }
        self.to_channel.push(Frame { session, ..frame }.encode());
    }

    fn begin_control(&mut self, index: usize, word: &[u8]) {
        if matches!(word, b"save" | b"restore") {
            match self.begin_work(word == b"save") {
                Ok(id) => self.clients[index].role = Role::Control(id),
                Err(why) => self.clients[index].refuse(why),
            }
            return;
        }
        // The words of QMP, and of User-mode Linux's mconsole.
        let (of_qemu, of_uml) = match word {
            b"pause" => ("stop", "stop"),
            b"resume" => ("cont", "go"),
            _ => return self.clients[index].refuse("it does not know this request"),
        };
        if let Peer::Qmp(talk) = &mut self.peer {
            let (id, bytes) = talk.command(of_qemu);
            self.to_channel.push(bytes);
            self.clients[index].role = Role::Control(id);
            return;
        }
        let answer = match press_keys(of_uml) {
            Ok(()) => Frame::new(Kind::Done, 0, &[]),
            Err(e) => Frame::new(Kind::Refused, 0, netloom_sys::describe(&e).as_bytes()),
        };
        self.clients[index].tell(&answer);
    }

    /// QEMU has answered a command.
    pub(super) fn answer_control(&mut self, id: u64, answer: Result<serde_json::Value, String>) {
        if !self.answer_work(id, &answer) {
            self.tell_control(id, answer.map(drop));
        }
    }

    /// Tells the client that waits for a command how it went.
    pub(super) fn tell_control(&mut self, id: u64, done: Result<(), String>) {
        let role = Role::Control(id);
        let Some(client) = self.clients.iter_mut().find(|c| c.role == role) else { return };
        match done {
            Ok(()) => client.tell(&Frame::new(Kind::Done, 0, &[])),
            Err(words) => client.refuse(&words),
        }
    }

    /// The guest's agent has read from its line, or a program from its input.
    pub(super) fn take_room(&mut self, frame: &Frame) {
        let count = frame.number().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let role = Role::Program(frame.session);
        if let Some(client) = self.clients.iter_mut().find(|c| c.role == role) {
            client.input.give_back(count);
        } else if let (0, Peer::Agent { line, .. }) = (frame.session, &mut self.peer) {
            line.give_back(count);
        }
    }

    /// Passes a frame of the guest on to the client that waits for it.
    pub(super) fn pass_to_session(&mut self, frame: Frame) {
        let role = Role::Program(frame.session);
        if let Some(client) = self.clients.iter_mut().find(|c| c.role == role) {
            client.tell(&Frame { session: 0, ..frame });
        }
    }

    /// A client has left: its program in the guest ends.
    pub(super) fn leave(&mut self, index: usize) {
        if let Role::Program(session) = self.clients.swap_remove(index).role {
            match &mut self.agent {
                Some(line) => line.agent.leave(session),
                None => self.to_channel.push(Frame::new(Kind::Close, session, &[]).encode()),
            }
        }
    }
}
