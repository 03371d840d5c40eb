//! Objects that a lab could leave behind on a machine, recorded before and after: both must be equal.
//!
//! [`Snapshot::take`] records what belongs to the labs of one runtime directory, so that tests may run side
//! by side and other activity does not matter: processes with that directory in their environment or
//! arguments, and their descendants; network namespaces these hold; mounts and cgroups of those labs; files
//! below the directory. [`Snapshot::whole`] records the whole machine: also links of this namespace, nft
//! tables (root), BPF pins, and anything with netloom's name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::DirEntry;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netloom_digest::fnv1a;

use crate::{Process, is_root, processes};

/// How long the kernel may take to destroy namespaces after their last process has ended.
const BOUND: Duration = Duration::from_secs(60);

/// Objects present at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    runtime_dir: PathBuf,
    whole: bool,
    things: BTreeSet<String>,
}

impl Snapshot {
    /// Records what belongs to the labs of `runtime_dir`.
    pub fn take(runtime_dir: &Path) -> Snapshot {
        Snapshot::look(runtime_dir, false)
    }

    /// Records what belongs to the labs of a runtime directory that nobody knows yet: files.
    pub fn of_new(runtime_dir: &Path) -> Snapshot {
        let mut things = BTreeSet::new();
        add_files(runtime_dir, &mut things);
        Snapshot { runtime_dir: runtime_dir.to_owned(), whole: false, things }
    }

    /// Records the whole machine, but of files only those of `runtime_dir`.
    pub fn whole(runtime_dir: &Path) -> Snapshot {
        Snapshot::look(runtime_dir, true)
    }

    fn look(runtime_dir: &Path, whole: bool) -> Snapshot {
        let mut snapshot =
            Snapshot { runtime_dir: runtime_dir.to_owned(), whole, things: BTreeSet::new() };
        snapshot.add_processes();
        snapshot.add_mounts();
        snapshot.add_cgroups();
        add_files(runtime_dir, &mut snapshot.things);
        if whole {
            snapshot.add_links();
            snapshot.add_pins();
            snapshot.add_nft();
        }
        snapshot
    }

    /// Takes the same snapshot again.
    #[must_use]
    pub fn again(&self) -> Snapshot {
        Snapshot::look(&self.runtime_dir, self.whole)
    }

    /// Number of objects of this kind (`netns`, `process`, `link`, `mount`, `cgroup`, ...).
    pub fn count(&self, kind: &str) -> usize {
        self.things.iter().filter(|thing| thing.starts_with(&format!("{kind} "))).count()
    }

    /// Lines `+ thing` for additions in `later` and `- thing` for removals; empty when equal.
    pub fn difference(&self, later: &Snapshot) -> String {
        let mut text = String::new();
        for new in later.things.difference(&self.things) {
            let _ = writeln!(text, "+ {new}");
        }
        // Foreign programs that end in the meantime do not count as missing.
        let passing = |thing: &&String| thing.starts_with("process") || thing.starts_with("netns");
        for gone in self.things.difference(&later.things).filter(|thing| !passing(thing)) {
            let _ = writeln!(text, "- {gone}");
        }
        text
    }

    /// Difference to the current state that remains after the kernel's own clean-up; empty if none.
    pub fn difference_that_stays(&self) -> String {
        self.lines_that_stay(|_| true)
    }

    /// [`Snapshot::difference_that_stays`] for selected lines: on a whole machine not all are this test's.
    pub fn lines_that_stay(&self, counts: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + BOUND;
        loop {
            let begin = Instant::now();
            let all = self.difference(&self.again());
            let lines = all.split_inclusive('\n').filter(|line| counts(line));
            let difference: String = lines.collect();
            if difference.is_empty() || Instant::now() > end {
                return difference;
            }
            // As in `wait_until`: a look costs what the kernel's clean-up needs.
            std::thread::sleep((begin.elapsed() * 2).max(Duration::from_millis(20)));
        }
    }

    fn add(&mut self, thing: String) {
        self.things.insert(thing);
    }

    fn add_processes(&mut self) {
        let all = processes();
        let own = all.get(&std::process::id().cast_signed()).and_then(Process::netns);
        // Zombies wait to be reaped and hold nothing.
        let living = all.values().filter(|process| !process.zombie);
        let ours: Vec<&Process> = living.filter(|process| self.belongs(process, &all)).collect();
        for process in ours {
            let Process { comm, pid, start, .. } = process;
            self.things.insert(format!("process {comm} {pid} from {start}"));
            if let Some(netns) = process.netns().filter(|netns| Some(*netns) != own) {
                self.things.insert(format!("netns {netns}"));
            }
        }
    }

    /// Whether a process or one of its ancestors belongs to these labs; this test and its ancestors do not
    /// count.
    fn belongs(&self, process: &Process, all: &BTreeMap<i32, Process>) -> bool {
        let me = std::process::id().cast_signed();
        let mut at = Some(process);
        // Bounded: a pid that is used again while /proc is read can make ancestors a circle.
        for _ in 0..64 {
            let Some(process) = at.filter(|process| process.pid != me) else { return false };
            if process.is_of(&self.runtime_dir) {
                return true;
            }
            // Of another lab, whatever its ancestors are of.
            if process.runtime_dir.is_some() {
                return false;
            }
            // Names of test executables have an underscore after the project's name.
            if self.whole && is_named(&process.comm) {
                return true;
            }
            at = all.get(&process.parent);
        }
        false
    }

    fn add_mounts(&mut self) {
        let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let ours = self.runtime_dir.to_string_lossy().into_owned();
        let whole = self.whole;
        for line in text.lines().filter(|line| whole || line.contains(&ours)) {
            let mut fields = line.split_whitespace();
            let (source, target) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
            let kind = fields.next().unwrap_or("");
            self.add(format!("mount {target} ({kind} {source})"));
        }
    }

    fn add_links(&mut self) {
        // Not by /sys, which shows the network in which it was mounted.
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        for (name, _) in table.lines().filter_map(|line| line.split_once(':')) {
            self.add(format!("link {}", name.trim()));
        }
    }

    /// BPF programs and maps with netloom's names.
    fn add_pins(&mut self) {
        for name in names("/sys/fs/bpf").into_iter().filter(|name| name.contains("netloom")) {
            self.add(format!("pin {name}"));
        }
    }

    fn add_cgroups(&mut self) {
        let mut left = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(dir) = left.pop() {
            let ours = self.whole || is_of_lab(&dir, &self.runtime_dir);
            if ours && dir.to_string_lossy().contains("netloom") {
                self.add(format!("cgroup {}", dir.display()));
            }
            // Labs of other tests have groups by the hundred.
            let of_others = !ours && dir.parent().is_some_and(|above| above.ends_with("netloom"));
            if !of_others && has_folders(&dir) {
                // Links such as `cpu -> cpu,cpuacct` show the same tree twice.
                let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
                let is_folder =
                    |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
                left.extend(entries.filter(is_folder).map(|entry| entry.path()));
            }
        }
    }

    fn add_nft(&mut self) {
        if !is_root() {
            return;
        }
        let listed = Command::new("nft").args(["list", "tables"]).stderr(Stdio::null()).output();
        let Ok(out) = listed else { return };
        for table in String::from_utf8_lossy(&out.stdout).lines().filter(|t| t.contains("netloom"))
        {
            self.add(format!("nft {table}"));
        }
    }
}

/// Asserts that all is as before, after the kernel's own clean-up.
///
/// # Panics
/// A difference remains after a minute; the message shows it.
pub fn assert_same(before: &Snapshot) {
    let difference = before.difference_that_stays();
    assert!(difference.is_empty(), "left behind (+) or lost (-) after {BOUND:?}:\n{difference}");
}

fn is_named(comm: &str) -> bool {
    comm == "netloom" || comm.starts_with("netloom-")
}

/// Whether a cgroup belongs to a lab of this runtime directory: a part of its path is `NAME-HASH`, where the
/// hash (FNV-1a, low 32 bits in hexadecimal) is that of the lab's folder.
fn is_of_lab(group: &Path, runtime_dir: &Path) -> bool {
    let of_lab = |part: &str| {
        part.rsplit_once('-').is_some_and(|(name, hash)| {
            let folder = runtime_dir.join(name);
            let found = fnv1a::hash(folder.as_os_str().as_bytes());
            format!("{:08x}", found & 0xffff_ffff) == hash
        })
    };
    group.components().any(|part| part.as_os_str().to_str().is_some_and(of_lab))
}

/// Whether a group has groups in it: each is a link to it, beside its own two. What is read of one are dozens of files.
fn has_folders(group: &Path) -> bool {
    std::fs::symlink_metadata(group).is_ok_and(|found| found.nlink() > 2)
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
    use crate::{needs_namespaces, wait_until};

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
    fn what_belongs_to_others_is_not_told() {
        let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = Snapshot::take(mine.path());
        let mut child = Command::new("sleep")
            .arg("60")
            .env("NETLOOM_RUNTIME_DIR", other.path())
            .spawn()
            .unwrap();
        wait_until("it is seen", Duration::from_secs(30), || {
            (Snapshot::take(other.path()).count("process") == 1).then_some(())
        });
        assert_eq!(own.difference(&own.again()), "");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_group_without_groups_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(!has_folders(dir.path()));
        std::fs::create_dir(dir.path().join("group")).unwrap();
        assert!(has_folders(dir.path()));
        // The whole tree, by what is read and by names alone.
        let mut left = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(dir) = left.pop() {
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
            // Others make and remove groups meanwhile: this one has some before and after.
            let has = has_folders(&dir);
            let still = folders.iter().any(|folder| folder.is_dir());
            assert!(has || !still, "{}", dir.display());
            left.extend(folders);
        }
    }

    #[test]
    fn groups_are_known_by_the_folder_of_their_lab() {
        let group = Path::new("/sys/fs/cgroup/cpu/netloom/two-sites-HASH/3");
        let named = |dir: &str, name: &str| {
            let hash = fnv1a::hash(format!("{dir}/{name}").as_bytes());
            let hash = format!("{:08x}", hash & 0xffff_ffff);
            PathBuf::from(group.to_str().unwrap().replace("HASH", &hash))
        };
        assert!(is_of_lab(&named("/run/netloom", "two-sites"), Path::new("/run/netloom")));
        assert!(!is_of_lab(&named("/run/netloom", "two-sites"), Path::new("/tmp/run")));
        assert!(!is_of_lab(&named("/run/netloom", "other"), Path::new("/run/netloom")));
        assert!(!is_of_lab(Path::new("/sys/fs/cgroup/netloom"), Path::new("/run/netloom")));
    }

    #[test]
    fn a_process_in_a_namespace_of_its_own_is_told() {
        needs_namespaces!();
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
            // Within execve(2) a process has no environment, by which it is found below.
            let sleeps = processes().into_values().any(|process| {
                process.comm == "sleep" && process.runtime_dir.as_deref() == dir.path().to_str()
            });
            (now.count("netns") == 1 && now.count("process") == 2 && sleeps).then_some(now)
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
