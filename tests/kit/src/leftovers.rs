//! What a lab may leave behind on a machine, seen before and after: both must be equal.
//!
//! Looked at: network namespaces held by processes or by mounts, processes, links of the host's
//! namespace, mounts, cgroups with `netloom` in their path, nft tables with `netloom` in their name
//! (root), files of the runtime directory. Processes and namespaces count when they belong to
//! netloom: by name, by the runtime directory in their environment, or by descent from such a one;
//! a machine does other things meanwhile. Those that show another test's runtime directory do not.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Process, is_root, processes};

/// The kernel takes namespaces apart after the last process is gone; so long may it take.
const BOUND: Duration = Duration::from_secs(20);

/// What was there at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    runtime_dir: PathBuf,
    things: BTreeSet<String>,
}

impl Snapshot {
    /// Looks now; `runtime_dir` is the one whose labs count.
    pub fn take(runtime_dir: &Path) -> Snapshot {
        let mut things = BTreeSet::new();
        add_processes(runtime_dir, &mut things);
        add_mounts(&mut things);
        add_links(&mut things);
        add_cgroups(&mut things);
        add_nft(&mut things);
        add_files(runtime_dir, &mut things);
        Snapshot { runtime_dir: runtime_dir.to_owned(), things }
    }

    /// How many of the things are of this kind (`netns`, `process`, `link`, `mount`, `cgroup`, ...).
    pub fn count(&self, kind: &str) -> usize {
        self.things.iter().filter(|thing| thing.starts_with(&format!("{kind} "))).count()
    }

    /// Lines `+ thing` for what is new in `later` and `- thing` for what is missing; empty when equal.
    pub fn difference(&self, later: &Snapshot) -> String {
        let mut text = String::new();
        for new in later.things.difference(&self.things) {
            let _ = writeln!(text, "+ {new}");
        }
        // A program of somebody else's that has ended meanwhile is no loss of this machine's.
        let passing = |thing: &&String| thing.starts_with("process") || thing.starts_with("netns");
        for gone in self.things.difference(&later.things).filter(|thing| !passing(thing)) {
            let _ = writeln!(text, "- {gone}");
        }
        text
    }
}

/// Asserts that all is as it was before, waiting for the kernel to finish its own clean-up.
///
/// # Panics
/// With the difference, when there is one after 20 s.
pub fn assert_same(before: &Snapshot) {
    let end = Instant::now() + BOUND;
    loop {
        let difference = before.difference(&Snapshot::take(&before.runtime_dir));
        if difference.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "left behind (+) or lost (-) after {BOUND:?}:\n{difference}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn add_processes(runtime_dir: &Path, things: &mut BTreeSet<String>) {
    let all = processes();
    let own = all.get(&std::process::id().cast_signed()).and_then(|me| me.netns);
    // The dead wait for whoever runs the machine to reap them: they hold nothing.
    let living = all.values().filter(|process| !process.zombie);
    let ours: Vec<&Process> = living.filter(|p| belongs(p, &all, runtime_dir)).collect();
    for process in ours {
        things.insert(format!("process {} {} from {}", process.comm, process.pid, process.start));
        if let Some(netns) = process.netns.filter(|netns| Some(*netns) != own) {
            things.insert(format!("netns {netns}"));
        }
    }
}

/// Whether a process is netloom's or descends from one that is, this test's own line left out.
fn belongs(process: &Process, all: &std::collections::BTreeMap<i32, Process>, dir: &Path) -> bool {
    let me = std::process::id().cast_signed();
    let mut at = Some(process);
    for _ in 0..64 {
        let Some(process) = at.filter(|process| process.pid != me) else { return false };
        match &process.runtime_dir {
            Some(shown) if Path::new(shown) == dir => return true,
            Some(_) => return false,
            // Test executables have an underscore after the project's name.
            None if process.comm == "netloom" || process.comm.starts_with("netloom-") => {
                return true;
            }
            None => at = all.get(&process.parent),
        }
    }
    false
}

fn add_mounts(things: &mut BTreeSet<String>) {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let (source, target) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let kind = fields.next().unwrap_or("");
        things.insert(format!("mount {target} ({kind} {source})"));
    }
}

fn add_links(things: &mut BTreeSet<String>) {
    for name in names("/sys/class/net") {
        things.insert(format!("link {name}"));
    }
}

fn add_cgroups(things: &mut BTreeSet<String>) {
    let mut left = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = left.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            // Links such as `cpu -> cpu,cpuacct` show the same tree twice.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
        }
        if dir.to_string_lossy().contains("netloom") {
            things.insert(format!("cgroup {}", dir.display()));
        }
    }
}

fn add_nft(things: &mut BTreeSet<String>) {
    if !is_root() {
        return;
    }
    let listed = Command::new("nft").args(["list", "tables"]).stderr(Stdio::null()).output();
    let Ok(out) = listed else { return };
    for table in String::from_utf8_lossy(&out.stdout).lines().filter(|t| t.contains("netloom")) {
        things.insert(format!("nft {table}"));
    }
}

fn add_files(dir: &Path, things: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        things.insert(format!("file {}", entry.path().display()));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_files(&entry.path(), things);
        }
    }
}

fn names(dir: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return vec![] };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{skip, userns_allowed, wait_until};

    #[test]
    fn a_file_left_behind_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let before = Snapshot::take(dir.path());
        std::fs::create_dir(dir.path().join("lab")).unwrap();
        std::fs::write(dir.path().join("lab/state"), "").unwrap();
        let difference = before.difference(&Snapshot::take(dir.path()));
        let state = dir.path().join("lab/state");
        assert!(difference.contains(&format!("+ file {}", state.display())), "{difference}");
        std::fs::remove_dir_all(dir.path().join("lab")).unwrap();
        assert_same(&before);
    }

    #[test]
    fn a_process_in_a_namespace_of_its_own_is_told() {
        if !is_root() && !userns_allowed() {
            skip!("no-userns: user namespaces are refused to ordinary users here");
        }
        let dir = tempfile::tempdir().unwrap();
        let before = Snapshot::take(dir.path());
        let mut unshare = Command::new("unshare");
        if !is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare.args(["--net", "sh", "-c", "sleep 60; true"]);
        let mut child =
            unshare.env("NETLOOM_RUNTIME_DIR", dir.path()).stdin(Stdio::null()).spawn().unwrap();
        let seen = wait_until("namespace is seen", Duration::from_secs(30), || {
            let now = Snapshot::take(dir.path());
            (now.count("netns") == 1 && now.count("process") == 2).then_some(now)
        });
        assert!(before.difference(&seen).contains("+ netns"));
        for process in processes().values() {
            if process.runtime_dir.as_deref() == dir.path().to_str() {
                let pid = rustix::process::Pid::from_raw(process.pid).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        child.wait().unwrap();
        assert_same(&before);
    }
}
