//! How long tasks that could run waited for a processor.

/// Sums over the life of a task, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Time in ns that it could run and did not.
    pub wait_ns: u64,
    /// How often it got a processor.
    pub turns: u64,
}

impl Waits {
    /// Reads `/proc/PID/schedstat`: time on a processor and time waiting for one in ns, and the number of turns
    /// (Documentation/scheduler/sched-stats.rst). `None` if it is not in that form.
    pub fn parse(text: &str) -> Option<Waits> {
        let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (_, wait_ns, turns) =
            (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
        Some(Waits { wait_ns, turns })
    }

    /// Adds another task's.
    pub fn add(&mut self, other: Waits) {
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
        self.turns = self.turns.saturating_add(other.turns);
    }

    /// What came since an earlier reading; nothing where tasks ended meanwhile and the sum fell.
    #[must_use]
    pub fn since(self, earlier: Waits) -> Waits {
        match (self.wait_ns.checked_sub(earlier.wait_ns), self.turns.checked_sub(earlier.turns)) {
            (Some(wait_ns), Some(turns)) => Waits { wait_ns, turns },
            _ => Waits::default(),
        }
    }

    /// The mean wait before a turn, in ns; a wait of which no turn came of yet counts as one.
    pub fn mean_ns(self) -> u64 {
        self.wait_ns / self.turns.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read() {
        let waits = |wait_ns, turns| Waits { wait_ns, turns };
        assert_eq!(Waits::parse("2613457 7000 12\n"), Some(waits(7000, 12)));
        for wrong in ["", "1 2", "1 2 x", "-1 2 3", "1 99999999999999999999 3"] {
            assert_eq!(Waits::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn means_are_of_what_came_between() {
        let waits = |wait_ns, turns| Waits { wait_ns, turns };
        assert_eq!(waits(50, 9).since(waits(20, 4)), waits(30, 5));
        assert_eq!(waits(50, 9).since(waits(60, 4)), Waits::default());
        assert_eq!(waits(30, 5).mean_ns(), 6);
        assert_eq!(waits(30, 0).mean_ns(), 30);
        assert_eq!(Waits::default().mean_ns(), 0);
    }
}
