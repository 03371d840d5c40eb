//! The flags of `fmt`.

use std::path::PathBuf;

use clap::Args;

// `fmt`.
#[derive(Debug, Args)]
#[command(
    after_help = "A file is replaced as a whole, and keeps its mode. One that has errors, or something that cannot be kept, stays as it is, \
                        with the reason and its line."
)]
pub(crate) struct Fmt {
    /// Lab files; `-` formats standard input to standard output.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Change nothing; name files that are in another style, with the first line that would change.
    #[arg(long)]
    pub(crate) check: bool,
}
