//! `vm`: the card of a virtual machine as a port of the shared-memory switch: alone, between two machines beside
//! vde_switch, taps on a bridge and Open vSwitch, and how soon a machine answers.
//!
//! All machines are up at once, and idle except the pair that is measured. A way that cannot be measured is there with
//! the reason.

mod beside;
mod boot;
pub(crate) mod guest;
pub(crate) mod image;
mod pair;
mod port;
mod tables;
mod way;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::capture::version;
use crate::driver::{Driver, output};
use crate::report::side;
use crate::rounds::rounds;
use crate::switch::source;
use crate::{Options, Programs, Report};
use image::Image;
use pair::Machines;
use port::Rates;
use way::Way;

/// Gb/s between the guests.
type Streams = BTreeMap<Way, Vec<f64>>;

const BOOT: &str = "from `up` to the first answer to ping";

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("vm");
    for (peer, found) in [("vde", crate::vde::version()), ("openvswitch", version("ovs-vswitchd"))]
    {
        report.peers.insert(peer.to_owned(), found);
    }
    let mut rates = Rates::default();
    let time = Duration::from_secs(if options.quick { 10 } else { 60 });
    let one_round = |round: usize, rates: &mut Rates| {
        progress!("bench vm: round {}, the port alone", round + 1);
        rates.round(&driver)
    };
    rounds(time, &mut rates, one_round, Rates::figures)?;
    rates.rows(&mut report);
    rates.figures(&mut report);
    boots(options, &driver, &mut report)?;
    streams(options, &driver, &mut report)?;
    Ok(report)
}

/// Boots of a machine, one after another.
fn boots(options: Options, driver: &Driver, report: &mut Report) -> Result<()> {
    let who = "netloom, User-mode Linux";
    if let Err(why) = image::program(guest::UML) {
        report.left_out(BOOT, who, &format!("{why:#}"));
        return Ok(());
    }
    let mut times = vec![];
    let one_round = |round: usize, times: &mut Vec<f64>| {
        progress!("bench vm: round {}, a machine boots", round + 1);
        times.push(boot::boot(driver)?);
        Ok(())
    };
    let time = Duration::from_secs(if options.quick { 8 } else { 40 });
    rounds(time, &mut times, one_round, |times, report| report.value("boot_s", times))?;
    let note = format!("{}; a node and the machine on a link", Way::UmlOwn.machine("", "", &uml()));
    report.measured(BOOT, who, "s", &times, &note);
    report.value("boot_s", &times);
    Ok(())
}

/// Streams between guests, by each way that there is, then the tables.
fn streams(options: Options, driver: &Driver, report: &mut Report) -> Result<()> {
    for (who, figure) in [("VDE (source)", 0.39), ("gvde (source)", 0.42)] {
        report.of_source("TCP between 2 guests, QEMU with KVM", who, "Gb/s", figure);
    }
    let image = match Image::make(driver) {
        Ok(image) => image,
        Err(why) => {
            let failed = Way::ALL.map(|way| (way, format!("{why:#}")));
            ratios(&Streams::new(), &failed.into(), |_| String::new(), report);
            return Ok(());
        }
    };
    let kernel = image.kernel.as_ref().map(|found| found.1.clone()).unwrap_or_default();
    let (qemu, uml) = (qemu_version(), uml());
    let note = |way: Way| way.machine(&qemu, &kernel, &uml);
    let (mut pairs, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for way in Way::ALL {
        progress!("bench vm: two guests, {}: {}", way.what(), way.title());
        match Machines::up(driver, &image, way, 2) {
            Ok(pair) => drop(pairs.insert(way, pair)),
            Err(why) => drop(failed.insert(way, format!("{why:#}"))),
        }
    }
    let streams = in_rounds(options, &mut pairs, &mut failed)?;
    ratios(&streams, &failed, note, report);
    let mut dropped = None;
    if options.quick {
        // What no figure is of is for the full run.
        for (way, pair) in pairs.iter_mut().filter(|(way, _)| way.is_own()) {
            let found = tables::rows(pair, *way, &[2], true, &note(*way), report)?;
            dropped = found.map(|now| now + dropped.unwrap_or(0)).or(dropped);
        }
    } else {
        drop(pairs);
        for way in Way::ALL {
            // Not all of them have one.
            let _ = driver.down(&format!("vm-{}", way.name()));
        }
        dropped = tables::all(driver, &image, note, report)?;
        beside::rows(driver, &image, note, report);
        source::rows(report);
    }
    if let Some(dropped) = dropped {
        #[expect(clippy::cast_precision_loss, reason = "a count far below 2^53")]
        report.of_all("switch_dropped", dropped as f64);
    }
    Ok(())
}

/// Streams of all pairs, in turn; a pair that fails is out of all rounds.
fn in_rounds(
    options: Options,
    pairs: &mut BTreeMap<Way, Machines<'_>>,
    failed: &mut BTreeMap<Way, String>,
) -> Result<Streams> {
    let mut streams = Streams::new();
    if !pairs.is_empty() {
        let time = Duration::from_secs(if options.quick { 15 } else { 240 });
        let one_round = |round: usize, streams: &mut Streams| {
            progress!("bench vm: round {}, {} pairs of guests", round + 1, pairs.len());
            pairs.retain(|way, pair| match pair.streams(2) {
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
    // With a failed round, the others' rounds are not paired with its.
    streams.retain(|way, _| !failed.contains_key(way));
    Ok(streams)
}

/// Rows and ratios of streams between two guests.
fn ratios(
    streams: &Streams,
    failed: &BTreeMap<Way, String>,
    note: impl Fn(Way) -> String,
    report: &mut Report,
) {
    for (way, all) in streams {
        report.measured(&way.what(), way.title(), "Gb/s", all, &note(*way));
    }
    for (way, why) in failed {
        report.left_out(&way.what(), way.title(), why);
    }
    figures(streams, report);
}

pub(crate) fn qemu_version() -> String {
    let text = output(Command::new(guest::QEMU).arg("--version")).unwrap_or_default();
    let number = text.split_whitespace().nth(3).unwrap_or("of an unknown version");
    format!("QEMU {number}")
}

pub(crate) fn uml() -> String {
    let text = output(Command::new(guest::UML).arg("--version")).unwrap_or_default();
    text.trim().to_owned()
}

fn figures(streams: &Streams, report: &mut Report) {
    let of = |way| streams.get(&way).map_or(&[][..], Vec::as_slice);
    let given = |way: Way| format!("{}, {}", way.what(), way.title());
    for (name, own, peer) in [
        ("vhost_vs_vde", Way::VhostUser, Way::Vde),
        ("vhost_vs_tap", Way::VhostUser, Way::Tap),
        ("vhost_vs_ovs", Way::VhostUser, Way::Vswitch),
        ("plugin_vs_vde", Way::Plugin, Way::Vde),
        ("uml_vs_vde", Way::UmlOwn, Way::UmlVde),
    ] {
        report.ratio(name, side(&given(own), of(own)), side(&given(peer), of(peer)));
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
        streams.insert(Way::UmlOwn, vec![1.0; 5]);
        streams.insert(Way::UmlVde, vec![0.5; 5]);
        let mut report = Report::default();
        figures(&streams, &mut report);
        assert!((report.ratios["vhost_vs_vde"].unwrap() - 6.0).abs() < 1e-9, "{report:?}");
        assert!((report.ratios["uml_vs_vde"].unwrap() - 2.0).abs() < 1e-9, "{report:?}");
        assert_eq!((report.ratios["vhost_vs_tap"], report.ratios["vhost_vs_ovs"]), (None, None));
    }
}
