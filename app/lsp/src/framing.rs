//! Messages as they come and go: headers, an empty line, JSON. The length of all is bounded.

use std::io::{self, BufRead, Read, Write};

use lsp_server::Message;
use serde_json::{Value, json};

use crate::{Error, Result};

/// The longest message: a lab file of the largest size with every byte escaped.
const MOST: u64 = 64 << 20;

/// The longest header.
const LONGEST_HEADER: u64 = 4096;

/// What came.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message.
    Message(Message),
    /// Something else of a known length, in words.
    Broken(String),
    /// Nothing more.
    End,
}

/// Reads what comes next.
pub(crate) fn read(input: &mut impl BufRead) -> Result<Incoming> {
    let Some(length) = length(input)? else { return Ok(Incoming::End) };
    if length > MOST {
        let passed =
            io::copy(&mut input.by_ref().take(length), &mut io::sink()).map_err(Error::Read)?;
        let words = format!("a message of {length} bytes; at most {MOST} are read");
        return if passed == length { Ok(Incoming::Broken(words)) } else { Err(Error::Cut) };
    }
    let mut body = Vec::new();
    // Memory grows with what comes, not with what is announced.
    input.by_ref().take(length).read_to_end(&mut body).map_err(Error::Read)?;
    if body.len() as u64 != length {
        return Err(Error::Cut);
    }
    Ok(match serde_json::from_slice(&body) {
        Ok(message) => Incoming::Message(message),
        Err(error) => Incoming::Broken(format!("not a message: {error}")),
    })
}

/// The length that the headers of a message announce; `None` at the end of the input.
fn length(input: &mut impl BufRead) -> Result<Option<u64>> {
    let mut length = None;
    let mut is_begun = false;
    loop {
        let mut line = Vec::new();
        input.by_ref().take(LONGEST_HEADER).read_until(b'\n', &mut line).map_err(Error::Read)?;
        if line.is_empty() {
            return if is_begun { Err(Error::Cut) } else { Ok(None) };
        }
        let text = String::from_utf8_lossy(&line);
        let (header, is_whole) = (text.trim_end(), line.ends_with(b"\n"));
        is_begun |= !header.is_empty();
        if header.is_empty() && is_whole {
            if let Some(length) = length {
                return Ok(Some(length));
            }
            // Empty lines between messages do no harm.
            continue;
        }
        let Some((name, value)) = header.split_once(':').filter(|_| is_whole) else {
            return Err(unexpected(header));
        };
        match name.trim().to_ascii_lowercase().as_str() {
            "content-length" => {
                length = Some(value.trim().parse().map_err(|_| unexpected(header))?);
            }
            "content-type" => {}
            // A lab file, for example: lines of YAML look like headers.
            _ => return Err(unexpected(header)),
        }
    }
}

fn unexpected(header: &str) -> Error {
    Error::Header { found: header.chars().take(60).collect() }
}

/// Writes a message.
pub(crate) fn write(message: impl Into<Message>, out: &mut impl Write) -> Result<()> {
    message.into().write(out).map_err(Error::Write)
}

/// Answers what is not a message, and so has no identity to answer to.
pub(crate) fn write_broken(code: i32, words: &str, out: &mut impl Write) -> Result<()> {
    let answer =
        json!({"jsonrpc": "2.0", "id": Value::Null, "error": {"code": code, "message": words}});
    let text = answer.to_string();
    let whole =
        write!(out, "Content-Length: {}\r\n\r\n{text}", text.len()).and_then(|()| out.flush());
    whole.map_err(Error::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut input: &[u8]) -> Vec<String> {
        let mut found = vec![];
        loop {
            match read(&mut input) {
                Ok(Incoming::Message(message)) => found.push(format!("{message:?}")),
                Ok(Incoming::Broken(words)) => found.push(words),
                Ok(Incoming::End) => return found,
                Err(error) => {
                    found.push(error.to_string());
                    return found;
                }
            }
        }
    }

    #[test]
    fn broken_messages_do_not_end_the_next_ones() {
        let good = "Content-Length: 33\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}";
        let deep = "[".repeat(100_000);
        let input = format!(
            "{good}Content-Length: 3\r\nContent-Type: x\r\n\r\n{{]]content-length:2\n\n[]Content-Length: {}\r\n\r\n{deep}{good}",
            deep.len()
        );
        let found = all(input.as_bytes());
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].contains("exit") && found[4].contains("exit"), "{found:?}");
        assert!(found[1..4].iter().all(|words| words.starts_with("not a message: ")), "{found:?}");
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for (input, wanted) in [
            ("Content-Length: -1\r\n\r\n", "not \"Content-Length: -1\""),
            (
                "Content-Length: 99999999999999999999999\r\n\r\n",
                "a header of a message is expected",
            ),
            ("hello\r\n", "not \"hello\""),
            ("nodes: {}\n", "not \"nodes: {}\""),
        ] {
            let found = all(input.as_bytes());
            assert!(found.len() == 1 && found[0].contains(wanted), "{found:?}");
        }
        assert!(all(format!("X: {}", "x".repeat(1 << 20)).as_bytes())[0].contains("X: xxx"));
        // More is announced than comes: its memory is not taken.
        for input in [
            "Content-Length: 60000000\r\n\r\n{",
            "Content-Length: 999999999999\r\n\r\n{",
            "Content-Length: 2\r\n",
        ] {
            assert_eq!(all(input.as_bytes()), ["language client: its input ends within a message"]);
        }
        assert!(all(b"").is_empty() && all(b"\r\n").is_empty());
    }
}
