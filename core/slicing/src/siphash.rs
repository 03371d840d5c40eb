//! SipHash-2-4: a hash that nobody can compute without the key (Aumasson, Bernstein: "SipHash: a fast
//! short-input PRF", 2012).

fn round(v: &mut [u64; 4]) {
    let [a, b, c, d] = v;
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The hash of `bytes` under a key.
pub(crate) fn siphash(key: &[u8; 16], bytes: &[u8]) -> u64 {
    let (low, high) = key.split_at(8);
    let (k0, k1) = (word(low), word(high));
    let mut v = [
        // "somepseudorandomlygeneratedbytes".
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let chunks = bytes.chunks_exact(8);
    // The last word has what is left, and the length in its highest byte.
    let length = u64::try_from(bytes.len() & 0xff).unwrap_or(0);
    let last = word(chunks.remainder()) | length << 56;
    for message in chunks.map(word).chain([last]) {
        // Two rounds for each word, four at the end: the 2-4 of the name.
        v[3] ^= message;
        round(&mut v);
        round(&mut v);
        v[0] ^= message;
    }
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appendix A of the paper, and two of the authors' vectors.
    #[test]
    fn vectors_of_the_authors() {
        let key = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(&key, &message), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(&key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(&key, &message[..8]), 0x93f5_f579_9a93_2462);
    }
}
