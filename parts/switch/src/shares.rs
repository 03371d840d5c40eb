//! Each sender's share of a downlink: at most the free space.
//!
//! One flooding sender gets half of the ring, n flooding senders get n of n + 1 parts of it, and there is
//! always room for a sender of few frames (Choudhury and Hahne, Dynamic Queue Length Thresholds for
//! Shared-Memory Packet Switches, 1998). Works on positions only, not on memory: the ring's owner validates
//! the position that the receiver reports.

use std::collections::VecDeque;

use netloom_shm::layout::PORTS;

/// Each sender's bytes in one ring.
#[derive(Debug)]
pub(crate) struct Shares {
    size: u64,
    /// The receiver's position.
    tail: u64,
    head: u64,
    /// Runs of consecutive frames of one sender, oldest first: the sender and the run's end.
    runs: VecDeque<(u8, u64)>,
    /// Bytes by sender.
    by: Box<[u64; PORTS]>,
}

impl Shares {
    /// For an empty ring of this many bytes.
    pub(crate) fn new(size: u64) -> Shares {
        let by = Box::new([0; PORTS]);
        Shares { size, tail: 0, head: 0, runs: VecDeque::new(), by }
    }

    /// Whether a sender may add this many bytes.
    pub(crate) fn admit(&self, sender: u8, bytes: u64) -> bool {
        let has = self.by.get(usize::from(sender)).copied().unwrap_or(0);
        has + bytes <= self.size - (self.head - self.tail)
    }

    /// Records that a sender wrote up to `head`.
    pub(crate) fn wrote(&mut self, sender: u8, head: u64) {
        if let Some(has) = self.by.get_mut(usize::from(sender)) {
            *has += head - self.head;
        }
        self.head = head;
        match self.runs.back_mut() {
            Some((last, end)) if *last == sender => *end = head,
            _ => self.runs.push_back((sender, head)),
        }
    }

    /// Records that the receiver took everything up to `tail`, at most what was written.
    pub(crate) fn took(&mut self, tail: u64) {
        let tail = tail.clamp(self.tail, self.head);
        while let Some((sender, end)) = self.runs.front().copied()
            && self.tail < tail
        {
            let upto = end.min(tail);
            if let Some(has) = self.by.get_mut(usize::from(sender)) {
                *has -= upto - self.tail;
            }
            self.tail = upto;
            if upto == end {
                self.runs.pop_front();
            }
        }
    }

    /// The receiver's position as last reported.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills until no more is admitted; returns the sender's bytes.
    fn fill(shares: &mut Shares, sender: u8, step: u64) -> u64 {
        let before = shares.head;
        while shares.admit(sender, step) {
            shares.wrote(sender, shares.head + step);
        }
        shares.head - before
    }

    #[test]
    fn who_floods_leaves_as_much_as_it_has() {
        let mut shares = Shares::new(1024);
        assert_eq!(fill(&mut shares, 1, 16), 512);
        assert_eq!(fill(&mut shares, 2, 16), 256);
        assert_eq!(fill(&mut shares, 1, 16), 0);
        assert!(shares.admit(255, 256) && !shares.admit(255, 272));
        shares.took(512);
        assert_eq!((fill(&mut shares, 2, 16), fill(&mut shares, 1, 16)), (256, 256));
    }

    #[test]
    fn what_was_taken_is_nobodys() {
        let mut shares = Shares::new(1024);
        for (sender, head) in [(1, 96), (2, 128), (2, 160), (1, 256)] {
            shares.wrote(sender, head);
        }
        assert_eq!((shares.runs.len(), shares.by[1], shares.by[2]), (3, 192, 64));
        for (tail, one, two) in [(80, 112, 64), (112, 96, 48), (96, 96, 48), (160, 96, 0)] {
            shares.took(tail);
            assert_eq!((shares.by[1], shares.by[2]), (one, two), "{tail}");
        }
        shares.took(u64::MAX);
        assert_eq!((shares.tail(), shares.by[1], shares.runs.len()), (256, 0, 0));
    }
}
