//! The flags of `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

// `image`.
#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    /// Fetch images, or make them current.
    Pull(ImagePull),
    /// Take an image from a folder, an archive or Docker.
    Load(ImageLoad),
    /// List the images that are here.
    List(ImageList),
    /// Show an image.
    Show(ImageShow),
    /// Remove images that no lab uses.
    Remove(ImageRemove),
    /// Remove what no image needs, or all images that no lab uses.
    Prune(ImagePrune),
    /// Make a kernel and a RAM disk from a distribution's packages, unless they are there.
    Build(ImageBuild),
}

// `image pull`.
#[derive(Debug, Args)]
#[command(
    after_help = "An image is fetched for this machine's processor, and unpacked, so that a lab begins at once. What has not \
                  changed is not fetched again; what was cut off goes on where it was. Registries are asked by https, those on \
                  loopback also by http. Logins are those of docker and podman."
)]
pub(crate) struct ImagePull {
    /// `[REGISTRY/]NAME[:TAG][@DIGEST]`; or `oci:DIR[:NAME]`, `docker-archive:FILE[:NAME]`, `docker-daemon:NAME`.
    #[arg(value_name = "IMAGE", required = true)]
    pub(crate) images: Vec<String>,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `image load`.
#[derive(Debug, Args)]
#[command(
    after_help = "A file is what `docker save` or an OCI program writes, or a root file system as a tar archive; each also \
                  compressed by gzip or zstd. A folder is an OCI layout. Docker on this machine is asked by its socket, for a name or \
                  an ID (`docker-daemon:sha256:HEX`)."
)]
pub(crate) struct ImageLoad {
    /// A file or a folder; or as in a lab file: `oci:DIR[:NAME]`, `docker-archive:FILE[:NAME]`, `docker-daemon:NAME`.
    #[arg(value_name = "PATH")]
    pub(crate) path: std::path::PathBuf,
    /// Which of several images in it.
    #[arg(long, value_name = "NAME")]
    pub(crate) select: Option<String>,
    /// Its new name, as in a lab file. Default: the names that the file or folder gives it.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) name: Option<String>,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `image list`.
#[derive(Debug, Args)]
pub(crate) struct ImageList {
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `image show`.
#[derive(Debug, Args)]
pub(crate) struct ImageShow {
    /// Its name, or six digits or more of its digest.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: String,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `image remove`.
#[derive(Debug, Args)]
pub(crate) struct ImageRemove {
    /// Names, or six digits or more of digests.
    #[arg(value_name = "IMAGE", required = true)]
    pub(crate) images: Vec<String>,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `image prune`.
#[derive(Debug, Args)]
pub(crate) struct ImagePrune {
    /// Also remove the images that no lab uses.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
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
