//! Runs one test in fresh network, mount and PID namespaces, as root or in a user namespace.
//!
//! [`isolated!`] starts the test executable again under `unshare` for that one test. So the test has a
//! network of its own, needs no root, and leaves nothing behind: the PID namespace ends with it. `lo` is down
//! and the only link. Where user namespaces are refused the test is skipped.

use std::process::Command;

use crate::rounds::DONE;
use crate::{again_by_name, is_root, missing, record_skip};

/// The test that is already running isolated.
const MARK: &str = "NETLOOM_ISOLATED";

/// Runs the body of a test in fresh namespaces: `isolated!({ ... })` as the test's only statement.
#[macro_export]
macro_rules! isolated {
    ($body:block) => {{
        fn here() {}
        if !$crate::run_isolated(&$crate::test_name(&here)) {
            return;
        }
        $body
    }};
}

/// Returns whether the caller runs isolated already (it then runs the body); otherwise runs `test` isolated
/// and waits.
///
/// # Panics
/// The isolated test failed.
pub fn run_isolated(test: &str) -> bool {
    if std::env::var(MARK).is_ok_and(|inside| inside == test) {
        return true;
    }
    if let Some(reason) = missing("userns").filter(|_| !is_root()) {
        record_skip(test, &reason);
        return false;
    }
    let inner = again_by_name(test);
    let out = unshare()
        .arg(inner.get_program())
        .args(inner.get_args())
        .env(MARK, test)
        .output()
        .expect("start unshare");
    let stdout = String::from_utf8_lossy(&out.stdout);
    let stderr = String::from_utf8_lossy(&out.stderr);
    // libtest succeeds as well when no test has this name.
    let ran = stdout.contains("1 passed");
    assert!(out.status.success() && ran, "in fresh namespaces:\n{stdout}\n{stderr}");
    eprint!("{stderr}");
    stdout.lines().filter(|line| line.starts_with(DONE)).for_each(|line| println!("{line}"));
    false
}

/// Whether this user may create a user namespace with a network namespace in it.
pub fn userns_allowed() -> bool {
    missing("userns").is_none()
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    // With --kill-child the namespace's init is killed
    // with unshare, and everything in it (unshare(1)).
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_lo_is_seen_and_pids_start_anew() {
        crate::isolated!({
            let links: Vec<_> = std::fs::read_to_string("/proc/net/dev")
                .unwrap()
                .lines()
                .skip(2)
                .map(|line| line.split(':').next().unwrap().trim().to_owned())
                .filter(|name| name == "lo" || name.starts_with("eth"))
                .collect();
            assert_eq!(links, ["lo"]);
            assert!(std::process::id() < 10);
        });
    }
}
