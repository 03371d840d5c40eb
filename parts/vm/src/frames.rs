//! The language between a guest's agent, the machine's process and its clients.
//!
//! On the guest's serial line a frame is a kind (1 byte), a session (4) and a length (4, both little-endian), then so
//! many bytes. Clients send the same over a SOCK_SEQPACKET socket, one frame a message, session 0. A peer that breaks
//! the rules is cut off. No more is sent over the line than its reader has said to have taken, so a slow program or
//! client holds up nobody else.

use serde::{Deserialize, Serialize};

/// Bytes before a frame's data, and the most data of one.
pub(crate) const HEADER: usize = 9;
pub(crate) const MOST: usize = 16 << 10;

/// The most bytes that the guest's terminal may hold unread. From 3,969 on it is throttled, and User-mode Linux never
/// listens to a line again that was (arch/um/drivers/line.c: what throttling turns off is not turned on).
pub(crate) const MOST_ON_LINE: usize = 3072;

/// The most bytes of one program's input, and of its output, that their reader has not taken.
pub(crate) const MOST_ON_WAY: usize = 64 << 10;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// From the guest: its agent listens.
    Hello = 0,
    /// To the guest: start this program ([`Exec`]).
    Exec = 1,
    /// To the guest: input for the program, or for the console. Without data: the input has ended.
    Input = 2,
    /// From the guest: the program's output.
    Output = 3,
    /// From the guest: the program's errors.
    Errors = 4,
    /// From the guest: the program has ended, with this status (4 bytes).
    Exit = 5,
    /// From the guest: what it waits for before it is ready; empty when it is.
    State = 6,
    /// To the guest: end.
    Stop = 7,
    /// To the guest: nobody waits for the session any more.
    Close = 8,
    /// To a client: the request cannot be done, and why.
    Refused = 9,
    /// From a client: join the console.
    Console = 10,
    /// From a client: do this with the machine: a word.
    Control = 11,
    /// To a client: it is done.
    Done = 12,
    /// This many bytes (4) were taken: of the program's input or output; of the line, in session 0. Others may follow.
    Taken = 13,
}

// By their numbers.
const KINDS: [Kind; 14] = [
    Kind::Hello,
    Kind::Exec,
    Kind::Input,
    Kind::Output,
    Kind::Errors,
    Kind::Exit,
    Kind::State,
    Kind::Stop,
    Kind::Close,
    Kind::Refused,
    Kind::Console,
    Kind::Control,
    Kind::Done,
    Kind::Taken,
];

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) session: u32,
    pub(crate) data: Vec<u8>,
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exec {
    pub(crate) argv: Vec<String>,
    /// Added to the environment of the guest's programs.
    pub(crate) env: Vec<(String, String)>,
    /// Whether it has no input: its caller's is a terminal.
    pub(crate) no_input: bool,
}

impl Frame {
    pub(crate) fn new(kind: Kind, session: u32, data: &[u8]) -> Frame {
        Frame { kind, session, data: data.to_vec() }
    }

    /// This many bytes were taken.
    pub(crate) fn taken(session: u32, count: usize) -> Frame {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Frame::new(Kind::Taken, session, &count.to_le_bytes())
    }

    /// The number that is its data.
    pub(crate) fn number(&self) -> Option<u32> {
        self.data.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        let mut bytes = vec![self.kind as u8];
        bytes.extend(self.session.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(&self.data);
        bytes
    }
}

/// Bytes of a stream that are not a whole frame yet.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    held: Vec<u8>,
}

impl Stream {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next whole frame; an error if the peer breaks the rules, and what it sent is dropped.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, &'static str> {
        let next = self.cut();
        if next.is_err() {
            self.held.clear();
        }
        next
    }

    fn cut(&mut self) -> Result<Option<Frame>, &'static str> {
        let Some(&[kind, a, b, c, d, e, f, g, h]) = self.held.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let kind = *KINDS.get(usize::from(kind)).ok_or("a frame of an unknown kind")?;
        let session = u32::from_le_bytes([a, b, c, d]);
        let length = usize::try_from(u32::from_le_bytes([e, f, g, h])).unwrap_or(usize::MAX);
        // Judged before the data come: a peer could announce gigabytes.
        if length > MOST {
            return Err("a frame that is too long");
        }
        let Some(data) = self.held.get(HEADER..HEADER + length).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        self.held.drain(..HEADER + length);
        Ok(Some(Frame { kind, session, data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cutting_of_the_stream() {
        let sent = [Frame::new(Kind::Exec, 7, b"abc"), Frame::new(Kind::Done, u32::MAX, b"")];
        let bytes: Vec<u8> = sent.iter().flat_map(Frame::encode).collect();
        for size in 1..bytes.len() {
            let (mut stream, mut got) = (Stream::default(), Vec::new());
            for piece in bytes.chunks(size) {
                stream.push(piece);
                while let Some(frame) = stream.next().unwrap() {
                    got.push(frame);
                }
            }
            assert_eq!(got, sent, "pieces of {size}");
        }
    }

    #[test]
    fn a_peer_that_breaks_the_rules_is_found_out() {
        for (bytes, why) in [
            ([14, 0, 0, 0, 0, 0, 0, 0, 0], "a frame of an unknown kind"),
            ([3, 0, 0, 0, 0, 0, 0, 1, 0], "a frame that is too long"),
        ] {
            let mut stream = Stream::default();
            stream.push(&bytes);
            assert_eq!((stream.next(), stream.next()), (Err(why), Ok(None)));
        }
    }

    #[test]
    fn every_kind_is_found_by_its_number() {
        for (number, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}
