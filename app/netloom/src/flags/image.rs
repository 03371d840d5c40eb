//! The flags of `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

// `image`.
#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    /// Make a kernel and a RAM disk from a distribution's packages, unless they are there.
    Build(ImageBuild),
}

// `image build`.
#[derive(Debug, Args)]
#[command(
    after_help = "The packages are those of this machine's apt, which must be Debian's or a relative's; nothing is \
                  installed, and root is not needed. DIR gets `kernel`, `initrd` and, last, `image.json`. Where \
                  that names the same packages, nothing is done."
)]
pub(crate) struct ImageBuild {
    /// The distribution.
    pub(crate) distribution: Distribution,
    /// The folder of the image; made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// A package more, with what it needs. May be repeated.
    #[arg(long = "with", value_name = "PACKAGE")]
    pub(crate) more: Vec<String>,
    /// The kernel's package.
    #[arg(long, value_name = "PACKAGE", default_value = "linux-image-cloud-amd64")]
    pub(crate) kernel: String,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A distribution whose packages become images.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Distribution {
    /// Debian, in the version of this machine.
    Debian,
}
