//! One link more in the file of a lab of 1,000 nodes: the whole `netloom apply`, which reads the file, compares, and makes it.

use std::time::Duration;

use anyhow::Result;

use crate::driver::Driver;
use crate::lab::shape::{LAB, Shape};
use crate::rounds::rounds;
use crate::{Options, Programs, Report};

/// A ring.
const RING: Shape = Shape { nodes: 1000, links: 1000, forwarding: false };

pub(super) fn measure(options: Options, programs: &Programs, report: &mut Report) -> Result<()> {
    let driver = Driver::new(programs)?;
    let time = Duration::from_secs(if options.quick { 20 } else { 60 });
    let what = format!("one link more, {}", RING.title());
    progress!("bench people: {what}");
    let less = RING.lab_file();
    let more = format!("{less}  - [n0, n500]\n");
    let file = driver.lab_file(LAB, &less)?;
    let path = file.to_string_lossy().into_owned();
    driver.up(&file)?;
    let mut times = Vec::new();
    let one_round = |_: usize, times: &mut Vec<f64>| {
        driver.lab_file(LAB, &more)?;
        times.push(driver.time(&["apply", &path])? * 1000.0);
        driver.lab_file(LAB, &less)?;
        driver.time(&["apply", "--yes", &path]).map(drop)
    };
    let figures = |times: &Vec<f64>, report: &mut Report| report.value("apply_link_1000_ms", times);
    rounds(time, &mut times, one_round, figures)?;
    driver.down(LAB)?;
    report.measured(&what, "netloom", "ms", &times, "whole `netloom apply FILE`");
    figures(&times, report);
    Ok(())
}
