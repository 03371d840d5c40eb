//! Requests of managers and their answers: bodies of any length, in parts.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Channel, Incoming, MOST_PART, Message, Posted};
use crate::{Error, Result};

/// Most bytes of a whole request or answer.
const MOST_BODY: usize = 16 << 20;

/// The parts of a body, each with whether it is the last. An empty body is one empty part.
pub fn split(body: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let parts = body.len().div_ceil(MOST_PART).max(1);
    (0..parts).map(move |i| {
        let part = body.get(i * MOST_PART..).unwrap_or_default();
        (i + 1 == parts, part.get(..MOST_PART).unwrap_or(part))
    })
}

/// Puts the parts of one body together, up to a bound.
#[derive(Debug)]
pub struct Collector {
    body: Vec<u8>,
    most: usize,
}

impl Collector {
    /// Of a body of at most so many bytes.
    pub fn new(most: usize) -> Self {
        Collector { body: Vec::new(), most }
    }

    /// Takes a part; the whole body if it is the last.
    ///
    /// # Errors
    /// [`Error::Message`] when the body grows beyond its bound.
    pub fn push(&mut self, last: bool, part: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.body.len() + part.len() > self.most {
            self.body = Vec::new();
            return Err(Error::Message { operation: "read", reason: "body too long" });
        }
        self.body.extend(part);
        Ok(last.then(|| std::mem::take(&mut self.body)))
    }
}

/// What a switch answered to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether what was asked for was not done.
    pub failed: bool,
    /// JSON.
    pub body: Vec<u8>,
}

/// Asks the switch at `path` and waits for its answer, in all at most so long.
///
/// # Errors
/// [`Error::Call`] when the switch cannot be reached, [`Error::Silent`] when it does not answer,
/// [`Error::Message`] when its answer is none.
pub fn request(path: &Path, body: &[u8], timeout: Duration) -> Result<Answer> {
    let silent = |reason| Error::Silent { switch: path.to_owned(), operation: "ask", reason };
    let end = Instant::now() + timeout;
    let left = || end.saturating_duration_since(Instant::now());
    let mut channel = Channel::connect(path, timeout)?;
    for (last, body) in split(body) {
        match channel.send_wait(&Message::Request { id: 1, last, body }, &[], left())? {
            Posted::Done => {}
            Posted::Full => return Err(silent("no answer in time")),
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
            return Err(silent("no answer in time"));
        }
    }
}
