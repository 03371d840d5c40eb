//! Messages between Wireshark's toolbar and this process.
//!
//! A message is `T`, three bytes with the length of what follows, the number of a control, a command and its payload.
//! Specification: Wireshark's Developer's Guide, section 8.2 (control messages).

use std::io::{self, Read, Write};

/// The longest payload that is read: values are short.
const LONGEST: usize = 4096;

/// The bytes before a payload.
const HEAD: usize = 6;

/// The longest message that is written: a pipe takes it whole or not at all (`PIPE_BUF`, pipe(7)).
const WHOLE: usize = 4096;

/// A message's command. Others mean nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Command {
    /// The toolbar is there.
    Initialized = 0,
    /// A control has this value.
    Set = 1,
    /// A control cannot be used.
    Disable = 5,
    /// Text for the status bar.
    Status = 6,
    /// Text that has to be read.
    Warning = 8,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The number of the control; 255 stands for none.
    pub(super) control: u8,
    /// The command's number.
    pub(super) command: u8,
    /// Its value.
    pub(super) payload: Vec<u8>,
}

impl Message {
    /// A message with a text, or as much of it as a message has room for.
    pub(super) fn of(control: u8, command: Command, text: &str) -> Message {
        let room = (0..=WHOLE - HEAD).rev().find(|end| text.is_char_boundary(*end));
        let text = if text.len() > WHOLE - HEAD { &text[..room.unwrap_or(0)] } else { text };
        Message { control, command: command as u8, payload: text.as_bytes().into() }
    }

    /// Reads a message; `None` at the end.
    ///
    /// # Errors
    /// What comes is not a message.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Message>> {
        let mut head = [0; HEAD];
        match from.read_exact(&mut head) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let [sign, high, middle, low, control, command] = head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let length = usize::try_from(length).ok().and_then(|length| length.checked_sub(2));
        let Some(length) = length.filter(|length| sign == b'T' && *length <= LONGEST) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a message of a toolbar"));
        };
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        Ok(Some(Message { control, command, payload }))
    }

    /// Writes it in one piece.
    ///
    /// # Errors
    /// Nobody reads, or not fast enough.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let payload = &self.payload[..self.payload.len().min(WHOLE - HEAD)];
        let [_, high, middle, low] = u32::try_from(payload.len() + 2).unwrap_or(2).to_be_bytes();
        let mut bytes = vec![b'T', high, middle, low, self.control, self.command];
        bytes.extend(payload);
        // One write of at most PIPE_BUF bytes is not torn apart by others (pipe(7)).
        to.write_all(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let message = Message::of(1, Command::Set, "50ms");
        let mut bytes = vec![];
        message.write(&mut bytes).unwrap();
        assert_eq!(bytes, b"T\0\0\x06\x01\x0150ms");
        let mut rest = bytes.as_slice();
        assert_eq!(Message::read(&mut rest).unwrap(), Some(message));
        assert_eq!(Message::read(&mut rest).unwrap(), None);
    }

    #[test]
    fn a_long_text_is_a_message_that_a_pipe_takes_whole() {
        for (text, kept) in
            [("x".repeat(5000), 4090), ("ü€".repeat(1000), 4090), ("€".repeat(2000), 4089)]
        {
            let mut bytes = vec![];
            Message::of(255, Command::Warning, &text).write(&mut bytes).unwrap();
            assert_eq!(bytes.len(), HEAD + kept);
            let read = Message::read(&mut bytes.as_slice()).unwrap().unwrap();
            assert_eq!(std::str::from_utf8(&read.payload).unwrap(), &text[..kept]);
        }
    }

    #[test]
    fn what_is_no_message_is_an_error_and_takes_no_memory() {
        for wrong in
            [&b"X\0\0\x02\0\0"[..], b"T\0\0\x01\0\0", b"T\xff\xff\xff\0\0", b"T\0\0\x08\0\x01ab"]
        {
            assert!(Message::read(&mut &*wrong).is_err(), "{wrong:?}");
        }
    }
}
