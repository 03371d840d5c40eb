//! Frames for tests, with right checksums.

use netloom_packet::{Headers, checksum};

/// An Ethernet header and what follows.
pub fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An IPv4 header from 10.0.0.1 to 10.0.0.2 and what follows.
pub fn ipv4(protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 20).unwrap().to_be_bytes();
    let mut packet = vec![0x45, 0, length[0], length[1], 0, 1, 0x40, 0, ttl, protocol, 0, 0];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum::checksum(&packet).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet.extend(payload);
    packet
}

/// An IPv6 header from 2001:db8::1 to 2001:db8::2 and what follows.
pub fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], next, 64];
    for last in [1, 2] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(payload);
    packet
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    [source.to_be_bytes(), destination.to_be_bytes()].concat()
}

/// A TCP segment without its checksum.
pub fn tcp(source: u16, destination: u16) -> Vec<u8> {
    let mut segment = ports(source, destination);
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
    segment.extend(b"sixteen bytes ok");
    segment
}

/// A UDP datagram without its checksum.
pub fn udp(source: u16, destination: u16) -> Vec<u8> {
    let mut datagram = ports(source, destination);
    datagram.extend([0, 13, 0, 0]);
    datagram.extend(b"hello");
    datagram
}

/// With the transport checksum filled in.
pub fn summed(mut frame: Vec<u8>) -> Vec<u8> {
    let view = Headers::parse(&frame).unwrap();
    let ip = view.ip.unwrap();
    let at = ip.transport
        + match ip.protocol {
            6 => 16,
            17 => 6,
            _ => 2,
        };
    frame[at..at + 2].fill(0);
    let segment = &frame[ip.transport..ip.end];
    let pseudo = match ip.protocol {
        1 => 0,
        _ => checksum::pseudo_header(&frame, view.network, &ip, segment.len()),
    };
    let sum = !checksum::fold(checksum::add(pseudo, segment));
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// TCP over IPv4.
pub fn tcp4(source: u16, destination: u16) -> Vec<u8> {
    summed(ethernet(0x0800, &ipv4(6, 64, &tcp(source, destination))))
}

/// UDP over IPv4.
pub fn udp4(source: u16, destination: u16) -> Vec<u8> {
    summed(ethernet(0x0800, &ipv4(17, 64, &udp(source, destination))))
}

/// TCP over IPv6.
pub fn tcp6(source: u16, destination: u16) -> Vec<u8> {
    summed(ethernet(0x86dd, &ipv6(6, &tcp(source, destination))))
}

/// An ARP request for 10.0.0.2.
pub fn arp() -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1];
    packet.extend([2, 0, 0, 0, 0, 0xa, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    ethernet(0x0806, &packet)
}

/// With a VLAN tag.
pub fn tagged(frame: &[u8], vid: u16, pcp: u16) -> Vec<u8> {
    let mut all = frame[..12].to_vec();
    all.extend([0x81, 0]);
    all.extend((pcp << 13 | vid).to_be_bytes());
    all.extend(&frame[12..]);
    all
}

/// Whether IPv4 header and transport checksums are right.
pub fn is_right(frame: &[u8]) -> bool {
    let view = Headers::parse(frame).unwrap();
    let ip = view.ip.unwrap();
    let header = ip.v6 || checksum::checksum(&frame[view.network..view.network + 20]) == 0;
    let transport = match ip.protocol {
        6 | 17 | 58 => checksum::verifies(frame, view.network, &ip),
        1 => checksum::checksum(&frame[ip.transport..ip.end]) == 0,
        _ => true,
    };
    header && transport
}
