//! Frames of a generator: Ethernet, IPv4 or IPv6, UDP, a stamp, zeros.
//!
//! A [`Frame`] is one buffer in which only the fields that differ between frames are written. Over IPv4
//! the UDP checksum is omitted (RFC 768), over IPv6 it is required (RFC 8200). Invariant: every frame
//! returned is a complete packet with correct lengths and checksums.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netloom_packet::headers::{ETHERNET, UDP};
use netloom_packet::{Ip, checksum};

use crate::sizes::FCS;
use crate::{Error, Flow, MOST_SIZE, Result, STAMP, Stamp};

const UDP_HEADER: usize = 8;
const V4: usize = 20;
const V6: usize = 40;
/// TTL and hop limit.
const HOPS: u8 = 64;
/// The port of the discard protocol (RFC 863), which has no answers.
const DISCARD: u16 = 9;

/// Source and destination of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The sender's MAC.
    pub source_mac: [u8; 6],
    /// The MAC of the receiver, or of the router toward it.
    pub target_mac: [u8; 6],
    /// The sender's address, used by the first flows.
    pub source: IpAddr,
    /// The receiver's address, of the same family.
    pub target: IpAddr,
    /// The receiver's UDP port.
    pub target_port: u16,
}

impl Addresses {
    /// These addresses, with the discard port.
    ///
    /// # Errors
    /// [`Error::Families`] for one of each family.
    pub fn new(macs: ([u8; 6], [u8; 6]), source: IpAddr, target: IpAddr) -> Result<Addresses> {
        let (source_mac, target_mac) = macs;
        let new = Addresses { source_mac, target_mac, source, target, target_port: DISCARD };
        new.check().map(|()| new)
    }

    fn check(&self) -> Result<()> {
        if self.source.is_ipv4() == self.target.is_ipv4() {
            return Ok(());
        }
        Err(Error::Families { source_address: self.source, target: self.target })
    }

    /// Addresses that belong to nobody: those for benchmarks (RFC 2544, RFC 5180), and local MACs.
    pub fn example(v6: bool) -> Addresses {
        let (source, target) = if v6 {
            let address = |last| IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last));
            (address(1), address(2))
        } else {
            let address = |last| IpAddr::V4(Ipv4Addr::new(198, 18, 0, last));
            (address(1), address(2))
        };
        Addresses {
            source_mac: [2, 0, 0, 0, 0, 1],
            target_mac: [2, 0, 0, 0, 0, 2],
            source,
            target,
            target_port: DISCARD,
        }
    }

    /// The minimum length of a frame with a stamp, without check sequence: 60 or 80 bytes.
    pub fn least_length(&self) -> usize {
        ETHERNET + self.network() + UDP_HEADER + STAMP
    }

    fn network(&self) -> usize {
        if self.source.is_ipv4() { V4 } else { V6 }
    }
}

/// A frame that is made repeatedly.
#[derive(Clone, Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    stream: u16,
    v6: bool,
    /// Where the UDP header begins.
    transport: usize,
    /// The last 32 bits of the first flow's address.
    source: u32,
    /// The checksum of the constant fields: of the IPv4 header, or of IPv6's addresses and UDP.
    constant: u64,
}

impl Frame {
    /// A buffer for frames of up to `most` bytes (length, without check sequence).
    ///
    /// # Errors
    /// [`Error::Range`] when `most` is less than [`Addresses::least_length`], or more than a frame's maximum
    /// length; [`Error::Families`].
    pub fn new(addresses: &Addresses, most: usize, stream: u16) -> Result<Frame> {
        addresses.check()?;
        let least = addresses.least_length();
        let limit = usize::try_from(MOST_SIZE - FCS).unwrap_or(usize::MAX);
        if !(least..=limit).contains(&most) {
            return Err(Error::range("length of a frame with a stamp", most, least, limit));
        }
        let mut bytes = vec![0; most];
        bytes[..6].copy_from_slice(&addresses.target_mac);
        bytes[6..12].copy_from_slice(&addresses.source_mac);
        let transport = ETHERNET + addresses.network();
        let source = fill_network(&mut bytes, addresses);
        bytes[transport + 2..transport + 4].copy_from_slice(&addresses.target_port.to_be_bytes());
        let v6 = addresses.source.is_ipv6();
        let mut new = Frame { bytes, stream, v6, transport, source, constant: 0 };
        // Summed once: each frame adds only what changes.
        new.constant = new.sum();
        Ok(new)
    }

    /// The checksum of the constant fields: variable ones are still zero.
    fn sum(&self) -> u64 {
        if !self.v6 {
            return checksum::add(0, &self.bytes[ETHERNET..self.transport]);
        }
        let ip = Ip {
            v6: true,
            protocol: UDP,
            transport: self.transport,
            end: self.bytes.len(),
            fragment: None,
            payload: None,
            lengthless: false,
        };
        let pseudo = checksum::pseudo_header(&self.bytes, ETHERNET, &ip, 0);
        checksum::add(pseudo, &self.bytes[self.transport..self.transport + UDP_HEADER])
    }

    /// The frame of `length` bytes, which is clamped to the possible range.
    pub fn make(&mut self, length: usize, flow: Flow, sequence: u64, time_ns: u64) -> &[u8] {
        let length = length.clamp(self.transport + UDP_HEADER + STAMP, self.bytes.len());
        let stamp = Stamp { stream: self.stream, sequence: sequence % crate::SEQUENCES, time_ns };
        let stamp = stamp.bytes();
        let source = self.source.wrapping_add(flow.address).to_be_bytes();
        let udp = length - self.transport;
        let (udp, packet) = (word(udp), word(length - ETHERNET));
        let at = self.transport;
        self.put(at, flow.port.to_be_bytes());
        self.put(at + 4, udp);
        self.bytes[at + UDP_HEADER..][..STAMP].copy_from_slice(&stamp);
        if self.v6 {
            // The length is in the header and in the pseudo-header.
            let mut sum = checksum::add(self.constant, &source);
            sum = checksum::add(sum, &flow.port.to_be_bytes());
            sum = checksum::add(sum, &udp) + u64::from(u16::from_be_bytes(udp));
            let sum = checksum::of_transport(checksum::add(sum, &stamp));
            self.put(at + 6, sum.to_be_bytes());
            self.put(ETHERNET + 4, udp);
            self.bytes[ETHERNET + 20..][..4].copy_from_slice(&source);
        } else {
            let sum = checksum::add(checksum::add(self.constant, &source), &packet);
            self.put(ETHERNET + 2, packet);
            self.put(ETHERNET + 10, (!checksum::fold(sum)).to_be_bytes());
            self.bytes[ETHERNET + 12..][..4].copy_from_slice(&source);
        }
        &self.bytes[..length]
    }

    /// The start of a frame up to and including its stamp, for programs that make frames: fields that differ
    /// between frames are zero, except the source's address, which is the first flow's.
    pub fn head(&self) -> Vec<u8> {
        let at = self.transport;
        let mut head = self.bytes[..at + UDP_HEADER + STAMP].to_vec();
        let stamp = Stamp { stream: self.stream, sequence: 0, time_ns: 0 };
        head[at + UDP_HEADER..].copy_from_slice(&stamp.bytes());
        // Lengths and checksums, and the source's port.
        let network = if self.v6 { [4, 4] } else { [2, 10] };
        for field in network.map(|field| ETHERNET + field).into_iter().chain([at, at + 4, at + 6]) {
            head[field..field + 2].fill(0);
        }
        let source = ETHERNET + if self.v6 { 20 } else { 12 };
        head[source..source + 4].copy_from_slice(&self.source.to_be_bytes());
        head
    }

    fn put(&mut self, at: usize, value: [u8; 2]) {
        self.bytes[at..at + 2].copy_from_slice(&value);
    }
}

/// Writes the network header except variable fields; returns the last 32 bits of the source's address.
fn fill_network(bytes: &mut [u8], addresses: &Addresses) -> u32 {
    let (ethernet, packet) = bytes.split_at_mut(ETHERNET);
    let (kind, changing) = match (addresses.source, addresses.target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            packet[0] = 0x45;
            packet[6] = 0x40; // not to be cut
            packet[8] = HOPS;
            packet[9] = UDP;
            packet[16..20].copy_from_slice(&target.octets());
            ([8, 0], u32::from(source))
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            packet[0] = 0x60;
            packet[6] = UDP;
            packet[7] = HOPS;
            packet[8..20].copy_from_slice(&source.octets()[..12]);
            packet[24..40].copy_from_slice(&target.octets());
            let [.., a, b, c, d] = source.octets();
            ([0x86, 0xdd], u32::from_be_bytes([a, b, c, d]))
        }
        // Checked before.
        _ => ([0, 0], 0),
    };
    ethernet[12..14].copy_from_slice(&kind);
    changing
}

/// A length known to fit, in network order.
fn word(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flows;
    use netloom_packet::Headers;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_frame_is_a_whole_packet(length in 40_usize..1600, n: u32, flows in 1_u32..100_000,
                                         time_ns: u64, v6: bool) {
            let addresses = Addresses::example(v6);
            let mut frame = Frame::new(&addresses, 1514, 7).unwrap();
            let flow = Flows::new(flows).unwrap().at(n.into());
            // Makes a frame before, to show that nothing of it remains.
            frame.make(1514, Flow { port: 0xffff, address: u32::MAX }, u64::MAX, u64::MAX);
            let bytes = frame.make(length, flow, n.into(), time_ns);
            prop_assert_eq!(bytes.len(), length.clamp(addresses.least_length(), 1514));
            let view = Headers::parse(bytes).unwrap();
            let ip = view.ip.unwrap();
            prop_assert_eq!((ip.v6, ip.end, ip.protocol), (v6, bytes.len(), UDP));
            prop_assert!(checksum::verifies(bytes, view.network, &ip));
            if !v6 {
                prop_assert_eq!(checksum::checksum(&bytes[14..34]), 0);
            }
            let port = u16::from_be_bytes([bytes[ip.transport], bytes[ip.transport + 1]]);
            prop_assert_eq!(port, flow.port);
            let expected = Stamp { stream: 7, sequence: n.into(), time_ns };
            prop_assert_eq!(Stamp::read(bytes), Some(expected));
        }

        #[test]
        fn the_head_is_what_never_changes(n in 0_u64..1000, v6: bool) {
            let addresses = Addresses::example(v6);
            let mut frame = Frame::new(&addresses, 200, 7).unwrap();
            let before = frame.head();
            frame.make(150, Flows::new(50_000).unwrap().at(n), n, 5);
            prop_assert_eq!(frame.head(), before);
        }
    }

    #[test]
    fn the_smallest_are_of_64_and_84_bytes_with_check_sequence() {
        assert_eq!(Addresses::example(false).least_length(), 60);
        assert_eq!(Addresses::example(true).least_length(), 80);
        let error = Frame::new(&Addresses::example(true), 60, 0).unwrap_err();
        assert!(error.to_string().contains("60: must be 80 to"), "{error}");
    }

    #[test]
    fn families_are_not_mixed() {
        let [four, six] = [false, true].map(Addresses::example);
        let macs = (four.source_mac, four.target_mac);
        assert!(Addresses::new(macs, four.source, four.target).is_ok());
        let error = Addresses::new(macs, four.source, six.target).unwrap_err();
        assert_eq!(error.to_string(), "addresses 198.18.0.1 and 2001:2::2: of different families");
    }
}
