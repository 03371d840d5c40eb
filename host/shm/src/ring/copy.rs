//! Copies a frame into or out of an arena.
//!
//! Rate measurements mostly use frames of up to 128 bytes, and a call of `memcpy` costs as much as
//! copying them; they are copied by two overlapping moves.

/// Copies `length` bytes, as `ptr::copy_nonoverlapping` does.
///
/// # Safety
/// `from` is readable and `to` writable for `length` bytes, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    match length {
        // SAFETY: the caller's promise, and this range of lengths.
        65..=128 => unsafe { ends::<64>(from, to, length) },
        // SAFETY: the caller's promise, and this range of lengths.
        33..=64 => unsafe { ends::<32>(from, to, length) },
        // SAFETY: the caller's promise.
        _ => unsafe { core::ptr::copy_nonoverlapping(from, to, length) },
    }
}

/// Copies the first and the last `N` of `length` bytes, which covers up to `2 * N`.
///
/// # Safety
/// As [`copy`], and `N <= length <= 2 * N`.
#[inline(always)]
unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, length: usize) {
    let last = length - N;
    // SAFETY: the first `N` bytes are inside.
    let first_part = unsafe { from.cast::<[u8; N]>().read_unaligned() };
    // SAFETY: offset `length - N` is inside, and so are the `N` bytes from there.
    let last_from = unsafe { from.add(last) };
    // SAFETY: as above.
    let last_part = unsafe { last_from.cast::<[u8; N]>().read_unaligned() };
    // SAFETY: the first `N` bytes are inside.
    unsafe { to.cast::<[u8; N]>().write_unaligned(first_part) };
    // SAFETY: offset `length - N` is inside, and so are the `N` bytes from there.
    let last_to = unsafe { to.add(last) };
    // SAFETY: as above.
    unsafe { last_to.cast::<[u8; N]>().write_unaligned(last_part) };
}

#[cfg(test)]
mod tests {
    use super::copy;

    #[test]
    fn every_length_is_copied_whole_and_no_further() {
        let from: Vec<u8> = (0..300).map(|n: u16| n.to_le_bytes()[0] | 1).collect();
        for length in 0..300 {
            let mut to = vec![0_u8; 301];
            // SAFETY: both have that length, and are separate allocations.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr(), length) };
            assert_eq!(to[..length], from[..length]);
            assert!(to[length..].iter().all(|&byte| byte == 0), "{length}");
        }
    }
}
