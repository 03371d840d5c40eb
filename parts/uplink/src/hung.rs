//! A program that passes nothing any more and uses its CPU all the same is in an endless loop.
//!
//! One that has much to do moves frames, and one that has nothing to do sleeps. The pasta of Debian 12 does neither after
//! it has read the repeated request for a connection together with the first one.
//!
//! Specification: proc_pid_status(5), sched-stats.rst.

use std::time::Duration;

use netloom_sys::process::{self, Status};

/// The CPU time that a program may use without any of the other signs.
const LIMIT: Duration = Duration::from_secs(1);

/// Watches one process.
#[derive(Debug)]
pub(crate) struct Watch {
    pid: i32,
    since: Option<Sign>,
}

/// The observations of it.
#[derive(Clone, Copy, Debug)]
struct Sign {
    /// Frames of its tap.
    frames: u64,
    /// How often it slept.
    slept: u64,
    /// CPU time used, in nanoseconds.
    used: u64,
}

impl Watch {
    /// Watches a process by its id in this PID namespace.
    pub(crate) fn over(pid: i32) -> Watch {
        Watch { pid, since: None }
    }

    /// Whether it hangs, given how many frames have passed its tap. `false` where nothing is known of it.
    pub(crate) fn hangs(&mut self, frames: u64) -> bool {
        let Some(now) = self.look(frames) else { return false };
        let since = *self.since.get_or_insert(now);
        if (since.frames, since.slept) != (now.frames, now.slept) {
            self.since = Some(now);
            return false;
        }
        Duration::from_nanos(now.used.saturating_sub(since.used)) >= LIMIT
    }

    fn look(&self, frames: u64) -> Option<Sign> {
        let slept = Status::of(self.pid)?.number("voluntary_ctxt_switches")?;
        Some(Sign { frames, slept, used: process::cpu_time(self.pid)? })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// Ends it with the test.
    struct Running(Child);

    impl Running {
        fn new(script: &str) -> (Running, Watch) {
            let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let watch = Watch::over(i32::try_from(child.id()).unwrap());
            (Running(child), watch)
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// CPU time that `watch`'s process uses until `done`; the last sign.
    fn until(watch: &mut Watch, mut done: impl FnMut(&mut Watch, Duration) -> bool) -> Duration {
        let begin = process::cpu_time(watch.pid).unwrap();
        loop {
            let used = process::cpu_time(watch.pid).unwrap() - begin;
            let used = Duration::from_nanos(used);
            if done(watch, used) {
                return used;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_endless_loop_is_found_and_one_that_moves_frames_is_none() {
        let (_running, mut watch) = Running::new("while :; do :; done");
        let mut frames = 0;
        until(&mut watch, |watch, used| {
            frames += 1;
            assert!(!watch.hangs(frames), "it moves frames");
            used > LIMIT * 3 / 2
        });
        let used = until(&mut watch, |watch, _| watch.hangs(frames));
        assert!(used > LIMIT / 2, "{used:?}");
    }

    #[test]
    fn who_sleeps_or_is_gone_does_not_hang() {
        let (mut running, mut watch) = Running::new("while :; do read line; done </dev/zero");
        drop(running.0.kill());
        drop(running.0.wait());
        assert!(!watch.hangs(0));
        let (_running, mut watch) = Running::new("exec sleep 1000");
        assert!(!watch.hangs(0) && !watch.hangs(0));
    }
}
