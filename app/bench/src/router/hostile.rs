//! What a victim keeps while another virtual network on the same data plane is hostile, compared with one that merely uses its
//! processors: the kernel shares those out, and no data plane can change that.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use netloom_stats::{Summary, percentile};

use super::shared::{Hostile, Kept, Paced, Plane, Shared};
use super::{ROUNDS, rounds};
use crate::driver::Driver;
use crate::report::side;
use crate::vm::image::program;
use crate::{Options, Report};

/// The share of its capacity at which the victim sends.
const PACE: f64 = 0.5;

/// How often in a round the victim sends at its pace beside each behaviour, in turn. A third of these times something takes its core
/// away for milliseconds, which decides a 99th percentile; it does not decide the median of many.
const PACED: usize = 5;

type Results = BTreeMap<(Plane, Hostile), Vec<Kept>>;

/// Measures in turn, and adds rows, ratios and values.
pub(super) fn run(options: Options, driver: &Driver, report: &mut Report) -> Result<()> {
    let chosen: &[Plane] = if options.quick { &Plane::ALL[..1] } else { &Plane::ALL };
    let (mut planes, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for plane in Plane::ALL {
        if !chosen.contains(&plane) {
            failed.insert(plane, "--quick".to_owned());
        } else if plane == Plane::Vswitch && program("ovs-vswitchd").is_err() {
            failed.insert(plane, "not installed".to_owned());
        } else {
            match Shared::up(driver, plane) {
                Ok(shared) => drop(planes.insert(plane, shared)),
                Err(why) => drop(failed.insert(plane, format!("{why:#}"))),
            }
        }
    }
    let (mut results, mut capacities) = (Results::new(), BTreeMap::<Plane, Vec<f64>>::new());
    rounds(options, ROUNDS, Duration::from_secs(20), |round| {
        progress!("bench router: round {}, a victim and its neighbours", round + 1);
        let mut hostile = Hostile::ALL;
        if round % 2 == 1 {
            hostile.reverse();
        }
        planes.retain(|plane, shared| {
            let seen = one_round(shared, hostile);
            let (capacity, kept) = match seen {
                Ok(seen) => seen,
                Err(why) => {
                    failed.insert(*plane, format!("{why:#}"));
                    return false;
                }
            };
            capacities.entry(*plane).or_default().push(capacity);
            for (hostile, kept) in hostile.into_iter().zip(kept) {
                results.entry((*plane, hostile)).or_default().push(kept);
            }
            true
        });
        Ok(())
    })?;
    // What failed once is not compared.
    results.retain(|(plane, _), _| !failed.contains_key(plane));
    capacities.retain(|plane, _| !failed.contains_key(plane));
    rows(&results, &capacities, report);
    for (plane, why) in &failed {
        report.left_out("a victim and its neighbours", plane.title(), why);
    }
    figures(&results, report);
    Ok(())
}

/// The victim's capacity, and what it keeps beside each of these.
fn one_round(shared: &Shared<'_>, hostile: [Hostile; 3]) -> Result<(f64, [Kept; 3])> {
    let capacity = shared.capacity()?;
    let mut kept: [Kept; 3] = Default::default();
    for _ in 0..PACED {
        for (hostile, kept) in hostile.into_iter().zip(&mut kept) {
            kept.paced.push(shared.paced(hostile, PACE * capacity)?);
        }
    }
    for (hostile, kept) in hostile.into_iter().zip(&mut kept) {
        kept.stream = shared.streams(hostile)?;
    }
    Ok((capacity, kept))
}

fn all(results: &Results, plane: Plane, hostile: Hostile, figure: fn(&Kept) -> f64) -> Vec<f64> {
    results.get(&(plane, hostile)).into_iter().flatten().map(figure).collect()
}

/// The victim at its pace beside a behaviour, in all rounds.
fn paced(results: &Results, plane: Plane, hostile: Hostile, figure: fn(&Paced) -> f64) -> Vec<f64> {
    let rounds = results.get(&(plane, hostile)).into_iter().flatten();
    rounds.flat_map(|kept| &kept.paced).map(figure).collect()
}

fn rows(results: &Results, capacities: &BTreeMap<Plane, Vec<f64>>, report: &mut Report) {
    for (plane, all) in capacities {
        let note = format!("64-byte frames, while {}; {}", Hostile::Spin.words(), plane.settings());
        report.measured("the victim's capacity", plane.title(), "1/s", all, &note);
    }
    for ((plane, hostile), kept) in results {
        let at_pace = |figure: fn(&Paced) -> f64| paced(results, *plane, *hostile, figure);
        let offered = at_pace(|paced| paced.offered / 1e6);
        let offered = Summary::of(&offered).map_or(0.0, |summary| summary.mean);
        let note = format!("at half its capacity; {offered:.2} Mpps of hostile frames offered");
        let mut row = |what: &str, unit: &str, figures: &[f64], note: &str| {
            let what = format!("{what}, {}", hostile.words());
            report.measured(&what, plane.title(), unit, figures, note);
        };
        row("the victim's rate", "%", &at_pace(|paced| 100.0 * paced.rate), &note);
        row("99th percentile of its delay", "us", &at_pace(|paced| paced.p99), &note);
        let streams: Vec<f64> = kept.iter().map(|kept| kept.stream / 1e9).collect();
        row("the victim's TCP", "Gb/s", &streams, "unpaced");
        let shared: Vec<f64> =
            kept.iter().flat_map(|kept| &kept.paced).filter_map(|paced| paced.shared).collect();
        row("CPU of the shared part", "%", &shared, "of one core");
    }
}

/// Whether a behaviour hurts more than another, by the mean of the victim's figure.
fn worse(results: &Results, plane: Plane, figure: fn(&Kept) -> f64, more: bool) -> Hostile {
    let mean = |hostile| {
        Summary::of(&all(results, plane, hostile, figure)).map_or(0.0, |summary| summary.mean)
    };
    let (flood, unknown) = (mean(Hostile::Flood), mean(Hostile::Unknown));
    if (unknown > flood) == more { Hostile::Unknown } else { Hostile::Flood }
}

fn figures(results: &Results, report: &mut Report) {
    for (plane, end) in [(Plane::Own, ""), (Plane::Vswitch, "_ovs"), (Plane::Kernel, "_nodes")] {
        if plane != Plane::Own && !results.contains_key(&(plane, Hostile::Spin)) {
            continue;
        }
        let bad = worse(results, plane, |kept| kept.stream, false);
        let streams =
            [bad, Hostile::Spin].map(|hostile| all(results, plane, hostile, |kept| kept.stream));
        let given = [bad, Hostile::Spin]
            .map(|hostile| format!("TCP by {}, {}", plane.title(), hostile.words()));
        let name = format!("victim_kept{end}");
        report.ratio(&name, side(&given[0], &streams[0]), side(&given[1], &streams[1]));
        let compared = |figure: fn(&Paced) -> f64, more| compared(results, plane, figure, more);
        report.median(&format!("victim_rate_kept{end}"), &compared(|paced| paced.rate, false));
        report.median(&format!("victim_p99_ratio{end}"), &compared(|paced| paced.p99, true));
    }
}

/// A figure beside each hostile behaviour over that beside spinning neighbours of the same round, of the behaviour that hurts
/// more by the median. An interruption in one of few rounds decides neither which that is nor the figure.
fn compared(results: &Results, plane: Plane, figure: fn(&Paced) -> f64, more: bool) -> Vec<f64> {
    let calm = paced(results, plane, Hostile::Spin, figure);
    let [flood, unknown] = [Hostile::Flood, Hostile::Unknown].map(|hostile| -> Vec<f64> {
        let bad = paced(results, plane, hostile, figure);
        bad.iter().zip(&calm).map(|(bad, calm)| bad / calm).collect()
    });
    let median = |ratios: &[f64]| percentile(ratios, 50.0).unwrap_or(0.0);
    if (median(&unknown) > median(&flood)) == more { unknown } else { flood }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let kept = |rate, p99, stream| Kept {
            paced: vec![Paced { rate, p99, shared: Some(3.0), offered: 1e6 }; 3],
            stream,
        };
        Results::from([
            ((Plane::Own, Hostile::Spin), vec![kept(1.0, 100.0, 2e9); 6]),
            ((Plane::Own, Hostile::Flood), vec![kept(0.995, 140.0, 1e9); 6]),
            ((Plane::Own, Hostile::Unknown), vec![kept(0.98, 110.0, 1.5e9); 6]),
        ])
    }

    #[test]
    fn each_figure_is_that_of_the_worse_neighbour() {
        let mut report = Report::default();
        figures(&results(), &mut report);
        assert!((report.ratios["victim_kept"].unwrap() - 0.5).abs() < 1e-9, "{report:?}");
        assert!((report.values["victim_rate_kept"] - 0.98).abs() < 1e-9);
        assert!((report.values["victim_p99_ratio"] - 1.4).abs() < 1e-9);
        assert!(!report.ratios.contains_key("victim_kept_ovs"));
    }

    #[test]
    fn one_interrupted_round_decides_nothing() {
        let mut results = results();
        let round = |all: [f64; 3]| Kept {
            paced: all.map(|p99| Paced { p99, ..Paced::default() }).to_vec(),
            ..Kept::default()
        };
        for (hostile, p99) in [
            (Hostile::Spin, [100.0; 3]),
            (Hostile::Flood, [110.0; 3]),
            (Hostile::Unknown, [90.0, 95.0, 9000.0]),
        ] {
            results.insert((Plane::Own, hostile), vec![round(p99)]);
        }
        let ratios = compared(&results, Plane::Own, |paced| paced.p99, true);
        assert!(ratios.iter().all(|ratio| (ratio - 1.1).abs() < 1e-9), "{ratios:?}");
    }

    #[test]
    fn rows_tell_what_was_offered_and_what_the_shared_part_used() {
        let mut report = Report::default();
        rows(&results(), &BTreeMap::new(), &mut report);
        let row = |what: &str| report.rows.iter().find(|row| row.what == what).unwrap();
        assert!(row("the victim's rate, the hostile nodes flood").note.contains("1.00 Mpps"));
        let cpu = row("CPU of the shared part, the hostile nodes flood with unknown flows");
        assert!((cpu.mean.unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(report.rows.len(), 12);
    }
}
