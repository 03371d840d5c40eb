//! A skip is a third result: it has a reason, is counted, and must be expected.
//!
//! The reason starts with its kind and a colon (`root-only: ...`, `peer:mininet: ...`). It goes to the file
//! named by `NETLOOM_SKIP_LOG`, one line `test<TAB>reason`, and to stderr.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Marks a test as skipped: pass it on with `return`.
#[derive(Debug)]
pub struct Skip;

/// Ends the running test as skipped, with a reason: `skip!("root-only: moves a host interface")`.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        fn here() {}
        $crate::record_skip(&$crate::test_name(&here), &format!($($reason)+));
        return;
    }};
}

/// Ends the running test as skipped unless these programs are there: `needs!("curl", "tshark")`.
#[macro_export]
macro_rules! needs {
    ($($program:expr),+) => {$(
        if $crate::program($program).is_none() {
            $crate::skip!("peer:{}: not installed", $program);
        }
    )+};
}

/// Ends the running test as skipped unless it runs as root.
#[macro_export]
macro_rules! root_only {
    ($what:expr) => {
        if !$crate::is_root() {
            $crate::skip!("root-only: {}", $what);
        }
    };
}

/// The running test's name in libtest's form, from a function item declared inside it.
pub fn test_name<T>(inner: &T) -> String {
    let full = std::any::type_name_of_val(inner);
    let path = full.strip_suffix("::here").unwrap_or(full).replace("::{{closure}}", "");
    path.split_once("::").map_or(path.clone(), |(_, rest)| rest.to_owned())
}

/// Records a skip for `cargo xtask test`. Used by [`skip!`].
///
/// # Panics
/// The log cannot be written: an unseen skip would count as a pass.
pub fn record_skip(test: &str, reason: &str) {
    eprintln!("skipped: {test}: {reason}");
    let Some(path) = std::env::var_os("NETLOOM_SKIP_LOG") else { return };
    let mut log = OpenOptions::new().create(true).append(true).open(&path).expect("open skip log");
    log.write_all(format!("{test}\t{reason}\n").as_bytes()).expect("write skip log");
}

/// Whether the test runs with uid 0.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether limits can work: root has cgroups, another user where its own cgroup2 folder is delegated.
pub fn cgroups_allowed() -> bool {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let writable = |path: &str| {
        let dir = format!("/sys/fs/cgroup{path}");
        rustix::fs::access(dir.as_str(), rustix::fs::Access::WRITE_OK).is_ok()
    };
    is_root() || own.lines().filter_map(|line| line.strip_prefix("0::")).any(writable)
}

/// The path of a program in `PATH`, or `None`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    #[test]
    fn name_is_the_one_libtest_prints() {
        fn here() {}
        assert_eq!(super::test_name(&here), "skip::tests::name_is_the_one_libtest_prints");
        let inside = || {
            fn here() {}
            super::test_name(&here)
        };
        assert_eq!(inside(), "skip::tests::name_is_the_one_libtest_prints");
    }

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(super::program("sh").is_some());
        assert!(super::program("no-such-program-anywhere").is_none());
    }
}
