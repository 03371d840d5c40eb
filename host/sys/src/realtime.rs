//! Real-time priority of the calling thread, and how often others took its CPU.
//!
//! See sched(7). A thread that never sleeps must not have this priority: the kernel stops it for up to 50 ms of each
//! second, and until then nothing else runs on its CPU.

use std::io;
use std::mem::MaybeUninit;

use crate::{Failure, Result};

/// The lowest real-time priority: above every ordinary thread, below everything that others made real-time.
const LOWEST: libc::c_int = 1;

/// The calling thread has policy SCHED_FIFO until this is dropped, which the same thread must do.
#[derive(Debug)]
pub struct RealTime {
    policy: libc::c_int,
    priority: libc::c_int,
}

impl RealTime {
    /// Takes the policy, if that is permitted.
    ///
    /// # Errors
    /// The kernel's refusal: no CAP_SYS_NICE, or a control group without real-time runtime.
    pub fn take() -> Result<RealTime> {
        let mut before = libc::sched_param { sched_priority: 0 };
        // SAFETY: takes the calling thread's number as 0 and returns a number.
        let policy = unsafe { libc::sched_getscheduler(0) };
        // SAFETY: writes one structure that this function owns.
        let read = unsafe { libc::sched_getparam(0, &mut before) };
        if policy < 0 || read < 0 {
            return Err(
                Failure::new("scheduling policy", "read", io::Error::last_os_error()).into()
            );
        }
        set(libc::SCHED_FIFO, LOWEST)?;
        Ok(RealTime { policy, priority: before.sched_priority })
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // To less privilege: the kernel does not refuse it.
        let _ = set(self.policy, self.priority);
    }
}

fn set(policy: libc::c_int, priority: libc::c_int) -> Result<()> {
    let wanted = libc::sched_param { sched_priority: priority };
    // SAFETY: reads one structure that this function owns; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &wanted) } {
        0 => Ok(()),
        _ => Err(Failure::new("scheduling policy", "set", io::Error::last_os_error()).into()),
    }
}

/// How often the calling thread lost its CPU to another one without waiting for anything.
pub fn preemptions() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: writes one structure that this function owns.
    let _ = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all-zero is a valid one, if the call failed.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_nivcsw).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_is_put_back() {
        // SAFETY: as in `take`.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        match RealTime::take() {
            Ok(real) => {
                assert_eq!(policy(), libc::SCHED_FIFO);
                drop(real);
            }
            Err(error) => assert!(error.to_string().contains("scheduling policy"), "{error}"),
        }
        assert_eq!(policy(), before);
        assert!(preemptions() <= preemptions());
    }
}
