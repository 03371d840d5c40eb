//! CPU time of the whole machine, in ticks (proc_stat(5)).

use anyhow::{Context, Result};

/// Busy ones, and all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    busy: u64,
    all: u64,
    cpus: u64,
}

impl Ticks {
    pub(crate) fn now() -> Result<Ticks> {
        let text = std::fs::read_to_string("/proc/stat").context("read the machine's CPU time")?;
        Ticks::of(&text).context("/proc/stat: no CPU times")
    }

    fn of(text: &str) -> Option<Ticks> {
        let first = text.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is among user time.
        let fields: Option<Vec<u64>> =
            first.split_whitespace().take(8).map(|field| field.parse().ok()).collect();
        let fields = fields.filter(|fields| fields.len() == 8)?;
        let all: u64 = fields.iter().sum();
        let cpus = text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        Some(Ticks { busy: all - fields[3] - fields[4], all, cpus: cpus as u64 })
    }

    /// CPUs in use since then.
    #[expect(clippy::cast_precision_loss, reason = "seconds in ticks are below 2^53")]
    pub(crate) fn busy_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.cpus as f64 * self.busy.saturating_sub(before.busy) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_cpus_are_counted_from_ticks() {
        let text = |busy: u64, idle: u64| {
            format!("cpu  {busy} 0 0 {idle} 0 0 0 0 5 0\ncpu0 1 2\ncpu1 3 4\nintr 7\n")
        };
        let of = |busy, idle| Ticks::of(&text(busy, idle)).unwrap();
        assert!((of(150, 50).busy_since(of(0, 0)) - 1.5).abs() < 1e-9);
        assert!((of(250, 50).busy_since(of(150, 50)) - 2.0).abs() < 1e-9);
        assert!(Ticks::of("cpu  1 2\n").is_none() && Ticks::of("").is_none());
    }
}
