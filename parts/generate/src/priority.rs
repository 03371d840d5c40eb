//! Gives a pacing sender priority over other processes on its CPU while it sends.
//!
//! By niceness, not by a real-time policy: a sender never sleeps between frames, and the kernel stops a
//! real-time thread that never sleeps for 5 % of each second at a stretch (`sched_rt_runtime_us`). That costs
//! more frames than anything else. Other processes on the CPU keep their small share, so none starves; where they
//! use it, the sender [insists](crate::insist). The old niceness is restored.

use rustix::process::{getpriority_process, setpriority_process};

/// The niceness above all other threads that are not real-time.
const MOST: i32 = -20;

/// Raises the calling thread's priority while it lives, if permitted. The same thread must drop it.
#[derive(Debug)]
pub(crate) struct Priority {
    before: Option<i32>,
}

impl Priority {
    pub(crate) fn new() -> Priority {
        // On Linux, `None` (number 0) means the calling thread only.
        let before = getpriority_process(None).ok();
        let raised = before.is_some() && setpriority_process(None, MOST).is_ok();
        Priority { before: before.filter(|_| raised) }
    }

    /// Whether raising was permitted.
    pub(crate) fn is_raised(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = setpriority_process(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_is_put_back() {
        let before = getpriority_process(None).unwrap();
        let eager = Priority::new();
        let within = getpriority_process(None).unwrap();
        assert_eq!(within, if eager.is_raised() { MOST } else { before });
        drop(eager);
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
