//! `vm`: the card of a virtual machine as a port of the shared-memory switch, by vhost-user: alone, and between two
//! machines beside vde_switch and taps on a bridge.
//!
//! All machines are up at once, and idle except the pair that is measured. A way that cannot be measured is there with
//! the reason.

mod guest;
mod pair;
mod port;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::driver::{Driver, output};
use crate::report::side;
use crate::rounds::rounds;
use crate::{Options, Report};
use guest::Image;
use pair::{Pair, Way};
use port::Rates;

/// Gb/s between the guests.
type Streams = BTreeMap<Way, Vec<f64>>;

const WHAT: &str = "TCP between 2 guests";

pub(crate) fn run(options: Options, exe: &Path) -> Result<Report> {
    let driver = Driver::new(exe)?;
    let mut report = Report::new("vm");
    let mut rates = Rates::default();
    let time = Duration::from_secs(if options.quick { 15 } else { 60 });
    let one_round = |round: usize, rates: &mut Rates| {
        eprintln!("bench vm: round {}, the port alone", round + 1);
        rates.round(&driver)
    };
    rounds(time, &mut rates, one_round, Rates::figures)?;
    rates.rows(&mut report);
    rates.figures(&mut report);
    streams(options, &driver, &mut report)?;
    Ok(report)
}

/// Streams between guests, by each way that there is.
fn streams(options: Options, driver: &Driver, report: &mut Report) -> Result<()> {
    let (mut pairs, mut note) = (BTreeMap::new(), String::new());
    match guest::program(guest::QEMU).and_then(|_| Image::make(driver)) {
        Err(why) => {
            for way in Way::ALL {
                report.left_out(WHAT, way.title(), &format!("{why:#}"));
            }
        }
        Ok(image) => {
            note = format!("{}, TCG, Linux {}", qemu_version(), image.version);
            for way in Way::ALL {
                eprintln!("bench vm: two guests, {}", way.title());
                match Pair::up(driver, &image, way) {
                    Ok(pair) => drop(pairs.insert(way, pair)),
                    Err(why) => report.left_out(WHAT, way.title(), &format!("{why:#}")),
                }
            }
        }
    }
    let (mut streams, mut failed) = (Streams::new(), BTreeMap::new());
    if !pairs.is_empty() {
        let time = Duration::from_secs(if options.quick { 45 } else { 180 });
        let one_round = |round: usize, streams: &mut Streams| {
            eprintln!("bench vm: round {}, {} pairs of guests", round + 1, pairs.len());
            pairs.retain(|way, pair| match pair.stream() {
                Ok(rate) => {
                    streams.entry(*way).or_default().push(rate);
                    true
                }
                Err(why) => {
                    failed.insert(*way, format!("{why:#}"));
                    false
                }
            });
            Ok(())
        };
        rounds(time, &mut streams, one_round, figures)?;
    }
    for (way, why) in &failed {
        streams.remove(way);
        report.left_out(WHAT, way.title(), why);
    }
    for (way, all) in &streams {
        report.measured(WHAT, way.title(), "Gb/s", all, &note);
    }
    figures(&streams, report);
    Ok(())
}

fn qemu_version() -> String {
    let text = output(std::process::Command::new(guest::QEMU).arg("--version"));
    let text = text.unwrap_or_default();
    let number = text.split_whitespace().nth(3).unwrap_or("of an unknown version");
    format!("QEMU {number}")
}

fn figures(streams: &Streams, report: &mut Report) {
    let of = |way| streams.get(&way).map_or(&[][..], Vec::as_slice);
    let given = |way: Way| format!("{WHAT}, {}", way.title());
    let ours = given(Way::VhostUser);
    for (name, peer) in [("vhost_vs_vde", Way::Vde), ("vhost_vs_tap", Way::Tap)] {
        report.ratio(name, side(&ours, of(Way::VhostUser)), side(&given(peer), of(peer)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratios_are_of_our_switch_by_the_others() {
        let mut streams = Streams::new();
        streams.insert(Way::VhostUser, vec![3.0; 5]);
        streams.insert(Way::Vde, vec![0.5; 5]);
        let mut report = Report::default();
        figures(&streams, &mut report);
        assert!((report.ratios["vhost_vs_vde"].unwrap() - 6.0).abs() < 1e-9, "{report:?}");
        assert_eq!(report.ratios["vhost_vs_tap"], None);
    }
}
