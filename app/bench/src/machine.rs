//! Facts of the machine that affect the figures, and when they were measured.

use std::collections::BTreeMap;
use std::fs;

/// `kernel`, `cpu`, `cpus`, `memory_gib`, `user`, `load` (of the minute before), `date` (UTC),
/// `commit` of an optimised build.
pub(crate) fn facts() -> BTreeMap<String, String> {
    let first_line = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim().to_owned()
    };
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let gib = memory_kib("MemTotal").unwrap_or(0.0) / 1_048_576.0;
    let loads = first_line("/proc/loadavg");
    let load = loads.split(' ').next().unwrap_or_default();
    let user = if is_root() { "root" } else { "ordinary" };
    BTreeMap::from([
        ("kernel".to_owned(), first_line("/proc/sys/kernel/osrelease")),
        ("cpu".to_owned(), model.map_or("unknown", |(_, name)| name.trim()).to_owned()),
        ("cpus".to_owned(), cpus.to_string()),
        ("memory_gib".to_owned(), format!("{gib:.1}")),
        ("user".to_owned(), user.to_owned()),
        ("load".to_owned(), load.to_owned()),
        ("date".to_owned(), jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M").to_string()),
        ("commit".to_owned(), env!("BUILT_FROM").to_owned()),
    ])
}

/// A line of /proc/meminfo in KiB.
pub(crate) fn memory_kib(name: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Whether the caller's uid is 0.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let facts = facts();
        assert!(facts["kernel"].contains('.'), "{facts:?}");
        assert!(facts["load"].parse::<f64>().is_ok(), "{facts:?}");
        assert!(facts["date"].starts_with("20") && facts["date"].len() == 16, "{facts:?}");
        assert!(!facts["commit"].is_empty(), "{facts:?}");
        assert!(memory_kib("MemAvailable").unwrap() > 1000.0);
        assert_eq!(memory_kib("MemAvail"), None);
    }
}
