//! Requests of managers and their answers: bodies of any length, in parts.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Channel, Incoming, MOST_PART, Message, Posted};
use crate::{Error, Result};

/// Most bytes of a whole request or answer.
const MOST_BODY: usize = 16 << 20;

/// Splits a body into parts, each with whether it is the last. An empty body is one empty part.
pub fn split(body: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let parts = body.len().div_ceil(MOST_PART).max(1);
    (0..parts).map(move |i| {
        let part = body.get(i * MOST_PART..).unwrap_or_default();
        (i + 1 == parts, part.get(..MOST_PART).unwrap_or(part))
    })
}

/// Joins the parts of one body, up to a bound.
#[derive(Debug)]
pub struct Collector {
    body: Vec<u8>,
    most: usize,
}

impl Collector {
    /// For a body of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Collector { body: Vec::new(), most }
    }

    /// Adds a part; returns the whole body if it is the last.
    ///
    /// # Errors
    /// [`Error::Message`] if the body exceeds its bound.
    pub fn push(&mut self, last: bool, part: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.body.len() + part.len() > self.most {
            self.body = Vec::new();
            return Err(Error::Message { operation: "read", reason: "body too long" });
        }
        self.body.extend(part);
        Ok(last.then(|| std::mem::take(&mut self.body)))
    }
}

/// A switch's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the request failed.
    pub failed: bool,
    /// JSON.
    pub body: Vec<u8>,
}

/// The reason of [`Error::Silent`] for an answer that did not come in time.
pub const LATE: &str = "no answer in time";

/// Sends a request to the switch at `path` and waits for its answer, together at most `timeout`.
///
/// # Errors
/// [`Error::Failed`] if the switch cannot be reached, [`Error::Silent`] if it does not answer,
/// [`Error::Message`] if its answer is invalid.
pub fn request(path: &Path, body: &[u8], timeout: Duration) -> Result<Answer> {
    let silent = |reason| Error::Silent { switch: path.to_owned(), operation: "ask", reason };
    let end = Instant::now() + timeout;
    let left = || end.saturating_duration_since(Instant::now());
    let mut channel = Channel::connect(path, timeout)?;
    for (last, body) in split(body) {
        match channel.send_wait(&Message::Request { id: 1, last, body }, &[], left())? {
            Posted::Done => {}
            Posted::Full => return Err(silent(LATE)),
            Posted::Closed => return Err(silent("it closed the connection")),
        }
    }
    let mut collector = Collector::new(MOST_BODY);
    loop {
        let nothing = match channel.receive()? {
            Incoming::Message {
                message: Message::Answer { id: 1, last, failed, body }, ..
            } => {
                if let Some(body) = collector.push(last, body)? {
                    return Ok(Answer { failed, body });
                }
                false
            }
            Incoming::Message { message: Message::Refused(refused), .. } => {
                return Err(Error::Refused {
                    switch: path.to_owned(),
                    reason: refused.reason,
                    text: refused.text.to_owned(),
                });
            }
            Incoming::Message { .. } => return Err(silent("another message came")),
            Incoming::Closed => return Err(silent("it closed the connection")),
            Incoming::Nothing => true,
        };
        if nothing && !channel.wait(left())? && left().is_zero() {
            return Err(silent(LATE));
        }
    }
}
