//! Load averages: how many tasks wanted a CPU or a device, over one, five and fifteen minutes.
//!
//! Observations may come at any interval: each count is assumed to hold since the previous one. With
//! one every five seconds the figures are the kernel's (`kernel/sched/loadavg.c`), which uses
//! fixed-point numbers. Invariant: a load is never below 0 nor above the largest count given.

use std::time::Duration;

/// Load averages of one group of tasks.
///
/// ```
/// use netloom_stats::Load;
/// use std::time::Duration;
///
/// let mut load = Load::default();
/// load.observe(2, Duration::from_secs(60));
/// assert!((load.one - 2.0 * (1.0 - (-1.0f64).exp())).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Load {
    /// Over one minute.
    pub one: f64,
    /// Over five minutes.
    pub five: f64,
    /// Over fifteen minutes.
    pub fifteen: f64,
}

impl Load {
    /// The averages, that of the shortest time first.
    pub fn averages(&self) -> [f64; 3] {
        [self.one, self.five, self.fifteen]
    }

    /// Records that `tasks` ran or waited for a device (states `R` and `D`) during the time
    /// `elapsed` since the last observation: each average `a` over `T` becomes
    /// `a * exp(-elapsed / T) + tasks * (1 - exp(-elapsed / T))`.
    pub fn observe(&mut self, tasks: u32, elapsed: Duration) {
        let spans = [(&mut self.one, 60.0), (&mut self.five, 300.0), (&mut self.fifteen, 900.0)];
        for (average, span) in spans {
            let kept = (-elapsed.as_secs_f64() / span).exp();
            *average = *average * kept + f64::from(tasks) * (1.0 - kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_secs(5);

    /// One update of the kernel's, with the fixed-point numbers of its `loadavg.h`.
    fn kernel(load: u64, factor: u64, tasks: u64) -> u64 {
        let active = tasks << 11;
        let new = load * factor + active * (2048 - factor);
        (if active >= load { new + 2047 } else { new }) / 2048
    }

    #[test]
    fn it_follows_the_kernels_own_figures() {
        let mut load = Load::default();
        let mut fixed = [0u64; 3];
        for look in 0..600u32 {
            let tasks = if look < 300 { look % 7 } else { 1 };
            load.observe(tasks, LOOK);
            for (value, factor) in fixed.iter_mut().zip([1884, 2014, 2037]) {
                *value = kernel(*value, factor, u64::from(tasks));
            }
            let ours = [load.one, load.five, load.fifteen];
            for (own, theirs) in ours.into_iter().zip(fixed) {
                let theirs = u32::try_from(theirs).unwrap();
                // Its rounding: 1/2048 an update, decaying as slowly as the average, up to 181 updates.
                assert!((own - f64::from(theirs) / 2048.0).abs() < 0.09, "{own} {theirs} {look}");
            }
        }
    }

    #[test]
    fn a_steady_count_is_reached_and_forgotten() {
        let mut load = Load::default();
        load.observe(3, Duration::from_secs(36_000));
        assert!([load.one, load.five, load.fifteen].iter().all(|a| (a - 3.0).abs() < 1e-9));
        load.observe(0, Duration::from_secs(60));
        assert!((load.one - 3.0 / std::f64::consts::E).abs() < 1e-9);
        assert!(load.one < load.five && load.five < load.fifteen);
        let before = load;
        load.observe(100, Duration::ZERO);
        assert_eq!(load, before);
    }

    #[test]
    fn many_looks_are_as_one_when_the_count_holds() {
        let (mut often, mut once) = (Load::default(), Load::default());
        for _ in 0..100 {
            often.observe(4, Duration::from_millis(370));
        }
        once.observe(4, Duration::from_secs(37));
        assert!(
            (often.one - once.one).abs() < 1e-12 && (often.fifteen - once.fifteen).abs() < 1e-12
        );
    }
}
