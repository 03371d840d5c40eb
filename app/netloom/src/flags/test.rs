//! The flags of `test`.

use std::path::PathBuf;

use clap::Args;

// `test`.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Lab files with `expect`, or folders of such files.
    #[arg(value_name = "FILE|FOLDER", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write the results as JUnit XML into this file.
    #[arg(long, value_name = "OUT")]
    pub(crate) junit: Option<PathBuf>,
    /// Keep the frames of all links during each step that does not hold, in FOLDER/LAB-STEP.pcapng.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) captures: Option<PathBuf>,
    /// How many labs run at once, memory permitting. Default: the number of processors.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Make nodes without limits if this machine cannot set them.
    #[arg(long)]
    pub(crate) ignore_limits: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
