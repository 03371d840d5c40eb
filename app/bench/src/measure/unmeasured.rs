//! What a marking point costs TCP that it does not measure: throughput of one connection with segmentation
//! offload between two nodes, with the point at the sender's interface and without, in turns.
//!
//! A marking program may write headers, so the kernel makes them writable for every frame that passes, measured
//! or not. Frames are left as large as they are.

use anyhow::{Result, bail};
use netloom_stats::percentile;

use super::asked::{ALL, to_port};
use crate::capture::pair::{Pair, cores};
use crate::running::{Running, number};

/// Port of the connection, and one that nothing uses: the one measured.
const PORT: &str = "7300";
const OTHER: u16 = 7301;
/// Turns of a round, and seconds of each: until the rate is steady, and counted.
const TURNS: usize = 90;
const SKIP: f64 = 0.01;
const TIME: f64 = 0.02;
/// Seconds after which a forgotten end gives up.
const MOST: &str = "60";
/// Seconds of a connection before it counts.
const START: f64 = 0.3;

/// Bytes per second in each turn of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Turns {
    pub(super) with: Vec<f64>,
    pub(super) without: Vec<f64>,
}

impl Turns {
    /// Rate with the point divided by that without it: the median of neighbouring turns, since single turns vary
    /// by a quarter, with the scheduler.
    pub(super) fn ratio(&self) -> Option<f64> {
        let pairs: Vec<f64> =
            self.with.iter().zip(&self.without).map(|(with, without)| with / without).collect();
        percentile(&pairs, 50.0).ok()
    }
}

/// One connection, and turns of the point.
pub(super) fn measure(pair: &Pair<'_>) -> Result<Turns> {
    let (driver, lab) = (pair.driver(), pair.lab());
    let [first, second] = cores();
    let sink = driver.peer(lab, "b", &["on", second, "tcp-trickle", PORT, MOST, "0"])?.ready()?;
    let to = format!("{}:{PORT}", pair.address(0)?);
    let source = driver.peer(lab, "a", &["on", first, "tcp-source", &to, "0", MOST])?;
    std::thread::sleep(std::time::Duration::from_secs_f64(START));
    let turns = turns(pair);
    drop(sink);
    drop(source);
    turns
}

fn turns(pair: &Pair<'_>) -> Result<Turns> {
    let file = pair.driver().folder().join("turns.json");
    std::fs::write(&file, serde_json::to_vec(&ALL.body(1.0, vec![to_port(OTHER)]))?)?;
    let mut command = pair.program("a", cores()[1], pair.driver().own_text()?)?;
    command.args(["peer", "measure-turns", pair.sender(0)?.0]).arg(&file);
    command.args([TURNS.to_string(), SKIP.to_string(), TIME.to_string()]);
    let told = Running::start(&mut command, "measure-turns")?.result()?;
    if number(&told, "matched")? > 0.0 {
        bail!("the connection is measured: {told}");
    }
    let rates = |name: &str| -> Vec<f64> {
        told[name].as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64).collect()
    };
    Ok(Turns { with: rates("with"), without: rates("without") })
}
