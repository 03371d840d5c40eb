//! Whether a node has settled: each of its processes waits for something, and none is at work.
//!
//! A program that is going to end with an error at once, for a mistake in its configuration or a port
//! that is taken, is at work until it does; one that waits for requests sleeps. So a node in which nothing
//! is at work any more has told what there is to tell, without a fixed time to wait for it. Processes are
//! looked at twice: those that slept both times and have not run in between (proc_pid_status(5),
//! `ctxt_switches`) all slept at one moment. Processes of nodes in this node do not count.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The processes of a node at one look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// How often each thread has been given the CPU, by its number.
    switches: BTreeMap<i32, u64>,
    /// Some of them run, or wait for a disk.
    busy: bool,
}

/// One thread, as its `status` file tells.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    busy: bool,
    /// Of this node, and not of one in it.
    own: bool,
    threads: u32,
    switches: u64,
}

/// Whether nothing is at work in this process's node.
pub(crate) fn has_settled() -> bool {
    let first = look();
    !first.busy && look() == first
}

/// CPU time that this node's processes have used so far, ended children that were waited for included.
pub(crate) fn cpu_time() -> Duration {
    pids().filter_map(|pid| cpu_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).sum()
}

/// Looks at all processes but this one.
fn look() -> Look {
    let mut found = Look::default();
    for pid in pids() {
        // One that is gone meanwhile has ended: its parent is at work.
        let Some(main) = read(&format!("/proc/{pid}/status")) else {
            found.busy = true;
            continue;
        };
        if !main.own {
            continue;
        }
        if main.threads > 1 {
            threads_of(pid, &mut found);
        } else {
            found.add(pid, &main);
        }
    }
    found
}

fn threads_of(pid: i32, found: &mut Look) {
    for tid in numbers(&format!("/proc/{pid}/task")) {
        match read(&format!("/proc/{pid}/task/{tid}/status")) {
            Some(thread) => found.add(tid, &thread),
            None => found.busy = true,
        }
    }
}

impl Look {
    fn add(&mut self, number: i32, thread: &Thread) {
        self.busy |= thread.busy;
        self.switches.insert(number, thread.switches);
    }
}

/// This node's processes but this one, which is its first.
fn pids() -> impl Iterator<Item = i32> {
    numbers("/proc").filter(|pid| *pid != 1)
}

fn numbers(dir: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn read(path: &str) -> Option<Thread> {
    parse(&fs::read_to_string(path).ok()?)
}

/// Reads a `status` file.
fn parse(status: &str) -> Option<Thread> {
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.map(str::trim)
    };
    let number = |key: &str| value(key)?.parse::<u64>().ok();
    let state = value("State")?.chars().next()?;
    // What has ended and is still to be waited for by process 1 of the node is about to be told.
    let unheard = state == 'Z' && number("PPid") == Some(1);
    Some(Thread {
        busy: matches!(state, 'R' | 'D') || unheard,
        // In a process namespace below this one it has a second number.
        own: value("NSpid").is_none_or(|pids| pids.split_ascii_whitespace().count() == 1),
        threads: number("Threads").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        // A process that has ended has none.
        switches: number("voluntary_ctxt_switches").unwrap_or(0)
            + number("nonvoluntary_ctxt_switches").unwrap_or(0),
    })
}

/// The times of a `stat` file (proc_pid_stat(5)): its own and those of its children, in the kernel's
/// ticks for users, which are hundredths of a second everywhere.
fn cpu_of(stat: &str) -> Option<Duration> {
    let (_, tail) = stat.rsplit_once(')')?;
    let times = tail.split_ascii_whitespace().skip(11).take(4).map(str::parse::<u64>);
    let ticks = times.sum::<Result<u64, _>>().ok()?;
    Some(Duration::from_millis(ticks.saturating_mul(10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, parent: u32, pids: &str) -> String {
        format!(
            "Name:\tx\nUmask:\t0022\nState:\t{state}\nPPid:\t{parent}\nNSpid:\t{pids}\nThreads:\t2\n\
             voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n"
        )
    }

    #[test]
    fn a_status_tells_who_is_at_work() {
        for (state, parent, busy) in [
            ("S (sleeping)", 1, false),
            ("R (running)", 1, true),
            ("D (disk sleep)", 4, true),
            ("T (stopped)", 4, false),
            ("Z (zombie)", 4, false),
            ("Z (zombie)", 1, true),
        ] {
            let expected = Thread { busy, own: true, threads: 2, switches: 10 };
            assert_eq!(parse(&status(state, parent, "5")), Some(expected), "{state}");
        }
        assert!(!parse(&status("R (running)", 1, "7\t1")).unwrap().own);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn times_are_those_of_a_process_and_its_children() {
        let stat = "5 (a) b) S 1 5 5 0 -1 0 9 9 9 9 3 4 5 6 20 0 1 0 100";
        assert_eq!(cpu_of(stat), Some(Duration::from_millis(180)));
        assert_eq!(cpu_of("5 (a) S 1"), Some(Duration::ZERO));
    }
}
