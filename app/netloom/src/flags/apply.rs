//! Flags of `apply`.

use std::path::PathBuf;

use clap::Args;

use super::foreign::Importing;

// `apply`.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The lab file, or the lab of another program as for `import`; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Name of the lab, instead of the file's; -l does the same.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Do not ask before something that may be in use ends.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would be done, and do nothing.
    #[arg(long, conflicts_with = "check")]
    pub(crate) dry_run: bool,
    /// The same, and exit with 4 if there is anything to do.
    #[arg(long)]
    pub(crate) check: bool,
    /// Do just the steps with this digest, which `--dry-run --json` prints; if others are needed by now, do nothing.
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["dry_run", "check"])]
    pub(crate) expected: Option<String>,
    /// Keep manual changes.
    #[arg(long)]
    pub(crate) keep_drift: bool,
    /// Leave limits out where this machine cannot set them, when the lab is brought up.
    #[arg(long)]
    pub(crate) ignore_limits: bool,
    /// Where the lab is on the hosts of this file: each becomes its part of the file.
    #[arg(long, value_name = "HOSTS")]
    pub(crate) on: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) importing: Importing,
}
