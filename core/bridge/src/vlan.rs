//! VLAN identifiers and sets of them.
//!
//! See IEEE 802.1Q-2022, 9.6 (0 and 4095 are not VLANs).

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A VLAN's number, 1 to 4094.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vid(NonZeroU16);

impl Vid {
    /// VLAN 1: the VLAN of ports without a mode, when others have one.
    pub const ONE: Vid = Vid(NonZeroU16::MIN);
    /// The highest number.
    pub const MAX: u16 = 4094;

    /// The VLAN of a number, if it is valid.
    #[inline]
    pub const fn new(number: u16) -> Option<Vid> {
        match NonZeroU16::new(number) {
            Some(vid) if number <= Vid::MAX => Some(Vid(vid)),
            _ => None,
        }
    }

    /// Its number.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Vid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Vid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Vid> {
        // `parse` alone would take a sign.
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = if digits { text.parse().ok() } else { None };
        number
            .and_then(Vid::new)
            .ok_or_else(|| Error::text("VLAN", text, "not a number from 1 to 4094"))
    }
}

/// A set of VLANs: 4096 bits, of which the first and the last are never set.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct VidSet([u64; VidSet::WORDS]);

impl VidSet {
    /// 64-bit words of a set.
    pub const WORDS: usize = 64;
    /// No VLAN.
    pub const EMPTY: VidSet = VidSet([0; VidSet::WORDS]);
    /// All VLANs.
    pub const ALL: VidSet = VidSet::from_words([u64::MAX; VidSet::WORDS]);

    /// A set from bits: VLAN n is bit n % 64 of word n / 64. Bits of invalid VLANs are cleared.
    pub const fn from_words(mut words: [u64; VidSet::WORDS]) -> VidSet {
        words[0] &= !1;
        words[VidSet::WORDS - 1] &= !(1 << 63);
        VidSet(words)
    }

    /// Its bits.
    pub fn words(&self) -> &[u64; VidSet::WORDS] {
        &self.0
    }

    /// Whether a VLAN is in it.
    #[inline]
    pub fn contains(&self, vid: Vid) -> bool {
        let (word, bit) = place(vid);
        self.0[word] & bit != 0
    }

    /// Inserts a VLAN; returns whether it was new.
    pub fn insert(&mut self, vid: Vid) -> bool {
        let (word, bit) = place(vid);
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    /// Removes a VLAN; returns whether it was in the set.
    pub fn remove(&mut self, vid: Vid) -> bool {
        let (word, bit) = place(vid);
        let was = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        was
    }

    /// How many VLANs are in it.
    pub fn len(&self) -> usize {
        (1..=Vid::MAX).filter_map(Vid::new).filter(|vid| self.contains(*vid)).count()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Its VLANs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Vid> + '_ {
        (1..=Vid::MAX).filter_map(Vid::new).filter(|vid| self.contains(*vid))
    }
}

fn place(vid: Vid) -> (usize, u64) {
    // A Vid is below 4095, so the word is below 64.
    (usize::from(vid.number() >> 6) % VidSet::WORDS, 1 << (vid.number() & 63))
}

impl Default for VidSet {
    fn default() -> VidSet {
        VidSet::EMPTY
    }
}

impl fmt::Debug for VidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VidSet({self})")
    }
}

impl FromIterator<Vid> for VidSet {
    fn from_iter<I: IntoIterator<Item = Vid>>(vids: I) -> VidSet {
        let mut set = VidSet::EMPTY;
        for vid in vids {
            set.insert(vid);
        }
        set
    }
}

/// As ranges: `1-3,7`; `all` and `none`.
impl fmt::Display for VidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        if *self == VidSet::ALL {
            return f.write_str("all");
        }
        let mut vids = self.iter().map(Vid::number).peekable();
        let mut between = "";
        while let Some(first) = vids.next() {
            let mut last = first;
            while vids.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{between}{first}")?,
                _ => write!(f, "{between}{first}-{last}")?,
            }
            between = ",";
        }
        Ok(())
    }
}

/// Numbers and ranges with commas between them, `1-3,7` or `1..3, 7`; `all` and `none`.
impl FromStr for VidSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<VidSet> {
        match text.trim() {
            "all" => return Ok(VidSet::ALL),
            "none" => return Ok(VidSet::EMPTY),
            _ => {}
        }
        let mut set = VidSet::EMPTY;
        for part in text.split(',').map(str::trim) {
            let (first, last) =
                part.split_once("..").or_else(|| part.split_once('-')).unwrap_or((part, part));
            let first: Vid = first.trim().parse()?;
            let last: Vid = last.trim().parse()?;
            if first > last {
                return Err(Error::text("range of VLANs", part, "its end is before its start"));
            }
            for vid in (first.number()..=last.number()).filter_map(Vid::new) {
                set.insert(vid);
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(Vid::new(0), None);
        assert_eq!(Vid::new(4095), None);
        assert_eq!(Vid::new(4094).map(Vid::number), Some(4094));
        assert_eq!(VidSet::ALL.len(), 4094);
        for wrong in ["0", "4095", "", "+1", "70000", "x"] {
            assert!(wrong.parse::<Vid>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn texts() {
        let of = |text: &str| text.parse::<VidSet>().map(|set| set.to_string());
        assert_eq!(of("1..3, 7"), Ok("1-3,7".into()));
        assert_eq!(of("7,1-3,2"), Ok("1-3,7".into()));
        assert_eq!(of("1-4094"), Ok("all".into()));
        assert_eq!(of("none"), Ok("none".into()));
        for wrong in ["", "1,", "3-1", "1-4095", "0-5", "1-2-3"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_set_is_a_set(steps in prop::collection::vec((1u16..=4094, any::<bool>()), 0..200)) {
            let (mut set, mut model) = (VidSet::EMPTY, BTreeSet::new());
            for (number, put) in steps {
                let vid = Vid::new(number).unwrap();
                match put {
                    true => prop_assert_eq!(set.insert(vid), model.insert(vid)),
                    false => prop_assert_eq!(set.remove(vid), model.remove(&vid)),
                }
            }
            prop_assert!(set.iter().eq(model.iter().copied()));
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.to_string().parse(), Ok(set.clone()));
            prop_assert_eq!(VidSet::from_words(*set.words()), set);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*|[0-9,. -]*") {
            let _ = text.parse::<VidSet>();
        }
    }
}
