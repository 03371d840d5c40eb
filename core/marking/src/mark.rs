//! Marks in the DSCP field: two values that alternate, and a bit for double marking.
//!
//! The lower two bits of the traffic class, ECN, are never touched (RFC 3168). Bits of the DSCP
//! field outside the mask are kept. Checksums are not here: whoever writes the byte of an IPv4
//! header updates its checksum (RFC 1624). See RFC 9341, sections 3.1 (single) and 3.2 (double).

use crate::{Colour, Error, Result, Schedule};

/// What a packet's mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Of which of two neighbouring blocks it is.
    pub colour: Colour,
    /// Whether its time is to be kept at every point (double marking).
    pub double: bool,
}

/// How marks look: DSCP values, of 6 bits.
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
    /// set besides in packets that are marked twice, 0 for none.
    ///
    /// # Errors
    ///
    /// Values above 63 or outside the mask, equal marks, a delay bit that a mark has, too.
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

    /// Whether packets can be marked twice: there are bits for it.
    pub fn can_double(&self) -> bool {
        self.delay != 0
    }

    /// What the traffic class (the byte with DSCP and ECN) of a packet says; nothing if it has
    /// neither mark.
    pub fn read(&self, traffic_class: u8) -> Option<Mark> {
        let dscp = (traffic_class >> 2) & self.mask;
        let double = self.delay != 0 && dscp & self.delay == self.delay;
        let value = if double { dscp & !self.delay } else { dscp };
        let colour = match value {
            v if v == self.starter => Colour::Starter,
            v if v == self.next => Colour::Next,
            _ => return None,
        };
        Some(Mark { colour, double })
    }

    /// The traffic class with this mark in it; bits outside the mask and ECN as they were.
    pub fn write(&self, traffic_class: u8, mark: Mark) -> u8 {
        let value = match mark.colour {
            Colour::Starter => self.starter,
            Colour::Next => self.next,
        };
        let value = if mark.double { value | self.delay } else { value };
        (traffic_class & !(self.mask << 2)) | (value << 2)
    }
}

/// Chooses what to mark twice: in each block the first packet a guard or more after its begin.
/// One a block is the mode that RFC 9341, section 3.2.2, has for ways that lose and reorder: two
/// such packets are never taken for each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoubleMarker {
    last: Option<u64>,
}

impl DoubleMarker {
    /// The mark for a packet that leaves now: of the block that lasts, marked twice when it is the
    /// block's turn. None before block 0.
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
            // A bit that tells the two apart and is no part of the delay's.
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
