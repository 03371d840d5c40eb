//! The processes of a node, found without groups: by their PID namespace.
//!
//! For labs of ordinary users without delegated groups. Processes that end during the search are
//! left out; those in PID namespaces below the node's (its children's) are not the node's own. See
//! pid_namespaces(7), proc(5).

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::process::Pid;

use crate::{Failure, Result};

/// A process at the time of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id in the caller's PID namespace.
    pub pid: i32,
    /// Its name: at most 15 bytes, as kept by the kernel.
    pub name: String,
    /// Its state: `R` runs, `S` sleeps, `D` waits for a device, `Z` has ended (proc(5)).
    pub state: char,
}

/// All processes in the PID namespace of a node's init except the init itself, lowest id first.
///
/// # Errors
/// The init is gone, its namespace may not be read, or there is no proc.
pub fn of_init(init: Pid) -> Result<Vec<Process>> {
    let own = init.as_raw_nonzero().get();
    let path = format!("/proc/{own}/ns/pid");
    let wanted = fs::metadata(&path).map_err(|e| Failure::path(&path, "look at", e))?;
    let wanted = (wanted.dev(), wanted.ino());
    let mut found: Vec<Process> = pids()?
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let seen = fs::metadata(format!("/proc/{pid}/ns/pid"));
            seen.is_ok_and(|m| (m.dev(), m.ino()) == wanted)
        })
        .filter_map(look_at)
        .collect();
    found.sort_unstable_by_key(|p| p.pid);
    Ok(found)
}

/// Names and states of these processes; those that have ended are left out.
pub fn described(pids: &[i32]) -> Vec<Process> {
    pids.iter().copied().filter_map(look_at).collect()
}

/// The ids of all processes that `/proc` shows.
///
/// # Errors
/// `/proc` cannot be listed.
pub fn pids() -> Result<impl Iterator<Item = i32>> {
    let entries = fs::read_dir("/proc").map_err(|e| Failure::path("/proc", "list", e))?;
    Ok(entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()))
}

fn look_at(pid: i32) -> Option<Process> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let (name, state) = parse_stat(&text)?;
    Some(Process { pid, name, state })
}

/// `pid (name) state …`, where the name may contain anything, even parentheses.
fn parse_stat(text: &[u8]) -> Option<(String, char)> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')').filter(|close| *close > open)?;
    let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    Some((name, char::from(*text.get(close + 2)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_parentheses() {
        let parsed = parse_stat(b"12 (a) R (b)) S 1 2 3\n");
        assert_eq!(parsed, Some(("a) R (b)".to_owned(), 'S')));
        for cut in [&b"12"[..], b"12 (a", b"12 a)", b"12 (a)", b"12 )a( S", b"12 (a) "] {
            assert_eq!(parse_stat(cut), None, "{cut:?}");
        }
    }

    #[test]
    fn the_running_test_is_described() {
        let own = i32::try_from(std::process::id()).unwrap();
        let found = described(&[own, i32::MAX]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, own);
    }
}
