//! `bench`: measures, and shows a table or JSON.

use anyhow::{Context, Result};
use netloom_bench::Options;

use crate::flags::Bench;
use crate::output;

/// `netloom bench`
pub(crate) fn bench(args: &Bench) -> Result<i32> {
    let exe = std::env::current_exe().context("find this program")?;
    let options = Options { quick: args.quick };
    if let Some(folder) = &args.report {
        // Before the measurement: nobody wants to learn afterwards that its result cannot be stored.
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let report = netloom_bench::run(args.name.name(), options, args.folder.as_deref(), &exe)?;
    if let Some(folder) = &args.report {
        report.save(folder)?;
    }
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.to_string())?;
    }
    Ok(0)
}

/// The peer process of a measurement.
pub(crate) fn peer(args: &[String]) -> Result<i32> {
    netloom_bench::peer(args)?;
    Ok(0)
}
