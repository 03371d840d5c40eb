//! How messages travel: a trait, and the transport by two streams of bytes, whose messages have their length before them.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message: a lab file is smaller, and the state of a lab of thousands of nodes.
const LONGEST: usize = 256 << 20;

/// A connection between a driver and an agent.
pub(crate) trait Transport: Send {
    /// Sends a message.
    ///
    /// # Errors
    /// The other side has ended.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Waits for a message; `None` when the other side has ended.
    ///
    /// # Errors
    /// It ended in the middle of one, or sends something else.
    fn receive(&mut self) -> io::Result<Option<Vec<u8>>>;
}

/// Sends a message of one of the types of [`message`](super::message).
pub(crate) fn say(to: &mut dyn Transport, message: &impl Serialize) -> io::Result<()> {
    to.send(&serde_json::to_vec(message)?)
}

/// Waits for one.
pub(crate) fn hear<T: DeserializeOwned>(from: &mut dyn Transport) -> io::Result<Option<T>> {
    let Some(bytes) = from.receive()? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| {
        let text = format!("a message cannot be understood: {e}");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Sends a message and waits for one. What the other side said before it ended is heard although it takes nothing more.
pub(crate) fn exchange<T: DeserializeOwned>(
    with: &mut dyn Transport,
    message: &impl Serialize,
) -> io::Result<Option<T>> {
    match say(with, message) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e),
        _ => hear(with),
    }
}

/// Messages over a pair of streams. Not a byte more is read than messages have, since programs may use the streams afterwards.
pub(crate) struct Framed<R, W> {
    pub(crate) input: R,
    pub(crate) output: W,
}

impl<R: Read + Send, W: Write + Send> Transport for Framed<R, W> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        if message.len() > LONGEST {
            let text = format!("a message of {} bytes is too long", message.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        // In one write: a short message is one packet of whatever is between the two.
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(message);
        self.output.write_all(&bytes)?;
        self.output.flush()
    }

    fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut head = [0; 4];
        let mut known = 0;
        while known < head.len() {
            match self.input.read(&mut head[known..]) {
                Ok(0) if known == 0 => return Ok(None),
                Ok(0) => return Err(cut_off()),
                Ok(n) => known += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
        if length > LONGEST {
            let begins = String::from_utf8_lossy(&head).into_owned();
            let text = format!("something else than an agent of netloom answers: {begins:?}...");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        // Grows as bytes come: the other side's word alone takes no memory.
        let mut message = Vec::new();
        (&mut self.input).take(length as u64).read_to_end(&mut message)?;
        if message.len() < length { Err(cut_off()) } else { Ok(Some(message)) }
    }
}

fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended in the middle of a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(bytes: &[u8]) -> (io::Result<Option<Vec<u8>>>, Vec<u8>) {
        let mut framed = Framed { input: bytes, output: vec![] };
        let found = framed.receive();
        (found, framed.input.to_vec())
    }

    #[test]
    fn what_is_sent_is_received_and_no_byte_more() {
        let mut framed = Framed { input: io::empty(), output: vec![] };
        framed.send(b"one").unwrap();
        framed.send(b"").unwrap();
        let mut bytes = framed.output;
        bytes.extend_from_slice(b"rest");
        let (first, rest) = receive(&bytes);
        assert_eq!(first.unwrap().unwrap(), b"one");
        let (second, rest) = receive(&rest);
        assert_eq!((second.unwrap().unwrap(), rest), (vec![], b"rest".to_vec()));
    }

    #[test]
    fn an_end_is_told_from_a_cut_and_from_a_stranger() {
        assert!(receive(b"").0.unwrap().is_none());
        for cut in [b"\0\0\0".as_slice(), b"\0\0\0\x05abcd"] {
            assert_eq!(receive(cut).0.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        // Nothing of that length is waited for.
        let told = receive(b"Welcome to this machine").0.unwrap_err().to_string();
        assert!(told.contains("something else than an agent") && told.contains("Welc"), "{told}");
    }

    /// A stream whose reader has ended.
    struct Ended;

    impl Write for Ended {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_last_word_of_one_that_ended_is_heard() {
        let mut framed = Framed { input: b"\0\0\0\x01777".as_slice(), output: Ended };
        assert_eq!(exchange::<u8>(&mut framed, &1).unwrap(), Some(7));
        let mut silent = Framed { input: io::empty(), output: Ended };
        assert_eq!(exchange::<u8>(&mut silent, &1).unwrap(), None);
    }

    #[test]
    fn a_message_of_another_kind_is_no_message() {
        let mut framed = Framed { input: b"\0\0\0\x02{}".as_slice(), output: vec![] };
        let told = hear::<super::super::message::Ask>(&mut framed).unwrap_err().to_string();
        assert!(told.contains("cannot be understood"), "{told}");
    }
}
