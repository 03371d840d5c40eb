//! Frames for tests, built from a description, with checksums finished or not.

use proptest::prelude::*;

use crate::checksum::{add, checksum, fold, of_transport, pseudo_header};
use crate::headers::{Headers, TCP, UDP};
use crate::vnet::VnetHeader;

/// A frame to build.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    pub(crate) v6: bool,
    pub(crate) tcp: bool,
    /// VLAN tags.
    pub(crate) tags: usize,
    /// Words of IPv4 options, or IPv6 destination options of eight bytes.
    pub(crate) ip_options: usize,
    /// Words of TCP options.
    pub(crate) tcp_options: usize,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) id: u16,
    pub(crate) payload: Vec<u8>,
    pub(crate) padding: usize,
    pub(crate) unfinished: bool,
}

/// Any frame with a payload of this length.
pub(crate) fn made(payload: std::ops::Range<usize>) -> impl Strategy<Value = Made> {
    let shape = (any::<bool>(), any::<bool>(), 0usize..3, 0usize..4, 0usize..11, 0usize..9);
    let values = (any::<u8>(), any::<u32>(), any::<u16>(), any::<bool>());
    let payload = prop::collection::vec(any::<u8>(), payload);
    (shape, values, payload).prop_map(|(shape, values, payload)| {
        let (v6, tcp, tags, ip_options, tcp_options, padding) = shape;
        let (flags, sequence, id, unfinished) = values;
        Made {
            v6,
            tcp,
            tags,
            ip_options,
            tcp_options,
            flags,
            sequence,
            id,
            payload,
            padding,
            unfinished,
        }
    })
}

impl Made {
    /// The frame and its vnet header (not a super-frame).
    pub(crate) fn build(&self) -> (VnetHeader, Vec<u8>) {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        (0..self.tags).for_each(|n| frame.extend([0x81, 0, 0, u8::try_from(n).unwrap()]));
        frame.extend(if self.v6 { [0x86, 0xdd] } else { [8, 0] });
        let network = frame.len();
        let transport = self.transport();
        if self.v6 {
            self.ipv6(&mut frame, transport.len())
        } else {
            self.ipv4(&mut frame, transport.len())
        }
        let start = frame.len();
        frame.extend(&transport);
        let ip = Headers::parse(&frame).unwrap().ip.unwrap();
        assert_eq!((ip.transport, ip.end), (start, frame.len()));
        let place = if self.tcp { 16 } else { 6 };
        let pseudo = pseudo_header(&frame, network, &ip, transport.len());
        let mut header = VnetHeader::default();
        let sum = if self.unfinished {
            header.needs_csum = true;
            header.csum_start = u16::try_from(start).unwrap();
            header.csum_offset = u16::try_from(place).unwrap();
            fold(pseudo)
        } else {
            of_transport(add(pseudo, &transport))
        };
        frame[start + place..][..2].copy_from_slice(&sum.to_be_bytes());
        frame.extend(std::iter::repeat_n(0xaa, if self.unfinished { 0 } else { self.padding }));
        (header, frame)
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 0, 80];
        if self.tcp {
            bytes.extend(self.sequence.to_be_bytes());
            bytes.extend([9, 8, 7, 6]);
            bytes.extend([u8::try_from(5 + self.tcp_options).unwrap() << 4, self.flags]);
            bytes.extend([1, 2, 0, 0, 0, 0]);
            bytes.extend(std::iter::repeat_n(1, self.tcp_options * 4));
        } else {
            bytes.extend(u16::try_from(8 + self.payload.len()).unwrap().to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.extend(&self.payload);
        bytes
    }

    fn ipv4(&self, frame: &mut Vec<u8>, length: usize) {
        let start = frame.len();
        let header = 20 + 4 * self.ip_options;
        frame.extend([0x40 | u8::try_from(header / 4).unwrap(), 3]);
        frame.extend(u16::try_from(header + length).unwrap().to_be_bytes());
        frame.extend(self.id.to_be_bytes());
        frame.extend([0x40, 0, 64, if self.tcp { TCP } else { UDP }, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(std::iter::repeat_n(1, 4 * self.ip_options));
        let sum = checksum(&frame[start..]);
        frame[start + 10..][..2].copy_from_slice(&sum.to_be_bytes());
    }

    fn ipv6(&self, frame: &mut Vec<u8>, length: usize) {
        let protocol = if self.tcp { TCP } else { UDP };
        let [high, low] = self.id.to_be_bytes();
        frame.extend([0x60, 0x35, high, low]);
        frame.extend(u16::try_from(8 * self.ip_options + length).unwrap().to_be_bytes());
        frame.extend([if self.ip_options > 0 { 60 } else { protocol }, 64]);
        frame.extend((0..32).map(|n| n * 7));
        for n in 1..=self.ip_options {
            let next = if n == self.ip_options { protocol } else { 60 };
            frame.extend([next, 0, 1, 4, 0, 0, 0, 0]);
        }
    }
}
