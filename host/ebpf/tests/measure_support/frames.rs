//! Frames of all kinds: both families, tags, options, extension headers, fragments, runts, super-frames.

use netloom_packet::checksum::checksum;

use super::noise::Noise;

/// A frame as a program sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) gso_size: u32,
    pub(crate) gso_segs: u32,
    /// How much is in the first part, where the kernel can make more of one (6.18 cannot); 0: all.
    pub(crate) linear: u32,
}

/// An IPv4 packet with its checksum.
pub(crate) fn ipv4(class: u8, protocol: u8, ends: [[u8; 4]; 2], payload: &[u8]) -> Vec<u8> {
    let total = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![0x45, class, total[0], total[1], 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0];
    bytes.extend(ends.concat());
    let sum = checksum(&bytes).to_be_bytes();
    bytes[10..12].copy_from_slice(&sum);
    [&bytes, payload].concat()
}

/// An Ethernet frame of a packet.
pub(crate) fn ethernet(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &kind[..], packet].concat()
}

/// An IPv6 packet.
pub(crate) fn ipv6(class: u8, protocol: u8, ends: [[u8; 16]; 2], payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![0x60 | class >> 4, class << 4, 1, 2, length[0], length[1], protocol, 64];
    bytes.extend(ends.concat());
    [&bytes, payload].concat()
}

fn udp_payload(ports: [u16; 2]) -> Vec<u8> {
    let mut payload = ports.map(u16::to_be_bytes).concat();
    payload.extend([0, 26, 0, 0]);
    payload.resize(26, 7);
    payload
}

fn tcp_payload(ports: [u16; 2], sequence: u32) -> Vec<u8> {
    let mut payload = ports.map(u16::to_be_bytes).concat();
    payload.extend(sequence.to_be_bytes());
    payload.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    payload.resize(26, 7);
    payload
}

fn whole(packet: &[u8]) -> Frame {
    Frame { bytes: ethernet(packet), ..Frame::default() }
}

/// A UDP packet of 60 bytes.
pub(crate) fn udp(class: u8, ends: [[u8; 4]; 2], ports: [u16; 2]) -> Frame {
    whole(&ipv4(class, 17, ends, &udp_payload(ports)))
}

/// A TCP packet of 60 bytes with a sequence number.
pub(crate) fn tcp(class: u8, ends: [[u8; 4]; 2], ports: [u16; 2], sequence: u32) -> Frame {
    whole(&ipv4(class, 6, ends, &tcp_payload(ports, sequence)))
}

/// A UDP packet over IPv6.
pub(crate) fn udp6(class: u8, ends: [[u8; 16]; 2], ports: [u16; 2]) -> Frame {
    whole(&ipv6(class, 17, ends, &udp_payload(ports)))
}

/// A TCP packet over IPv6 with a sequence number.
pub(crate) fn tcp6(class: u8, ends: [[u8; 16]; 2], ports: [u16; 2], sequence: u32) -> Frame {
    whole(&ipv6(class, 6, ends, &tcp_payload(ports, sequence)))
}

/// Whether a test run takes such a frame: not without a whole first header. Behind a tag it does.
pub(crate) fn is_taken(frame: &Frame) -> bool {
    frame.bytes.len() >= least(&frame.bytes)
}

fn least(frame: &[u8]) -> usize {
    match frame.get(12..14) {
        Some([8, 0]) => 34,
        Some([0x86, 0xdd]) => 54,
        _ => 15,
    }
}

const PROTOCOLS: [u8; 8] = [6, 6, 17, 17, 1, 58, 132, 136];

/// Any frame, with one of these traffic classes.
pub(crate) fn any(noise: &mut Noise, classes: &[u8]) -> Frame {
    let v6 = noise.one_in(3);
    let protocol = if noise.one_in(12) { noise.byte() } else { noise.of(&PROTOCOLS) };
    let gso = matches!(protocol, 6 | 17) && noise.one_in(4);
    let payload = payload(noise, protocol, gso);
    let class = noise.of(classes);
    let mut packet = if v6 {
        any_v6(noise, class, protocol, &payload, gso)
    } else {
        any_v4(noise, class, protocol, &payload, gso)
    };
    match noise.below(20) {
        // Cut short, or padded.
        0 => packet.truncate(usize::try_from(1 + noise.below(packet.len() as u64)).unwrap()),
        1 => packet.extend(noise.bytes(18)),
        2 => packet[0] = noise.byte(),
        _ => {}
    }
    let mut frame = noise.bytes(12);
    for _ in 0..[0, 0, 0, 0, 1, 1, 2, 3][usize::try_from(noise.below(8)).unwrap()] {
        frame.extend(noise.of(&[[0x81, 0], [0x88, 0xa8]]));
        frame.extend(noise.bytes(2));
    }
    let kinds = [[8, 0], [0x86, 0xdd], [8, 6]];
    frame.extend(if noise.one_in(40) { noise.of(&kinds) } else { kinds[usize::from(v6)] });
    frame.extend(&packet);
    let mut frame = Frame { bytes: frame, ..Frame::default() };
    let least = least(&frame.bytes) as u64;
    let more = (frame.bytes.len() as u64).saturating_sub(least);
    if more > 0 && noise.one_in(3) {
        frame.linear = u32::try_from(least + noise.below(more.min(60))).unwrap();
    }
    if gso {
        frame.gso_size = u32::try_from(1 + noise.below(120)).unwrap();
        let header = if protocol == 6 { usize::from(payload[12] >> 4) * 4 } else { 8 };
        let data = u32::try_from(payload.len().saturating_sub(header)).unwrap();
        frame.gso_segs = if noise.one_in(3) { 0 } else { data.div_ceil(frame.gso_size) };
    }
    frame
}

fn payload(noise: &mut Noise, protocol: u8, gso: bool) -> Vec<u8> {
    let size = if gso { 40 + noise.below(900) } else { noise.below(70) };
    let mut payload = noise.bytes(size);
    // Few ports, so that filters match.
    for at in [0, 2] {
        if payload.len() > at + 1 {
            payload[at] = 0;
            payload[at + 1] = noise.byte() % 4;
        }
    }
    if protocol == 6 && payload.len() > 12 {
        payload[12] = noise.of(&[0x50, 0x50, 0x80]);
    }
    payload
}

fn any_v4(noise: &mut Noise, class: u8, protocol: u8, payload: &[u8], gso: bool) -> Vec<u8> {
    let ends = [0, 1].map(|_| [10, 0, noise.byte() % 3, noise.byte() % 4]);
    let options = if noise.one_in(5) { 4 * noise.below(5) } else { 0 };
    let options = noise.bytes(options);
    let mut bytes = ipv4(class, protocol, ends, &[]);
    bytes.extend(&options);
    let total = u16::try_from(bytes.len() + payload.len()).unwrap();
    let total = match noise.below(24) {
        0 => 0,
        1 => total.wrapping_sub(u16::from(noise.byte())),
        2 => total + 9,
        _ => total,
    };
    bytes[0] += u8::try_from(options.len() / 4).unwrap();
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    let id = noise.bytes(2);
    bytes[4..6].copy_from_slice(&id);
    if !gso {
        let fragment = noise.of(&[[0x40, 0], [0x40, 0], [0, 0], [0x20, 0], [0x20, 9], [0, 5]]);
        bytes[6..8].copy_from_slice(&fragment);
    }
    bytes[10..12].fill(0);
    let sum = checksum(&bytes).to_be_bytes();
    bytes[10..12].copy_from_slice(&sum);
    bytes.extend(payload);
    bytes
}

fn any_v6(noise: &mut Noise, class: u8, protocol: u8, payload: &[u8], gso: bool) -> Vec<u8> {
    let mut kinds = Vec::new();
    let mut headers = Vec::new();
    for _ in 0..if noise.one_in(3) { noise.below(10) } else { 0 } {
        let kind = noise.of(&[0, 43, 44, 51, 60]);
        if kind == 44 && gso {
            continue;
        }
        kinds.push(kind);
        headers.push(match kind {
            44 => [&[0, 0], &noise.of(&[[0, 0], [0, 1], [0, 9], [0, 8]])[..], &noise.bytes(4)]
                .concat(),
            51 => [&[0, 1], &noise.bytes(10)[..]].concat(),
            _ => {
                let more = noise.below(3);
                [&[0, u8::try_from(more).unwrap()], &noise.bytes(6 + 8 * more)[..]].concat()
            }
        });
    }
    kinds.push(protocol);
    for (header, next) in headers.iter_mut().zip(&kinds[1..]) {
        header[0] = *next;
    }
    let behind = [&headers.concat(), payload].concat();
    let length = u16::try_from(behind.len()).unwrap();
    let length = match noise.below(24) {
        0 => 0,
        1 => length.saturating_sub(u16::from(noise.byte())),
        2 => length + 9,
        _ => length,
    };
    let mut bytes = vec![0x60 | class >> 4, (class << 4) | (noise.byte() % 16), 1, 2];
    bytes.extend(length.to_be_bytes());
    bytes.extend([kinds[0], 64]);
    for _ in 0..2 {
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, noise.byte() % 2]);
        bytes.extend([3, 4, 5, 6, 7, 8, 9, noise.byte() % 4]);
    }
    bytes.extend(behind);
    bytes
}
