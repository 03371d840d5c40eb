//! Programs behind sockets: whether the one that should answer is stopped.

use std::path::PathBuf;

/// The process in the node of an init that has a socket, if it is stopped: by its id in the node. None where another one has the socket and
/// runs: any of them may accept.
pub(super) fn stopped(init: i32, inode: u32) -> Option<i32> {
    let namespace = std::fs::read_link(format!("/proc/{init}/ns/net")).ok()?;
    let processes = std::fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let of_node = |process: &PathBuf| {
        let name = process.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.bytes().all(|byte| byte.is_ascii_digit())
            && std::fs::read_link(process.join("ns/net")).is_ok_and(|at| at == namespace)
    };
    let mut found = None;
    for process in processes.filter(of_node).filter(|process| has(process, inode)) {
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        found = Some(stopped_id(&status)?);
    }
    found
}

/// Whether a process has a socket open.
fn has(process: &std::path::Path, inode: u32) -> bool {
    let wanted = format!("socket:[{inode}]");
    let open = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|to| to.as_os_str() == wanted.as_str())
}

/// The innermost id of a process by its status (proc_pid_status(5)), if it is stopped by a signal.
fn stopped_id(status: &str) -> Option<i32> {
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    if !of("State:")?.starts_with('T') {
        return None;
    }
    of("NSpid:")?.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_stopped_by_its_status_alone() {
        let status =
            |state: &str| format!("Name:\tx\nState:\t{state}\nPid:\t812\nNSpid:\t812\t7\n");
        assert_eq!(stopped_id(&status("T (stopped)")), Some(7));
        assert_eq!(stopped_id(&status("S (sleeping)")), None);
        // A debugger's hold ends by itself.
        assert_eq!(stopped_id(&status("t (tracing stop)")), None);
        assert_eq!(stopped_id("State:\tT (stopped)\n"), None);
        assert_eq!(stopped_id(""), None);
    }
}
