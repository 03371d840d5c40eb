//! Programs in a guest of QEMU, by the guest's own agent (qemu-guest-agent): a line of JSON a command, answered in order.
//!
//! <https://www.qemu.org/docs/master/interop/qemu-ga-ref.html>. The agent starts a program with all of its input, and has
//! its output when it has ended, [`MOST`] bytes of each at most; whether it has is asked for, ever less often. What the
//! agent says is the guest's word: it can only spoil its own sessions.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::frames::{self, Exec, Frame, Kind};

/// The most bytes of a program's input, and of what it writes (qga: GUEST_EXEC_MAX_OUTPUT).
pub(crate) const MOST: usize = 16 << 20;

/// The longest line: output and errors of a program, in base64.
const LINE: usize = 48 << 20;

/// The byte that makes the agent forget half a command, and stands before its answer to that.
const RESET: u8 = 0xff;

/// The first and the last pause between questions about a program.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];

/// What an answer will be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyTopic {
    Start(u32),
    Status(u32),
    Nothing,
}

/// A program, from a client's request to its end.
#[derive(Debug)]
struct Program {
    argv: Vec<String>,
    input: Vec<u8>,
    phase: Phase,
    /// Whether the client has left.
    left: bool,
}

#[derive(Debug)]
enum Phase {
    /// Its input is not whole.
    Gathers,
    /// The agent was told.
    Starts,
    /// It runs: its number in the guest, when to ask, and the pause after that.
    Runs { pid: i64, ask: Instant, pause: Duration },
    /// It was asked for.
    ReplyTopic { pid: i64, pause: Duration },
}

/// The conversation with an agent.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    held: Vec<u8>,
    /// The number that the agent shall say, when it has been asked to.
    sync: Option<u64>,
    syncs: u64,
    listens: bool,
    waits: VecDeque<ReplyTopic>,
    programs: BTreeMap<u32, Program>,
    said: Vec<u8>,
}

impl Agent {
    /// The guest has opened or closed the agent's port: what its clients are told.
    pub(crate) fn port(&mut self, open: bool) -> Vec<Frame> {
        // Whatever was on its way was for the agent before.
        self.listens = false;
        self.held.clear();
        self.waits.clear();
        self.said.clear();
        self.sync = None;
        let lost = std::mem::take(&mut self.programs);
        if open {
            self.syncs += 1;
            // The guest may have half a command from an earlier peer in its buffer.
            self.sync = Some(self.syncs);
            self.said.push(RESET);
            self.say("guest-sync-delimited", &json!({"id": self.syncs}));
        }
        lost.into_keys().map(|s| refusal(s, "its guest's agent has ended")).collect()
    }

    /// Whether it takes commands.
    pub(crate) fn listens(&self) -> bool {
        self.listens
    }

    /// A client wants a program: it starts when its input is whole.
    pub(crate) fn begin(&mut self, session: u32, exec: Exec) {
        let program =
            Program { argv: exec.argv, input: Vec::new(), phase: Phase::Gathers, left: false };
        self.programs.insert(session, program);
        if exec.no_input {
            self.start(session);
        }
    }

    /// Input for a program; without data, its end.
    pub(crate) fn input(&mut self, session: u32, data: &[u8]) -> Option<Frame> {
        let program = self.programs.get_mut(&session)?;
        // Input behind its end has nobody to take it.
        if !matches!(program.phase, Phase::Gathers) {
            return None;
        }
        if data.is_empty() {
            self.start(session);
            return None;
        }
        program.input.extend_from_slice(data);
        if program.input.len() <= MOST {
            return None;
        }
        self.programs.remove(&session);
        Some(refusal(session, "the agent of its guest takes 16 MiB of input at most"))
    }

    /// The client has left: its program ends, too.
    pub(crate) fn leave(&mut self, session: u32) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        program.left = true;
        match program.phase {
            Phase::Gathers => drop(self.programs.remove(&session)),
            // Its number in the guest is not known yet: `started` ends it.
            Phase::Starts => {}
            Phase::Runs { pid, .. } | Phase::ReplyTopic { pid, .. } => self.end(session, pid),
        }
    }

    /// The machine shall end: asks the guest for it.
    pub(crate) fn shut_down(&mut self) {
        if self.listens {
            // Success has no answer.
            self.say("guest-shutdown", &json!({"mode": "powerdown"}));
        }
    }

    /// The bytes to send.
    pub(crate) fn said(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.said)
    }

    /// When [`Agent::ask`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        let times = self.programs.values().filter_map(|program| match program.phase {
            Phase::Runs { ask, .. } => Some(ask),
            _ => None,
        });
        times.min()
    }

    /// Asks for the programs whose time has come.
    pub(crate) fn ask(&mut self, now: Instant) {
        let mut due = Vec::new();
        for (session, program) in &mut self.programs {
            if let Phase::Runs { pid, ask, pause } = program.phase
                && ask <= now
            {
                // One question at a time: its answer decides when the next is due.
                program.phase = Phase::ReplyTopic { pid, pause };
                due.push((*session, pid));
            }
        }
        for (session, pid) in due {
            self.say("guest-exec-status", &json!({"pid": pid}));
            self.waits.push_back(ReplyTopic::Status(session));
        }
    }

    /// Takes bytes of the agent; returns what clients are told.
    pub(crate) fn take(&mut self, bytes: &[u8], now: Instant) -> Vec<Frame> {
        let mut told = Vec::new();
        for byte in bytes {
            match *byte {
                // The agent begins an answer with this byte when it has thrown away what came
                // before.
                RESET => self.held.clear(),
                b'\n' => {
                    let line = std::mem::take(&mut self.held);
                    self.hear(&line, now, &mut told);
                }
                // A longer text is not an answer; its end will not be understood.
                _ if self.held.len() >= LINE => self.held.clear(),
                byte => self.held.push(byte),
            }
        }
        told
    }

    fn hear(&mut self, line: &[u8], now: Instant, told: &mut Vec<Frame>) {
        let Ok(value) = serde_json::from_slice::<Value>(line) else { return };
        // Until the number comes back, answers are to the agent's earlier peer.
        if let Some(number) = self.sync {
            if value["return"].as_u64() == Some(number) {
                (self.sync, self.listens) = (None, true);
            }
            return;
        }
        let returned = match value.get("error") {
            Some(error) => Err(error["desc"].as_str().unwrap_or("refused").to_owned()),
            None => Ok(&value["return"]),
        };
        // The agent answers in order, and repeats no numbers of ours.
        match self.waits.pop_front() {
            Some(ReplyTopic::Start(session)) => self.started(session, returned, now, told),
            Some(ReplyTopic::Status(session)) => self.looked(session, returned, now, told),
            Some(ReplyTopic::Nothing) | None => {}
        }
    }

    fn started(
        &mut self,
        session: u32,
        returned: Result<&Value, String>,
        now: Instant,
        told: &mut Vec<Frame>,
    ) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        match returned.map(|value| value["pid"].as_i64()) {
            Ok(Some(pid)) if program.left => self.end(session, pid),
            Ok(Some(pid)) => {
                program.phase = Phase::Runs { pid, ask: now + PAUSES[0], pause: PAUSES[0] };
            }
            Ok(None) => self.fail(session, "it did not say which program it started", told),
            Err(words) => self.fail(session, &words, told),
        }
    }

    fn looked(
        &mut self,
        session: u32,
        returned: Result<&Value, String>,
        now: Instant,
        told: &mut Vec<Frame>,
    ) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        let status = match returned {
            Ok(status) => status,
            Err(words) => return self.fail(session, &words, told),
        };
        if status["exited"] != true {
            if let Phase::ReplyTopic { pid, pause } = program.phase {
                // Short programs are answered quickly, long ones cost few questions.
                let pause = (pause * 2).min(PAUSES[1]);
                program.phase = Phase::Runs { pid, ask: now + pause, pause };
            }
            return;
        }
        for (kind, key) in [(Kind::Output, "out-data"), (Kind::Errors, "err-data")] {
            let text = status[key].as_str().unwrap_or_default();
            let Ok(data) = BASE64.decode(text) else {
                return self.fail(session, "its answer is not base64", told);
            };
            told.extend(data.chunks(frames::MOST).map(|part| Frame::new(kind, session, part)));
        }
        if ["out-truncated", "err-truncated"].iter().any(|key| status[*key] == true) {
            return self.fail(session, "it keeps 16 MiB of a program's output at most", told);
        }
        self.programs.remove(&session);
        // As a shell tells the end by a signal.
        let signal = status["signal"].as_i64().map(|signal| signal + 128);
        let code = status["exitcode"].as_i64().or(signal).unwrap_or(1);
        let code = i32::try_from(code).unwrap_or(1);
        told.push(Frame::new(Kind::Exit, session, &code.to_le_bytes()));
    }

    fn start(&mut self, session: u32) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        program.phase = Phase::Starts;
        let (path, rest) = program.argv.split_first().map_or(("", &[][..]), |(p, r)| (p, r));
        let mut arguments = json!({"path": path, "arg": rest, "capture-output": true});
        if !program.input.is_empty() {
            arguments["input-data"] = BASE64.encode(std::mem::take(&mut program.input)).into();
        }
        self.say("guest-exec", &arguments);
        self.waits.push_back(ReplyTopic::Start(session));
    }

    /// Ends a program for which nobody waits.
    fn end(&mut self, session: u32, pid: i64) {
        self.programs.remove(&session);
        // The agent has no command that ends a program.
        self.say("guest-exec", &json!({"path": "kill", "arg": [pid.to_string()]}));
        self.waits.push_back(ReplyTopic::Nothing);
    }

    fn fail(&mut self, session: u32, words: &str, told: &mut Vec<Frame>) {
        self.programs.remove(&session);
        told.push(refusal(session, &format!("the agent of its guest: {words}")));
    }

    fn say(&mut self, command: &str, arguments: &Value) {
        let line = json!({"execute": command, "arguments": arguments}).to_string();
        self.said.extend(line.bytes());
        self.said.push(b'\n');
    }
}

fn refusal(session: u32, words: &str) -> Frame {
    Frame::new(Kind::Refused, session, words.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(argv: &[&str], no_input: bool) -> Exec {
        Exec { argv: argv.iter().map(|&word| word.to_owned()).collect(), env: vec![], no_input }
    }

    fn agent() -> Agent {
        let mut agent = Agent::default();
        agent.port(true);
        assert_eq!(agent.said()[0], RESET);
        assert!(!agent.listens());
        let told = agent.take(b"{\"return\": 9}\nhalf\xff{\"return\": 1}\n", Instant::now());
        assert!(agent.listens() && told.is_empty());
        agent
    }

    fn lines(agent: &mut Agent) -> Vec<Value> {
        let said = agent.said();
        let lines = said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    #[test]
    fn a_program_is_started_with_its_input_and_asked_for_until_it_has_ended() {
        let mut agent = agent();
        let now = Instant::now();
        agent.begin(3, exec(&["cat", "-"], false));
        assert!(agent.input(3, b"ab").is_none() && lines(&mut agent).is_empty());
        agent.input(3, b"");
        let said = lines(&mut agent);
        assert_eq!(said[0]["arguments"]["input-data"], "YWI=");
        assert_eq!(said[0]["arguments"]["arg"], json!(["-"]));
        assert!(agent.take(b"{\"return\": {\"pid\": 77}}\n", now).is_empty());
        agent.ask(now);
        assert!(lines(&mut agent).is_empty());
        let next = agent.next().unwrap();
        agent.ask(next);
        assert_eq!(lines(&mut agent)[0]["arguments"]["pid"], 77);
        assert_eq!(agent.next(), None);
        agent.take(b"{\"return\": {\"exited\": false}}\n", next);
        agent.ask(agent.next().unwrap());
        let ended = b"{\"return\": {\"exited\": true, \"signal\": 9, \"out-data\": \"YWI=\"}}\n";
        let told = agent.take(ended, next);
        assert_eq!(told[0], Frame::new(Kind::Output, 3, b"ab"));
        assert_eq!(told[1], Frame::new(Kind::Exit, 3, &137_i32.to_le_bytes()));
        assert_eq!(agent.next(), None);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let now = Instant::now();
        let mut agent = agent();
        agent.begin(1, exec(&["none"], true));
        let told = agent.take(b"{\"error\": {\"class\": \"G\", \"desc\": \"no\"}}\n", now);
        assert_eq!(told, [refusal(1, "the agent of its guest: no")]);
        agent.begin(2, exec(&["cat"], false));
        let told = agent.input(2, &vec![0; MOST + 1]);
        assert!(told.is_some_and(|frame| frame.kind == Kind::Refused));
        agent.begin(4, exec(&["yes"], true));
        agent.take(b"{\"return\": {\"pid\": 7}}\n", now);
        agent.ask(agent.next().unwrap());
        let told = agent.take(b"{\"return\": {\"exited\": true, \"out-truncated\": true}}\n", now);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].kind, Kind::Refused);
        // Words that nobody asked for, and rubbish, are nothing.
        assert!(agent.take(b"{\"return\": {}}\n7\nx\n\n{}\n", now).is_empty());
    }

    #[test]
    fn who_leaves_ends_the_program_and_an_agent_that_ends_all_of_them() {
        let now = Instant::now();
        let mut agent = agent();
        agent.begin(1, exec(&["sleep"], true));
        agent.leave(1);
        lines(&mut agent);
        agent.take(b"{\"return\": {\"pid\": 7}}\n", now);
        let said = lines(&mut agent);
        assert_eq!(said[0]["arguments"], json!({"path": "kill", "arg": ["7"]}));
        agent.begin(2, exec(&["a"], true));
        agent.begin(3, exec(&["b"], false));
        assert_eq!(agent.port(false).len(), 2);
        assert!(!agent.listens() && agent.said().is_empty() && agent.next().is_none());
    }
}
