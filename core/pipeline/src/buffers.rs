//! Packets that wait for their controllers (section 6.1.2), bounded in number. Each waits for a second at least, then the
//! oldest makes room: while more come, controllers get them whole, and no answer finds its packet gone.
//!
//! A number is given once, so that a late answer cannot send another packet.

use std::collections::VecDeque;

use netloom_openflow::{PortNumber, Reason};

use crate::rule::Time;

/// How long a packet waits at least, in nanoseconds.
const LEAST: Time = 1_000_000_000;

/// Why a buffer cannot be taken: it was used or dropped, or never given.
pub(crate) fn missing(given: bool) -> Reason {
    if given { Reason::BadRequestBufferEmpty } else { Reason::BadRequestBufferUnknown }
}

#[derive(Clone, Debug)]
struct Waiting {
    number: u32,
    since: Time,
    in_port: PortNumber,
    bytes: Vec<u8>,
}

/// The pool.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    capacity: usize,
    next: u32,
    waiting: VecDeque<Waiting>,
}

impl Buffers {
    pub(crate) fn new(capacity: u32) -> Buffers {
        let capacity = usize::try_from(capacity).unwrap_or(0);
        Buffers { capacity, next: 0, waiting: VecDeque::new() }
    }

    /// Keeps a packet; `None` if there is no room for it.
    pub(crate) fn keep(&mut self, in_port: PortNumber, bytes: &[u8], now: Time) -> Option<u32> {
        if self.capacity == 0 || self.next >= u32::MAX - 1 {
            return None;
        }
        if self.waiting.len() >= self.capacity {
            let oldest = self.waiting.front().map_or(0, |oldest| oldest.since);
            if oldest.saturating_add(LEAST) > now {
                return None;
            }
            self.waiting.pop_front();
        }
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting { number, since: now, in_port, bytes: bytes.to_vec() });
        Some(number)
    }

    /// Takes a packet out, with the port it came in by.
    pub(crate) fn take(&mut self, number: u32) -> Result<(PortNumber, Vec<u8>), Reason> {
        let place = self.waiting.iter().position(|waiting| waiting.number == number);
        match place.and_then(|place| self.waiting.remove(place)) {
            Some(waiting) => Ok((waiting.in_port, waiting.bytes)),
            None => Err(missing(number < self.next)),
        }
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
}
