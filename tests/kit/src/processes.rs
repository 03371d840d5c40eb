//! The processes of this machine from /proc, as far as this user may see them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// In this PID namespace.
    pub pid: i32,
    /// Pid of its parent.
    pub parent: i32,
    /// Start time in clock ticks after boot: with `pid` its identity.
    pub start: u64,
    /// Its name, at most 15 bytes.
    pub comm: String,
    /// `NETLOOM_RUNTIME_DIR` in its initial environment, if this user may see it.
    pub runtime_dir: Option<String>,
    /// Whether it has ended and waits to be reaped.
    pub zombie: bool,
    /// Its arguments, each ended by a zero byte, if this user may see them; none beside a runtime directory.
    arguments: Vec<u8>,
}

/// What the kernel says of its own threads: `PF_KTHREAD` in its include/linux/sched.h.
const KERNELS: u32 = 0x0020_0000;

impl Process {
    /// Whether its environment has this runtime directory or, without any, an argument is a path below it.
    pub fn is_of(&self, runtime_dir: &Path) -> bool {
        match &self.runtime_dir {
            Some(shown) => Path::new(shown) == runtime_dir,
            None => self.speaks_of(runtime_dir),
        }
    }

    /// Inode of its network namespace, if this user may see it.
    pub fn netns(&self) -> Option<u64> {
        namespace(Path::new(&format!("/proc/{}/ns/net", self.pid)))
    }

    /// Whether one of its arguments is a path in this folder.
    fn speaks_of(&self, folder: &Path) -> bool {
        let mut arguments = self.arguments.split(|byte| *byte == 0);
        arguments.any(|argument| Path::new(OsStr::from_bytes(argument)).starts_with(folder))
    }
}

/// All processes by pid.
pub fn processes() -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, read(pid)?)))
        .collect()
}

/// Reads one process; `None` when it is gone. Each file that is read costs the kernel some 10 µs, and tests look at all processes
/// before and after each lab: so only what is needed.
fn read(pid: i32) -> Option<Process> {
    let base = Path::new("/proc").join(pid.to_string());
    let stat = fs::read_to_string(base.join("stat")).ok()?;
    // The name may have parentheses in it; `tail` begins with field 3 of proc_pid_stat(5).
    let (head, tail) = stat.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let is_kernels = fields.get(6)?.parse::<u32>().ok()? & KERNELS != 0;
    let runtime_dir = if is_kernels { None } else { runtime_dir(&base.join("environ")) };
    let speaks = !is_kernels && runtime_dir.is_none();
    let arguments = speaks.then(|| fs::read(base.join("cmdline")).ok()).flatten();
    Some(Process {
        pid,
        zombie: *fields.first()? == "Z",
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        comm,
        runtime_dir,
        arguments: arguments.unwrap_or_default(),
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

/// Processor time that a process used so far, of all its threads; proc_pid_stat(5), fields 14 and 15.
///
/// # Panics
/// The process does not exist.
pub fn worked(pid: impl std::fmt::Display) -> std::time::Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its times");
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    std::time::Duration::from_millis(
        ticks.sum::<u64>() * 1000 / rustix::param::clock_ticks_per_second(),
    )
}

/// Processor time that the threads of a process used so far, in nanoseconds (sched-stats.rst), without those that have ended;
/// [`worked`] counts in ticks of 10 ms.
///
/// # Panics
/// The process does not exist.
pub fn worked_exactly(pid: impl std::fmt::Display) -> std::time::Duration {
    scheduled(pid, 0)
}

/// Time that the threads of a process could have run so far and had no processor, without those that have ended: what other
/// work of the machine has cost it.
///
/// # Panics
/// The process does not exist.
pub fn waited(pid: impl std::fmt::Display) -> std::time::Duration {
    scheduled(pid, 1)
}

/// The sum of one of the times of all threads of a process.
fn scheduled(pid: impl std::fmt::Display, place: usize) -> std::time::Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let of = |thread: fs::DirEntry| -> Option<u64> {
        let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times.split(' ').nth(place)?.parse().ok()
    };
    std::time::Duration::from_nanos(threads.filter_map(of).sum())
}

/// KiB of memory of a process that are in no file.
///
/// # Panics
/// The process does not exist.
pub fn resident(pid: impl std::fmt::Display) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("KiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_environment_belongs_to_the_folder_it_speaks_of() {
        let arguments = b"/proc/self/exe\0wire-process\x0012\0/run/netloom/lab\0".to_vec();
        let own = std::process::id().cast_signed();
        let process = Process { arguments, ..super::processes().remove(&own).unwrap() };
        assert!(process.speaks_of(Path::new("/run/netloom")));
        assert!(!process.speaks_of(Path::new("/run/net")));
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
        assert_eq!(seen.netns(), namespace(Path::new("/proc/self/ns/net")));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen.parent, i32::try_from(std::process::id()).unwrap());
        assert_eq!(seen.runtime_dir.as_deref(), Some("/marked"));
    }
}
