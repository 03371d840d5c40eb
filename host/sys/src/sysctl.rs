//! Kernel settings by their paths below `/proc/sys`; network settings are the calling thread's.
//!
//! Invariant: a value that is already right is not written, since many writes spin on the kernel's
//! one lock for all networks. Specification: proc_sys(5).

use std::io;
use std::path::Path;

/// Writes a setting. Failure is ignored for a path with a leading `-`, and for IPv6 settings if the
/// kernel has no IPv6.
///
/// # Errors
/// The kernel's error.
pub fn set(path: &str, value: &str) -> io::Result<()> {
    let (path, optional) = path.strip_prefix('-').map_or((path, false), |path| (path, true));
    let full = full(path);
    if std::fs::read_to_string(&full).is_ok_and(|now| now.trim() == value) {
        return Ok(());
    }
    match std::fs::write(&full, value) {
        Err(_) if optional || (path.starts_with("net/ipv6/") && !has_ipv6()) => Ok(()),
        written => written,
    }
}

/// The full path of a setting, for messages.
pub fn full(path: &str) -> String {
    format!("/proc/sys/{}", path.strip_prefix('-').unwrap_or(path))
}

/// A kernel without IPv6 has none of its settings.
fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_there_is_refused_unless_it_may_be_missing() {
        assert_eq!(set("kernel/no-such", "1").unwrap_err().kind(), io::ErrorKind::NotFound);
        set("-kernel/no-such", "1").unwrap();
        assert_eq!(full("-kernel/no-such"), "/proc/sys/kernel/no-such");
    }

    #[test]
    fn a_value_that_is_right_is_not_written() {
        // Nobody can write this setting.
        set("kernel/ostype", "Linux").unwrap();
        set("kernel/ostype", "other").unwrap_err();
    }
}
