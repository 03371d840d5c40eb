//! The line to the agent of a QEMU machine's guest: its bytes, the programs of clients, and what `ready` waits for.

use std::os::fd::OwnedFd;
use std::time::Instant;

use netloom_model::lab::Ready;

use super::Machine;
use super::probe::{PROBE, Probe};
use crate::agent::Agent;
use crate::frames::{Exec, Frame};
use crate::queue::Queue;

/// The line.
#[derive(Debug)]
pub(super) struct AgentLine {
    pub(super) fd: OwnedFd,
    pub(super) queue: Queue,
    pub(super) agent: Agent,
    probe: Probe,
}

impl AgentLine {
    pub(super) fn new(fd: OwnedFd, ready: &Ready) -> AgentLine {
        let (queue, agent) = (Queue::default(), Agent::default());
        AgentLine { fd, queue, agent, probe: Probe::new(ready) }
    }

    /// Whether the agent takes commands.
    pub(super) fn listens(&self) -> bool {
        self.agent.listens()
    }

    /// What the guest lacks before it is ready.
    pub(super) fn lacks(&self) -> String {
        self.probe.lacks(self.agent.listens())
    }

    /// When there is something to ask.
    pub(super) fn next(&self) -> Option<Instant> {
        let probe = self.agent.listens().then(|| self.probe.next()).flatten();
        self.agent.next().into_iter().chain(probe).min()
    }

    /// Asks the guest to end.
    pub(super) fn shut_down(&mut self) {
        self.agent.shut_down();
    }

    /// Sends what is to be sent.
    pub(super) fn flush(&mut self) {
        let said = self.agent.said();
        if !said.is_empty() {
            self.queue.push(said);
        }
        self.queue.flush(&self.fd);
    }

    fn ask(&mut self, now: Instant) {
        self.agent.ask(now);
        if self.agent.listens()
            && let Some(argv) = self.probe.begin(now)
        {
            self.agent.begin(PROBE, Exec { argv, env: Vec::new(), no_input: true });
        }
    }
}

impl Machine {
    /// The guest has opened or closed the port of its agent.
    pub(super) fn agent_port(&mut self, open: bool) {
        let Some(line) = &mut self.agent else { return };
        // Unsent bytes were for the agent before.
        line.queue.clear();
        let told = line.agent.port(open);
        self.tell_of_agent(told);
    }

    pub(super) fn read_agent(&mut self) {
        let mut buffer = vec![0; 64 << 10];
        let Some(line) = &mut self.agent else { return };
        let Ok(count) = rustix::io::read(&line.fd, &mut *buffer) else { return };
        let told = line.agent.take(buffer.get(..count).unwrap_or(&[]), Instant::now());
        self.tell_of_agent(told);
    }

    /// Asks what it is time to ask.
    pub(super) fn ask_agent(&mut self) {
        self.agent.iter_mut().for_each(|line| line.ask(Instant::now()));
    }

    pub(super) fn begin_by_agent(&mut self, session: u32, request: &[u8]) {
        let Some(line) = &mut self.agent else { return };
        // Our own client asks; what it cannot have sent starts nothing.
        if let Ok(exec) = serde_json::from_slice(request) {
            line.agent.begin(session, exec);
        }
    }

    pub(super) fn input_by_agent(&mut self, session: u32, data: &[u8]) {
        let Some(line) = &mut self.agent else { return };
        let refused = line.agent.input(session, data);
        self.tell_of_agent(refused.into_iter().collect());
    }

    fn tell_of_agent(&mut self, frames: Vec<Frame>) {
        for frame in frames {
            match &mut self.agent {
                Some(line) if frame.session == PROBE => line.probe.take(&frame, Instant::now()),
                _ => self.pass_to_session(frame),
            }
        }
    }
}
