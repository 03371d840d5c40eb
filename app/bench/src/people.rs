//! `people`: latency that users of their own labs see: nodes from images, a changed file, and traffic through pasta.

mod apply;
mod image;
mod internet;
mod registry;

use std::path::Path;

use anyhow::Result;

use crate::{Options, Report};

pub(crate) fn run(options: Options, exe: &Path) -> Result<Report> {
    let mut report = Report::new("people");
    image::measure(options, exe, &mut report)?;
    apply::measure(options, exe, &mut report)?;
    internet::measure(options, exe, &mut report)?;
    Ok(report)
}
