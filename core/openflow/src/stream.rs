//! A stream of bytes into messages, by the length in their headers.
//!
//! Memory is bounded: at most one whole message and what was pushed behind it. The caller stops reading
//! its connection while messages wait. A length below that of a header ends the stream.

use crate::header::{HEADER_LEN, Header};

/// Bytes of a connection that are not yet taken as messages.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    bytes: Vec<u8>,
    start: usize,
}

/// The stream lost its frame: a header's length is shorter than the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("OpenFlow connection: a message of {length} bytes is shorter than its header")]
pub struct Broken {
    /// The length in the header.
    pub length: u16,
}

impl Stream {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        // Once a push instead of at each message: each time it moves what waits.
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes wait.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Bytes of memory that it has for what waits.
    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives back memory that was taken for more than waits now.
    pub fn shrink(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
        // Room is left, so that the next push need not allocate.
        self.bytes.shrink_to(2 * self.bytes.len());
    }

    /// The next whole message, if it has arrived.
    ///
    /// # Errors
    /// A header gives a length below its own: where the next message begins is not known.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, Broken> {
        let waiting = self.bytes.get(self.start..).unwrap_or(&[]);
        let Some(header) = Header::parse(waiting) else { return Ok(None) };
        let length = usize::from(header.length);
        if length < HEADER_LEN {
            return Err(Broken { length: header.length });
        }
        if waiting.len() < length {
            return Ok(None);
        }
        let start = self.start;
        self.start += length;
        Ok(self.bytes.get(start..start + length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_pieces_of_any_size() {
        let mut sent = vec![];
        for length in [8u16, 9, 300, 8, 65535] {
            let mut message = vec![4, 0];
            message.extend(length.to_be_bytes());
            message.resize(usize::from(length), 7);
            sent.push(message);
        }
        let all = sent.concat();
        for piece in [1, 7, 8, 1000, 70000] {
            let mut stream = Stream::default();
            let mut got = vec![];
            for chunk in all.chunks(piece) {
                stream.push(chunk);
                while let Some(message) = stream.next_message().unwrap() {
                    got.push(message.to_vec());
                }
            }
            assert_eq!(got, sent);
            assert_eq!(stream.waiting(), 0);
        }
    }

    #[test]
    fn a_length_shorter_than_the_header_ends_it() {
        let mut stream = Stream::default();
        stream.push(&[1, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(stream.next_message(), Err(Broken { length: 7 }));
    }
}
