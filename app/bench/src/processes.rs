//! CPU time of processes.

use std::fs;

/// Nanoseconds of CPU used by processes, user and system; ended ones count as 0.
pub(crate) fn cpu_ns(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| exact(*pid).unwrap_or_else(|| ticks(*pid).unwrap_or(0))).sum()
}

/// A process and all that descend from it.
pub(crate) fn tree(pid: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let (mut found, mut next) = (vec![pid], 0);
    while let Some(&of) = found.get(next) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Bytes of memory of processes, each with its share of what it shares (Pss of proc_pid_smaps(5)).
pub(crate) fn memory(pids: &[u32]) -> u64 {
    let kib = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    pids.iter().filter_map(kib).sum::<u64>() << 10
}

/// The scheduler's count for its threads.
fn exact(pid: u32) -> Option<u64> {
    let mut sum = 0_u64;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        sum += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(sum)
}

/// The CPU time in ticks, for kernels without scheduler statistics (proc_pid_stat(5)).
fn ticks(pid: u32) -> Option<u64> {
    stat_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
        .map(|ticks| ticks.saturating_mul(1_000_000_000) / rustix::param::clock_ticks_per_second())
}

/// User and system time in a line of /proc/PID/stat, whose second field may contain anything.
fn stat_ticks(line: &str) -> Option<u64> {
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some(user + system)
}

/// Percentage of a core, from CPU and wall time in nanoseconds.
pub(crate) fn percent(cpu: u64, wall: std::time::Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "minutes in ns are below 2^53")]
    let cpu = cpu as f64;
    100.0 * cpu / 1e9 / wall.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_used() {
        let own = std::process::id();
        let before = cpu_ns(&[own]);
        assert!(before > 0);
        while cpu_ns(&[own]) == before {
            std::hint::black_box((0..10_000).sum::<u64>());
        }
        assert_eq!(cpu_ns(&[u32::MAX]), 0);
    }

    #[test]
    fn a_tree_has_what_was_started() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let own = std::process::id();
        while tree(child.id()).len() < 2 {}
        assert!(tree(own).contains(&child.id()) && memory(&[own]) > 1 << 20);
        for pid in tree(child.id()).into_iter().rev() {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
    }

    #[test]
    fn ticks_are_found_behind_any_name() {
        let line = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 110 23 14 15 16";
        assert_eq!(stat_ticks(line), Some(133));
        assert_eq!(stat_ticks("7 (a"), None);
    }

    #[test]
    fn percents_are_of_one_core() {
        assert!((percent(500_000_000, std::time::Duration::from_secs(1)) - 50.0).abs() < 1e-9);
    }
}
