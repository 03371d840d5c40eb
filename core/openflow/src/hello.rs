//! OFPT_HELLO and the choice of a version (sections 6.3.1 and 7.5.1).
//!
//! A hello of any version is accepted, with any body: elements that are unknown or broken are ignored,
//! and the body is kept as it came.

use crate::header::Version;

/// The element that lists versions.
const BITMAP: u16 = 1;

/// OFPT_HELLO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Its elements, as on the wire.
    pub body: Vec<u8>,
}

impl Hello {
    /// A hello that offers exactly these versions.
    pub fn offering(versions: &[Version]) -> Hello {
        // One word of the bitmap is enough for all versions there are: their numbers are below 32.
        let bits = versions.iter().fold(0u32, |bits, version| bits | 1 << version.number());
        // OFPHET_VERSIONBITMAP, of 8 bytes.
        let mut body = vec![0, 1, 0, 8];
        body.extend(bits.to_be_bytes());
        Hello { body }
    }

    /// Its elements: type and content.
    pub fn elements(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = self.body.as_slice();
        std::iter::from_fn(move || {
            let [k0, k1, l0, l1] = *rest.first_chunk::<4>()?;
            let length = usize::from(u16::from_be_bytes([l0, l1]));
            // A length below 4 gives no range, and ends the list.
            let content = rest.get(4..length)?;
            // The last element may lack its padding.
            rest = rest.get(length.next_multiple_of(8)..).unwrap_or(&[]);
            Some((u16::from_be_bytes([k0, k1]), content))
        })
    }

    /// Whether the bitmap of versions lists this number; `None` without a bitmap.
    fn lists(&self, version: u8) -> Option<bool> {
        let (_, bitmap) = self.elements().find(|(kind, _)| *kind == BITMAP)?;
        let word = bitmap.get(usize::from(version / 32) * 4..)?.first_chunk::<4>();
        Some(word.is_some_and(|word| u32::from_be_bytes(*word) >> (version % 32) & 1 == 1))
    }
}

/// The version to speak, or `None` if there is none: the highest that both list, or without a bitmap the smaller of the
/// two numbers, if we speak it. `theirs` is the number in the header of their hello.
pub fn negotiate(ours: &[Version], theirs: u8, hello: &Hello) -> Option<Version> {
    let mut common =
        ours.iter().copied().filter(|version| hello.lists(version.number()) == Some(true));
    if let Some(first) = common.next() {
        return Some(common.fold(first, Version::max));
    }
    // 1.3.5 section 6.3.1: bitmaps decide only if both have one, which is so here when theirs is readable.
    let highest = ours.iter().copied().max()?;
    if hello.lists(highest.number()).is_some() {
        return None;
    }
    let smaller = Version::from_number(theirs.min(highest.number()))?;
    ours.contains(&smaller).then_some(smaller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Version::{V10, V13};

    #[test]
    fn bitmaps_decide() {
        let both = [V10, V13];
        assert_eq!(negotiate(&both, 4, &Hello::offering(&both)), Some(V13));
        assert_eq!(negotiate(&both, 6, &Hello::offering(&[V10])), Some(V10));
        assert_eq!(negotiate(&[V10], 4, &Hello::offering(&[V13])), None);
        // 1.1 and 1.2 only.
        let other = Hello { body: vec![0, 1, 0, 8, 0, 0, 0, 0b1100] };
        assert_eq!(negotiate(&both, 3, &other), None);
    }

    #[test]
    fn without_a_bitmap_the_smaller_number_decides() {
        for (ours, theirs, version) in [
            (&[V10, V13][..], 1, Some(V10)),
            (&[V10, V13], 4, Some(V13)),
            (&[V10, V13], 6, Some(V13)),
            (&[V10, V13], 2, None),
            (&[V13], 1, None),
            (&[V10], 4, Some(V10)),
            (&[], 4, None),
        ] {
            assert_eq!(negotiate(ours, theirs, &Hello::default()), version, "{ours:?} {theirs}");
        }
    }

    #[test]
    fn elements_that_are_unknown_or_broken_are_ignored() {
        let body = vec![0, 9, 0, 5, 7, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0b10010];
        let hello = Hello { body };
        assert_eq!(hello.elements().count(), 2);
        assert_eq!(negotiate(&[V10, V13], 6, &hello), Some(V13));
        for body in [vec![0], vec![0, 1, 0, 3], vec![0, 1, 0, 200, 1], vec![0, 1, 0, 0]] {
            assert_eq!(negotiate(&[V10, V13], 4, &Hello { body }), Some(V13));
        }
    }
}
