//! The mark of LLDP packets: which slice sent them, so that they come back to it alone.
//!
//! A TLV of an organisation before the end of the LLDPDU (IEEE 802.1AB, 8.6): a number of the slice and a signature over
//! it and everything before it. Number and signature depend on a key that only the slicers of one network have, so
//! that a mark is valid on every switch of them, and nobody else can make one. The receiver removes it.

use crate::siphash::siphash;

/// A key that all slicers of a network share.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub [u8; 16]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// LLDP, and the same for links over switches that keep LLDP to themselves.
pub(crate) const ETHERTYPES: [u16; 2] = [0x88cc, 0x8942];

/// Type 127 with 20 bytes: three of an organisation, its subtype, number, signature.
// The organisation is a locally administered number.
const HEAD: [u8; 6] = [0xfe, 20, 0x02, 0x6e, 0x6c, 1];
const LENGTH: usize = 22;
const END: [u8; 2] = [0, 0];

impl Key {
    /// The number that stands for a slice, by its name.
    pub(crate) fn number(&self, name: &str) -> u64 {
        siphash(&self.0, name.as_bytes())
    }
}

/// Where the LLDPDU of a frame begins, if it is one.
fn start(frame: &[u8]) -> Option<usize> {
    let (headers, _) = netloom_pipeline::headers::parse(frame);
    (ETHERTYPES.contains(&headers.ethertype) && headers.ethertype_at >= 12)
        .then_some(headers.network)
}

/// Whether a frame is one of discovery.
pub(crate) fn is_discovery(frame: &[u8]) -> bool {
    start(frame).is_some()
}

/// Where each TLV begins, up to its end; the last is that of the end, or where the TLVs break off.
fn tlvs(frame: &[u8], start: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = Some(start);
    std::iter::from_fn(move || {
        let from = at?;
        let [high, low] = *frame.get(from..)?.first_chunk::<2>()?;
        // A TLV begins with 7 bits of type and 9 of length (IEEE 802.1AB, 8.4).
        let length = usize::from(high & 1) << 8 | usize::from(low);
        let tlv = frame.get(from..from + 2 + length)?;
        at = (high >> 1 != 0).then_some(from + tlv.len());
        Some((from, tlv))
    })
}

/// The frame with the mark of a slice; `None` if it is not a whole LLDP packet.
pub(crate) fn mark(key: &Key, number: u64, frame: &[u8]) -> Option<Vec<u8>> {
    let (end, _) = tlvs(frame, start(frame)?).find(|(_, tlv)| *tlv == END)?;
    let mut marked = frame.get(..end)?.to_vec();
    marked.extend(HEAD);
    marked.extend(number.to_be_bytes());
    // Over everything before it, so that the mark is worth nothing in another frame.
    let signature = siphash(&key.0, &marked);
    marked.extend(signature.to_be_bytes());
    // Receivers ignore what follows the end of the LLDPDU, so the mark stands before it.
    marked.extend(frame.get(end..).unwrap_or(&END));
    Some(marked)
}

/// What a frame of discovery says about its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// Nothing: it is not a slice's.
    No,
    /// It claims to be a slice's, and is not.
    Forged,
    /// It is that of the slice with this number, which sent this frame.
    By(u64, Vec<u8>),
}

/// Reads and removes the mark.
pub(crate) fn unmark(key: &Key, frame: &[u8]) -> Marked {
    let Some(start) = start(frame) else { return Marked::No };
    let found = tlvs(frame, start).find(|(_, tlv)| tlv.starts_with(&HEAD));
    let Some((at, tlv)) = found else { return Marked::No };
    let word = |bytes: Option<&[u8]>| {
        bytes.and_then(|bytes| bytes.first_chunk()).map(|bytes| u64::from_be_bytes(*bytes))
    };
    let (number, signature) = (word(tlv.get(6..)), word(tlv.get(14..)));
    let signed = frame.get(..at + 14).map(|bytes| siphash(&key.0, bytes));
    match number {
        // Without the first condition a mark that is cut would pass: both would be `None`.
        Some(number) if signed.is_some() && signed == signature => {
            let mut bytes = frame.to_vec();
            bytes.drain(at..at + LENGTH);
            Marked::By(number, bytes)
        }
        _ => Marked::Forged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Vec<u8> {
        let mut frame = vec![1, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
        frame.extend([2, 3, 7, b'a', b'b', 4, 2, 7, b'1', 6, 2, 0, 120, 0, 0]);
        frame
    }

    #[test]
    fn a_mark_comes_back_and_nobody_else_makes_one() {
        let (key, other) = (Key([7; 16]), Key([8; 16]));
        let number = key.number("red");
        let marked = mark(&key, number, &frame()).unwrap();
        assert_eq!(marked.len(), frame().len() + LENGTH);
        assert_eq!(unmark(&key, &marked), Marked::By(number, frame()));
        assert_eq!(unmark(&key, &frame()), Marked::No);
        assert_eq!(unmark(&other, &marked), Marked::Forged);
        for at in 0..marked.len() - 2 {
            let mut changed = marked.clone();
            changed[at] ^= 0x40;
            assert!(!matches!(unmark(&key, &changed), Marked::By(_, _)), "{at}");
        }
    }

    #[test]
    fn what_is_no_lldp_packet_gets_no_mark() {
        let key = Key([0; 16]);
        for cut in 0..frame().len() {
            assert_eq!(mark(&key, 1, &frame()[..cut]), None);
        }
        let mut padded = frame();
        padded.resize(60, 0);
        let marked = mark(&key, 1, &padded).unwrap();
        assert_eq!(unmark(&key, &marked), Marked::By(1, padded));
    }
}
