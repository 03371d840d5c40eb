//! The text of `/proc/stat`.

use std::fmt::Write;
use std::time::Duration;

use crate::{Tasks, Ticks, idle};

/// A node at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Since when it lives.
    pub age: Duration,
    /// CPUs that it can keep busy.
    pub cpus: u32,
    /// CPU time that it has used.
    pub used: Ticks,
    /// When it began to live, in seconds since 1970.
    pub born: u64,
    /// Processes and threads that it has started.
    pub started: u32,
}

/// The text of `stat`. Which CPU a node's time was used on is not counted: each has an equal part.
pub fn stat(moment: &Moment, tasks: &Tasks) -> String {
    let Moment { age, cpus, used, born, started } = *moment;
    let mut text = String::new();
    let mut line = |name: &str, [user, system, idle]: [u64; 3]| {
        // A text in memory takes everything.
        // user, nice, system, idle, and six more that nobody counts for nodes (proc(5)).
        let _ = writeln!(text, "{name} {user} 0 {system} {idle} 0 0 0 0 0 0");
    };
    let all = [used.user, used.system, idle(age, cpus, used)];
    line("cpu ", all);
    for cpu in 0..cpus {
        line(&format!("cpu{cpu}"), all.map(|ticks| part(ticks, cpu, cpus)));
    }
    let Tasks { running, blocked, .. } = tasks;
    let softirqs = "softirq 0 0 0 0 0 0 0 0 0 0 0";
    let _ = writeln!(
        text,
        "intr 0\nctxt 0\nbtime {born}\nprocesses {started}\nprocs_running {running}\n\
         procs_blocked {blocked}\n{softirqs}"
    );
    text
}

/// The part of CPU number `cpu`, such that all are the whole.
fn part(ticks: u64, cpu: u32, cpus: u32) -> u64 {
    let cpus = u64::from(cpus.max(1));
    ticks / cpus + u64::from(u64::from(cpu) < ticks % cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_lines_of_the_kernels_and_parts_that_are_the_whole() {
        let moment = Moment {
            age: Duration::from_secs(10),
            cpus: 3,
            used: Ticks { user: 100, system: 50 },
            born: 1_795_842_435,
            started: 12,
        };
        let tasks = Tasks { running: 1, blocked: 2, ..Tasks::default() };
        assert_eq!(
            stat(&moment, &tasks),
            "cpu  100 0 50 2850 0 0 0 0 0 0\n\
             cpu0 34 0 17 950 0 0 0 0 0 0\n\
             cpu1 33 0 17 950 0 0 0 0 0 0\n\
             cpu2 33 0 16 950 0 0 0 0 0 0\n\
             intr 0\nctxt 0\nbtime 1795842435\nprocesses 12\nprocs_running 1\nprocs_blocked 2\n\
             softirq 0 0 0 0 0 0 0 0 0 0 0\n"
        );
    }
}
