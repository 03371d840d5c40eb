//! Packets that wait for their controllers (section 6.1.2), bounded in number; the oldest make room.
//!
//! A number is given once, so that a late answer cannot send another packet.

use std::collections::VecDeque;

use netloom_openflow::{PortNumber, Reason};

/// Why a buffer cannot be taken: it was used or dropped, or never given.
pub(crate) fn missing(given: bool) -> Reason {
    if given { Reason::BadRequestBufferEmpty } else { Reason::BadRequestBufferUnknown }
}

#[derive(Clone, Debug)]
struct Waiting {
    number: u32,
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

    /// Keeps a packet; `None` if there is no room for any.
    pub(crate) fn keep(&mut self, in_port: PortNumber, bytes: &[u8]) -> Option<u32> {
        if self.capacity == 0 || self.next >= u32::MAX - 1 {
            return None;
        }
        if self.waiting.len() >= self.capacity {
            self.waiting.pop_front();
        }
        let number = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting { number, in_port, bytes: bytes.to_vec() });
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
    fn a_number_is_given_and_taken_once_and_the_oldest_make_room() {
        let mut buffers = Buffers::new(2);
        let numbers: Vec<_> =
            (0..3).map(|byte| buffers.keep(PortNumber(1), &[byte]).unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(buffers.take(0), Err(Reason::BadRequestBufferEmpty));
        assert_eq!(buffers.take(2), Ok((PortNumber(1), vec![2])));
        assert_eq!(buffers.take(2), Err(Reason::BadRequestBufferEmpty));
        assert_eq!(buffers.take(3), Err(Reason::BadRequestBufferUnknown));
        assert_eq!(Buffers::new(0).keep(PortNumber(1), &[]), None);
    }
}
