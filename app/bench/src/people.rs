//! `people`: what those wait for who bring labs of their own: nodes from images.

mod image;
mod registry;

use std::path::Path;

use anyhow::Result;

use crate::driver::Driver;
use crate::{Options, Report};

pub(crate) fn run(options: Options, exe: &Path) -> Result<Report> {
    let driver = Driver::new(exe)?;
    let mut report = Report::new("people");
    image::nodes(options, &driver, &mut report)?;
    image::unpacking(options, &driver, &mut report)?;
    Ok(report)
}
