//! Marks in the DSCP field: two alternating values, and a bit for double marking.
//!
//! The lower two bits of the traffic class, ECN, are never touched (RFC 3168). Bits of the DSCP
//! field outside the mask are kept. The code that writes the byte of an IPv4
//! header updates its checksum (RFC 1624). See RFC 9341, sections 3.1 (single) and 3.2 (double).

use crate::{Colour, Error, Result, Schedule};

/// A packet's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which of two neighbouring blocks it belongs to.
    pub colour: Colour,
    /// Whether every point keeps its time (double marking).
    pub double: bool,
}

/// The encoding of marks: DSCP values of 6 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    starter: u8,
    next: u8,
    mask: u8,
    delay: u8,
}

/// All six bits of the DSCP field.
const DSCP: u8 = 0x3f;

impl Marks {
    /// Marks with the values `starter` and `next` in the bits of `mask`; `delay` are bits that are
    /// also set in double-marked packets, 0 for none.
    ///
    /// # Errors
    ///
    /// Values above 63 or outside the mask, equal marks, a delay bit that is also in a mark.
    pub fn new(starter: u8, next: u8, mask: u8, delay: u8) -> Result<Marks> {
        let refuse = |why| Err(Error::Marks(why));
        if (starter | next | mask | delay) & !DSCP != 0 {
            return refuse("a DSCP value has 6 bits: 0 to 63");
        }
        if starter == next {
            return refuse("the two marks are the same: blocks could not be told apart");
        }
        if (starter | next | delay) & !mask != 0 {
            return refuse("a mark has bits outside the mask of bits that may be written");
        }
        if (starter | next) & delay != 0 {
            return refuse("the delay mark shares bits with a mark of blocks");
        }
        Ok(Marks { starter, next, mask, delay })
    }

    /// Whether there are bits for double marking.
    pub fn can_double(&self) -> bool {
        self.delay != 0
    }

    /// Reads the mark from a packet's traffic class (the byte with DSCP and ECN); `None` if it has
    /// neither mark.
    pub fn read(&self, traffic_class: u8) -> Option<Mark> {
        let dscp = (traffic_class >> 2) & self.mask;
        // Without bits for it, every packet would have all of them.
        let double = self.delay != 0 && dscp & self.delay == self.delay;
        let value = if double { dscp & !self.delay } else { dscp };
        let colour = match value {
            v if v == self.starter => Colour::Starter,
            v if v == self.next => Colour::Next,
            _ => return None,
        };
        Some(Mark { colour, double })
    }

    /// The traffic class with this mark; bits outside the mask and ECN unchanged.
    pub fn write(&self, traffic_class: u8, mark: Mark) -> u8 {
        let value = match mark.colour {
            Colour::Starter => self.starter,
            Colour::Next => self.next,
        };
        let value = if mark.double { value | self.delay } else { value };
        (traffic_class & !(self.mask << 2)) | (value << 2)
    }
}

/// Chooses the double-marked packets: in each block the first one a guard or more after its beginning.
/// RFC 9341, section 3.2.2, has this mode of one per block for paths with loss and reordering: two
/// such packets are never mistaken for each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoubleMarker {
    last: Option<u64>,
}

impl DoubleMarker {
    /// The mark for a packet that leaves now: that of the current block, double if it is the
    /// block's turn. `None` before block 0.
    pub fn mark(&mut self, schedule: &Schedule, now: u64) -> Option<Mark> {
        let block = schedule.block_at(now)?;
        let due = now >= schedule.begin(block).saturating_add(schedule.guard());
        let double = due && self.last != Some(block);
        if double {
            self.last = Some(block);
        }
        Some(Mark { colour: Colour::of(block), double })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_source_marks_with_8_and_16() {
        let marks = Marks::new(8, 16, 63, 0).unwrap();
        let mark = Mark { colour: Colour::Next, double: false };
        assert_eq!(marks.write(0b0000_0011, mark), 16 << 2 | 3);
        assert_eq!(marks.read(8 << 2), Some(Mark { colour: Colour::Starter, double: false }));
        assert_eq!(marks.read(0), None);
        assert_eq!(marks.read(9 << 2), None);
    }

    #[test]
    fn marks_that_mean_nothing_are_refused() {
        for (starter, next, mask, delay) in
            [(8, 8, 63, 0), (64, 8, 63, 0), (8, 16, 8, 0), (8, 16, 63, 8), (8, 16, 24, 1)]
        {
            assert!(Marks::new(starter, next, mask, delay).is_err(), "{starter} {next} {mask}");
        }
    }

    #[test]
    fn one_packet_of_a_block_is_marked_twice() {
        let schedule = Schedule::new(1_000, 1_000, 100).unwrap();
        let mut marker = DoubleMarker::default();
        let doubles: Vec<u64> = (1_000..6_000)
            .step_by(30)
            .filter(|&now| marker.mark(&schedule, now).is_some_and(|mark| mark.double))
            .collect();
        assert_eq!(doubles, [1_120, 2_110, 3_100, 4_120, 5_110]);
        assert_eq!(marker.mark(&schedule, 999), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            starter in 0u8..64, next in 0u8..64, delay in 0u8..64, more in 0u8..64,
            apart in 0u8..6, class: u8, double: bool, odd: bool,
        ) {
            // A bit that distinguishes the two and is not a delay bit.
            let apart = 1u8 << apart;
            let delay = delay & !apart;
            let mask = more | delay | apart;
            let starter = starter & mask & !delay;
            let next = next & mask & !delay;
            let next = if starter == next { next ^ apart } else { next };
            let marks = Marks::new(starter, next, mask, delay).unwrap();
            let colour = if odd { Colour::Next } else { Colour::Starter };
            let written = marks.write(class, Mark { colour, double });
            let double = double && delay != 0;
            prop_assert_eq!(marks.read(written), Some(Mark { colour, double }));
            prop_assert_eq!(written & !(mask << 2), class & !(mask << 2));
        }
    }
}
