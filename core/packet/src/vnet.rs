//! The header before a frame that says what offload has left undone: `struct virtio_net_hdr`.
//!
//! The legacy form of 10 bytes, as with TUNSETVNETHDRSZ 10 and PACKET_VNET_HDR, in the
//! machine's byte order. Any 10 bytes give a header or an error. `hdr_len` is a hint that Linux
//! sets to the length of the linear part; nothing here relies on it.
//! See Virtual I/O Device (VIRTIO) 1.3, section 5.1.6, and linux/virtio_net.h.

use crate::error::{Error, Result};

/// Bytes of the header.
pub const LEN: usize = 10;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const ECN: u8 = 0x80;

/// The kind of super-frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gso {
    /// One packet.
    #[default]
    None,
    /// TCP over IPv4.
    TcpV4,
    /// A UDP datagram to be sent in IP fragments (UFO).
    Udp,
    /// TCP over IPv6.
    TcpV6,
    /// UDP datagrams of one flow and one length (USO).
    UdpL4,
}

/// The decoded header. The default says: one packet, nothing left undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VnetHeader {
    /// The checksum at `csum_start + csum_offset` covers the pseudo-header only.
    pub needs_csum: bool,
    /// The checksums were verified.
    pub data_valid: bool,
    /// Kind of super-frame.
    pub gso: Gso,
    /// With TCP: the first segment has CWR, and only it keeps CWR.
    pub ecn: bool,
    /// Length of the headers, or more. A hint.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Where checksumming starts, counted from the Ethernet header.
    pub csum_start: u16,
    /// Where the checksum is, counted from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// Decodes the first [`LEN`] bytes. Unknown flags are dropped; an unknown kind of
    /// super-frame is an error, because it could not be cut.
    pub fn parse(bytes: &[u8]) -> Result<VnetHeader> {
        let Some(bytes) = bytes.first_chunk::<LEN>() else {
            return Err(Error::Short { object: "virtio_net_hdr", needs: LEN, has: bytes.len() });
        };
        let [flags, kind, a0, a1, b0, b1, c0, c1, d0, d1] = *bytes;
        let gso = match kind & !ECN {
            0 => Gso::None,
            1 => Gso::TcpV4,
            3 => Gso::Udp,
            4 => Gso::TcpV6,
            5 => Gso::UdpL4,
            _ => {
                let value = usize::from(kind);
                return Err(Error::Field { object: "virtio_net_hdr", field: "gso_type", value });
            }
        };
        Ok(VnetHeader {
            needs_csum: flags & NEEDS_CSUM != 0,
            data_valid: flags & DATA_VALID != 0,
            gso,
            ecn: kind & ECN != 0,
            hdr_len: u16::from_ne_bytes([a0, a1]),
            gso_size: u16::from_ne_bytes([b0, b1]),
            csum_start: u16::from_ne_bytes([c0, c1]),
            csum_offset: u16::from_ne_bytes([d0, d1]),
        })
    }

    /// Encodes it as it precedes a frame.
    pub fn encode(&self) -> [u8; LEN] {
        let flags = if self.needs_csum { NEEDS_CSUM } else { 0 }
            | if self.data_valid { DATA_VALID } else { 0 };
        let kind = match self.gso {
            Gso::None => 0,
            Gso::TcpV4 => 1,
            Gso::Udp => 3,
            Gso::TcpV6 => 4,
            Gso::UdpL4 => 5,
        };
        let [a0, a1] = self.hdr_len.to_ne_bytes();
        let [b0, b1] = self.gso_size.to_ne_bytes();
        let [c0, c1] = self.csum_start.to_ne_bytes();
        let [d0, d1] = self.csum_offset.to_ne_bytes();
        let kind = kind | if self.ecn { ECN } else { 0 };
        [flags, kind, a0, a1, b0, b1, c0, c1, d0, d1]
    }

    /// Whether a frame with this header stands for several packets.
    pub fn is_super(&self) -> bool {
        self.gso != Gso::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_an_error(bytes: [u8; LEN]) {
            if let Ok(header) = VnetHeader::parse(&bytes) {
                let again = header.encode();
                prop_assert_eq!(&again[1..], &bytes[1..]);
                prop_assert_eq!(again[0], bytes[0] & 3);
                prop_assert_eq!(VnetHeader::parse(&again), Ok(header));
            } else {
                prop_assert!(![0, 1, 3, 4, 5].contains(&(bytes[1] & 0x7f)));
            }
        }
    }

    #[test]
    fn short() {
        assert!(VnetHeader::parse(&[0; 9]).is_err());
        assert_eq!(VnetHeader::parse(&[0; 64]), Ok(VnetHeader::default()));
        assert_eq!(VnetHeader::default().encode(), [0; LEN]);
    }
}
