//! QMP, QEMU's machine protocol: a line of JSON a message (qmp-spec).
//!
//! Commands are sent without waiting; answers and events are read as they come.

use serde_json::{Value, json};

/// What QEMU says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A command with this id was done, or refused with these words.
    Answer(u64, Result<(), String>),
    /// Something happened that nobody asked for, or the greeting.
    Event,
}

/// The longest line that is kept.
const MOST: usize = 1 << 20;

/// One side of the conversation.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    held: Vec<u8>,
    last: u64,
}

impl Talk {
    /// The line for a command, with its id. Before the first, QEMU wants to be told that we understand it.
    pub(crate) fn command(&mut self, name: &str) -> (u64, Vec<u8>) {
        let mut bytes = Vec::new();
        if self.last == 0 {
            bytes.extend(b"{\"execute\":\"qmp_capabilities\",\"id\":0}\n");
        }
        self.last += 1;
        bytes.extend(json!({"execute": name, "id": self.last}).to_string().bytes());
        bytes.push(b'\n');
        (self.last, bytes)
    }

    /// Takes bytes; returns what whole lines say. An endless line is dropped.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Heard> {
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

fn understand(line: &[u8]) -> Option<Heard> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let Some(id) = value.get("id").and_then(Value::as_u64) else { return Some(Heard::Event) };
    let error = value
        .get("error")
        .map(|error| error.get("desc").and_then(Value::as_str).unwrap_or("refused").to_owned());
    Some(Heard::Answer(id, error.map_or(Ok(()), Err)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_command_follows_the_handshake() {
        let mut talk = Talk::default();
        let (id, bytes) = talk.command("stop");
        assert_eq!(id, 1);
        assert_eq!(String::from_utf8(bytes).unwrap().lines().count(), 2);
        let (id, bytes) = talk.command("cont");
        assert_eq!((id, String::from_utf8(bytes).unwrap().lines().count()), (2, 1));
    }

    #[test]
    fn answers_are_told_from_events() {
        let mut talk = Talk::default();
        assert_eq!(talk.take(b"{\"QMP\":{}}\n{\"retu"), [Heard::Event]);
        assert_eq!(talk.take(b"rn\":{},\"id\":3}\n"), [Heard::Answer(3, Ok(()))]);
        let refused = b"{\"id\":4,\"error\":{\"class\":\"X\",\"desc\":\"no\"}}\nrubbish\n";
        assert_eq!(talk.take(refused), [Heard::Answer(4, Err("no".to_owned()))]);
    }
}
