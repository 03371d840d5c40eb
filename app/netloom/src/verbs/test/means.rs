//! How many labs the machine has means for at once.

/// Processors and memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    labs: usize,
    memory: u64,
}

impl Means {
    /// Those of now; `jobs` is how many labs the user wants at most.
    pub(crate) fn now(jobs: Option<u16>) -> Means {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        // A fifth is left to whatever else goes on.
        let memory = available(&text).map_or(u64::MAX, |bytes| bytes / 5 * 4);
        Means { labs: jobs.map_or(processors, usize::from), memory }
    }

    /// Whether one more lab fits beside those that run. One alone always does.
    pub(crate) fn have_room(&self, running: &[u64], one_more: u64) -> bool {
        let used = running.iter().fold(one_more, |sum, of| sum.saturating_add(*of));
        running.is_empty() || (running.len() < self.labs && used <= self.memory)
    }
}

/// `MemAvailable` of /proc/meminfo, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_are_bounded_by_processors_and_by_memory() {
        let means = Means { labs: 2, memory: 100 };
        assert!(means.have_room(&[], 1000));
        assert!(means.have_room(&[60], 40));
        assert!(!means.have_room(&[60], 41));
        assert!(!means.have_room(&[1, 1], 1));
    }

    #[test]
    fn what_is_available_is_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available("nothing"), None);
    }
}
