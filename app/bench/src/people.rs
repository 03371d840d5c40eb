//! `people`: what those wait for who bring labs of their own: nodes from images, a file that changed, and what leaves by pasta.

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
