//! Prometheus's text format: labels with any text in them, and samples by family.

use std::fmt::{Display, Write as _};

use netloom_config::printable;
use serde::{Deserialize, Serialize};

use super::{FAMILIES, Kind, Metric};

/// Labels of a series, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Labels(String);

impl Labels {
    /// These and one more. Control characters in its value are shown, as on a terminal.
    pub(super) fn with(&self, name: &str, value: &str) -> Labels {
        let mut text = String::with_capacity(self.0.len() + name.len() + value.len() + 4);
        text.push_str(&self.0);
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for letter in printable::line(value).chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                letter => text.push(letter),
            }
        }
        text.push('"');
        Labels(text)
    }

    /// These and others.
    pub(super) fn and(&self, more: &Labels) -> Labels {
        match more.0.is_empty() {
            true => self.clone(),
            false => Labels(format!("{},{}", self.0, more.0)),
        }
    }
}

impl std::fmt::Display for Labels {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

/// The samples of an exposition, by family.
#[derive(Debug)]
pub(super) struct Sheet(Vec<String>);

impl Default for Sheet {
    fn default() -> Sheet {
        Sheet(vec![String::new(); FAMILIES.len()])
    }
}

impl Sheet {
    /// A value of now.
    pub(super) fn gauge(&mut self, metric: Metric, labels: &Labels, value: u64) {
        self.sample(metric, labels, value);
    }

    /// A value of now in thousandths.
    pub(super) fn thousandths(&mut self, metric: Metric, labels: &Labels, value: u64) {
        self.sample(metric, labels, format_args!("{}.{:03}", value / 1000, value % 1000));
    }

    /// A counter in its family's unit.
    pub(super) fn total(&mut self, metric: Metric, labels: &Labels, value: u64) {
        match metric.family().kind {
            Kind::Seconds => {
                let (seconds, rest) = (value / 1_000_000_000, value % 1_000_000_000);
                self.sample(metric, labels, format_args!("{seconds}.{rest:09}"));
            }
            Kind::Counter | Kind::Gauge => self.sample(metric, labels, value),
        }
    }

    fn sample(&mut self, metric: Metric, labels: &Labels, value: impl Display) {
        // Writing to memory cannot fail.
        let _ =
            writeln!(self.0[metric as usize], "{}{{{}}} {value}", metric.family().name, labels.0);
    }

    /// All of it. Families without samples are left out.
    pub(super) fn text(self) -> String {
        let mut all = String::with_capacity(self.0.iter().map(|text| text.len() + 256).sum());
        for (family, samples) in FAMILIES.iter().zip(self.0).filter(|(_, text)| !text.is_empty()) {
            let (name, help, kind) = (family.name, family.help, family.kind.word());
            let _ = writeln!(all, "# HELP {name} {help}\n# TYPE {name} {kind}");
            all.push_str(&samples);
        }
        all
    }
}
