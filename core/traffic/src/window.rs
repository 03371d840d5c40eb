//! Which of the latest frames of a stream were received: a bit each, in a ring.
//!
//! Invariant: it covers exactly the `room` numbers below `end`.

/// The bits, one per frame.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    words: Vec<u64>,
    /// One above the highest number covered.
    end: u64,
}

impl Window {
    /// A window of at least this many frames, none of them received.
    pub(crate) fn new(frames: usize, end: u64) -> Window {
        // A power of two: places are found by a mask.
        Window { words: vec![0; frames.div_ceil(64).next_power_of_two()], end }
    }

    fn room(&self) -> u64 {
        u64::try_from(self.words.len()).unwrap_or(u64::MAX).saturating_mul(64)
    }

    /// Whether it covers this number.
    pub(crate) fn knows(&self, number: u64) -> bool {
        number < self.end && self.end - number <= self.room()
    }

    /// Advances to a new `end`; the numbers in between are not received.
    pub(crate) fn advance(&mut self, end: u64) {
        // All that it covered is out of it.
        if end - self.end >= self.room() {
            self.words.fill(0);
            self.end = end;
            return;
        }
        while self.end < end {
            let (word, bit) = self.place(self.end);
            // Whole words at a time where possible.
            if bit == 0 && end - self.end >= 64 {
                self.words[word] = 0;
                self.end += 64;
            } else {
                self.words[word] &= !(1 << bit);
                self.end += 1;
            }
        }
    }

    /// Marks a covered number as received; returns whether it was before.
    pub(crate) fn note(&mut self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        let before = self.words[word] & (1 << bit) != 0;
        self.words[word] |= 1 << bit;
        before
    }

    fn place(&self, number: u64) -> (usize, u64) {
        // The room is a power of two.
        let at = number & (self.room() - 1);
        (usize::try_from(at / 64).unwrap_or(0), at % 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn as_a_set(steps in proptest::collection::vec((0_u64..300, 0_u64..200), 1..100)) {
            let mut window = Window::new(128, 1000);
            let mut seen = HashSet::new();
            let mut end = 1000;
            for (ahead, back) in steps {
                end += ahead;
                window.advance(end);
                let number = end - 1 - back;
                prop_assert_eq!(window.knows(number), back < 128);
                if window.knows(number) {
                    prop_assert_eq!(window.note(number), !seen.insert(number));
                }
            }
        }
    }
}
