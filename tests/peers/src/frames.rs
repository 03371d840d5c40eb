//! Frames that tests send, and the question to which a network stack gives an answer.

use std::net::Ipv4Addr;

/// EtherType of experiments (IEEE 802, local experimental 1).
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];
/// EtherType of ARP and, in it, Ethernet and IPv4 (RFC 826).
const ARP: [u8; 8] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4];
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;

/// A frame of this many bytes whose content depends on a number.
///
/// # Panics
/// When it is too short to hold that.
pub fn frame(to: [u8; 6], from: [u8; 6], number: u32, length: usize) -> Vec<u8> {
    assert!(length >= 18, "a frame of {length} bytes");
    let mut bytes = [&to[..], &from, &EXPERIMENT, &number.to_be_bytes()].concat();
    let [.., low] = number.to_be_bytes();
    bytes.resize_with(length, || low);
    bytes
}

/// Who has `about`? As the station `mac` with address `own`.
pub fn arp_question(mac: [u8; 6], own: Ipv4Addr, about: Ipv4Addr) -> Vec<u8> {
    let mut bytes = [&[0xff; 6], &mac[..], &ARP, &[0, QUESTION]].concat();
    bytes.extend([&mac[..], &own.octets(), &[0; 6], &about.octets()].concat());
    bytes.resize(60, 0);
    bytes
}

/// Whether a frame answers that `about` was found.
pub fn is_arp_answer(frame: &[u8], about: Ipv4Addr) -> bool {
    frame.get(12..22) == Some(&[&ARP[..], &[0, ANSWER]].concat())
        && frame.get(28..32) == Some(&about.octets())
}
