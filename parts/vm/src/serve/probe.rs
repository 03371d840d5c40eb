//! What `ready` waits for in a guest of QEMU, looked at by its agent: commands, files, ports that listen.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use netloom_model::lab::Ready;

use crate::frames::{Frame, Kind};

/// The session of probes: clients' begin at 1.
pub(super) const PROBE: u32 = 0;

/// The pause after a condition did not hold.
const PAUSE: Duration = Duration::from_millis(200);

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    /// The agent listens.
    Agent,
    Tcp(u16),
    File(String),
    Exec(Vec<String>),
}

impl Condition {
    fn command(&self) -> Option<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match self {
            Condition::Agent => None,
            Condition::Tcp(_) => Some(words(&["cat", "/proc/net/tcp", "/proc/net/tcp6"])),
            Condition::File(path) => Some(words(&["test", "-e", path])),
            Condition::Exec(argv) => Some(argv.clone()),
        }
    }

    /// Whether it holds, by what its command wrote and how it ended. A kernel without IPv6 has one list only.
    fn holds(&self, output: &[u8], code: i32) -> bool {
        match self {
            Condition::Tcp(port) => listens(&String::from_utf8_lossy(output), *port),
            _ => code == 0,
        }
    }

    fn words(&self) -> String {
        match self {
            Condition::Agent => "its guest's agent (qemu-guest-agent) does not listen".to_owned(),
            Condition::Tcp(port) => format!("nothing listens on TCP port {port}"),
            Condition::File(path) => format!("{path} does not exist"),
            Condition::Exec(argv) => format!("{:?} has not ended with 0", argv.join(" ")),
        }
    }
}

/// Whether a socket listens on a port, by the lines of /proc/net/tcp: local address and port in hexadecimal, state 0A.
fn listens(lines: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    lines.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next().is_some_and(|word| word.ends_with(&local)) && words.nth(1) == Some("0A")
    })
}

/// The conditions that have not held yet, the first of which is looked at.
#[derive(Debug)]
pub(super) struct Probe {
    left: VecDeque<Condition>,
    next: Instant,
    runs: bool,
    output: Vec<u8>,
}

impl Probe {
    pub(super) fn new(ready: &Ready) -> Probe {
        let mut left = VecDeque::new();
        left.extend(ready.agent.then_some(Condition::Agent));
        left.extend(ready.tcp.iter().copied().map(Condition::Tcp));
        left.extend(ready.files.iter().cloned().map(Condition::File));
        left.extend(ready.exec.clone().map(Condition::Exec));
        Probe { left, next: Instant::now(), runs: false, output: Vec::new() }
    }

    /// When to look next.
    pub(super) fn next(&self) -> Option<Instant> {
        (!self.runs && !self.left.is_empty()).then_some(self.next)
    }

    /// The missing part, by whether the agent listens.
    pub(super) fn lacks(&self, agent: bool) -> String {
        match self.left.front() {
            Some(_) if !agent => Condition::Agent.words(),
            Some(condition) => condition.words(),
            None => String::new(),
        }
    }

    /// The agent listens: the command to run now.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Vec<String>> {
        if self.left.front() == Some(&Condition::Agent) {
            self.left.pop_front();
        }
        if self.runs || now < self.next {
            return None;
        }
        let command = self.left.front()?.command()?;
        (self.runs, self.output) = (true, Vec::new());
        Some(command)
    }

    /// Takes what the command wrote, and its end.
    pub(super) fn take(&mut self, frame: &Frame, now: Instant) {
        let code = match frame.kind {
            Kind::Output => return self.output.extend_from_slice(&frame.data),
            Kind::Exit => frame.number().and_then(|code| i32::try_from(code).ok()),
            Kind::Refused => None,
            _ => return,
        };
        (self.runs, self.next) = (false, now + PAUSE);
        let held = self.left.front().zip(code).is_some_and(|(c, code)| c.holds(&self.output, code));
        if held {
            self.left.pop_front();
            self.next = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_listens_by_the_kernels_list() {
        let list = "  sl  local_address rem_address   st tx_queue\n   0: 00000000:0050 00000000:0000 0A 0:0\n   \
                    1: 0100007F:1F90 0100007F:9999 01 0:0\n   2: 00000000000000000000000000000000:0016 0:0000 0A 0\n";
        assert!(listens(list, 80) && listens(list, 22));
        assert!(!listens(list, 8080) && !listens(list, 0x5) && !listens("", 80));
    }

    #[test]
    fn conditions_are_looked_at_in_order_until_each_has_held() {
        let exec = Some(vec!["true".to_owned()]);
        let ready = Ready { agent: true, tcp: vec![80], exec, ..Ready::default() };
        let (mut probe, now) = (Probe::new(&ready), Instant::now());
        assert_eq!(probe.lacks(false), "its guest's agent (qemu-guest-agent) does not listen");
        assert_eq!(probe.begin(now).unwrap()[0], "cat");
        assert_eq!(probe.begin(now), None);
        let exit = |code: i32| Frame::new(Kind::Exit, PROBE, &code.to_le_bytes());
        probe.take(&exit(0), now);
        assert_eq!(probe.lacks(true), "nothing listens on TCP port 80");
        assert_eq!(probe.begin(now), None);
        let later = probe.next().unwrap();
        assert!(probe.begin(later).is_some());
        probe.take(&Frame::new(Kind::Output, PROBE, b" 0: 0:0050 0:0 0A\n"), later);
        // Without IPv6 there is no second list.
        probe.take(&exit(1), later);
        assert_eq!(probe.begin(later), Some(vec!["true".to_owned()]));
        probe.take(&Frame::new(Kind::Refused, PROBE, b"no"), later);
        let last = probe.next().unwrap();
        assert!(probe.begin(last).is_some());
        probe.take(&exit(0), last);
        assert_eq!((probe.lacks(true), probe.next()), (String::new(), None));
    }
}
