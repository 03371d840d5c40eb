//! The contents of a block of frames handed over by the kernel (TPACKET_V3 of packet_mmap.rst).
//!
//! Pure: takes a block's bytes and lends the frames in place. Every offset in the block is checked
//! before use; one out of bounds ends the frames. Invariant: everything is read by checked slices.

use crate::tag::{TAG, tag_of};

/// Bytes of a block's own header.
pub(super) const HEADER: usize = size_of::<libc::tpacket_block_desc>();
/// Bytes of a frame's header: the aligned `tpacket3_hdr` and the socket address after it.
const FRAME_HEADER: usize = libc::TPACKET3_HDRLEN;
/// Offset of the frame's direction in the socket address.
const DIRECTION: usize = FRAME_HEADER - size_of::<libc::sockaddr_ll>()
    + std::mem::offset_of!(libc::sockaddr_ll, sll_pkttype);
/// `TP_STATUS_GSO_TCP` of linux/if_packet.h, since Linux 6.3.
const GSO_TCP: u32 = 1 << 8;
/// Destination and source MAC; a tag follows them.
const MACS: usize = 12;

const _: () = {
    use std::mem::offset_of;
    assert!(HEADER == 48);
    assert!(offset_of!(libc::tpacket_block_desc, hdr) == 8);
    assert!(size_of::<libc::tpacket3_hdr>() == 48);
    assert!(offset_of!(libc::tpacket3_hdr, tp_status) == 20);
    assert!(offset_of!(libc::tpacket3_hdr, tp_mac) == 24);
    assert!(offset_of!(libc::tpacket3_hdr, hv1) == 28);
    assert!(FRAME_HEADER == 68 && DIRECTION == 58);
};

/// The kernel's knowledge of a frame's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// None: the checksum is as in the frame, right or wrong.
    Unknown,
    /// The sender that forwards the frame must still fill it in.
    CsumNotReady,
    /// It has been verified.
    CsumValid,
}

/// A frame in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFrame<'a> {
    /// Its bytes, Ethernet header first, without `vlan`; cut by a filter or the ring's `snaplen`.
    pub data: &'a [u8],
    /// Its length on the wire in bytes, without FCS and with `vlan`.
    pub original: u32,
    /// Its time of arrival or departure: nanoseconds of Unix time.
    pub time_ns: u64,
    /// The tag that belongs behind the MACs, at offset 12 of `data`.
    pub vlan: Option<[u8; TAG]>,
    /// Its checksum.
    pub status: Status,
    /// Whether it is a super-frame: several packets on the wire. The kernel reports TCP's (Linux
    /// 6.3); others are longer than the interface's MTU allows.
    pub gso: bool,
    /// Whether the interface's own side sent it.
    pub outgoing: bool,
}

impl<'a> BlockFrame<'a> {
    /// The frame's bytes as on the wire, in three pieces: before the tag, the tag, after it. The
    /// latter two are empty if there is no tag, or if the captured bytes end before it.
    pub fn parts(&self) -> [&[u8]; 3] {
        match (&self.vlan, self.data.split_at_checked(MACS)) {
            (Some(tag), Some((macs, rest))) => [macs, tag, rest],
            _ => [self.data, &[], &[]],
        }
    }

    /// Number of bytes in all [`BlockFrame::parts`].
    pub fn captured(&self) -> usize {
        let tagged = self.vlan.is_some() && self.data.len() >= MACS;
        self.data.len() + if tagged { TAG } else { 0 }
    }

    /// Cuts it to `snaplen` bytes, including its tag.
    fn cut(mut self, snaplen: usize) -> BlockFrame<'a> {
        let excess = self.captured().saturating_sub(snaplen);
        if excess == 0 {
            return self;
        }
        // A partial tag is not a tag.
        let kept = match self.vlan {
            Some(_) if snaplen < MACS + TAG => {
                self.vlan = None;
                snaplen.min(MACS)
            }
            _ => self.data.len() - excess,
        };
        self.data = self.data.get(..kept).unwrap_or(self.data);
        self
    }
}

/// Limits for reading frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// The most bytes lent of a frame.
    pub(super) snaplen: usize,
    /// The longest single packet, in bytes of memory.
    pub(super) longest: u32,
}

/// The frames of a block, in order of arrival.
#[derive(Clone, Debug)]
pub struct BlockFrames<'a> {
    /// The block's bytes after its own header.
    block: &'a [u8],
    look: Look,
    next: usize,
    left: u32,
}

impl<'a> BlockFrames<'a> {
    /// `first` is the offset of the first of `count` frames from the block's start; `block` begins
    /// [`HEADER`] bytes after that start.
    pub(super) fn new(block: &'a [u8], first: u32, count: u32, look: Look) -> BlockFrames<'a> {
        let next = usize::try_from(first).ok().and_then(|first| first.checked_sub(HEADER));
        match next {
            Some(next) => BlockFrames { block, look, next, left: count },
            None => BlockFrames { block, look, next: 0, left: 0 },
        }
    }

    /// The frame at `self.next`, and the distance to the next.
    fn read(&self) -> Option<(BlockFrame<'a>, usize)> {
        let from = self.block.get(self.next..)?;
        let header: &[u8; FRAME_HEADER] = from.first_chunk()?;
        let place = |bytes: u32| usize::try_from(bytes).ok();
        let (start, length) = (usize::from(short(header, 24)), place(word(header, 12))?);
        let data = from.get(start..start.checked_add(length)?)?;
        let status = word(header, 20);
        let original = word(header, 16);
        // The kernel stores no tag of more than 16 bits in its word of 32.
        let tci = u16::try_from(word(header, 32)).unwrap_or(0);
        let vlan = tag_of(status, tci, short(header, 36));
        let frame = BlockFrame {
            data,
            original: if vlan.is_some() { original.saturating_add(4) } else { original },
            time_ns: u64::from(word(header, 4)) * 1_000_000_000 + u64::from(word(header, 8)),
            vlan,
            status: checksum(status),
            gso: status & GSO_TCP != 0 || original > self.look.longest,
            outgoing: header[DIRECTION] == libc::PACKET_OUTGOING,
        };
        Some((frame.cut(self.look.snaplen), place(word(header, 0))?))
    }
}

impl<'a> Iterator for BlockFrames<'a> {
    type Item = BlockFrame<'a>;

    #[inline]
    fn next(&mut self) -> Option<BlockFrame<'a>> {
        if self.left == 0 {
            return None;
        }
        let Some((frame, step)) = self.read() else {
            self.left = 0;
            return None;
        };
        self.left -= 1;
        // The last has 0: no frame follows.
        match self.next.checked_add(step) {
            Some(next) if step >= FRAME_HEADER => self.next = next,
            _ => self.left = 0,
        }
        Some(frame)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}

impl std::iter::FusedIterator for BlockFrames<'_> {}

fn checksum(status: u32) -> Status {
    if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        Status::CsumNotReady
    } else if status & libc::TP_STATUS_CSUM_VALID != 0 {
        Status::CsumValid
    } else {
        Status::Unknown
    }
}

fn word(header: &[u8; FRAME_HEADER], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn short(header: &[u8; FRAME_HEADER], at: usize) -> u16 {
    u16::from_ne_bytes([header[at], header[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: Look = Look { snaplen: usize::MAX, longest: 1522 };

    /// A frame in the kernel's layout, padded to a multiple of 8 bytes.
    fn laid(data: &[u8], status: u32, tag: Option<(u16, u16)>, last: bool) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap();
        let total = (82 + data.len()).next_multiple_of(8);
        let (tci, kind) = tag.unwrap_or_default();
        let step = if last { 0 } else { u32::try_from(total).unwrap() };
        let mut bytes = Vec::new();
        for value in [step, 7, 9, length, length, status] {
            bytes.extend(value.to_ne_bytes());
        }
        bytes.extend(82_u16.to_ne_bytes());
        bytes.extend(96_u16.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(u32::from(tci).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(DIRECTION, 0);
        bytes.push(libc::PACKET_OUTGOING);
        bytes.resize(82, 0);
        bytes.extend(data);
        bytes.resize(total, 0);
        bytes
    }

    fn tagged() -> u32 {
        libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID
    }

    #[test]
    fn frames_are_lent_in_order_with_all_that_is_told_of_them() {
        let mut block = laid(&[1; 60], libc::TP_STATUS_CSUMNOTREADY | GSO_TCP, None, false);
        block.extend(laid(&[2; 64], tagged(), Some((0x2007, 0x88a8)), true));
        let frames: Vec<_> = BlockFrames::new(&block, 48, 2, ALL).collect();
        assert_eq!(frames.len(), 2);
        assert_eq!((frames[0].data, frames[0].original), (&[1; 60][..], 60));
        assert_eq!(frames[0].time_ns, 7_000_000_009);
        assert_eq!((frames[0].status, frames[0].gso), (Status::CsumNotReady, true));
        assert!(frames[0].outgoing && frames[0].vlan.is_none());
        assert_eq!(frames[0].parts(), [&[1; 60][..], &[], &[]]);
        assert_eq!((frames[1].vlan, frames[1].original), (Some([0x88, 0xa8, 0x20, 7]), 68));
        assert_eq!(frames[1].parts(), [&[2; 12][..], &[0x88, 0xa8, 0x20, 7], &[2; 52]]);
        assert_eq!((frames[1].captured(), frames[1].gso), (68, false));
    }

    #[test]
    fn what_is_longer_than_a_packet_is_a_super_frame() {
        let block = laid(&[1; 100], 0, None, true);
        for (longest, gso) in [(99, true), (100, false)] {
            let look = Look { longest, ..ALL };
            assert_eq!(BlockFrames::new(&block, 48, 1, look).next().unwrap().gso, gso);
        }
    }

    #[test]
    fn a_cut_counts_the_tag() {
        let block = laid(&[2; 60], tagged(), Some((7, 0x8100)), true);
        for (snaplen, kept) in [(64, 64), (63, 63), (16, 16), (15, 12), (12, 12), (5, 5), (0, 0)] {
            let look = Look { snaplen, ..ALL };
            let frame = BlockFrames::new(&block, 48, 1, look).next().unwrap();
            assert_eq!(frame.captured(), kept, "{snaplen}");
            assert_eq!(frame.parts().concat().len(), kept, "{snaplen}");
            assert_eq!(frame.original, 64);
        }
    }

    #[test]
    fn places_outside_the_block_end_the_frames() {
        let whole = laid(&[1; 60], 0, None, true);
        assert_eq!(BlockFrames::new(&whole, 48, 9, ALL).count(), 1, "0 behind the last");
        assert_eq!(BlockFrames::new(&whole, 0, 1, ALL).count(), 0, "inside the block's header");
        assert_eq!(BlockFrames::new(&whole, u32::MAX, 1, ALL).count(), 0);
        assert_eq!(BlockFrames::new(&whole[..141], 48, 1, ALL).count(), 0, "its data cut");
        for (at, value) in [(12, u32::MAX), (12, 63), (24, u32::MAX)] {
            let mut bad = whole.clone();
            bad[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(BlockFrames::new(&bad, 48, 1, ALL).count(), 0, "{at} {value}");
        }
        let mut near = whole.clone();
        near[0..4].copy_from_slice(&8_u32.to_ne_bytes());
        assert_eq!(BlockFrames::new(&near, 48, u32::MAX, ALL).count(), 1, "inside the first");
    }

    proptest! {
        #[test]
        fn no_bytes_are_read_outside(
            block in proptest::collection::vec(any::<u8>(), 0..400),
            first in 0_u32..200, count: u32, snaplen in 0_usize..100,
            patch in proptest::collection::vec((0_usize..400, 0_u32..120), 0..12),
        ) {
            let mut block = block;
            for (at, value) in patch {
                if let Some(place) = block.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                    *place = value.to_ne_bytes();
                }
            }
            for frame in BlockFrames::new(&block, first, count, Look { snaplen, longest: 60 }) {
                prop_assert!(frame.captured() <= snaplen);
                prop_assert_eq!(frame.parts().concat().len(), frame.captured());
            }
        }
    }
}
