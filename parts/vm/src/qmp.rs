//! QMP, QEMU's machine protocol: a line of JSON a message (qmp-spec).
//!
//! Commands are sent without waiting; answers and events are read as they come.

use serde_json::{Value, json};

/// What QEMU says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QmpMessage {
    /// A command with this id was done and returned this, or was refused with these words.
    Answer(u64, Result<Value, String>),
    /// The job of this name has ended, well or not.
    JobEnded(String),
    /// The guest has opened or closed the port of its agent.
    Agent(bool),
    /// The guest has reset its machine: it reboots by itself, or its kernel has failed.
    Reset,
    /// Something else happened that nobody asked for, or the greeting.
    Event,
}

/// The longest line that is kept.
const MOST: usize = 1 << 20;

/// One side of the conversation.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    held: Vec<u8>,
    last: u64,
}

impl Conversation {
    /// The line for a command, with its id. Before the first, QEMU wants to be told that we understand it.
    pub(crate) fn command(&mut self, name: &str) -> (u64, Vec<u8>) {
        self.command_with(name, &json!({}))
    }

    /// The same with arguments.
    pub(crate) fn command_with(&mut self, name: &str, arguments: &Value) -> (u64, Vec<u8>) {
        let mut bytes = Vec::new();
        // Until capabilities are negotiated, QEMU takes no other command and sends no events.
        if self.last == 0 {
            bytes.extend(b"{\"execute\":\"qmp_capabilities\",\"id\":0}\n");
        }
        self.last += 1;
        bytes.extend(
            json!({"execute": name, "arguments": arguments, "id": self.last}).to_string().bytes(),
        );
        bytes.push(b'\n');
        (self.last, bytes)
    }

    /// Takes bytes; returns what whole lines say. An endless line is dropped.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<QmpMessage> {
        self.held.extend_from_slice(bytes);
        let mut heard = Vec::new();
        while let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.held.drain(..=end).collect();
            heard.extend(understand(&line));
        }
        if self.held.len() > MOST {
            self.held.clear();
        }
        heard
    }
}

fn understand(line: &[u8]) -> Option<QmpMessage> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let Some(id) = value.get("id").and_then(Value::as_u64) else {
        let agent = agent_port(&value).map(QmpMessage::Agent);
        let ended = ended_job(&value).map(QmpMessage::JobEnded);
        let reset = is_reset(&value).then_some(QmpMessage::Reset);
        return Some(agent.or(ended).or(reset).unwrap_or(QmpMessage::Event));
    };
    let error = value
        .get("error")
        .map(|error| error.get("desc").and_then(Value::as_str).unwrap_or("refused").to_owned());
    let returned = value.get("return").cloned().unwrap_or_default();
    Some(QmpMessage::Answer(id, error.map_or(Ok(returned), Err)))
}

/// Whether the agent's port is open now, if this event says so.
fn agent_port(event: &Value) -> Option<bool> {
    let data = event.get("data").filter(|_| event["event"] == "VSERPORT_CHANGE")?;
    data.get("open").filter(|_| data["id"] == crate::command::AGENT)?.as_bool()
}

/// Whether this event says that the guest has reset its machine, which ends with that (`-no-reboot`).
fn is_reset(event: &Value) -> bool {
    let reason =
        event.get("data").filter(|_| event["event"] == "SHUTDOWN").map(|data| &data["reason"]);
    reason.is_some_and(|reason| reason == "guest-reset" || reason == "guest-panic")
}

/// The job that has ended, if this event says so.
fn ended_job(event: &Value) -> Option<String> {
    let data = event.get("data").filter(|_| event["event"] == "JOB_STATUS_CHANGE")?;
    let id = data.get("id").filter(|_| data["status"] == "concluded")?;
    id.as_str().map(str::to_owned)
}

/// How a job has ended, by the answer to `query-jobs`: its error, if there was one.
pub(crate) fn job_error(jobs: &Value, id: &str) -> Option<String> {
    let job = jobs.as_array()?.iter().find(|job| job["id"] == id)?;
    job.get("error").and_then(Value::as_str).map(str::to_owned)
}

/// Whether a disk has a snapshot of this name, by the answer to `query-named-block-nodes`.
pub(crate) fn has_snapshot(disks: &Value, disk: &str, tag: &str) -> bool {
    let mut disks = disks.as_array().into_iter().flatten();
    let snapshots =
        disks.find(|found| found["node-name"] == disk).map(|d| &d["image"]["snapshots"]);
    let mut found = snapshots.and_then(Value::as_array).into_iter().flatten();
    found.any(|snapshot| snapshot["name"] == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_found_in_its_own_disk_only() {
        let disks = json!([{"node-name": "other", "image": {"snapshots": [{"name": "s"}]}},
            {"node-name": "disk", "image": {}}, {"node-name": "kept", "image": {"snapshots": [{"name": "s"}]}}]);
        let found = ["other", "disk", "kept", "none"].map(|disk| has_snapshot(&disks, disk, "s"));
        assert_eq!(found, [true, false, true, false]);
        assert!(!has_snapshot(&disks, "kept", "t") && !has_snapshot(&json!(7), "kept", "s"));
    }

    #[test]
    fn the_first_command_follows_the_handshake() {
        let mut talk = Conversation::default();
        let (id, bytes) = talk.command("stop");
        assert_eq!(id, 1);
        assert_eq!(String::from_utf8(bytes).unwrap().lines().count(), 2);
        let (id, bytes) = talk.command("cont");
        assert_eq!((id, String::from_utf8(bytes).unwrap().lines().count()), (2, 1));
    }

    #[test]
    fn a_job_s_end_and_error_are_told() {
        let mut talk = Conversation::default();
        let running =
            b"{\"event\":\"JOB_STATUS_CHANGE\",\"data\":{\"status\":\"running\",\"id\":\"a\"}}\n";
        assert_eq!(talk.take(running), [QmpMessage::Event]);
        let ended =
            b"{\"event\":\"JOB_STATUS_CHANGE\",\"data\":{\"status\":\"concluded\",\"id\":\"a\"}}\n";
        assert_eq!(talk.take(ended), [QmpMessage::JobEnded("a".to_owned())]);
        let jobs = json!([{"id": "b"}, {"id": "a", "error": "no"}]);
        assert_eq!(job_error(&jobs, "a").as_deref(), Some("no"));
        assert_eq!(job_error(&jobs, "b"), None);
    }

    #[test]
    fn the_agent_s_port_is_told_from_others() {
        let mut talk = Conversation::default();
        let event = |id: &str| {
            let data = json!({"id": id, "open": true});
            format!("{}\n", json!({"event": "VSERPORT_CHANGE", "data": data}))
        };
        assert_eq!(talk.take(event("agent").as_bytes()), [QmpMessage::Agent(true)]);
        assert_eq!(talk.take(event("other").as_bytes()), [QmpMessage::Event]);
    }

    #[test]
    fn a_reset_is_told_from_a_guest_that_powers_off() {
        let mut talk = Conversation::default();
        let event = |reason: &str| {
            let data = json!({"guest": true, "reason": reason});
            format!("{}\n", json!({"event": "SHUTDOWN", "data": data}))
        };
        assert_eq!(talk.take(event("guest-reset").as_bytes()), [QmpMessage::Reset]);
        assert_eq!(talk.take(event("guest-shutdown").as_bytes()), [QmpMessage::Event]);
    }

    #[test]
    fn answers_are_told_from_events() {
        let mut talk = Conversation::default();
        assert_eq!(talk.take(b"{\"QMP\":{}}\n{\"retu"), [QmpMessage::Event]);
        assert_eq!(talk.take(b"rn\":{},\"id\":3}\n"), [QmpMessage::Answer(3, Ok(json!({})))]);
        let refused = b"{\"id\":4,\"error\":{\"class\":\"X\",\"desc\":\"no\"}}\nrubbish\n";
        assert_eq!(talk.take(refused), [QmpMessage::Answer(4, Err("no".to_owned()))]);
    }
}
