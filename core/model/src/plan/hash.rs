//! The hash that turns names into automatic numbers: the same on every machine, for ever.
//!
//! FNV-1a over the bytes (64 bit), then the output function of SplitMix64, because the low bits of
//! FNV-1a alone are poor for short inputs. Changing anything here renumbers every lab. Not
//! cryptographic.

use std::io;

use netloom_digest::fnv1a;
use netloom_digest::splitmix::mix;

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

/// An incremental hash; accepts serialised text as an [`io::Write`].
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Self {
        Digest(fnv1a::OFFSET)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0 = fnv1a::extend(self.0, bytes);
    }

    /// Adds eight bytes in one step, which differs from adding them one by one.
    pub(crate) fn word(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word).wrapping_add(fnv1a::OFFSET);
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
