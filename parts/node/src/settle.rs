//! Whether a node has settled: every process waits for something and none is active.
//!
//! A program about to fail (a configuration error, a port in use) stays active until it ends; one that waits
//! for requests sleeps. So once nothing in a node is active, every early failure has shown, without a fixed
//! delay. Processes are sampled twice: those that slept both times and did not run in between
//! (proc_pid_status(5), `ctxt_switches`) were all asleep at one moment. Processes of nodes inside this node
//! do not count.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::time::Duration;

use netloom_sys::process::Status;

/// One sample of a node's processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Context switches of each thread, by thread id.
    switches: BTreeMap<i32, u64>,
    /// Some processes run, or wait for a disk.
    busy: bool,
}

/// One thread, from its `status` file.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    busy: bool,
    /// It belongs to this node and not to one inside it.
    own: bool,
    threads: u32,
    switches: u64,
}

/// Whether nothing in this process's node is active.
pub(crate) fn has_settled() -> bool {
    let first = look();
    !first.busy && look() == first
}

/// CPU time used by this node's processes so far, including ended children that were waited for.
pub(crate) fn cpu_time() -> Duration {
    pids().filter_map(|pid| cpu_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).sum()
}

/// Samples all processes except this one.
fn look() -> Look {
    let mut found = Look::default();
    for pid in pids() {
        // A process gone in the meantime has ended: its parent is active.
        let Some(main) = read(pid) else {
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
        match read(format!("{pid}/task/{tid}")) {
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

/// This node's processes except this one, which is its first.
fn pids() -> impl Iterator<Item = i32> {
    numbers("/proc").filter(|pid| *pid != 1)
}

fn numbers(dir: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn read(whose: impl Display) -> Option<Thread> {
    parse(&Status::of(whose)?)
}

fn parse(status: &Status) -> Option<Thread> {
    let state = status.field("State")?.chars().next()?;
    // An unreaped child of process 1 is about to be reported.
    let unheard = state == 'Z' && status.number("PPid") == Some(1);
    Some(Thread {
        busy: matches!(state, 'R' | 'D') || unheard,
        // In a PID namespace below this one it has a second pid.
        own: status.field("NSpid").is_none_or(|pids| pids.split_ascii_whitespace().count() == 1),
        threads: status.number("Threads").unwrap_or(1),
        // A process that has ended has none.
        switches: ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"]
            .into_iter()
            .map(|key| status.number::<u64>(key).unwrap_or(0))
            .sum(),
    })
}

/// CPU times of a `stat` file (proc_pid_stat(5)): the process's own and its children's, in the kernel's
/// user-visible ticks, which are hundredths of a second on every architecture.
fn cpu_of(stat: &str) -> Option<Duration> {
    let (_, tail) = stat.rsplit_once(')')?;
    let times = tail.split_ascii_whitespace().skip(11).take(4).map(str::parse::<u64>);
    let ticks = times.sum::<Result<u64, _>>().ok()?;
    Some(Duration::from_millis(ticks.saturating_mul(10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, parent: u32, pids: &str) -> Status {
        let text = format!(
            "Name:\tx\nUmask:\t0022\nState:\t{state}\nPPid:\t{parent}\nNSpid:\t{pids}\nThreads:\t2\n\
             voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n"
        );
        Status::from(text)
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
        assert_eq!(parse(&Status::default()), None);
    }

    #[test]
    fn times_are_those_of_a_process_and_its_children() {
        let stat = "5 (a) b) S 1 5 5 0 -1 0 9 9 9 9 3 4 5 6 20 0 1 0 100";
        assert_eq!(cpu_of(stat), Some(Duration::from_millis(180)));
        assert_eq!(cpu_of("5 (a) S 1"), Some(Duration::ZERO));
    }
}
