//! Bounded waiting by observation.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Shortest and longest pause between two observations.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// Polls until `cond` returns a value. An observation is followed by a pause twice as long: what is waited for, and other
/// tests, have most of the processor, also where an observation starts programs.
///
/// # Panics
/// `bound` has passed; the message contains `what` and the bound.
pub fn wait_until<T>(what: &str, bound: Duration, mut cond: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + bound;
    loop {
        let begin = Instant::now();
        if let Some(value) = cond() {
            return value;
        }
        assert!(Instant::now() < end, "waited {bound:?} in vain for: {what}");
        std::thread::sleep((begin.elapsed() * 2).clamp(PAUSE.0, PAUSE.1));
    }
}

/// Waits until a child has ended; it can still be reaped. `false`: it runs on. Nothing is polled: a run of a program would
/// be looked at a thousand times a second, beside all other tests.
///
/// # Panics
/// The child was reaped already.
pub(crate) fn ends_within(child: &Child, bound: Duration) -> bool {
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("open a child");
    let bound = Timespec::try_from(bound).expect("a bound that a clock has");
    let ended = || poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&bound));
    rustix::io::retry_on_intr(ended).expect("wait for a child") > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_value_as_soon_as_it_is_there() {
        let mut left = 3;
        let got = wait_until("three looks", Duration::from_secs(30), || {
            left -= 1;
            (left == 0).then_some(7)
        });
        assert_eq!(got, 7);
    }

    #[test]
    #[should_panic(expected = "in vain for: the impossible")]
    fn says_what_never_came() {
        wait_until("the impossible", Duration::from_millis(20), || None::<()>);
    }
}
