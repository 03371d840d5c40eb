//! The hash functions that select packets: BOB, IPSX and CRC-32.
//!
//! All in 32-bit arithmetic, as RFC 5475 intends; its printed code computes another function where
//! `unsigned long` has 64 bits. Bytes in, number out; `input` decides which bytes of a packet.
//! None of them is cryptographic, though PSAMP wants the initial value to be private.

use serde::{Deserialize, Serialize};

/// A selection function, by its name in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashFunction {
    /// RFC 5475, appendix A.2; 32 bits.
    Bob,
    /// RFC 5475, appendix A.1; 16 bits, IPv4 only, linear.
    Ipsx,
    /// CRC-32 of IEEE 802.3; 32 bits.
    Crc32,
}

impl HashFunction {
    /// All names.
    pub const NAMES: [&str; 3] = ["bob", "ipsx", "crc32"];

    /// The function of a name.
    pub fn named(name: &str) -> Option<HashFunction> {
        match name {
            "bob" => Some(HashFunction::Bob),
            "ipsx" => Some(HashFunction::Ipsx),
            "crc32" => Some(HashFunction::Crc32),
            _ => None,
        }
    }

    /// Bits of its result; higher bits are 0.
    pub fn bits(self) -> u8 {
        if self == HashFunction::Ipsx { 16 } else { 32 }
    }
}

/// BOB (RFC 5475, appendix A.2) of bytes with an initial value.
pub fn bob(bytes: &[u8], initial: u32) -> u32 {
    // The golden ratio, an arbitrary value (RFC 5475, appendix A.2).
    let mut state = [0x9e37_79b9, 0x9e37_79b9, initial];
    let (groups, rest) = bytes.as_chunks::<12>();
    for group in groups {
        add(&mut state, group);
        mix(&mut state);
    }
    // The length occupies the lowest byte of the last word, so bytes 8 to 10 move up by one.
    let mut last = [0; 12];
    for (at, byte) in rest.iter().enumerate() {
        if let Some(place) = last.get_mut(if at < 8 { at } else { at + 1 }) {
            *place = *byte;
        }
    }
    add(&mut state, &last);
    // The length is counted modulo 2^32.
    #[expect(clippy::cast_possible_truncation, reason = "as the specification says")]
    let length = bytes.len() as u32;
    state[2] = state[2].wrapping_add(length);
    mix(&mut state);
    state[2]
}

fn add(state: &mut [u32; 3], group: &[u8; 12]) {
    for (word, bytes) in state.iter_mut().zip(group.as_chunks::<4>().0) {
        *word = word.wrapping_add(u32::from_le_bytes(*bytes));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    for (right_a, left_b, right_c) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> right_a);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << left_b);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> right_c);
    }
    *state = [a, b, c];
}

/// IPSX (RFC 5475, appendix A.1) of four words in network order: bytes 4-7 of the IPv4 header,
/// source, destination, and bytes 4-7 of the payload.
///
/// It is linear over GF(2): good enough to select packets for loss and delay, but not a random sample.
pub fn ipsx(words: [u32; 4]) -> u16 {
    let [f1, f2, f3, f4] = words;
    let (v1, v2) = (f1 ^ f2, f3 ^ f4);
    let h = (v1 << 8) ^ (v1 >> 4) ^ (v1 >> 12) ^ (v1 >> 16);
    let h = h ^ (v2 << 6) ^ (v2 << 10) ^ (v2 << 14) ^ (v2 >> 7);
    let [_, _, high, low] = h.to_be_bytes();
    u16::from_be_bytes([high, low])
}

const CRC: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    let mut value: u32 = 0;
    while i < 256 {
        let mut crc = value;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
        value += 1;
    }
    table
}

/// CRC-32 of IEEE 802.3 (reflected polynomial 0xedb88320, initial value and final XOR all ones) of
/// bytes followed by a private string. RFC 5475 names no polynomial; this is the usual one.
pub fn crc32(bytes: &[u8], suffix: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = crc.to_le_bytes();
        (crc >> 8) ^ CRC[usize::from(low ^ byte)]
    };
    !bytes.iter().chain(suffix).fold(u32::MAX, step)
}
