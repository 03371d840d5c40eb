//! The processes of this machine as /proc shows them, as far as this user may look.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// In this process namespace.
    pub pid: i32,
    /// Of its parent.
    pub parent: i32,
    /// Clock ticks after boot at which it started: with `pid` its identity.
    pub start: u64,
    /// Its name, at most 15 bytes.
    pub comm: String,
    /// Inode of its network namespace, if this user may see it.
    pub netns: Option<u64>,
    /// `NETLOOM_RUNTIME_DIR` in the environment it was started with, if this user may see it; of a
    /// process of wires, which has no environment, where the lab's folder is.
    pub runtime_dir: Option<String>,
    /// Whether it is dead and waits to be reaped.
    pub zombie: bool,
}

/// All processes by pid.
pub fn processes() -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, read(pid)?)))
        .collect()
}

/// Reads one; `None` when it is gone.
fn read(pid: i32) -> Option<Process> {
    let base = Path::new("/proc").join(pid.to_string());
    let stat = fs::read_to_string(base.join("stat")).ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    Some(Process {
        pid,
        zombie: *fields.first()? == "Z",
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        comm,
        netns: namespace(&base.join("ns/net")),
        runtime_dir: runtime_dir(&base.join("environ"))
            .or_else(|| runtime_dir_of_wires(&base.join("cmdline"))),
    })
}

fn namespace(link: &Path) -> Option<u64> {
    let target = fs::read_link(link).ok()?;
    target.to_str()?.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

fn runtime_dir(environ: &Path) -> Option<String> {
    let bytes = fs::read(environ).ok()?;
    let value =
        bytes.split(|byte| *byte == 0).find_map(|v| v.strip_prefix(b"NETLOOM_RUNTIME_DIR="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// From the arguments `wire-process STARTER FOLDER`.
fn runtime_dir_of_wires(cmdline: &Path) -> Option<String> {
    let bytes = fs::read(cmdline).ok()?;
    let args: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let at = args.iter().position(|arg| *arg == b"wire-process")?;
    let folder = String::from_utf8_lossy(args.get(at + 2)?).into_owned();
    Some(Path::new(&folder).parent()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_wires_belongs_to_its_labs_folder() {
        let dir = tempfile::tempdir().unwrap();
        let cmdline = dir.path().join("cmdline");
        fs::write(&cmdline, b"/proc/self/exe\0wire-process\x0012\0/run/netloom/lab\0").unwrap();
        assert_eq!(runtime_dir_of_wires(&cmdline).as_deref(), Some("/run/netloom"));
        fs::write(&cmdline, b"netloom\0up\0wire-process\0").unwrap();
        assert_eq!(runtime_dir_of_wires(&cmdline), None);
    }

    #[test]
    fn a_child_is_seen_with_its_parent_and_mark() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("NETLOOM_RUNTIME_DIR", "/marked")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let seen = crate::wait_until("child executes", std::time::Duration::from_secs(30), || {
            processes().remove(&pid).filter(|p| p.comm == "sleep" && p.runtime_dir.is_some())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen.parent, i32::try_from(std::process::id()).unwrap());
        assert_eq!(seen.runtime_dir.as_deref(), Some("/marked"));
        assert_eq!(seen.netns, namespace(Path::new("/proc/self/ns/net")));
    }
}
