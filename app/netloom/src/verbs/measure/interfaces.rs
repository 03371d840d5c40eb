//! `measure TARGET… --config FILE`: an API session at interfaces of a lab or of the host.
//!
//! The output is the records of each point, flow by flow and block by block, without comparison.

use std::io::Read;
use std::path::Path;

use anyhow::Result;
use netloom_ebpf::measure::Marking;
use netloom_marking::session::Configuration;
use netloom_measure::view::{Block, ScheduleView};
use netloom_measure::{ClosedBlock, Spot};
use netloom_session::Spaces;
use netloom_session::measure::Watch;
use netloom_session::measure::at::Prepared;
use serde_json::{Value, json};

use super::json::{clock, csv, merged, record, told};
use super::{ended, interrupts, line};
use crate::flags::Measure;
use crate::output::{or_dash, print, table};
use crate::{Usage, labs};

/// Maximum file size, as in the API.
const MOST_BYTES: u64 = 16 << 20;
/// Columns of CSV.
const CSV: &str = "block,begin_ns,netif,direction,flow,packets,bytes,first_ns,last_ns,mean_ns,samples,\
                   late,complete,reasons";
/// Columns of tables.
const HEAD: [&str; 8] =
    ["BLOCK", "INTERFACE", "DIRECTION", "FLOW", "PACKETS", "BYTES", "SAMPLES", "COMPLETE"];

/// Measures at targets, or at the host interfaces that the file names.
pub(super) fn measure(lab: Option<&str>, args: &Measure, file: &Path) -> Result<i32> {
    let configuration = read(file)?;
    let mut targets = args.targets.clone();
    if targets.is_empty() {
        targets.extend(configuration.netifs.iter().map(|netif| format!("host:{netif}")));
    } else if !configuration.netifs.is_empty() {
        let words = format!(
            "{file:?}: netifs: interfaces are named on the command line; leave them out there or here"
        );
        return Err(Usage(words).into());
    }
    if targets.is_empty() {
        return Err(Usage("name interfaces, or netifs in the file".to_owned()).into());
    }
    let running = labs::of_targets(lab, &targets, false)?;
    let found = Spaces::find(running, &targets, false)?;
    let mut prepared = Prepared::new(found, configuration, args.mark)?;
    let signals = super::super::ending()?;
    prepared.enter()?;
    let running = prepared.start(interrupts(signals))?;
    let (watch, probe) = (running.watch(), running.probe());
    running.begin();
    begin(args, watch, &probe)?;
    ended(running.each(|told| block(args, watch, &probe, told))?);
    Ok(0)
}

fn read(file: &Path) -> Result<Configuration> {
    let open = std::fs::File::open(file);
    let mut bytes = Vec::new();
    open.and_then(|open| open.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| Usage(format!("{file:?}: read: {error}")))?;
    Configuration::read(&bytes).map_err(|problems| {
        let words: Vec<String> =
            problems.iter().map(|p| format!("{}: {p}", file.display())).collect();
        Usage(words.join("\n")).into()
    })
}

/// Prints what is measured, once block 0 has begun.
fn begin(args: &Measure, watch: &Watch, probe: &str) -> Result<()> {
    let spots = &watch.session.setup().spots;
    if args.csv {
        return line(CSV);
    }
    if args.json {
        let spot = |spot: &Spot| {
            let marks = spot.marking != Marking::Off;
            json!({ "netif": spot.netif, "direction": spot.direction.name(), "marks": marks })
        };
        let rest = json!({
            "schedule": told(&ScheduleView::from(watch.schedule)),
            "spots": spots.iter().map(spot).collect::<Vec<_>>(),
        });
        let head =
            merged([json!({ "type": "session" }), clock(probe, watch.session.clock()), rest]);
        return line(&head.to_string());
    }
    let netifs: Vec<&str> = spots.iter().step_by(2).map(|spot| spot.netif.as_str()).collect();
    let period = watch.schedule.period() / 1_000_000;
    print(&format!("{}: blocks of {period} ms\n", netifs.join(" ")))
}

/// Prints a block: every flow at every spot.
fn block(args: &Measure, watch: &Watch, probe: &str, told: &ClosedBlock) -> Result<()> {
    let spots = &watch.session.setup().spots;
    let mut rows = Vec::new();
    for point in &told.points {
        let Some(spot) = spots.get(point.spot) else { continue };
        for flow in &point.flows {
            let block = Block::from(flow);
            let samples = block.sampled.as_ref().map(|sampled| sampled.samples.len());
            let direction = spot.direction.name();
            if args.json {
                let about = json!({
                    "type": "record", "netif": spot.netif, "direction": direction, "flow": flow.id,
                    "samples": samples,
                });
                let parts: [Value; 3] = [about, clock(probe, watch.session.clock()), record(flow)];
                line(&merged(parts).to_string())?;
            } else if args.csv {
                line(&csv(&fields(&block, spot, flow.id, samples)))?;
            } else {
                rows.push(vec![
                    told.block.to_string(),
                    spot.netif.clone(),
                    direction.to_owned(),
                    flow.id.to_string(),
                    block.all.packets.to_string(),
                    block.bytes.to_string(),
                    or_dash(samples, |n| n.to_string()),
                    if block.complete { "yes".to_owned() } else { block.reasons.join(", ") },
                ]);
            }
        }
    }
    if rows.is_empty() || args.quiet { Ok(()) } else { print(&table(&HEAD, rows)) }
}

fn fields(block: &Block, spot: &Spot, flow: u32, samples: Option<usize>) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    vec![
        block.block.to_string(),
        block.begin.to_string(),
        spot.netif.clone(),
        spot.direction.name().to_owned(),
        flow.to_string(),
        block.all.packets.to_string(),
        block.bytes.to_string(),
        number(block.all.first),
        number(block.all.last),
        number(block.all.mean),
        samples.map_or_else(String::new, |samples| samples.to_string()),
        block.late.to_string(),
        block.complete.to_string(),
        block.reasons.join("; "),
    ]
}
