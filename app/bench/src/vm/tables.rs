//! The tables of guests in pairs: streams, datagrams both ways, processors and memory.
//!
//! A way's machines are up alone. Each datagram's flow has B/(2n) of a stream's rate B between n machines, as in the
//! source's tables. A second on few processors is short: rows give single rounds with their spread, and no ratio.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::image::Image;
use super::pair::{Datagrams, Machines, Spent};
use super::way::Way;
use crate::Report;
use crate::driver::Driver;
use crate::processes::percent;

/// Bytes of a frame with its preamble, check sum and gap, for a datagram that fills it.
const FRAME: f64 = 1500.0;
/// Rounds of each cell.
const ROUNDS: usize = 5;

/// Cells of one way and number of machines.
#[derive(Clone, Debug, Default)]
struct Cell {
    gbps: Vec<f64>,
    guests: Vec<f64>,
    switch: Vec<f64>,
    lost: Vec<f64>,
    dropped: Option<u64>,
    offered: Vec<f64>,
}

impl Cell {
    fn round(&mut self, machines: &mut Machines<'_>, count: usize) -> Result<()> {
        let (before, start) = (machines.spent()?, Instant::now());
        let gbps = machines.streams(count)?;
        self.spend(before, machines.spent()?, start.elapsed());
        self.gbps.push(gbps);
        let flows = f64::from(u32::try_from(count)?) * 2.0;
        let rate = gbps * 1e9 / flows / (FRAME * 8.0);
        let found = machines.datagrams(count, rate)?;
        self.offered.push(rate * 1e-3);
        self.lost.push(lost(&found));
        if let Some(dropped) = found.dropped {
            self.dropped = Some(self.dropped.unwrap_or(0) + dropped);
        }
        Ok(())
    }

    fn spend(&mut self, before: Spent, after: Spent, time: Duration) {
        self.guests.push(percent(after.guests.saturating_sub(before.guests), time));
        let switch = after.switch.zip(before.switch);
        self.switch.extend(switch.map(|(now, then)| percent(now.saturating_sub(then), time)));
    }

    fn rows(&self, report: &mut Report, way: Way, count: usize, note: &str) {
        let guests = format!("{count} guests, {}", way.guests());
        let mut row = |what: &str, unit: &str, figures: &[f64]| {
            report.measured(&format!("{what} {guests}"), way.title(), unit, figures, note);
        };
        row("table: TCP between", "Gb/s", &self.gbps);
        row("table: processors of", "% of one", &self.guests);
        row("table: processors of the switch of", "% of one", &self.switch);
        row("table: datagrams each way, each of", "k/s", &self.offered);
        row("table: datagrams lost between", "%", &self.lost);
    }
}

fn lost(found: &Datagrams) -> f64 {
    100.0 * (found.sent - found.came).max(0.0) / found.sent.max(1.0)
}

/// Fills in the rows of one way whose machines are up; returns what our switch's ports dropped.
pub(super) fn rows(
    machines: &mut Machines<'_>,
    way: Way,
    counts: &[usize],
    quick: bool,
    note: &str,
    report: &mut Report,
) -> Result<Option<u64>> {
    let mut dropped = None;
    for count in counts {
        let mut cell = Cell::default();
        for _ in 0..if quick { 1 } else { ROUNDS } {
            cell.round(machines, *count)?;
        }
        cell.rows(report, way, *count, note);
        dropped = cell.dropped.map(|now| now + dropped.unwrap_or(0)).or(dropped);
    }
    if let Some(bytes) = machines.memory()? {
        let what = format!("memory of the switch's side, a guest, {}", way.guests());
        report.measured(&what, way.title(), "MiB", &[bytes / 1_048_576.0], note);
    }
    Ok(dropped)
}

/// All ways, one after another, with up to eight machines.
pub(super) fn all(
    driver: &Driver,
    image: &Image,
    note: impl Fn(Way) -> String,
    report: &mut Report,
) -> Result<Option<u64>> {
    const COUNTS: [usize; 4] = [2, 4, 6, 8];
    let mut dropped = None;
    for way in Way::ALL {
        progress!("bench vm: up to 8 guests, {}, {}", way.guests(), way.title());
        let found = Machines::up(driver, image, way, 8)
            .and_then(|mut machines| rows(&mut machines, way, &COUNTS, false, &note(way), report));
        if way.is_uml() || way.is_own() || matches!(way, Way::Tap | Way::Vswitch) {
            // The next way's machines are alone; a lab that failed to come up is not there.
            let _ = driver.down(&format!("vm-{}", way.name()));
        }
        match found {
            Ok(found) => dropped = found.map(|now| now + dropped.unwrap_or(0)).or(dropped),
            Err(why) => {
                let what = format!("table: 2 to 8 guests, {}", way.guests());
                report.left_out(&what, way.title(), &format!("{why:#}"));
            }
        }
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_come_is_lost() {
        let some = Datagrams { sent: 200.0, came: 150.0, dropped: None };
        assert!((lost(&some) - 25.0).abs() < 1e-9);
        assert!(lost(&Datagrams { sent: 1.0, came: 2.0, dropped: None }).abs() < 1e-9);
    }

    #[test]
    fn time_of_processors_is_by_wall_time() {
        let mut cell = Cell::default();
        let (before, after) =
            (Spent { guests: 0, switch: None }, Spent { guests: 1_000_000_000, switch: None });
        cell.spend(before, after, Duration::from_secs(2));
        assert!((cell.guests[0] - 50.0).abs() < 1e-9 && cell.switch.is_empty());
    }
}
