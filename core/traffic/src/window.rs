//! Which of the latest frames of a stream have come: a bit each, in a ring.
//!
//! Invariant: it knows the `room` numbers below `end`, and no other.

/// The bits of the latest frames.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    words: Vec<u64>,
    /// One above the highest number that is known.
    end: u64,
}

impl Window {
    /// For at least so many frames, none of which has come.
    pub(crate) fn new(frames: usize, end: u64) -> Window {
        Window { words: vec![0; frames.div_ceil(64).next_power_of_two()], end }
    }

    fn room(&self) -> u64 {
        u64::try_from(self.words.len()).unwrap_or(u64::MAX).saturating_mul(64)
    }

    /// Whether it knows of this number.
    pub(crate) fn knows(&self, number: u64) -> bool {
        number < self.end && self.end - number <= self.room()
    }

    /// Goes on so that `end` is the new one; the numbers on the way have not come.
    pub(crate) fn advance(&mut self, end: u64) {
        if end - self.end >= self.room() {
            self.words.fill(0);
            self.end = end;
            return;
        }
        while self.end < end {
            let (word, bit) = self.place(self.end);
            // Whole words at a time where they can be.
            if bit == 0 && end - self.end >= 64 {
                self.words[word] = 0;
                self.end += 64;
            } else {
                self.words[word] &= !(1 << bit);
                self.end += 1;
            }
        }
    }

    /// Notes that it has come; whether it had before. It must be known.
    pub(crate) fn note(&mut self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        let before = self.words[word] & (1 << bit) != 0;
        self.words[word] |= 1 << bit;
        before
    }

    fn place(&self, number: u64) -> (usize, u64) {
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
