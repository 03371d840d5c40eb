//! Writes a frame as a block of the file, directly in its final place: one copy.
//!
//! The block is the enhanced packet block of `netloom_pcap::ng::packet`, with the flags option only
//! if there are flags; blocks with more options are made there. Invariant: the bytes are equal.
//! Specification: draft-ietf-opsawg-pcapng, section 4.3.

use netloom_pcap::ng;

/// Bytes before the frame.
const HEAD: usize = 28;
/// Bytes of the flags option and the end of options.
const FLAGS: usize = 12;
/// Bytes of a VLAN tag, and of the addresses before it.
const TAG: usize = 4;
const MACS: usize = 12;

/// A frame from an engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame<'a> {
    /// When it passed: nanoseconds since 1970, UTC.
    pub time_ns: u64,
    /// Its length on the wire in bytes, without FCS, including a stripped tag.
    pub original: u32,
    /// Its captured bytes, without a stripped tag.
    pub data: &'a [u8],
    /// The VLAN tag stripped by the kernel, to be restored behind the addresses.
    pub tag: Option<[u8; TAG]>,
    /// Flags of the block (`epb_flags`); 0 for none.
    pub flags: u32,
}

impl Frame<'_> {
    /// Number of bytes kept of it.
    fn kept(&self, snaplen: u32) -> usize {
        let there = self.data.len() + if self.has_tag() { TAG } else { 0 };
        let most = if snaplen == 0 { u32::MAX } else { snaplen };
        there.min(usize::try_from(most).unwrap_or(usize::MAX))
    }

    fn has_tag(&self) -> bool {
        self.tag.is_some() && self.data.len() >= MACS
    }
}

/// The block's length in bytes, and the number of bytes kept of the frame.
pub(crate) fn len(frame: &Frame<'_>, snaplen: u32) -> (usize, usize) {
    let kept = frame.kept(snaplen);
    (HEAD + kept.next_multiple_of(4) + if frame.flags == 0 { 0 } else { FLAGS } + 4, kept)
}

/// Writes the block into `out`, which has the length from [`len`].
pub(crate) fn put(out: &mut [u8], interface: u32, frame: &Frame<'_>, kept: usize) {
    let total = u32::try_from(out.len()).unwrap_or(u32::MAX).to_le_bytes();
    let Some((head, rest)) = out.split_first_chunk_mut::<HEAD>() else { return };
    let Some((body, end)) = rest.split_last_chunk_mut::<4>() else { return };
    *end = total;
    let high = u32::try_from(frame.time_ns >> 32).unwrap_or(u32::MAX);
    let low = u32::try_from(frame.time_ns & 0xffff_ffff).unwrap_or(u32::MAX);
    let captured = u32::try_from(kept).unwrap_or(u32::MAX);
    // Block type 6: enhanced packet block.
    head[..4].copy_from_slice(&6_u32.to_le_bytes());
    head[4..8].copy_from_slice(&total);
    for (at, value) in [(8, interface), (12, high), (16, low), (20, captured), (24, frame.original)]
    {
        head[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let padded = kept.next_multiple_of(4);
    let Some((data, options)) = body.split_at_mut_checked(padded) else { return };
    // Zeros, and not what the memory held before.
    data[kept..].fill(0);
    copy(&mut data[..kept], frame);
    if let Some(options) = options.first_chunk_mut::<FLAGS>() {
        // epb_flags (2) of 4 bytes, then opt_endofopt.
        *options = [2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        options[4..8].copy_from_slice(&frame.flags.to_le_bytes());
    }
}

/// Copies as much of the frame as there is room for, restoring its tag.
fn copy(data: &mut [u8], frame: &Frame<'_>) {
    let Some(tag) = frame.tag.filter(|_| frame.has_tag()) else {
        data.copy_from_slice(&frame.data[..data.len()]);
        return;
    };
    let kept = data.len();
    let macs = kept.min(MACS);
    data[..macs].copy_from_slice(&frame.data[..macs]);
    let end = kept.min(MACS + TAG);
    data[macs..end].copy_from_slice(&tag[..end - macs]);
    data[end..].copy_from_slice(&frame.data[macs..macs + kept - end]);
}

/// A block's information beyond the frame.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Frames of the interface lost since the last block.
    pub(crate) drops: u64,
    pub(crate) comment: Option<String>,
}

impl Extra {
    pub(crate) fn is_any(&self) -> bool {
        self.drops != 0 || self.comment.is_some()
    }
}

/// Appends the block with its information beyond the frame.
pub(crate) fn with_extra(
    out: &mut Vec<u8>,
    interface: u32,
    frame: &Frame<'_>,
    kept: usize,
    extra: &Extra,
) {
    // Few blocks have more than flags: they may cost one more copy.
    let mut data = vec![0; kept];
    copy(&mut data, frame);
    ng::packet(
        out,
        &ng::Packet {
            interface,
            time_ns: frame.time_ns,
            original: frame.original,
            data: &data,
            flags: frame.flags,
            drops: (extra.drops != 0).then_some(extra.drops),
            id: None,
            comment: extra.comment.as_deref(),
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_the_library_in_every_form() {
        let data: Vec<u8> = (0..97).collect();
        for length in [0, 1, 11, 12, 13, 16, 59, 60, 97] {
            for tag in [None, Some([0x81, 0, 0x20, 7])] {
                for (flags, snaplen) in [(0, 0), (1, 0), (0x401, 14), (0, 13), (2, 5), (0, 200)] {
                    let tagged = tag.is_some() && length >= 12;
                    let original = 300;
                    let frame = Frame {
                        time_ns: 1 << 40 | 77,
                        original,
                        data: &data[..length],
                        tag,
                        flags,
                    };
                    let mut whole = data[..length].to_vec();
                    if tagged {
                        whole.splice(12..12, tag.unwrap());
                    }
                    if snaplen != 0 {
                        whole.truncate(usize::try_from(snaplen).unwrap());
                    }
                    let (len, kept) = len(&frame, snaplen);
                    let mut out = vec![0xee; len];
                    put(&mut out, 5, &frame, kept);
                    let mut expected = vec![];
                    let packet = ng::Packet {
                        interface: 5,
                        time_ns: frame.time_ns,
                        original,
                        data: &whole,
                        flags,
                        drops: None,
                        id: None,
                        comment: None,
                    };
                    ng::packet(&mut expected, &packet);
                    assert_eq!(out, expected, "{length} {tag:?} {flags} {snaplen}");
                    let mut same = vec![];
                    with_extra(&mut same, 5, &frame, kept, &Extra::default());
                    assert_eq!(out, same);
                }
            }
        }
    }
}
