//! `plug`: traffic through a plug between the switch and a card, as in the source's tables 2.3 to 2.6.
//!
//! A veth pair stands for the card. Each plug and each setting of the card has its own lab; all are up at
//! once and idle except the measured one. "In" is from the card to the switch: the direction that collapsed
//! in the source, because packets merged by the card were truncated.

mod card;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use anyhow::Result;

use crate::driver::Driver;
use crate::report::side;
use crate::rounds::rounds;
use crate::vde;
use crate::{Options, Programs, Report};
use card::{Card, Connector, Direction, PluggedCard, Ways};

/// Mb/s of the source's datagrams, and a rate beyond its cable.
const RATES: [u32; 3] = [50, 95, 1000];
/// The rate at which the source sent in both directions.
const BOTH: u32 = 95;

/// A cell of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    /// Mb/s of datagrams; `None` for a stream.
    rate: Option<u32>,
    card: Card,
    direction: Direction,
    way: Connector,
}

type Results = BTreeMap<Cell, Vec<Ways>>;

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let driver = Driver::new(programs)?;
    let mut report = Report::new("plug");
    let pcap = vde::version().filter(|_| vde::has_pcap_plug());
    let all = cells();
    let chosen = |cell: &Cell| !options.quick || is_quick(*cell);
    let mut plan: Vec<Cell> = all.iter().copied().filter(chosen).collect();
    plan.retain(|cell| cell.way != Connector::Pcap || pcap.is_some());
    let mut places = BTreeMap::new();
    let mut silent = None;
    for cell in &plan {
        if silent.is_some() && cell.way == Connector::Pcap {
            continue;
        }
        if let Entry::Vacant(free) = places.entry((cell.way, cell.card)) {
            match PluggedCard::up(&driver, cell.way, cell.card) {
                Ok(place) => {
                    free.insert(place);
                }
                // Its ring of libpcap stays silent on some kernels; the others are measured all the same.
                Err(why) if cell.way == Connector::Pcap => silent = Some(format!("{why:#}")),
                Err(why) => return Err(why),
            }
        }
    }
    plan.retain(|cell| places.contains_key(&(cell.way, cell.card)));
    let mut results = Results::new();
    let time = Duration::from_secs(if options.quick { 90 } else { 200 });
    let one_round = |round: usize, results: &mut Results| {
        progress!("bench plug: round {}, {} cells", round + 1, plan.len());
        for cell in &plan {
            let Some(place) = places.get(&(cell.way, cell.card)) else { continue };
            let ways = match cell.rate {
                None => place.streams(cell.direction, 0.7)?,
                Some(rate) => place.datagrams(cell.direction, f64::from(rate), 1.0)?,
            };
            results.entry(*cell).or_default().push(ways);
        }
        plan.reverse();
        Ok(())
    };
    rounds(time, &mut results, one_round, figures)?;
    drop(places);
    rows(&results, &mut report);
    for cell in all.iter().filter(|cell| !results.contains_key(*cell)) {
        let why = match &silent {
            _ if !chosen(cell) => "--quick",
            Some(why) => why,
            None => "no vde_switch, vde_plug2tap, vde_pcapplug",
        };
        report.left_out(&title(*cell), cell.way.title(), why);
    }
    report.peers.insert("vde_pcapplug".to_owned(), pcap);
    source(&mut report);
    figures(&results, &mut report);
    Ok(report)
}

/// All cells.
fn cells() -> Vec<Cell> {
    let mut all = vec![];
    for way in Connector::ALL {
        for card in Card::ALL {
            for direction in Direction::ALL {
                all.push(Cell { rate: None, card, direction, way });
                let rates = RATES.into_iter().filter(|rate| {
                    card == Card::Offloads
                        && (way == Connector::Plug || *rate <= BOTH)
                        && (direction != Direction::Both || *rate >= BOTH)
                });
                all.extend(rates.map(|rate| Cell { rate: Some(rate), card, direction, way }));
            }
        }
    }
    all
}

/// Cells that feed ratio and values, and cells that show the collapse.
fn is_quick(cell: Cell) -> bool {
    match cell.way {
        Connector::Plug => cell.rate.is_none_or(|rate| rate == BOTH),
        Connector::Plain => {
            cell.rate.is_none() && cell.card == Card::Merging && cell.direction != Direction::Both
        }
        Connector::Pcap => false,
        Connector::Bridge => {
            cell.rate.is_none() && cell.card == Card::Bare && cell.direction != Direction::Both
        }
    }
}

fn title(cell: Cell) -> String {
    let (card, direction) = (cell.card.title(), cell.direction.title());
    match cell.rate {
        None => format!("TCP {direction}, {card}"),
        Some(rate) => format!("UDP lost {direction} at {rate} Mb/s, {card}"),
    }
}

fn rows(results: &Results, report: &mut Report) {
    for (cell, all) in results {
        let unit = if cell.rate.is_none() { "Gb/s" } else { "%" };
        for (which, figures) in [("in", inward(all)), ("out", outward(all))] {
            let what = match cell.direction {
                Direction::Both => format!("{}: {which}", title(*cell)),
                _ => title(*cell),
            };
            report.measured(&what, cell.way.title(), unit, &figures, cell.way.settings());
        }
    }
}

fn inward(all: &[Ways]) -> Vec<f64> {
    all.iter().filter_map(|ways| ways.inward).collect()
}

fn outward(all: &[Ways]) -> Vec<f64> {
    all.iter().filter_map(|ways| ways.outward).collect()
}

/// The source's tables: over a 100 Mb/s cable, by mapped packet sockets and by libpcap.
fn source(report: &mut Report) {
    let streams = [
        ("rings", [("in", 17.1), ("out", 93.9), ("in/out: in", 0.558), ("in/out: out", 93.8)]),
        ("libpcap", [("in", 15.3), ("out", 94.0), ("in/out: in", 1.1), ("in/out: out", 93.9)]),
    ];
    for (who, figures) in streams {
        for (what, figure) in figures {
            report.of_source(&format!("TCP {what}"), &format!("source: {who}"), "Mb/s", figure);
        }
    }
    let lost = [("rings", 0.04, 0.005), ("libpcap", 0.02, 0.0)];
    for (who, inward, outward) in lost {
        let who = format!("source: {who}");
        for direction in ["in", "out"] {
            for rate in [50, BOTH] {
                report.of_source(&format!("UDP lost {direction} at {rate} Mb/s"), &who, "%", 0.0);
            }
        }
        let what = |which: &str| format!("UDP lost in/out at {BOTH} Mb/s: {which}");
        report.of_source(&what("in"), &who, "%", inward);
        report.of_source(&what("out"), &who, "%", outward);
    }
}

/// What the two sides of a ratio were given: the same card and plug, in and out.
fn given(card: Card, way: Connector) -> [String; 2] {
    ["in", "out"].map(|which| format!("TCP {which}, {}, {}", card.title(), way.title()))
}

fn figures(results: &Results, report: &mut Report) {
    let streams = |card, direction, way| {
        let cell = Cell { rate: None, card, direction, way };
        results.get(&cell).map_or(&[][..], Vec::as_slice)
    };
    for (card, name) in [
        (Card::Offloads, "tcp_in_over_out"),
        (Card::Merging, "tcp_in_over_out_merging"),
        (Card::Bare, "tcp_in_over_out_bare"),
    ] {
        let of = |direction| streams(card, direction, Connector::Plug);
        let (inward, outward) = (inward(of(Direction::In)), outward(of(Direction::Out)));
        let [given_in, given_out] = given(card, Connector::Plug);
        report.ratio(name, side(&given_in, &inward), side(&given_out, &outward));
    }
    let of = |direction| streams(Card::Bare, direction, Connector::Bridge);
    let bridge = (inward(of(Direction::In)), outward(of(Direction::Out)));
    let [given_in, given_out] = given(Card::Bare, Connector::Bridge);
    let (bridged_in, bridged_out) = (side(&given_in, &bridge.0), side(&given_out, &bridge.1));
    report.ratio("tcp_in_over_out_bare_bridge", bridged_in, bridged_out);
    let plugged = inward(streams(Card::Bare, Direction::In, Connector::Plug));
    let [plugged_in, _] = given(Card::Bare, Connector::Plug);
    report.ratio("tcp_in_bare_vs_bridge", side(&plugged_in, &plugged), side(&given_in, &bridge.0));
    let of = |direction| streams(Card::Merging, direction, Connector::Plain);
    let plain = (inward(of(Direction::In)), outward(of(Direction::Out)));
    let [given_in, given_out] = given(Card::Merging, Connector::Plain);
    report.ratio("tcp_in_over_out_plain", side(&given_in, &plain.0), side(&given_out, &plain.1));
    let of = |direction| streams(Card::Offloads, direction, Connector::Plug);
    report.value("tcp_in_gbps", &inward(of(Direction::In)));
    report.value("tcp_out_gbps", &outward(of(Direction::Out)));
    let ours = results.iter().filter(|(cell, _)| {
        cell.way == Connector::Plug && cell.rate.is_some_and(|rate| rate <= BOTH)
    });
    let lost: Vec<f64> = ours.flat_map(|(_, all)| [inward(all), outward(all)].concat()).collect();
    report.value("udp_loss_percent", &lost);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_measured_twice_and_quick_ones_feed_the_ratio() {
        let mut all = cells();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        let quick: Vec<Cell> = all.into_iter().filter(|cell| is_quick(*cell)).collect();
        for direction in [Direction::In, Direction::Out] {
            let (rate, card, way) = (None, Card::Offloads, Connector::Plug);
            assert!(quick.contains(&Cell { rate, card, direction, way }));
        }
    }

    #[test]
    fn the_ratio_is_of_what_goes_in_by_what_goes_out() {
        let mut results = Results::new();
        let cell =
            |direction| Cell { rate: None, card: Card::Offloads, direction, way: Connector::Plug };
        let ways = |inward, outward| vec![Ways { inward, outward }; 3];
        results.insert(cell(Direction::In), ways(Some(9.0), None));
        results.insert(cell(Direction::Out), ways(None, Some(10.0)));
        // Both directions at once is another cell.
        results.insert(cell(Direction::Both), ways(Some(1.0), Some(1.0)));
        let mut report = Report::default();
        figures(&results, &mut report);
        assert!((report.ratios["tcp_in_over_out"].unwrap() - 0.9).abs() < 1e-9, "{report:?}");
        assert!((report.values["tcp_out_gbps"] - 10.0).abs() < 1e-9);
        assert_eq!(report.ratios["tcp_in_over_out_plain"], None);
    }

    #[test]
    fn the_sources_tables_are_there() {
        let mut report = Report::default();
        source(&mut report);
        assert_eq!(report.rows.len(), 8 + 12);
    }
}
