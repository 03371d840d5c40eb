//! Files of `/proc` that describe a machine, written for a node: `loadavg`, `meminfo`, `stat`, `uptime`.
//!
//! Pure: texts that the kernel gives for a node's groups ([`Groups`]) and processes ([`Tasks`]) go in, and the texts of
//! the four files come out. What is counted for no node (interrupts, context switches) is 0; lines of `meminfo` about the
//! machine itself stay. Times are in ticks of [`HZ`] a second, as everywhere in `/proc`. See proc(5), cpuacct.rst,
//! memory.rst (v1), cgroup-v2.rst.

#![forbid(unsafe_code)]

mod groups;
mod meminfo;
mod stat;
mod tasks;

use std::time::Duration;

pub use groups::{Groups, Memory};
pub use meminfo::meminfo;
pub use stat::{Moment, stat};
pub use tasks::Tasks;

/// Ticks a second (`USER_HZ`; the same on all architectures that Linux still supports but alpha).
pub const HZ: u64 = 100;

/// CPU time in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
}

impl Ticks {
    /// Both parts, or what was known of each before, if that is more: these figures never fall.
    #[must_use]
    pub fn at_least(self, before: Ticks) -> Ticks {
        Ticks { user: self.user.max(before.user), system: self.system.max(before.system) }
    }

    fn sum(self) -> u64 {
        self.user.saturating_add(self.system)
    }
}

fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / 10).unwrap_or(u64::MAX)
}

/// What of the time since `age` ago all `cpus` together were idle.
fn idle(age: Duration, cpus: u32, used: Ticks) -> u64 {
    ticks(age).saturating_mul(u64::from(cpus)).saturating_sub(used.sum())
}

/// The text of `uptime` for a node of this age.
///
/// ```
/// use netloom_procfs::{Ticks, uptime};
/// use std::time::Duration;
///
/// let used = Ticks { user: 100, system: 50 };
/// assert_eq!(uptime(Duration::from_millis(12_345), 2, used), "12.34 23.18\n");
/// ```
pub fn uptime(age: Duration, cpus: u32, used: Ticks) -> String {
    let [age, idle] = [ticks(age), idle(age, cpus, used)];
    format!("{}.{:02} {}.{:02}\n", age / HZ, age % HZ, idle / HZ, idle % HZ)
}

/// The text of `loadavg`. `last` is the id given to a process last.
pub fn loadavg(loads: [f64; 3], tasks: &Tasks, last: u32) -> String {
    let [one, five, fifteen] = loads;
    let (running, threads) = (tasks.running, tasks.threads);
    format!("{one:.2} {five:.2} {fifteen:.2} {running}/{threads} {last}\n")
}

/// The last process id in a text of `loadavg`.
pub fn last_pid(loadavg: &str) -> Option<u32> {
    loadavg.split_ascii_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loadavg_has_the_five_fields_of_the_kernels() {
        let tasks = Tasks { running: 2, threads: 17, ..Tasks::default() };
        let text = loadavg([0.5, 1.006, 12.0], &tasks, 4711);
        assert_eq!(text, "0.50 1.01 12.00 2/17 4711\n");
        assert_eq!(last_pid(&text), Some(4711));
        assert_eq!(last_pid("0.00 0.00 0.00 1/2\n"), None);
    }

    #[test]
    fn idle_time_is_what_is_left_and_never_below_nothing() {
        let used = Ticks { user: 400, system: 0 };
        assert_eq!(uptime(Duration::from_secs(3), 1, used), "3.00 0.00\n");
        assert_eq!(uptime(Duration::ZERO, 64, Ticks::default()), "0.00 0.00\n");
    }

    #[test]
    fn figures_that_must_not_fall_do_not() {
        let before = Ticks { user: 5, system: 9 };
        let now = Ticks { user: 7, system: 3 };
        assert_eq!(now.at_least(before), Ticks { user: 7, system: 9 });
    }
}
