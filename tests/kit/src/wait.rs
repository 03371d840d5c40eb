//! Bounded waiting by observation.

use std::time::{Duration, Instant};

/// Pause between two observations.
const STEP: Duration = Duration::from_millis(5);

/// Polls until `cond` returns a value.
///
/// # Panics
/// `bound` has passed; the message contains `what` and the bound.
pub fn wait_until<T>(what: &str, bound: Duration, mut cond: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + bound;
    loop {
        if let Some(value) = cond() {
            return value;
        }
        assert!(Instant::now() < end, "waited {bound:?} in vain for: {what}");
        std::thread::sleep(STEP);
    }
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
