//! The hash that turns names into automatic numbers: the same on every machine, for ever.
//!
//! FNV-1a over the bytes (<http://www.isthe.com/chongo/tech/comp/fnv/>, 64 bit), then the output
//! function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), because the low bits of FNV-1a alone
//! are poor for short inputs. Changing anything here renumbers every lab. Not cryptographic.

use std::io;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Ends each part, so that ("ab", "c") and ("a", "bc") differ. It never occurs in UTF-8.
const PART_END: u8 = 0xff;

/// The hash of a list of names. The first is the number's purpose.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let mut digest = Digest::new();
    for part in parts {
        digest.bytes(part.as_bytes());
        digest.bytes(&[PART_END]);
    }
    digest.finish()
}

/// The output function of SplitMix64: a bijection in which every input bit affects every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An incremental hash; accepts serialised text as an [`io::Write`].
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Self {
        Digest(FNV_OFFSET)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }

    /// Adds eight bytes in one step, which differs from adding them one by one.
    pub(crate) fn word(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word).wrapping_add(FNV_OFFSET);
    }

    pub(crate) fn finish(&self) -> u64 {
        mix(self.0)
    }
}

impl io::Write for Digest {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.bytes(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_and_splitmix_are_the_published_ones() {
        let mut digest = Digest::new();
        digest.bytes(b"foobar");
        assert_eq!(digest.0, 0x8594_4171_f739_67e8, "FNV-1a 64 of \"foobar\"");
        // The first output of SplitMix64 with seed 0 is mix(golden ratio).
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_ne!(hash(&["a"]), hash(&["a", ""]));
    }

    #[test]
    fn numbering_is_for_ever() {
        assert_eq!(hash(&["mac", "lab", "h1", "eth0"]), HASH_OF_AN_INTERFACE);
    }

    /// If this changes, every lab of every user is renumbered.
    const HASH_OF_AN_INTERFACE: u64 = 0x8a07_aec5_b90e_d290;
}
