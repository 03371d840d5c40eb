//! The stamp in a frame: its stream, its number, its departure. 18 bytes, the payload of the
//! smallest frame with IPv4 and UDP.
//!
//! ```text
//!  0      2      4                    10                            18
//!  | magic| stream | sequence, 48 bits | time, ns of Unix, 64 bits |
//! ```
//!
//! All in network byte order. It is written to and read from complete frames, directly
//! after the UDP header. An existing UDP checksum is updated (RFC 1624).

use netloom_packet::headers::UDP;
use netloom_packet::{Headers, Ip, checksum};

/// Bytes of a stamp.
pub const STAMP: usize = 18;
/// The first two bytes.
pub const MAGIC: u16 = 0x6e6c;
/// The number of sequence numbers; after the last they restart at 0.
pub const SEQUENCES: u64 = 1 << 48;

/// Offset of the checksum in the UDP header.
const CHECKSUM: usize = 6;
/// Bytes of the UDP header.
const HEADER: usize = 8;

/// A frame's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The stream's number.
    pub stream: u16,
    /// The frame's number in the stream, below [`SEQUENCES`].
    pub sequence: u64,
    /// When it left, in nanoseconds of Unix time.
    pub time_ns: u64,
}

impl Stamp {
    /// Encodes it.
    pub fn bytes(self) -> [u8; STAMP] {
        let mut bytes = [0; STAMP];
        bytes[..2].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.stream.to_be_bytes());
        bytes[4..10].copy_from_slice(&self.sequence.to_be_bytes()[2..]);
        bytes[10..].copy_from_slice(&self.time_ns.to_be_bytes());
        bytes
    }

    /// Decodes the stamp at the start of a payload; `None` without one.
    pub fn of(payload: &[u8]) -> Option<Stamp> {
        let bytes: &[u8; STAMP] = payload.first_chunk()?;
        if bytes[..2] != MAGIC.to_be_bytes() {
            return None;
        }
        let [_, _, a, b, s0, s1, s2, s3, s4, s5, time @ ..] = *bytes;
        Some(Stamp {
            stream: u16::from_be_bytes([a, b]),
            sequence: u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]),
            time_ns: u64::from_be_bytes(time),
        })
    }

    /// Finds the stamp in a frame; `None` in others' frames.
    pub fn read(frame: &[u8]) -> Option<Stamp> {
        // The common form: no tags, no options, not a fragment.
        if let Some(head) = frame.first_chunk::<60>()
            && head[12..15] == [8, 0, 0x45]
            && head[23] == UDP
            && head[20] & 0x3f == 0
            && head[21] == 0
        {
            return Stamp::of(&head[42..]);
        }
        let (_, payload) = place(frame)?;
        Stamp::of(frame.get(payload..)?)
    }
}

/// The packet in a frame, and where the UDP payload begins.
fn place(frame: &[u8]) -> Option<(Ip, usize)> {
    let ip = Headers::parse(frame).ok()?.ip?;
    (ip.protocol == UDP).then_some(())?;
    Some((ip, ip.payload?))
}

/// Writes a stamp into a UDP frame; `false` when it has no room.
pub fn stamp(frame: &mut [u8], sequence: u64, time_ns: u64, stream: u16) -> bool {
    let Some((ip, payload)) = place(frame) else { return false };
    let new = Stamp { stream, sequence: sequence % SEQUENCES, time_ns };
    // Behind the packet's end is only Ethernet's padding.
    if payload + STAMP > ip.end {
        return false;
    }
    let Some(room) = frame.get_mut(payload..payload + STAMP) else { return false };
    let old: [u8; STAMP] = std::array::from_fn(|i| room[i]);
    room.copy_from_slice(&new.bytes());
    let at = ip.transport + CHECKSUM;
    if let Some(field) = frame.get_mut(at..at + 2) {
        let was = u16::from_be_bytes([field[0], field[1]]);
        // Zero: the sender left the checksum out (RFC 768).
        if was != 0 {
            field.copy_from_slice(&changed(was, &old, &new.bytes()).to_be_bytes());
        }
    }
    debug_assert_eq!(payload, ip.transport + HEADER);
    true
}

/// Updates a checksum after some covered bytes have changed (RFC 1624, equation 3).
pub(crate) fn changed(was: u16, old: &[u8], new: &[u8]) -> u16 {
    // Of the changed words only: the rest of the sum stays.
    let inverse: u64 =
        old.as_chunks::<2>().0.iter().map(|word| u64::from(!u16::from_be_bytes(*word))).sum();
    let sum = checksum::add(u64::from(!was) + inverse, new);
    match !checksum::fold(sum) {
        // Zero would mean no checksum (RFC 768).
        0 => 0xffff,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Addresses, Frame};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_stamped_is_read(sequence: u64, time_ns: u64, stream: u16, v6: bool) {
            let addresses = Addresses::example(v6);
            let mut frame = Frame::new(&addresses, 100, stream).unwrap();
            let mut bytes = frame.make(100, crate::Flows::ONE.at(0), 1, 2).to_vec();
            prop_assert!(stamp(&mut bytes, sequence, time_ns, stream));
            let expected = Stamp { stream, sequence: sequence % SEQUENCES, time_ns };
            prop_assert_eq!(Stamp::read(&bytes), Some(expected));
            let view = Headers::parse(&bytes).unwrap();
            prop_assert!(checksum::verifies(&bytes, view.network, &view.ip.unwrap()));
            // It is also found after a tag.
            bytes.splice(12..12, [0x81, 0, 0, 7]);
            prop_assert_eq!(Stamp::read(&bytes), Some(expected));
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let _ = Stamp::read(&bytes);
            let mut bytes = bytes;
            let _ = stamp(&mut bytes, 1, 2, 3);
        }
    }

    #[test]
    fn what_has_no_room_is_left_alone() {
        let addresses = Addresses::example(false);
        let mut bytes =
            Frame::new(&addresses, 60, 1).unwrap().make(60, crate::Flows::ONE.at(0), 1, 2).to_vec();
        let before = bytes.clone();
        assert!(!stamp(&mut bytes[..59], 5, 6, 7));
        assert_eq!(bytes, before);
        bytes[42] = 0;
        assert_eq!(Stamp::read(&bytes), None);
    }
}
