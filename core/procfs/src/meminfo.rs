//! The text of `/proc/meminfo`.

use std::fmt::Write;

use crate::{Groups, Memory};

/// The text of `meminfo`, line by line as the `machine`'s. A node without a limit of its own has the machine's memory, and
/// sees it. What a node with one could still have is never more than the machine has left.
pub fn meminfo(groups: &Groups, machine: &str) -> String {
    let of_machine = |name: &str| {
        let line = machine.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let total = of_machine("MemTotal").unwrap_or_default().saturating_mul(1024);
    let Some(memory) = groups.memory(total) else { return machine.to_owned() };
    let left = of_machine("MemAvailable").map_or(u64::MAX, |left| left.saturating_mul(1024));
    let mut text = String::new();
    for line in machine.lines() {
        let name = line.split(':').next().unwrap_or_default();
        // A text in memory takes everything.
        let _ = match value(&memory, left, name) {
            Some(bytes) => {
                // In the columns of the kernel (fs/proc/meminfo.c).
                let key = format!("{name}:");
                writeln!(text, "{key:<15} {:>8} kB", bytes / 1024)
            }
            None => writeln!(text, "{line}"),
        };
    }
    text
}

/// A node's value of a line in bytes; `None` for those about the machine: swap, huge pages, what its kernel maps.
fn value(memory: &Memory, left: u64, name: &str) -> Option<u64> {
    let used = memory.used.min(memory.limit);
    let free = memory.limit - used;
    let cached = memory.cached.min(used);
    let given_back = memory.active_file + memory.inactive_file + memory.reclaimable;
    Some(match name {
        "MemTotal" => memory.limit,
        "MemFree" => free,
        "MemAvailable" => (free + given_back.min(used)).min(left),
        "Cached" => cached,
        "Active" => memory.active_anonymous + memory.active_file,
        "Inactive" => memory.inactive_anonymous + memory.inactive_file,
        "Active(anon)" => memory.active_anonymous,
        "Inactive(anon)" => memory.inactive_anonymous,
        "Active(file)" => memory.active_file,
        "Inactive(file)" => memory.inactive_file,
        "Dirty" => memory.dirty,
        "Writeback" => memory.writeback,
        "AnonPages" => memory.anonymous,
        "Mapped" => memory.mapped,
        "Shmem" => memory.shared,
        "KReclaimable" | "SReclaimable" => memory.reclaimable,
        "SUnreclaim" => memory.unreclaimable,
        "Slab" => memory.reclaimable + memory.unreclaimable,
        // Not counted for nodes, or part of what is.
        "Buffers" | "SwapCached" | "Unevictable" | "Mlocked" | "KernelStack" | "PageTables"
        | "SecPageTables" | "NFS_Unstable" | "Bounce" | "WritebackTmp" | "Percpu"
        | "AnonHugePages" | "ShmemHugePages" | "ShmemPmdMapped" | "FileHugePages"
        | "FilePmdMapped" => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "MemTotal:       24683652 kB\nMemFree:        13392612 kB\n\
        MemAvailable:   22468496 kB\nBuffers:          280016 kB\nCached:          8534968 kB\n\
        SwapTotal:          1024 kB\nShmem:              8980 kB\nHugePages_Total:       0\n\
        DirectMap4k:       28672 kB\n";

    fn limited(limit: u64, used: u64, file: u64) -> Groups {
        let mut groups = Groups::default();
        groups.take("memory.max", &limit.to_string());
        groups.take("memory.current", &used.to_string());
        groups.take("memory.stat", &format!("file {file}\ninactive_file {file}\nshmem 2048\n"));
        groups
    }

    #[test]
    fn a_limit_is_the_whole_and_what_is_used_is_taken_from_it() {
        let text = meminfo(&limited(256 << 20, 100 << 20, 40 << 20), MACHINE);
        assert_eq!(
            text,
            "MemTotal:         262144 kB\nMemFree:          159744 kB\n\
             MemAvailable:     200704 kB\nBuffers:               0 kB\nCached:            40960 kB\n\
             SwapTotal:          1024 kB\nShmem:                 2 kB\nHugePages_Total:       0\n\
             DirectMap4k:       28672 kB\n"
        );
    }

    #[test]
    fn without_a_limit_it_is_the_machines() {
        assert_eq!(meminfo(&Groups::default(), MACHINE), MACHINE);
        assert_eq!(meminfo(&limited(1 << 60, 5, 5), MACHINE), MACHINE);
        assert_eq!(meminfo(&limited(1 << 20, 5, 5), "nonsense\n"), "nonsense\n");
    }

    #[test]
    fn no_more_is_available_than_the_machine_has_left() {
        let tight = MACHINE.replace("22468496", "1000");
        let text = meminfo(&limited(256 << 20, 100 << 20, 40 << 20), &tight);
        assert!(text.contains("MemAvailable:       1000 kB\n"), "{text}");
        // Used for a moment more than the limit.
        let text = meminfo(&limited(1 << 20, 2 << 20, 3 << 20), MACHINE);
        assert!(text.contains("MemFree:               0 kB\n"), "{text}");
        assert!(text.contains("Cached:             1024 kB\n"), "{text}");
    }
}
