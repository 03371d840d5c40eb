//! Gives a pacing sender priority over other processes on its CPU while it sends.
//!
//! By niceness, not by a real-time policy: a sender never sleeps between frames, and the kernel stops a
//! real-time thread that never sleeps for 5 % of each second at a stretch (`sched_rt_runtime_us`). That costs
//! more frames than anything else. Other processes on the CPU keep their small share, so none starves; where they
//! use it, the sender [insists](crate::insist). The old niceness is restored.
//!
//! A sender that is preferred uses one half of the CPUs only. All use the same half, so however many send, the other half is
//! left to the labs, and to users that want to stop a sender. A user's binding of the sender to one CPU stays.

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The niceness above all other threads that are not real-time.
const MOST: i32 = -20;

/// Raises the calling thread's priority while it lives, if permitted. The same thread must drop it.
#[derive(Debug)]
pub(crate) struct Priority {
    before: Option<i32>,
    /// The CPUs that it was allowed before.
    cpus: Option<CpuSet>,
}

impl Priority {
    pub(crate) fn new() -> Priority {
        // On Linux, `None` (number 0) means the calling thread only.
        let before = getpriority_process(None).ok();
        let raised = before.is_some() && setpriority_process(None, MOST).is_ok();
        Priority { before: before.filter(|_| raised), cpus: raised.then(confine).flatten() }
    }

    /// Whether raising was permitted.
    pub(crate) fn is_raised(&self) -> bool {
        self.before.is_some()
    }
}

/// Confines the calling thread to the senders' CPUs; returns those that it had.
fn confine() -> Option<CpuSet> {
    let before = sched_getaffinity(None).ok()?;
    let half = half(&before)?;
    sched_setaffinity(None, &half).is_ok().then_some(before)
}

/// The upper half of these CPUs, rounded down; `None` of a single one.
fn half(cpus: &CpuSet) -> Option<CpuSet> {
    let count = cpus.count() / 2;
    let mut upper = CpuSet::new();
    let set = (0..CpuSet::MAX_CPU).rev().filter(|cpu| cpus.is_set(*cpu));
    set.take(usize::try_from(count).ok()?).for_each(|cpu| upper.set(cpu));
    (count > 0).then_some(upper)
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Giving priority up needs no permission (setpriority(2)).
            let _ = setpriority_process(None, before);
        }
        if let Some(cpus) = &self.cpus {
            let _ = sched_setaffinity(None, cpus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_is_put_back() {
        let (before, cpus) = (getpriority_process(None).unwrap(), sched_getaffinity(None).unwrap());
        let eager = Priority::new();
        let within = getpriority_process(None).unwrap();
        assert_eq!(within, if eager.is_raised() { MOST } else { before });
        let confined = if eager.is_raised() { half(&cpus) } else { None };
        assert_eq!(sched_getaffinity(None).unwrap(), confined.unwrap_or(cpus));
        drop(eager);
        assert_eq!(getpriority_process(None).unwrap(), before);
        assert_eq!(sched_getaffinity(None).unwrap(), cpus);
    }

    #[test]
    fn senders_leave_half_of_the_cpus_alone() {
        let of = |cpus: &[usize]| {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|cpu| set.set(*cpu));
            set
        };
        assert_eq!(half(&of(&[3])), None);
        assert_eq!(half(&of(&[0, 1])), Some(of(&[1])));
        assert_eq!(half(&of(&[0, 2, 5])), Some(of(&[5])));
        assert_eq!(half(&of(&[0, 1, 2, 3])), Some(of(&[2, 3])));
        assert_eq!(half(&CpuSet::new()), None);
    }
}
