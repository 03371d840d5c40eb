//! Restores VLAN tags that the kernel has stripped from frames (packet(7), IEEE 802.1Q).
//!
//! Works on a frame preceded by a virtio-net header of [`HEADER`] bytes. Invariant: nothing behind
//! the MACs moves.

/// Bytes of the virtio-net header (linux/virtio_net.h, the legacy one).
pub const HEADER: usize = 10;
/// Bytes of a VLAN tag.
pub const TAG: usize = 4;
const MACS: usize = 12;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM` of linux/virtio_net.h.
const NEEDS_CSUM: u8 = 1;

/// The tag as it was in the frame: from `tp_status`, `tp_vlan_tci` and `tp_vlan_tpid`.
pub fn tag_of(status: u32, tci: u16, tpid: u16) -> Option<[u8; TAG]> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    // Linux before 3.14 does not say which kind of tag it was.
    let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let kind = if known { tpid } else { 0x8100 }.to_be_bytes();
    let value = tci.to_be_bytes();
    Some([kind[0], kind[1], value[0], value[1]])
}

/// Inserts a tag behind the MACs of a frame whose header starts at `buffer[TAG]`; it then starts at
/// `buffer[0]`. Leaves a frame too short for MACs unchanged; returns whether the tag was inserted.
pub fn put_back(buffer: &mut [u8], tag: [u8; TAG]) -> bool {
    if buffer.len() < TAG + HEADER + MACS {
        return false;
    }
    buffer.copy_within(TAG..TAG + HEADER + MACS, 0);
    buffer[HEADER + MACS..HEADER + MACS + TAG].copy_from_slice(&tag);
    // virtio_net_hdr: flags, type, header length, segment size, checksum start and offset. Offsets
    // from the frame's first byte grow by the tag.
    let partial = buffer[0] & NEEDS_CSUM != 0;
    let mut longer = |at: usize| {
        let value = u16::from_ne_bytes([buffer[at], buffer[at + 1]]);
        // 0 says that the field is not set.
        let value = if value == 0 { 0 } else { value.saturating_add(4) };
        buffer[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    };
    longer(2);
    if partial {
        // The checksum starts later; its offset counts from there, and stays.
        longer(6);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_behind_the_macs_and_moves_the_checksum() {
        let mut buffer: Vec<u8> = vec![0; TAG];
        buffer.extend([NEEDS_CSUM, 1]);
        for field in [54u16, 1448, 34, 16] {
            buffer.extend(field.to_ne_bytes());
        }
        buffer.extend(1..=12);
        buffer.extend([0x08, 0x00, 0x45]);
        assert!(put_back(&mut buffer, [0x81, 0, 0x20, 7]));
        let field = |at: usize| u16::from_ne_bytes([buffer[at], buffer[at + 1]]);
        assert_eq!([field(2), field(4), field(6), field(8)], [58, 1448, 38, 16]);
        let macs: Vec<u8> = (1..=12).collect();
        assert_eq!(buffer[HEADER..HEADER + MACS], macs);
        assert_eq!(buffer[HEADER + MACS..], [0x81, 0, 0x20, 7, 0x08, 0x00, 0x45]);
        assert!(!put_back(&mut [0; 25], [0; 4]));
    }

    #[test]
    fn a_tag_is_there_only_when_it_is_said_to_be() {
        let (valid, kind) = (libc::TP_STATUS_VLAN_VALID, libc::TP_STATUS_VLAN_TPID_VALID);
        assert_eq!(tag_of(kind, 7, 0x88a8), None);
        assert_eq!(tag_of(valid, 0x2007, 0), Some([0x81, 0, 0x20, 7]));
        assert_eq!(tag_of(valid | kind, 7, 0x88a8), Some([0x88, 0xa8, 0, 7]));
    }
}
