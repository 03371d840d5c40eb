//! Packets that wait for their controllers (section 6.1.2), bounded in number and bytes. Each waits for a second at least,
//! then the oldest makes room: while more come, controllers get them whole, and no answer finds its packet gone.
//!
//! A controller that knows the buffer's number answers with one message instead of two, so many buffers wait rather than
//! few. Each number is used once, so that a late answer cannot send another packet.

use std::collections::BTreeMap;

use netloom_openflow::{PortNumber, Reason};

use crate::rule::Time;

/// How long a packet waits at least, in nanoseconds.
const LEAST: Time = 1_000_000_000;

/// Bytes of all packets together.
const MOST: usize = 4 << 20;

/// Why a buffer cannot be taken: it was used or dropped, or never given.
pub(crate) fn missing(given: bool) -> Reason {
    if given { Reason::BadRequestBufferEmpty } else { Reason::BadRequestBufferUnknown }
}

#[derive(Clone, Debug)]
struct Waiting {
    since: Time,
    in_port: PortNumber,
    bytes: Vec<u8>,
}

/// The pool.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    capacity: usize,
    next: u32,
    /// By number, which is by age.
    waiting: BTreeMap<u32, Waiting>,
    bytes: usize,
}

impl Buffers {
    pub(crate) fn new(capacity: u32) -> Buffers {
        let capacity = usize::try_from(capacity).unwrap_or(0);
        Buffers { capacity, next: 0, waiting: BTreeMap::new(), bytes: 0 }
    }

    /// Keeps a packet; `None` if there is no room for it.
    pub(crate) fn keep(&mut self, in_port: PortNumber, bytes: &[u8], now: Time) -> Option<u32> {
        // The largest number is OFP_NO_BUFFER. Numbers never come round: an old one would name another
        // packet.
        if self.capacity == 0 || self.next >= u32::MAX - 1 || bytes.len() > MOST {
            return None;
        }
        while self.waiting.len() >= self.capacity || self.bytes + bytes.len() > MOST {
            let (oldest, waiting) = self.waiting.first_key_value()?;
            if waiting.since.saturating_add(LEAST) > now {
                return None;
            }
            let oldest = *oldest;
            self.remove(oldest);
        }
        let number = self.next;
        self.next += 1;
        self.bytes += bytes.len();
        self.waiting.insert(number, Waiting { since: now, in_port, bytes: bytes.to_vec() });
        Some(number)
    }

    fn remove(&mut self, number: u32) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        self.bytes -= waiting.bytes.len();
        Some(waiting)
    }

    /// Takes a packet out, with the port it came in by.
    pub(crate) fn take(&mut self, number: u32) -> Result<(PortNumber, Vec<u8>), Reason> {
        let waiting = self.remove(number).ok_or(missing(number < self.next))?;
        Ok((waiting.in_port, waiting.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_and_taken_once_and_the_oldest_makes_room() {
        let mut buffers = Buffers::new(2);
        let mut keep = |byte: u8, now| buffers.keep(PortNumber(1), &[byte], now);
        assert_eq!([keep(0, 5), keep(1, 6)], [Some(0), Some(1)]);
        assert_eq!(keep(9, LEAST + 4), None, "both may still be asked for");
        assert_eq!([keep(2, LEAST + 5), keep(9, LEAST + 5)], [Some(2), None]);
        assert_eq!(buffers.take(0), Err(Reason::BadRequestBufferEmpty));
        assert_eq!(buffers.take(2), Ok((PortNumber(1), vec![2])));
        assert_eq!(buffers.take(2), Err(Reason::BadRequestBufferEmpty));
        assert_eq!(buffers.take(3), Err(Reason::BadRequestBufferUnknown));
        assert_eq!(Buffers::new(0).keep(PortNumber(1), &[], 0), None);
    }

    #[test]
    fn large_packets_wait_for_room_like_many() {
        let mut buffers = Buffers::new(1000);
        let large = vec![7; MOST / 2];
        let mut keep = |bytes: &[u8], now| buffers.keep(PortNumber(1), bytes, now);
        assert_eq!([keep(&large, 5), keep(&large, 6), keep(&[1], 7)], [Some(0), Some(1), None]);
        assert_eq!(keep(&vec![7; MOST + 1], LEAST * 9), None);
        assert_eq!(keep(&[1], LEAST + 5), Some(2), "the oldest has waited for a second");
        assert_eq!(keep(&large, LEAST + 5), None);
        assert_eq!(buffers.take(1), Ok((PortNumber(1), large.clone())));
        assert_eq!(buffers.keep(PortNumber(1), &large, LEAST + 5), Some(3));
    }
}
