//! Makes what a virtual machine boots from, as an ordinary user: a kernel and an initial RAM disk, from the packages of
//! the distribution that this machine's apt knows.
//!
//! [`build`] resolves and downloads packages by apt with a state of its own, unpacks them by dpkg-deb, and writes the
//! archive itself: nothing is installed, and no text becomes a shell's. A folder holds one image and is its own cache: it
//! is whole when `image.json` is there, which is written last and names every package with its version.

#![forbid(unsafe_code)]

mod disk;
mod error;
mod packages;
mod programs;
mod store;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use packages::Packages;
use store::Store;

pub use error::{Error, Result};

/// The package of the kernel, unless another is asked for.
pub const KERNEL: &str = "linux-image-cloud-amd64";
/// Packages of every image; the first has the init's programs.
pub const PACKAGES: [&str; 6] =
    ["busybox-static", "iproute2", "iputils-ping", "iperf3", "qemu-guest-agent", "tcpdump"];

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The kernel's package.
    pub kernel: String,
    /// Packages beside [`PACKAGES`].
    pub more: Vec<String>,
}

impl Default for Recipe {
    fn default() -> Recipe {
        Recipe { kernel: KERNEL.to_owned(), more: vec![] }
    }
}

/// The result, as `image.json` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The kernel's release, as `uname -r` says it.
    pub release: String,
    /// Files of the packages, with versions, in the order of names.
    pub packages: Vec<String>,
    /// Bytes of the kernel's file.
    pub kernel_bytes: u64,
    /// Bytes of the RAM disk.
    pub initrd_bytes: u64,
    /// A hash of what was done with the packages.
    pub way: u64,
}

/// An image and how it came.
#[derive(Clone, Debug)]
pub struct Built {
    /// The image.
    pub image: Image,
    /// The kernel's file.
    pub kernel: PathBuf,
    /// The RAM disk's file.
    pub initrd: PathBuf,
    /// How long downloading and building took; `None` if it was there.
    pub took: Option<(Duration, Duration)>,
}

/// Makes an image in a folder, unless it is there. `tell` hears what is being done.
///
/// # Errors
/// [`Error::Unsupported`] where apt-get or dpkg-deb is missing; [`Error::Apt`] if a package is unknown or cannot be
/// downloaded; [`Error::Busy`] while another process builds there; [`Error::Failed`] if files cannot be written.
pub fn build(folder: &Path, recipe: &Recipe, tell: &mut dyn FnMut(&str)) -> Result<Built> {
    let store = Store::open(folder)?;
    let work = store.work()?;
    let wanted = PACKAGES.iter().map(|name| (*name).to_owned()).chain(recipe.more.iter().cloned());
    let packages = Packages::new(work.path(), [recipe.kernel.clone()].into_iter().chain(wanted))?;
    let files = packages.resolve()?;
    let way = disk::way();
    if let Some(image) = store.image(&files, way) {
        return Ok(store.built(image, None));
    }
    let begin = Instant::now();
    tell(&format!("downloading {} packages", files.len()));
    let archives = packages.download()?;
    let downloaded = begin.elapsed();
    tell("building");
    let begin = Instant::now();
    let root = work.path().join("root");
    packages::unpack(&archives, &root)?;
    let kernel = disk::write_kernel(&root, &work.path().join(store::KERNEL))?;
    let initrd_bytes =
        disk::write_initrd(&root, &kernel.release, &work.path().join(store::INITRD))?;
    let image = Image {
        release: kernel.release,
        packages: files,
        kernel_bytes: kernel.bytes,
        initrd_bytes,
        way,
    };
    store.keep(&work, &image)?;
    Ok(store.built(image, Some((downloaded, begin.elapsed()))))
}

#[cfg(test)]
extern crate self as netloom_image;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
