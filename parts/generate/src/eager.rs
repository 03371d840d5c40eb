//! A sender that paces frames runs before others on its processor, for as long as it does.
//!
//! By its niceness, not by a real-time policy: a sender never sleeps between frames, and a real-time
//! thread that never sleeps is stopped by the kernel for a twentieth of each second, at a stretch
//! (`sched_rt_runtime_us`), which costs more frames than all else. Others on the processor keep their small
//! share, so nothing starves. What was before is put back.

use rustix::process::{getpriority_process, setpriority_process};

/// The niceness of who goes before all others that are not real-time.
const MOST: i32 = -20;

/// As long as it lives the calling thread, which must drop it, is preferred, where that is permitted.
#[derive(Debug)]
pub(crate) struct Eager {
    before: Option<i32>,
}

impl Eager {
    pub(crate) fn new() -> Eager {
        // On Linux `None`, number 0, is the calling thread alone.
        let before = getpriority_process(None).ok();
        let raised = before.is_some() && setpriority_process(None, MOST).is_ok();
        Eager { before: before.filter(|_| raised) }
    }

    /// Whether that was permitted.
    pub(crate) fn is_raised(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for Eager {
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
        let eager = Eager::new();
        let within = getpriority_process(None).unwrap();
        assert_eq!(within, if eager.is_raised() { MOST } else { before });
        drop(eager);
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
