//! What a router whose planes are apart loses while its control node is killed, made again and moved: numbered frames pass
//! through it, and those that do not arrive are counted.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::ground::Ground;
use super::way::Way;
use super::{ROUNDS, rounds};
use crate::driver::{Driver, output};
use crate::{Options, Report};

/// Frames a second.
const RATE: &str = "100kpps";
/// Seconds of a stream, and until something happens to the control node.
const TIME: f64 = 1.5;
const BEFORE: Duration = Duration::from_millis(400);

/// What happens to the control node, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Its init is killed, and with it all its programs.
    Killed,
    /// `netloom up` makes it again.
    Made,
    /// `netloom node move-control`.
    Moved,
}

impl Event {
    const ALL: [Event; 3] = [Event::Killed, Event::Made, Event::Moved];

    fn what(self) -> &'static str {
        match self {
            Event::Killed => "frames lost at 100 kpps while the control node is killed",
            Event::Made => "frames lost at 100 kpps while the control node is made again",
            Event::Moved => "frames lost at 100 kpps while the control node moves",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Event::Killed => "lost_killed_frames",
            Event::Made => "lost_restarted_frames",
            Event::Moved => "lost_moved_frames",
        }
    }

    fn happen(self, driver: &Driver) -> Result<()> {
        let lab = Way::Separate.lab();
        match self {
            Event::Killed => {
                let shown = driver.json(&["-l", lab, "node", "show", "r", "--json"])?;
                let pid = shown["pid"].as_u64().context("the control node has no process")?;
                output(Command::new("kill").args(["-KILL", &pid.to_string()])).map(drop)
            }
            Event::Made => driver.up(&driver.folder().join(lab).with_extension("yaml")).map(drop),
            Event::Moved => {
                output(driver.command().args(["-l", lab, "node", "move-control", "r"])).map(drop)
            }
        }
    }
}

/// Measures, and adds rows and values; a router that is not there, or fails, is told.
pub(super) fn run(
    options: Options,
    driver: &Driver,
    grounds: &BTreeMap<Way, Ground<'_>>,
    report: &mut Report,
) {
    let who = Way::Separate.title();
    let leave = |report: &mut Report, why: &str| {
        Event::ALL.iter().for_each(|event| report.left_out(event.what(), who, why));
    };
    let Some(ground) = grounds.get(&Way::Separate) else {
        return leave(report, "the router is not up");
    };
    let mut lost = BTreeMap::<Event, Vec<f64>>::new();
    let measured = rounds(options, ROUNDS, Duration::ZERO, |round| {
        progress!(
            "bench router: round {}, the control node is killed, made again, moved",
            round + 1
        );
        for event in Event::ALL {
            let frames = ground.lost(RATE, TIME, || {
                sleep(BEFORE);
                event.happen(driver)
            })?;
            lost.entry(event).or_default().push(frames);
        }
        Ok(())
    });
    if let Err(why) = measured {
        return leave(report, &format!("{why:#}"));
    }
    for (event, lost) in &lost {
        let note = format!("of 64-byte frames for {TIME} s; {}", Way::Separate.settings());
        report.measured(event.what(), who, "frames", lost, &note);
        report.of_all(event.name(), lost.iter().sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_that_is_not_there_is_told() {
        let (driver, mut report) =
            (Driver::new(&crate::Programs::nothing()).unwrap(), Report::default());
        run(Options::default(), &driver, &BTreeMap::new(), &mut report);
        assert_eq!(report.rows.len(), 3);
        assert!(report.rows.iter().all(|row| row.note.contains("not up")), "{report:?}");
    }
}
