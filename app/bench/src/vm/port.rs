//! The port alone: its front end is a process, without a guest.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::Report;
use crate::driver::Driver;
use crate::running::{Running, number};

/// Seconds of a round.
const TIME: &str = "0.5";
/// Frame sizes in bytes.
const BYTES: [u32; 2] = [1500, 60];
const WAYS: [&str; 2] = ["to", "from"];

/// Frames a second, by size and direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates(BTreeMap<(u32, &'static str), Vec<f64>>);

impl Rates {
    /// Measures each once more.
    pub(super) fn round(&mut self, driver: &Driver) -> Result<()> {
        for bytes in BYTES {
            for way in WAYS {
                let mut command = driver.peer_command();
                command.args(["vhost-port", way, &bytes.to_string(), TIME]);
                let printed = Running::start(&mut command, "vhost-port")?.result()?;
                let rate = number(&printed, "frames_per_s")?;
                self.0.entry((bytes, way)).or_default().push(rate);
            }
        }
        Ok(())
    }

    fn of(&self, bytes: u32, way: &'static str, scale: f64) -> Vec<f64> {
        let found = self.0.get(&(bytes, way));
        found.into_iter().flatten().map(|rate| rate * scale).collect()
    }

    /// The slower direction of each round.
    fn slower(&self, bytes: u32, scale: f64) -> Vec<f64> {
        let [to, from] = WAYS.map(|way| self.of(bytes, way, scale));
        to.into_iter().zip(from).map(|(to, from)| to.min(from)).collect()
    }

    pub(super) fn rows(&self, report: &mut Report) {
        for bytes in BYTES {
            for way in WAYS {
                let what = format!("port alone, {way} the guest, {bytes} bytes");
                let note = "front end in a process, no guest; both sides poll, a core each";
                let rates = self.of(bytes, way, 1e-6);
                report.measured(&what, "netloom, vhost-user", "M/s", &rates, note);
                let rates = self.of(bytes, way, gigabits(bytes));
                report.measured(&what, "netloom, vhost-user", "Gb/s", &rates, note);
            }
        }
    }

    pub(super) fn figures(&self, report: &mut Report) {
        report.value("port_gbps", &self.slower(1500, gigabits(1500)));
        report.value("port_mpps", &self.slower(60, 1e-6));
    }
}

/// Gb/s of a frame a second.
fn gigabits(bytes: u32) -> f64 {
    f64::from(bytes) * 8e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_the_slower_direction() {
        let mut rates = Rates::default();
        for (bytes, way, rate) in
            [(1500, "to", 2e6), (1500, "from", 1e6), (60, "to", 6e6), (60, "from", 7e6)]
        {
            rates.0.insert((bytes, way), vec![rate; 5]);
        }
        let mut report = Report::default();
        rates.figures(&mut report);
        assert!((report.values["port_gbps"] - 12.0).abs() < 1e-9, "{report:?}");
        assert!((report.values["port_mpps"] - 6.0).abs() < 1e-9, "{report:?}");
    }
}
