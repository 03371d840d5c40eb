//! Cells of the flood experiment: each is a measurement, a victim and the behaviour of its neighbours.

use std::fmt;

/// One cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) measure: Measure,
    pub(super) victim: Victim,
    pub(super) others: Others,
}

/// The measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// TCP from the peer to the victim, unlimited.
    Unpaced,
    /// TCP at 1 Gb/s.
    Paced,
    /// Echoes by the victim at 10,000 datagrams per second.
    Echo,
    /// CPU that the victim spends on receiving when the flood is the only traffic.
    ReceiveCpu,
}

/// The victim's configuration; each has its own lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Victim {
    /// Default settings.
    Plain,
    /// Its receive work is charged to it and so can be read; not protected.
    Charged,
    /// Protected, with a budget that fits its traffic.
    Protected,
    /// Protected, with the budget for which its CPU is guaranteed.
    Tight,
}

/// The neighbours' behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Others {
    /// Nothing.
    Idle,
    /// This many use a core each and send nothing.
    Spin(usize),
    /// This many flood at full rate.
    Flood(usize, Sending),
}

/// How the flooders' packet sockets send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sending {
    /// Bypassing the sender's queueing discipline (`PACKET_QDISC_BYPASS`).
    Direct,
    /// Through it.
    Queue,
}

impl Victim {
    pub(super) const ALL: [Victim; 4] =
        [Victim::Plain, Victim::Charged, Victim::Protected, Victim::Tight];

    pub(super) fn lab(self) -> &'static str {
        match self {
            Victim::Plain => "bench-flood-plain",
            Victim::Charged => "bench-flood-charged",
            Victim::Protected => "bench-flood-protected",
            Victim::Tight => "bench-flood-tight",
        }
    }

    /// Its name in the rows.
    pub(super) fn title(self) -> &'static str {
        match self {
            Victim::Plain => "unprotected",
            other => other.settings(),
        }
    }

    /// Its settings in the lab file.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Victim::Plain => "",
            Victim::Charged => "charge-receive: true",
            Victim::Protected => "protect: {packets: 200k/s}",
            Victim::Tight => "protect: {packets: 50k/s}",
        }
    }
}

impl Sending {
    /// The word for `peer frames`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Sending::Direct => "direct",
            Sending::Queue => "queue",
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measure = match self.measure {
            Measure::Unpaced => "TCP",
            Measure::Paced => "TCP at 1 Gb/s",
            Measure::Echo => "echo p99",
            Measure::ReceiveCpu => "receive CPU",
        };
        match self.others {
            Others::Idle => write!(f, "{measure}, no flood"),
            Others::Spin(1) => write!(f, "{measure}, 1 spinner"),
            Others::Spin(n) => write!(f, "{measure}, {n} spinners"),
            Others::Flood(1, way) => write!(f, "{measure}, 1 flooder, {}", way.word()),
            Others::Flood(n, way) => write!(f, "{measure}, {n} flooders, {}", way.word()),
        }
    }
}

/// Constructor.
pub(super) fn cell(measure: Measure, victim: Victim, others: Others) -> Cell {
    Cell { measure, victim, others }
}

/// Cells of ratios with high variance: measured in every round.
pub(super) fn noisy() -> Vec<Cell> {
    let direct = |n| Others::Flood(n, Sending::Direct);
    let others = [Others::Idle, Others::Spin(1), direct(1), Others::Spin(2), direct(2)];
    let mut all: Vec<Cell> =
        others.map(|others| cell(Measure::Unpaced, Victim::Protected, others)).to_vec();
    all.push(cell(Measure::Unpaced, Victim::Plain, Others::Idle));
    all
}

/// The other cells that feed ratios and values.
pub(super) fn steady() -> Vec<Cell> {
    use Measure::{Echo, Paced, ReceiveCpu, Unpaced};
    use Victim::{Charged, Plain, Protected, Tight};
    let direct = |n| Others::Flood(n, Sending::Direct);
    let others = [Others::Spin(1), direct(1), Others::Spin(2), direct(2)];
    let mut all = others.map(|others| cell(Unpaced, Plain, others)).to_vec();
    all.extend([Others::Idle, direct(1), direct(2)].map(|others| cell(Paced, Protected, others)));
    all.extend([direct(1), direct(2)].map(|others| cell(ReceiveCpu, Tight, others)));
    all.extend([direct(1), direct(2)].map(|others| cell(ReceiveCpu, Charged, others)));
    all.extend([Others::Idle, direct(2)].map(|others| cell(Echo, Protected, others)));
    all.push(cell(Echo, Plain, direct(2)));
    all
}

/// Cells that are only shown as rows.
pub(super) fn rest() -> Vec<Cell> {
    use Measure::{Echo, Paced, ReceiveCpu, Unpaced};
    use Victim::{Charged, Plain, Protected, Tight};
    let mut all = vec![];
    let queue = |n| Others::Flood(n, Sending::Queue);
    for victim in [Protected, Plain] {
        for measure in [Unpaced, Paced, Echo] {
            all.extend([queue(1), queue(2)].map(|others| cell(measure, victim, others)));
        }
        all.push(cell(Echo, victim, Others::Flood(1, Sending::Direct)));
        all.extend([1, 2].map(|n| cell(Echo, victim, Others::Spin(n))));
    }
    all.push(cell(Echo, Plain, Others::Idle));
    let direct = [1, 2].map(|n| Others::Flood(n, Sending::Direct));
    all.extend([Others::Idle].into_iter().chain(direct).map(|o| cell(Paced, Plain, o)));
    for victim in [Tight, Charged] {
        all.push(cell(ReceiveCpu, victim, Others::Idle));
        all.push(cell(ReceiveCpu, victim, queue(1)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_measured_twice() {
        let mut all = noisy();
        all.extend(steady());
        all.extend(rest());
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn cells_are_told_apart_by_their_words() {
        let direct = Others::Flood(2, Sending::Direct);
        let shown = cell(Measure::Echo, Victim::Plain, direct).to_string();
        assert_eq!(shown, "echo p99, 2 flooders, direct");
        assert_eq!(
            cell(Measure::Paced, Victim::Plain, Others::Spin(1)).to_string(),
            "TCP at 1 Gb/s, 1 spinner"
        );
    }
}
