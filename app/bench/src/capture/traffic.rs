//! The offered traffic: generated frames at a rate, or a recorded trace at top speed.
//!
//! `NETLOOM_BENCH_TRACE` may name the trace file; otherwise one is recorded: a TCP stream between two nodes,
//! without offloads, so that frame sizes are those of a real cable.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::pair::{Pair, SMALL, Stream, To, cores};
use super::program::Program;
use super::search::Ask;
use crate::running::Running;

/// Frames of a trace replayed in one run.
const FRAMES: u64 = 400_000;
/// Port of the recorded stream.
const PORT: &str = "7000";

/// Generated frames: of which size and for whom, at which rate, for how many seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) size: u32,
    pub(super) to: To,
    pub(super) ask: Ask,
    pub(super) seconds: f64,
}

/// Traffic of a run.
#[derive(Clone, Debug)]
pub(super) enum Traffic {
    /// Generated frames.
    Made(Made),
    /// A trace file.
    Trace(PathBuf),
}

impl Traffic {
    /// Bytes of a generated frame; of a trace, only the first are of interest, as of a small one.
    pub(super) fn size(&self) -> u32 {
        match self {
            Traffic::Made(made) => made.size,
            Traffic::Trace(_) => SMALL,
        }
    }

    /// Starts a sender on a link.
    pub(super) fn start(&self, pair: &Pair<'_>, link: usize) -> Result<Running> {
        match self {
            Traffic::Made(Made { size, to, ask, seconds }) => {
                let rate = match ask {
                    Ask::Max => "max".to_owned(),
                    Ask::Rate(rate) => format!("{rate:.0}pps"),
                };
                let (to, size, seconds) = (*to, *size, *seconds);
                pair.stream(link, &Stream { to, size, engine: "live-frames", rate: &rate, seconds })
            }
            Traffic::Trace(file) => {
                let mut command = pair.netloom(cores()[0]);
                command.arg("replay").arg(file).arg(format!("a:{}", pair.sender(link)?.0));
                command.args(["--top-speed", "--loop", "0", "--count", &FRAMES.to_string()]);
                Running::start(command.arg("--json"), "replay")
            }
        }
    }
}

/// A trace and its description.
pub(super) fn trace(driver: &crate::driver::Driver) -> Result<(PathBuf, String)> {
    if let Some(file) = std::env::var_os("NETLOOM_BENCH_TRACE") {
        let file = PathBuf::from(file);
        let what = format!("trace {}", file.display());
        return Ok((file, what));
    }
    let pair = Pair::up(driver, "bench-record", 1)?;
    let file = driver.folder().join("trace.pcapng");
    let recorded = record(&pair, &file);
    pair.down()?;
    recorded.context("record a trace")?;
    Ok((file, "trace: a recorded stream of TCP, without offloads".to_owned()))
}

fn record(pair: &Pair<'_>, file: &Path) -> Result<()> {
    let (driver, lab) = (pair.driver(), pair.lab());
    driver.peer(lab, "a", &["offloads-off", pair.sender(0)?.0])?.result()?;
    driver.peer(lab, "b", &["offloads-off", pair.receiver(0)?])?.result()?;
    let mut command = pair.netloom(cores()[1]);
    command.arg("capture").arg(format!("b:{}", pair.receiver(0)?));
    command.args(["--engine", "tpacket", "--ring", "256MiB", "--json"]);
    command.args(["--count", "50000", "-w"]).arg(file);
    let capture = Program::start(driver.folder(), &mut command, "recorder")?;
    let capture = capture.until_it_says("b:eth")?;
    let sink = driver.peer(lab, "b", &["tcp-sink", PORT, "0", "0.5"])?.ready()?;
    let address = format!("{}:{PORT}", pair.address(0)?);
    let source = driver.peer(lab, "a", &["tcp-source", &address, "0", "60"])?;
    sink.result()?;
    source.result()?;
    capture.until_idle();
    capture.interrupt().map(|_| ())
}
