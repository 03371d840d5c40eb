//! FNV-1a (<http://www.isthe.com/chongo/tech/comp/fnv/>) of 64 and 32 bits.
//!
//! The low bits are poor for short inputs: a caller that takes a part of the result mixes it first
//! ([`crate::splitmix::mix`]).

/// The 64-bit hash of no bytes, with which [`extend`] starts.
pub const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

const PRIME: u64 = 0x0000_0100_0000_01b3;
const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;

/// The 64-bit hash of bytes.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    extend(OFFSET, bytes)
}

/// The 64-bit hash of what gave `hash`, and `bytes` behind it.
#[inline]
pub fn extend(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// The 32-bit hash of bytes; not a part of the 64-bit one.
#[inline]
pub fn hash_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET_32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME_32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_published_ones() {
        for (text, short, long) in [
            ("", 0x811c_9dc5, 0xcbf2_9ce4_8422_2325),
            ("a", 0xe40c_292c, 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0xbf9c_f968, 0x8594_4171_f739_67e8),
        ] {
            assert_eq!((hash_32(text.as_bytes()), hash(text.as_bytes())), (short, long), "{text}");
        }
        assert_eq!(extend(hash(b"foo"), b"bar"), hash(b"foobar"));
    }
}
