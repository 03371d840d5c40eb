//! A body in chunks (RFC 9112 section 7.1): which of its bytes are data.

use crate::{Error, Result};

/// The longest line.
const LONGEST: usize = 4096;

#[derive(Clone, Debug)]
enum State {
    /// In a line with a chunk's length, so far.
    Length(Vec<u8>),
    /// This many bytes of data are left, then an empty line.
    Data(u64),
    /// In the empty line behind data.
    Behind,
    /// In lines behind the last chunk; the length of this one, and how many have been.
    Trailer(usize, usize),
    End,
}

/// A reader of such a body.
#[derive(Clone, Debug)]
pub struct Chunks(State);

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks(State::Length(Vec::new()))
    }
}

impl Chunks {
    /// Whether the body has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.0, State::End)
    }

    /// Takes the next bytes: how many are taken, and how many at their end are data.
    ///
    /// # Errors
    /// They are not chunks.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, usize)> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match &mut self.0 {
                State::End => break,
                State::Data(left) => {
                    let most = usize::try_from(*left).unwrap_or(usize::MAX);
                    let count = most.min(bytes.len() - at);
                    *left -= count as u64;
                    if *left == 0 {
                        self.0 = State::Behind;
                    }
                    return Ok((at + count, count));
                }
                State::Length(line) if *byte == b'\n' => {
                    self.0 = match length(line)? {
                        0 => State::Trailer(0, 0),
                        length => State::Data(length),
                    };
                }
                State::Length(line) if line.len() < LONGEST => line.push(*byte),
                State::Behind if *byte == b'\r' => {}
                State::Behind if *byte == b'\n' => self.0 = State::Length(Vec::new()),
                State::Trailer(length, _) if *byte == b'\n' && *length == 0 => self.0 = State::End,
                State::Trailer(length, lines) if *byte == b'\n' && *lines < 100 => {
                    (*length, *lines) = (0, *lines + 1);
                }
                State::Trailer(..) if *byte == b'\r' => {}
                State::Trailer(length, _) if *length < LONGEST => *length += 1,
                _ => return Err(Error::Http("the answer's chunks are wrong")),
            }
            at += 1;
        }
        Ok((at, 0))
    }
}

fn length(line: &[u8]) -> Result<u64> {
    let text = line.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    let is_number = !text.is_empty() && text.len() <= 15 && text.iter().all(u8::is_ascii_hexdigit);
    let number = is_number.then(|| u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok());
    number.flatten().ok_or(Error::Http("a chunk's length is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(text: &[u8], step: usize) -> Result<Vec<u8>> {
        let mut chunks = Chunks::default();
        let mut out = Vec::new();
        for piece in text.chunks(step) {
            let mut rest = piece;
            while !rest.is_empty() && !chunks.is_done() {
                let (taken, data) = chunks.take(rest)?;
                out.extend_from_slice(&rest[taken - data..taken]);
                rest = &rest[taken..];
            }
        }
        assert!(chunks.is_done());
        Ok(out)
    }

    #[test]
    fn chunks_are_joined_however_they_come() {
        let text = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: 1\r\n\r\n";
        for step in 1..text.len() {
            assert_eq!(data(text, step).unwrap(), b"hello world");
        }
        for wrong in [&b"x\r\n"[..], b"-1\r\n", b"\r\n", b"fffffffffffffffff\r\n", b"1\r\nab\r\n"] {
            let mut chunks = Chunks::default();
            let mut rest = wrong;
            let refused = loop {
                match chunks.take(rest) {
                    Err(_) => break true,
                    Ok((0, _)) => break false,
                    Ok((taken, _)) => rest = &rest[taken..],
                }
            };
            assert!(refused, "{wrong:?}");
        }
    }
}
