//! Bytes or messages that wait until a descriptor takes them, so that one slow reader stops nobody else, and how much a
//! reader has not taken yet.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use rustix::io::Errno;

/// From here on a queue's source is not read any more.
const FULL: usize = 256 << 10;

/// What waits for one descriptor, which does not block.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.waiting.push_back(message);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    /// Forgets everything; returns how many bytes that was.
    pub(crate) fn clear(&mut self) -> usize {
        self.waiting.clear();
        std::mem::take(&mut self.bytes)
    }

    /// Writes what `to` takes, which is the number returned; nothing is left to wait for if it is gone. A message that
    /// is taken in part stays with its rest.
    pub(crate) fn flush(&mut self, to: impl AsFd) -> usize {
        self.flush_within(to, usize::MAX)
    }

    /// As [`Queue::flush`], but no more than this many bytes.
    pub(crate) fn flush_within(&mut self, to: impl AsFd, most: usize) -> usize {
        let mut total = 0;
        while let Some(message) = self.waiting.front_mut().filter(|_| total < most) {
            let piece = message.get(..most - total).unwrap_or(message);
            match rustix::io::write(&to, piece) {
                Ok(count) => {
                    total += count;
                    self.bytes -= count;
                    message.drain(..count);
                    if message.is_empty() {
                        self.waiting.pop_front();
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // Gone: what waits has no reader any more.
                Err(_) => {
                    total += self.clear();
                }
            }
        }
        total
    }
}

/// How much may be on its way to a reader that says what it has taken.
#[derive(Debug)]
pub(crate) struct Window {
    most: usize,
    used: usize,
}

impl Window {
    pub(crate) fn new(most: usize) -> Window {
        Window { most, used: 0 }
    }

    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.used)
    }

    pub(crate) fn spend(&mut self, count: usize) {
        self.used = self.used.saturating_add(count);
    }

    /// The reader has taken so much.
    pub(crate) fn give_back(&mut self, count: usize) {
        // A peer that gives back too much gains nothing.
        self.used = self.used.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    fn pipe() -> (OwnedFd, OwnedFd) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        (reader, writer)
    }

    #[test]
    fn no_more_is_written_than_there_is_room_for() {
        let (reader, writer) = pipe();
        let mut queue = Queue::default();
        queue.push(b"abc".to_vec());
        queue.push(b"defg".to_vec());
        assert_eq!(queue.flush_within(&writer, 5), 5);
        assert_eq!(queue.flush_within(&writer, 0), 0);
        assert!(!queue.is_empty());
        assert_eq!(queue.flush(&writer), 2);
        let mut buffer = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut buffer).unwrap(), 7);
        assert_eq!(&buffer[..7], b"abcdefg");
    }

    #[test]
    fn what_waits_for_a_reader_that_is_gone_is_forgotten() {
        let (reader, writer) = pipe();
        let mut queue = Queue::default();
        queue.push(b"abc".to_vec());
        drop(reader);
        // Rust's own programs ignore SIGPIPE.
        assert_eq!((queue.flush(&writer), queue.is_empty()), (3, true));
    }

    #[test]
    fn a_window_opens_as_its_reader_takes() {
        let mut window = Window::new(10);
        window.spend(12);
        assert_eq!(window.room(), 0);
        window.give_back(5);
        assert_eq!(window.room(), 3);
        // A peer that takes more than it was given opens it no further.
        window.give_back(99);
        assert_eq!(window.room(), 10);
    }
}
