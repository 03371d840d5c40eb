//! Memory of this process.

/// Gives memory back to the system that the allocator holds for what is to come: after something large is over. Without
/// effect where the allocator cannot.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and no pointer, and glibc's allocator locks itself: memory in use is not touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * u64::try_from(rustix::param::page_size()).unwrap()
    }

    #[test]
    fn memory_of_what_is_over_is_given_back() {
        let before = resident();
        // Small pieces, and one behind them that stays.
        let many: Vec<Box<[u8; 400]>> = (0..100_000).map(|_| Box::new([1; 400])).collect();
        let last = Box::new([2_u8; 400]);
        assert!(resident() > before + (30 << 20));
        drop(many);
        super::give_back();
        let after = resident();
        assert!(after < before + (8 << 20), "{before} {after}");
        assert_eq!(last[399], 2);
    }
}
