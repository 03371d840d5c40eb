//! Inserts a tag into a frame and removes it, in place.
//!
//! The addresses move, not the payload: with a tag inserted a frame begins 4 bytes earlier in its
//! buffer, so the buffer needs that room before it. The caller moves what precedes the frame (its
//! vnet header), as [`Edit::vnet`] says.

use netloom_packet::VnetHeader;

use crate::classify::Retag;
use crate::tpid::Tpid;

const TAG: usize = 4;
const ADDRESSES: usize = 12;

/// How a frame changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Where it begins now. Its end did not move.
    pub start: usize,
    /// By how many bytes everything after its tag is now further from its start: -4, 0 or 4.
    pub shift: i16,
}

impl Edit {
    /// The vnet header of the changed frame: its offsets count from the frame's start.
    #[must_use]
    pub fn vnet(self, header: VnetHeader) -> VnetHeader {
        // 0 says that the field is not set.
        let moved = |at: u16| if at == 0 { 0 } else { at.saturating_add_signed(self.shift) };
        VnetHeader {
            hdr_len: moved(header.hdr_len),
            csum_start: moved(header.csum_start),
            ..header
        }
    }
}

/// Applies a change to the frame that begins at `start` and ends with the buffer. `None`, and
/// no change, if there is no room for a tag before it, or it is too short to have one.
#[inline]
pub fn retag(buffer: &mut [u8], start: usize, how: Retag) -> Option<Edit> {
    match how {
        Retag::Keep => Some(Edit { start, shift: 0 }),
        Retag::Push(tpid, tci) => push(buffer, start, tpid, tci),
        Retag::Pop => pop(buffer, start),
        Retag::Replace(tci) => {
            let bits = buffer.get_mut(start..)?.get_mut(ADDRESSES + 2..ADDRESSES + TAG)?;
            bits.copy_from_slice(&tci.to_be_bytes());
            Some(Edit { start, shift: 0 })
        }
    }
}

fn push(buffer: &mut [u8], start: usize, tpid: Tpid, tci: u16) -> Option<Edit> {
    let new = start.checked_sub(TAG)?;
    let head = buffer.get_mut(new..)?.first_chunk_mut::<{ ADDRESSES + TAG }>()?;
    head.copy_within(TAG.., 0);
    let ([a, b], [c, d]) = (tpid.number().to_be_bytes(), tci.to_be_bytes());
    head[ADDRESSES..].copy_from_slice(&[a, b, c, d]);
    Some(Edit { start: new, shift: 4 })
}

fn pop(buffer: &mut [u8], start: usize) -> Option<Edit> {
    let head = buffer.get_mut(start..)?.first_chunk_mut::<{ ADDRESSES + TAG }>()?;
    // Over the tag, so that the payload stays where it is.
    head.copy_within(..ADDRESSES, TAG);
    Some(Edit { start: start + TAG, shift: -4 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame() -> Vec<u8> {
        let mut frame: Vec<u8> = (1..=12).collect();
        frame.extend([0x08, 0x00, b'a', b'b', b'c']);
        frame
    }

    #[test]
    fn a_tag_is_put_in_changed_and_taken_out() {
        let mut buffer = [vec![0xee; 6], frame()].concat();
        let edit = retag(&mut buffer, 6, Retag::Push(Tpid::CUSTOMER, 0x6007)).unwrap();
        assert_eq!(edit, Edit { start: 2, shift: 4 });
        let mut tagged = frame();
        tagged.splice(12..12, [0x81, 0x00, 0x60, 0x07]);
        assert_eq!(buffer[2..], tagged);
        assert_eq!(buffer[..2], [0xee, 0xee]);

        let edit = retag(&mut buffer, 2, Retag::Replace(0x0fff)).unwrap();
        assert_eq!(edit, Edit { start: 2, shift: 0 });
        tagged[14..16].copy_from_slice(&[0x0f, 0xff]);
        assert_eq!(buffer[2..], tagged);

        let edit = retag(&mut buffer, 2, Retag::Pop).unwrap();
        assert_eq!(edit, Edit { start: 6, shift: -4 });
        assert_eq!(buffer[6..], frame());
    }

    #[test]
    fn no_room() {
        let mut buffer = frame();
        assert_eq!(retag(&mut buffer, 3, Retag::Push(Tpid::CUSTOMER, 1)), None);
        assert_eq!(retag(&mut buffer, 5, Retag::Pop), None);
        assert_eq!(retag(&mut buffer, 2, Retag::Replace(1)), None);
        assert_eq!(retag(&mut buffer, usize::MAX, Retag::Pop), None);
        assert_eq!(buffer, frame());
    }

    #[test]
    fn offsets_of_the_vnet_header_follow() {
        let header = VnetHeader {
            needs_csum: true,
            csum_start: 34,
            csum_offset: 16,
            hdr_len: 54,
            ..Default::default()
        };
        let pushed = Edit { start: 0, shift: 4 }.vnet(header);
        assert_eq!((pushed.csum_start, pushed.hdr_len, pushed.csum_offset), (38, 58, 16));
        assert_eq!(Edit { start: 0, shift: -4 }.vnet(pushed), header);
        let none = VnetHeader::default();
        assert_eq!(Edit { start: 0, shift: 4 }.vnet(none), none);
    }

    proptest! {
        #[test]
        fn any_bytes(
            mut buffer in prop::collection::vec(any::<u8>(), 0..64),
            start in 0usize..80,
            tci: u16,
        ) {
            let before = buffer.clone();
            for how in [Retag::Keep, Retag::Push(Tpid::SERVICE, tci), Retag::Pop, Retag::Replace(tci)] {
                match retag(&mut buffer, start, how) {
                    None => prop_assert_eq!(&buffer, &before),
                    // After the tag's position nothing changes.
                    Some(edit) => {
                        let same = (edit.start + 12).max(start + 16).min(buffer.len());
                        prop_assert_eq!(&buffer[same..], &before[same..]);
                    }
                }
                buffer.clone_from(&before);
            }
        }

        #[test]
        fn out_is_the_inverse_of_in(
            frame in prop::collection::vec(any::<u8>(), 14..64),
            room in 4usize..20,
            tci: u16,
        ) {
            let mut buffer = [vec![0; room], frame.clone()].concat();
            let tagged = retag(&mut buffer, room, Retag::Push(Tpid::SERVICE, tci)).unwrap();
            let edit = retag(&mut buffer, tagged.start, Retag::Pop).unwrap();
            prop_assert_eq!(edit.start, room);
            prop_assert_eq!(&buffer[room..], &frame);
        }
    }
}
