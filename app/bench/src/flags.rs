//! The command line, its help and its manual page, and which experiment a name starts.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum, ValueHint};

use crate::{Options, Programs, Report};

const AFTER: &str =
    "Exit status: 0 done; 1 failed while running; 2 wrong usage; 3 not supported on this machine.

Examples:
  # how fast labs come up and go down
  netloom bench lab --quick
  # routers beside the kernel, with table and picture in a folder
  netloom bench router --quick --report results";

/// Measure netloom's performance and that of comparable installed programs.
#[derive(Debug, Parser)]
#[command(name = "netloom-bench", bin_name = "netloom bench", version, max_term_width = 100)]
#[command(after_help = AFTER)]
pub(crate) struct Cli {
    /// What to measure.
    name: Experiment,
    /// The folder that `disk` writes to. Default: that of temporary files.
    #[arg(value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// Measure only the promised ratios and values, within two minutes.
    #[arg(long)]
    quick: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also write the result into this folder, as NAME.txt, NAME.json and NAME.svg. It is made if it does not exist.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    report: Option<PathBuf>,
    /// The netloom to measure. Default: the one that runs this, $NETLOOM_BIN, the one beside this program, or that of PATH.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    netloom: Option<PathBuf>,
}

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// Time to bring labs up and down; memory of a node.
    Lab,
    /// Overhead of a node for its programs.
    Node,
    /// Throughput that a node keeps while neighbours flood it.
    Flood,
    /// Time to create, delete, start, move and list in a running lab.
    Images,
    /// The shared-memory switch between processes and between nodes.
    Switch,
    /// The OpenFlow switch beside Open vSwitch and a bridge.
    Openflow,
    /// A slicer between a switch and its controller, beside the same switch without one.
    Slice,
    /// Routers of several kinds beside the kernel, hostile neighbours, and what platforms cost.
    Router,
    /// A plug between the shared-memory switch and an interface.
    Plug,
    /// Accuracy of link delay, loss and rate.
    Wire,
    /// Frames per second captured without loss.
    Capture,
    /// Write speed of a folder.
    Disk,
    /// Frames per second sent, and their pacing.
    Generate,
    /// Cost of measuring flows, and accuracy of delays.
    Measure,
    /// What TCP keeps while a lab is recorded, and how long a question about 10 GiB takes.
    Record,
    /// Time that guarding adds to a program's calls, and what established connections keep.
    Guard,
    /// What people wait for: nodes from images, images that are fetched, what leaves by pasta.
    People,
    /// What it costs to be looked at: page, stream of events, `top`, metrics.
    See,
    /// Frames through a virtual machine's card, and streams between two machines.
    Vm,
}

/// Parses this process's command line. Wrong usage, `--help` and `--version` end the process.
pub(crate) fn read() -> Cli {
    let read = Cli::parse();
    if read.folder.is_some() && read.name != Experiment::Disk {
        let only = "only the experiment `disk` takes a folder";
        Cli::command().error(ErrorKind::ArgumentConflict, only).exit();
    }
    read
}

/// The manual page.
pub(crate) fn manual() -> Result<Vec<u8>> {
    let mut page = vec![];
    clap_mangen::Man::new(Cli::command()).render(&mut page).context("make the manual page")?;
    Ok(page)
}

impl Cli {
    /// Measures, stores and prints.
    pub(crate) fn run(self) -> Result<()> {
        let programs = Programs::find(self.netloom.clone())?;
        if let Some(folder) = &self.report {
            // Before the measurement: nobody wants to learn afterwards that its result cannot be stored.
            std::fs::create_dir_all(folder)
                .with_context(|| format!("make {}", folder.display()))?;
        }
        let version = programs.version()?;
        let mut report = self.measure(&programs)?;
        report.machine.insert("netloom".to_owned(), version);
        if let Some(folder) = &self.report {
            report.save(folder)?;
        }
        crate::print(&if self.json { report.json()? } else { report.to_string() })
    }

    /// Progress goes to standard error.
    fn measure(&self, programs: &Programs) -> Result<Report> {
        let options = Options { quick: self.quick };
        match self.name {
            Experiment::Lab => crate::lab::run(options, programs),
            Experiment::Node => crate::node::run(options, programs),
            Experiment::Flood => crate::flood::run(options, programs),
            Experiment::Images => crate::images::run(options, programs),
            Experiment::Switch => crate::switch::run(options, programs),
            Experiment::Openflow => crate::openflow::run(options, programs),
            Experiment::Slice => crate::slice::run(options, programs),
            Experiment::Router => crate::router::run(options, programs),
            Experiment::Plug => crate::plug::run(options, programs),
            Experiment::Wire => crate::wire::run(options, programs),
            Experiment::Capture => crate::capture::run(options, programs),
            Experiment::Disk => crate::disk::run(options, self.folder.as_deref()),
            Experiment::Generate => crate::generate::run(options, programs),
            Experiment::Measure => crate::measure::run(options, programs),
            Experiment::Record => crate::record::run(options, programs),
            Experiment::Guard => crate::guard::run(options, programs),
            Experiment::People => crate::people::run(options, programs),
            Experiment::See => crate::see::run(options, programs),
            Experiment::Vm => crate::vm::run(options, programs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_manual_has_every_experiment_and_flag() {
        let page = String::from_utf8(manual().unwrap()).unwrap();
        for word in ["netloom\\-bench", "openflow", "\\-\\-quick", "\\-\\-report", "Exit status"] {
            assert!(page.contains(word), "{word}: {page}");
        }
    }
}
