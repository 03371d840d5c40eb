//! Random bytes of the kernel, for tokens, seeds and names that nobody can foretell. See getrandom(2).
//!
//! Waits only where the kernel has not gathered any randomness since it started. Numbers that are to be the same
//! in each run come from `netloom_digest`.

use rustix::io::{Errno, Result};
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills all of `bytes`.
///
/// # Errors
/// Those of the kernel.
pub fn fill(bytes: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while let Some(left) = bytes.get_mut(filled..).filter(|left| !left.is_empty()) {
        match getrandom(left, GetRandomFlags::empty()) {
            // Of more than 256 bytes a signal may leave some.
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// As many bytes as the type says.
///
/// # Errors
/// Those of the kernel.
pub fn array<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// A number of 64 bits.
///
/// # Errors
/// Those of the kernel.
pub fn number() -> Result<u64> {
    array().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_filled_and_no_two_numbers_are_equal() {
        fill(&mut []).unwrap();
        // By chance 64 bytes are all zero once in 2^512 runs.
        let mut long = vec![0; 1 << 20];
        fill(&mut long).unwrap();
        assert!(long.as_chunks::<64>().0.iter().all(|part| *part != [0; 64]));
        assert_ne!(number().unwrap(), number().unwrap());
        assert_ne!(array::<32>().unwrap(), array().unwrap());
    }
}
