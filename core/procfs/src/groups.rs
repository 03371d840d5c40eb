//! What a node's groups say, of either version, file by file.

use crate::Ticks;

/// Memory of a node with a limit, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The lowest limit on it.
    pub limit: u64,
    /// All that counts for the limit.
    pub used: u64,
    /// Pages of files and of shared memory.
    pub cached: u64,
    /// Of these, shared memory and files in memory.
    pub shared: u64,
    /// Pages of processes.
    pub anonymous: u64,
    /// Pages by when they were used last.
    pub active_anonymous: u64,
    /// As before.
    pub inactive_anonymous: u64,
    /// As before.
    pub active_file: u64,
    /// As before.
    pub inactive_file: u64,
    /// Pages of files that processes have mapped.
    pub mapped: u64,
    /// Pages that are not written to their files yet.
    pub dirty: u64,
    /// Pages that are being written.
    pub writeback: u64,
    /// The kernel's own, of which it can give back this.
    pub reclaimable: u64,
    /// The kernel's own, which stays.
    pub unreclaimable: u64,
}

impl Memory {
    fn field(&mut self, key: &str) -> Option<&mut u64> {
        // Version 1 has a total of the group with those in it; that of version 2 is one.
        Some(match key {
            "total_cache" | "file" => &mut self.cached,
            "total_shmem" | "shmem" => &mut self.shared,
            "total_rss" | "anon" => &mut self.anonymous,
            "total_active_anon" | "active_anon" => &mut self.active_anonymous,
            "total_inactive_anon" | "inactive_anon" => &mut self.inactive_anonymous,
            "total_active_file" | "active_file" => &mut self.active_file,
            "total_inactive_file" | "inactive_file" => &mut self.inactive_file,
            "total_mapped_file" | "file_mapped" => &mut self.mapped,
            "total_dirty" | "file_dirty" => &mut self.dirty,
            "total_writeback" | "file_writeback" => &mut self.writeback,
            "slab_reclaimable" => &mut self.reclaimable,
            "slab_unreclaimable" => &mut self.unreclaimable,
            _ => return None,
        })
    }
}

/// What a node's groups say. Files are taken in any order, but a quota of version 1 before its period.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// CPU time, if a group counts it.
    pub cpu: Option<Ticks>,
    /// The lowest limit on CPU time, in thousandths of a CPU.
    quota: Option<u64>,
    /// A quota of version 1 whose period has not come yet, in microseconds.
    microseconds: Option<u64>,
    memory: Memory,
    limit: Option<u64>,
}

impl Groups {
    /// Takes the text of a file with this name.
    pub fn take(&mut self, name: &str, text: &str) {
        let number = || text.trim().parse::<u64>().ok();
        match name {
            // In ticks; version 2 counts microseconds.
            "cpuacct.stat" => self.cpu = times(text, ["user", "system"], 1).or(self.cpu),
            // Version 1 has a file of this name without these lines.
            "cpu.stat" => {
                self.cpu = times(text, ["user_usec", "system_usec"], 10_000).or(self.cpu);
            }
            "cpu.cfs_quota_us" => self.microseconds = number(),
            "cpu.cfs_period_us" => {
                let quota = self.microseconds.take();
                self.limit_cpu(quota, number());
            }
            "cpu.max" => {
                let mut parts = text.split_ascii_whitespace().map(|part| part.parse().ok());
                self.limit_cpu(parts.next().flatten(), parts.next().flatten());
            }
            "memory.usage_in_bytes" | "memory.current" => {
                self.memory.used = number().unwrap_or_default();
            }
            "memory.max" => self.limit_memory(number()),
            "memory.stat" => self.take_memory(text),
            _ => {}
        }
    }

    fn take_memory(&mut self, text: &str) {
        let is_v1 = text.lines().any(|line| line.starts_with("hierarchical_memory_limit "));
        for line in text.lines() {
            let Some((key, value)) = line.split_once(' ') else { continue };
            let Ok(value) = value.trim().parse() else { continue };
            if key == "hierarchical_memory_limit" {
                self.limit_memory(Some(value));
            } else if let (true, Some(field)) =
                (is_v1 == key.starts_with("total_"), self.memory.field(key))
            {
                *field = value;
            }
        }
    }

    fn limit_memory(&mut self, limit: Option<u64>) {
        self.limit = self.limit.into_iter().chain(limit).min();
    }

    fn limit_cpu(&mut self, quota: Option<u64>, period: Option<u64>) {
        let Some((quota, period)) = quota.zip(period.filter(|period| *period > 0)) else { return };
        let milli = quota.saturating_mul(1000) / period;
        self.quota = self.quota.into_iter().chain([milli]).min();
    }

    /// How many of `there` CPUs the node can keep busy: its limit, rounded up.
    pub fn cpus(&self, there: u32) -> u32 {
        let most = self
            .quota
            .map_or(there, |milli| u32::try_from(milli.div_ceil(1000)).unwrap_or(u32::MAX));
        most.clamp(1, there.max(1))
    }

    /// The node's memory, if it is limited to less than the machine's.
    pub fn memory(&self, machine: u64) -> Option<Memory> {
        let limit = self.limit.filter(|limit| *limit < machine)?;
        Some(Memory { limit, ..self.memory })
    }
}

/// Two lines of a text as ticks.
fn times(text: &str, keys: [&str; 2], in_a_tick: u64) -> Option<Ticks> {
    let of = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
        value.trim().parse::<u64>().ok().map(|value| value / in_a_tick)
    };
    Some(Ticks { user: of(keys[0])?, system: of(keys[1])? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_and_limits_of_version_1() {
        let mut groups = Groups::default();
        groups.take("cpuacct.stat", "user 6655368\nsystem 2089225\n");
        groups.take("cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n");
        assert_eq!(groups.cpu, Some(Ticks { user: 6_655_368, system: 2_089_225 }));
        assert_eq!(groups.cpus(4), 4);
        groups.take("cpu.cfs_quota_us", "-1\n");
        groups.take("cpu.cfs_period_us", "100000\n");
        assert_eq!(groups.cpus(4), 4);
        // The node's own, and that of the node around it.
        groups.take("cpu.cfs_quota_us", "250000\n");
        groups.take("cpu.cfs_period_us", "100000\n");
        assert_eq!((groups.cpus(4), groups.cpus(2)), (3, 2));
        groups.take("cpu.cfs_quota_us", "50000\n");
        groups.take("cpu.cfs_period_us", "100000\n");
        assert_eq!(groups.cpus(4), 1);
    }

    #[test]
    fn cpu_time_and_limits_of_version_2() {
        let mut groups = Groups::default();
        groups.take("cpu.stat", "usage_usec 35019999\nuser_usec 30009999\nsystem_usec 5010000\n");
        assert_eq!(groups.cpu, Some(Ticks { user: 3000, system: 501 }));
        groups.take("cpu.max", "max 100000\n");
        assert_eq!(groups.cpus(2), 2);
        groups.take("cpu.max", "20000 100000\n");
        assert_eq!(groups.cpus(2), 1);
    }

    #[test]
    fn the_lowest_limit_on_memory_holds_and_one_above_the_machines_is_none() {
        let mut groups = Groups::default();
        groups.take("memory.current", "1048576\n");
        groups.take("memory.max", "max\n");
        assert_eq!(groups.memory(1 << 30), None);
        groups.take("memory.max", "268435456\n");
        groups.take("memory.max", "536870912\n");
        groups.take("memory.stat", "anon 4096\nfile 8192\nshmem 100\nslab_reclaimable 7\n");
        let memory = groups.memory(1 << 30).unwrap();
        assert_eq!((memory.limit, memory.used), (268_435_456, 1_048_576));
        assert_eq!((memory.anonymous, memory.cached), (4096, 8192));
        assert_eq!((memory.shared, memory.reclaimable), (100, 7));
        assert_eq!(groups.memory(268_435_456), None);
    }

    #[test]
    fn totals_count_in_version_1() {
        let mut groups = Groups::default();
        groups.take("memory.usage_in_bytes", "5000\n");
        let text = "cache 1\nrss 2\nactive_anon 3\nhierarchical_memory_limit 65536\n\
                    total_cache 300\ntotal_rss 200\ntotal_active_anon 100\n";
        groups.take("memory.stat", text);
        let memory = groups.memory(1 << 20).unwrap();
        assert_eq!((memory.limit, memory.used, memory.cached), (65_536, 5000, 300));
        assert_eq!((memory.anonymous, memory.active_anonymous), (200, 100));
        // No limit, as the kernel writes it.
        let mut free = Groups::default();
        free.take("memory.stat", "hierarchical_memory_limit 9223372036854771712\n");
        assert_eq!(free.memory(1 << 40), None);
    }

    #[test]
    fn nonsense_is_left_out() {
        let mut groups = Groups::default();
        for name in ["cpu.max", "cpuacct.stat", "cpu.stat", "memory.stat", "cpu.cfs_period_us", "x"]
        {
            for text in ["", "\n", "a b c", "1", "user -1\nsystem x\n", "5 0\n"] {
                groups.take(name, text);
            }
        }
        assert_eq!((groups.cpu, groups.cpus(3), groups.memory(1)), (None, 3, None));
        assert_eq!(groups.cpus(0), 1);
    }
}
