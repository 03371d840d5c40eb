//! Link impairments, and their syntax.

/// The link without impairment.
pub(super) const PLAIN: &str = "plain";

/// An impairment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trait {
    /// None: the baseline path.
    Nothing,
    /// Milliseconds of delay in each direction.
    Delay(u32),
    /// Packets per thousand lost, from the first end to the second.
    Loss(u32),
    /// Mb/s, from the first end to the second.
    Rate(u32),
}

impl Trait {
    /// The name of its link.
    pub(super) fn link(self) -> String {
        match self {
            Trait::Nothing => PLAIN.to_owned(),
            Trait::Delay(ms) => format!("delay-{ms}ms"),
            Trait::Loss(_) => format!("loss-{}", self.value().trim_end_matches('%')),
            Trait::Rate(mbit) => format!("rate-{mbit}mbit"),
        }
    }

    /// Lab file syntax.
    pub(super) fn settings(self) -> String {
        match self {
            Trait::Nothing => String::new(),
            Trait::Delay(_) => format!("delay: {}", self.value()),
            Trait::Loss(_) => format!("loss: {}", self.value()),
            Trait::Rate(_) => format!("rate: {}", self.value()),
        }
    }

    /// tc-netem(8) syntax; `None` for no impairment.
    pub(super) fn netem(self) -> Option<Vec<String>> {
        let key = match self {
            Trait::Nothing => return None,
            Trait::Delay(_) => "delay",
            Trait::Loss(_) => "loss",
            Trait::Rate(_) => "rate",
        };
        // netem holds 1,000 packets by default, too few for throughput over a delay.
        Some(["netem", "limit", "100000", key, &self.value()].map(str::to_owned).into())
    }

    /// Whether it applies to both directions.
    pub(super) fn both_ways(self) -> bool {
        matches!(self, Trait::Nothing | Trait::Delay(_))
    }

    fn value(self) -> String {
        match self {
            Trait::Nothing => String::new(),
            Trait::Delay(ms) => format!("{ms}ms"),
            Trait::Loss(thousandths) => format!("{}%", f64::from(thousandths) / 10.0),
            Trait::Rate(mbit) => format!("{mbit}mbit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_lab_files_and_netem_take_them() {
        assert_eq!(Trait::Loss(1).settings(), "loss: 0.1%");
        assert_eq!(Trait::Loss(100).link(), "loss-10");
        assert_eq!(Trait::Delay(50).netem().unwrap()[3..], ["delay", "50ms"]);
        assert_eq!(Trait::Nothing.netem(), None);
    }
}
