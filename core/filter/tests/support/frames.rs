//! Frames that filters are tried on: what networks carry, what they should not, and noise.
//!
//! No checksum is right: no filter looks.

use super::noise::Noise;

const BROADCAST: [u8; 6] = [0xff; 6];
const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const V4_A: [u8; 4] = [10, 0, 0, 1];
const V4_B: [u8; 4] = [192, 168, 7, 9];

fn v6(last: u8) -> [u8; 16] {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    address[15] = last;
    address
}

fn ethernet(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &MAC_A, &kind.to_be_bytes(), payload].concat()
}

fn ip4(protocol: u8, options: usize, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let words = u8::try_from(5 + options).unwrap();
    let len = u16::try_from(usize::from(words) * 4 + payload.len()).unwrap();
    let mut header = vec![0x40 | words, 0];
    header.extend(len.to_be_bytes());
    header.extend([0x12, 0x34]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend(V4_A);
    header.extend(V4_B);
    header.extend(std::iter::repeat_n(1, 4 * options));
    header.extend(payload);
    header
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0x60, 0, 0, 0][..], &len, &[next, 64], &v6(1), &v6(2), payload].concat()
}

fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).unwrap().to_be_bytes();
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &len, &[0, 0], payload].concat()
}

fn tcp(source: u16, destination: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    header.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    header.extend(payload);
    header
}

fn arp() -> Vec<u8> {
    [&[0, 1, 8, 0, 6, 4, 0, 1][..], &MAC_A, &V4_A, &[0; 6], &V4_B].concat()
}

/// A tag before what stands in the type's place.
pub(crate) fn tagged(frame: &[u8], kind: u16, tci: u16) -> Vec<u8> {
    [&frame[..12], &kind.to_be_bytes(), &tci.to_be_bytes(), &frame[12..]].concat()
}

fn of_ip4() -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    for flags in [0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x29] {
        payloads.push(ip4(6, 0, 0x4000, &tcp(40_000, 80, flags, b"GET / HTTP/1.1\r\n\r\n")));
    }
    payloads.push(ip4(6, 3, 0, &tcp(443, 50_001, 0x10, &[7; 100])));
    payloads.push(ip4(6, 10, 0, &tcp(22, 50_002, 0x18, b"SSH-2.0")));
    for port in [53, 67, 123, 1000, 2000, 4789, 6081] {
        payloads.push(ip4(17, 0, 0, &udp(port, 5353, &[0xab; 40])));
    }
    payloads.push(ip4(17, 1, 0, &udp(1500, 2500, b"options")));
    payloads.push(ip4(17, 0, 0x2000, &udp(53, 53, &[1; 64])));
    payloads.push(ip4(17, 0, 0x2008, &[2; 64]));
    payloads.push(ip4(17, 0, 0x0010, &[3; 20]));
    payloads.push(ip4(1, 0, 0, &[8, 0, 0, 0, 0, 1, 0, 1, 9, 9]));
    payloads.push(ip4(1, 0, 0, &[0, 0, 0, 0, 0, 1, 0, 1, 9, 9]));
    payloads.push(ip4(1, 0, 0, &[3, 3, 0, 0, 0, 0, 0, 0]));
    payloads.push(ip4(132, 0, 0, &udp(80, 80, &[])));
    for protocol in [2, 47, 50, 51, 89, 112, 255] {
        payloads.push(ip4(protocol, 0, 0, &[0x11; 24]));
    }
    payloads.push(ip4(17, 0, 0, &udp(9, 9, &[0x55; 1400])));
    payloads.into_iter().map(|payload| ethernet(MAC_B, 0x0800, &payload)).collect()
}

fn of_ip6() -> Vec<Vec<u8>> {
    let fragment = [&[17, 0, 0, 1, 0, 0, 0, 7][..], &udp(53, 53, &[0; 16])].concat();
    let hops = [&[6, 0, 5, 2, 0, 0, 1, 0][..], &tcp(80, 81, 0x02, &[])].concat();
    [
        ip6(6, &tcp(1234, 80, 0x02, &[])),
        ip6(6, &tcp(22, 1024, 0x11, b"bye")),
        ip6(17, &udp(53, 40_000, &[5; 30])),
        ip6(17, &udp(1500, 2500, &[])),
        ip6(58, &[128, 0, 0, 0, 0, 1, 0, 1]),
        ip6(58, &[135, 0, 0, 0, 0, 0, 0, 0, 0x20, 1]),
        ip6(44, &fragment),
        ip6(0, &hops),
        ip6(59, &[]),
    ]
    .iter()
    .map(|payload| ethernet(MAC_B, 0x86dd, payload))
    .collect()
}

fn of_others() -> Vec<Vec<u8>> {
    let inner = ip4(6, 0, 0, &tcp(1, 80, 2, &[]));
    let label = |number: u32, last: u32| (number << 12 | last << 8 | 64).to_be_bytes();
    let mpls = |labels: &[[u8; 4]]| [&labels.concat(), &inner[..]].concat();
    let pppoe = [&[0x11, 0, 0, 7, 0, 42, 0, 0x21][..], &inner].concat();
    let vxlan_frame = ethernet(MAC_B, 0x0800, &ip4(1, 0, 0, &[8, 0, 0, 0]));
    let vxlan = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &vxlan_frame].concat();
    let geneve = [&[0, 0, 0x65, 0x58, 0, 0xab, 0xab, 0][..], &vxlan_frame].concat();
    let multicast = [1, 0, 0x5e, 0, 0, 1];
    vec![
        ethernet(BROADCAST, 0x0806, &arp()),
        ethernet(MAC_B, 0x8035, &arp()),
        ethernet(BROADCAST, 0x0800, &ip4(17, 0, 0, &udp(68, 67, &[0; 300]))),
        ethernet(multicast, 0x0800, &ip4(2, 1, 0, &[0x16; 8])),
        ethernet([0x33, 0x33, 0, 0, 0, 1], 0x86dd, &ip6(58, &[134, 0, 0, 0])),
        ethernet([1, 0x80, 0xc2, 0, 0, 0], 38, &[0x42, 0x42, 3, 0, 0, 0, 0, 0, 0, 0]),
        ethernet([1, 0x80, 0xc2, 0, 0, 0xe], 0x88cc, &[2, 7, 4, 2, 0, 0, 0, 0, 1]),
        ethernet(MAC_B, 0x8847, &mpls(&[label(100, 1)])),
        ethernet(MAC_B, 0x8847, &mpls(&[label(100, 0), label(1024, 1)])),
        ethernet(MAC_B, 0x8863, &[0x11, 9, 0, 0, 0, 0]),
        ethernet(MAC_B, 0x8864, &pppoe),
        ethernet(MAC_B, 0x0800, &ip4(17, 0, 0, &udp(9, 4789, &vxlan))),
        ethernet(MAC_B, 0x0800, &ip4(17, 0, 0, &udp(9, 6081, &geneve))),
        ethernet(MAC_B, 0x0800, &ip4(4, 0, 0, &inner)),
        ethernet(MAC_B, 0x9000, &[0; 46]),
        ethernet(MAC_B, 100, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45]),
    ]
}

/// Frames with some bytes changed: an answer, multicast, an Ethernet trailer.
fn of_changes() -> Vec<Vec<u8>> {
    let mut answer = ethernet(MAC_A, 0x0800, &ip4(6, 0, 0, &tcp(80, 40_000, 0x12, &[])));
    answer[26..30].copy_from_slice(&V4_B);
    answer[30..34].copy_from_slice(&V4_A);
    let mut group = ethernet([1, 0, 0x5e, 0, 0, 1], 0x0800, &ip4(2, 1, 0, &[0x16; 8]));
    group[30..34].copy_from_slice(&[224, 0, 0, 1]);
    let mut group6 = ethernet([0x33, 0x33, 0, 0, 0, 1], 0x86dd, &ip6(58, &[134, 0, 0, 0]));
    group6[38..40].copy_from_slice(&[0xff, 2]);
    let mut trailer = ethernet(MAC_B, 0x0800, &ip4(17, 0, 0, &udp(7, 7, &[])));
    trailer.extend([0; 18]);
    vec![answer, group, group6, trailer]
}

/// All frames, each of at least 14 bytes.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut frames = [of_ip4(), of_ip6(), of_others(), of_changes()].concat();
    let plain = frames.clone();
    for (index, frame) in plain.iter().enumerate() {
        match index % 4 {
            0 => frames.push(tagged(frame, 0x8100, 5)),
            1 => frames.push(tagged(frame, 0x8100, 0x6064)),
            2 => frames.push(tagged(&tagged(frame, 0x8100, 7), 0x88a8, 200)),
            _ => frames.push(tagged(frame, 0x9100, 5)),
        }
    }
    for frame in plain.iter().step_by(3) {
        frames.extend(cut(frame));
    }
    let mut noise = Noise::new(1);
    for len in 14..70 {
        frames.push(noise.bytes(len));
        // Noise behind a right type gets further.
        let mut frame = noise.bytes(len);
        let kind: u16 = if len % 2 == 0 { 0x0800 } else { 0x86dd };
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        frames.push(frame);
    }
    frames
}

/// A frame that ends too early, in several places but has its 14 bytes.
fn cut(frame: &[u8]) -> Vec<Vec<u8>> {
    [14, 15, 18, 23, 24, 27, 30, 33, 34, 35, 36, 38, 46, 47, 53, 54]
        .into_iter()
        .filter(|len| *len < frame.len())
        .map(|len| frame[..len].to_vec())
        .collect()
}

/// Bytes shorter than an Ethernet header.
pub(crate) fn runts() -> Vec<Vec<u8>> {
    let whole = ethernet(MAC_B, 0x0800, &[]);
    (0..14).map(|len| whole[..len].to_vec()).collect()
}
