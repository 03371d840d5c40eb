//! A skip is a third result: it has a reason, is counted, and is judged.
//!
//! A reason is `root-only: …`, `ordinary-only: …` or `missing:NAME: …`, where `tests/needs.txt` has the name.
//! `cargo xtask test` judges it: a test that skips for something that is there has failed. The reason goes to the
//! file named by `NETLOOM_SKIP_LOG`, one line `test<TAB>reason`, and to stderr.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::workspace_root;

/// Ends the running test as skipped, with a reason that a function has given: `skip!("{reason}")`. Others have
/// macros of their own: [`needs!`], [`lacks!`], [`root_only!`], [`ordinary_only!`].
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        fn here() {}
        $crate::record_skip(&$crate::test_name(&here), &format!($($reason)+));
        return;
    }};
}

/// Ends the running test as skipped unless all of these are there, which `tests/needs.txt` lists:
/// `needs!("curl", "tshark")`.
#[macro_export]
macro_rules! needs {
    ($($name:expr),+) => {$(
        if let Some(reason) = $crate::missing($name) {
            $crate::skip!("{reason}");
        }
    )+};
}

/// The path of a program, or the end of the running test as skipped: `let zsh = needed!("zsh");`
#[macro_export]
macro_rules! needed {
    ($program:expr) => {{
        $crate::needs!($program);
        $crate::program($program).expect("its probe has found it in PATH")
    }};
}

/// Ends the running test as skipped for what it has found missing itself: `lacks!("loop", "mount: {error}")`. It fails
/// where the probe of that name finds it.
#[macro_export]
macro_rules! lacks {
    ($name:expr, $($why:tt)+) => {
        $crate::skip!("{}", $crate::lacking($name, &format!($($why)+)))
    };
}

/// Ends the running test as skipped where this user may not make namespaces.
#[macro_export]
macro_rules! needs_namespaces {
    () => {
        if !$crate::is_root() {
            $crate::needs!("userns");
        }
    };
}

/// Ends the running test as skipped where this user may not make interfaces by `/dev/net/tun`.
#[macro_export]
macro_rules! needs_tun {
    () => {
        $crate::needs!("tun");
        if std::fs::File::options().read(true).write(true).open("/dev/net/tun").is_err() {
            $crate::skip!("root-only: opens /dev/net/tun");
        }
    };
}

/// Ends the running test as skipped if it runs as root.
#[macro_export]
macro_rules! ordinary_only {
    ($what:expr) => {
        if $crate::is_root() {
            $crate::skip!("ordinary-only: {}", $what);
        }
    };
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

/// Why what `tests/needs.txt` has by this name is missing, as the reason of a skip; `None` where it is there.
///
/// # Panics
/// The list has no such name.
pub fn missing(name: &str) -> Option<String> {
    let script = workspace_root().join("tests/needs.sh");
    let asked = Command::new("/bin/sh").arg(&script).arg(name).output().expect("start sh");
    let said = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    match asked.status.code() {
        Some(0) => None,
        Some(1) => Some(said),
        _ => panic!("{}: {said}{}", script.display(), String::from_utf8_lossy(&asked.stderr)),
    }
}

/// The reason of a skip for something that a test has found missing itself.
///
/// # Panics
/// The probe of that name finds it.
pub fn lacking(name: &str, why: &str) -> String {
    assert!(missing(name).is_some(), "{name} is there (tests/needs.txt), and yet: {why}");
    format!("missing:{name}: {why}")
}

/// The running test's name in libtest's form, from a function item declared inside it.
pub fn test_name<T>(inner: &T) -> String {
    let full = std::any::type_name_of_val(inner);
    let path = full.strip_suffix("::here").unwrap_or(full).replace("::{{closure}}", "");
    // libtest's names do not begin with the crate's.
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
    // In one write, which O_APPEND puts behind those of other processes as a whole.
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
    // The line of cgroup2 begins with `0::` (cgroups(7)).
    is_root() || own.lines().filter_map(|line| line.strip_prefix("0::")).any(writable)
}

/// The path of a program in `PATH` that this user may run, or `None`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let runs = |file: &PathBuf| {
        file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
    };
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(runs)
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

    #[test]
    fn what_is_missing_has_a_reason_and_what_is_there_none() {
        let [ids, none] = ["subids", "user-without-subids"].map(super::missing);
        assert!(ids.is_some() != none.is_some(), "{ids:?} {none:?}");
        let reason = ids.or(none).expect("one of them");
        assert!(reason.starts_with("missing:") && reason.contains("numbers"), "{reason}");
        assert!(reason.contains("subids: "), "{reason}");
    }

    #[test]
    #[should_panic(expected = "has no line for no-such-need")]
    fn a_need_that_is_not_listed_is_an_error() {
        super::missing("no-such-need");
    }

    #[test]
    #[should_panic(expected = "linux-6.2 is there (tests/needs.txt), and yet: no kernel")]
    fn what_is_there_is_not_lacking() {
        // Where it is not, neither is the reason of another panic.
        let reason = super::lacking("linux-6.2", "no kernel");
        panic!("linux-6.2 is there (tests/needs.txt), and yet: no kernel ({reason})");
    }
}
