//! `people`: latency that users of their own labs see: nodes from images, a changed file, and traffic through pasta.

mod apply;
mod image;
mod internet;
mod registry;

use anyhow::Result;

use crate::{Options, Programs, Report};

pub(crate) fn run(options: Options, programs: &Programs) -> Result<Report> {
    let mut report = Report::new("people");
    image::measure(options, programs, &mut report)?;
    apply::measure(options, programs, &mut report)?;
    internet::measure(options, programs, &mut report)?;
    Ok(report)
}
