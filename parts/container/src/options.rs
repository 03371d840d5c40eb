//! How images are brought: when, for which user, within which bounds, and with which timeouts.

use std::time::Duration;

use netloom_oci::manifest::Platform;
use serde::{Deserialize, Serialize};

/// Whose files of layers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owners {
    /// Their owners', in root's store.
    Root,
    /// Their owners', for an ordinary user with many ids; unpacked in a namespace that has these.
    Many,
    /// All one user's.
    One,
}

impl Owners {
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Owners::Root | Owners::Many => "layers.many",
            Owners::One => "layers.one",
        }
    }

    /// Whether files have their own owners.
    pub(crate) fn are_kept(self) -> bool {
        self != Owners::One
    }

    /// The overlay's mark of an opaque directory: ordinary users cannot set root's.
    pub(crate) fn opaque(self) -> &'static str {
        match self {
            Owners::Root => "trusted.overlay.opaque",
            Owners::Many | Owners::One => "user.overlay.opaque",
        }
    }
}

/// What a layer may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of its archive, unpacked.
    pub bytes: u64,
    /// Entries of its archive.
    pub entries: u64,
    /// Bytes of the paths of its directories, which are kept until all is unpacked.
    pub paths: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 64 << 30, entries: 4_000_000, paths: 256 << 20 }
    }
}

/// When an image is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// If it is not here.
    #[default]
    Missing,
    /// Each time; what has not changed is not fetched again.
    Always,
    /// Never.
    Never,
}

/// How long registries may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To accept a connection.
    pub connect: Duration,
    /// To send the next bytes.
    pub stall: Duration,
    /// Tries of one request without any success.
    pub tries: u32,
    /// The pause before the second try; it doubles.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connect: Duration::from_secs(15),
            stall: Duration::from_secs(30),
            tries: 5,
            pause: Duration::from_millis(500),
        }
    }
}

/// How an image is brought.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When it is fetched.
    pub pull: Pull,
    /// Whose its files are.
    pub owners: Owners,
    /// What its layers may be.
    pub limits: Limits,
    /// How long registries may take.
    pub patience: Patience,
}

impl Options {
    /// The usual, with these owners.
    pub fn with(owners: Owners, pull: Pull) -> Options {
        Options { pull, owners, limits: Limits::default(), patience: Patience::default() }
    }
}

/// The platform of this machine.
pub fn platform() -> Platform {
    Platform::linux(std::env::consts::ARCH)
}

/// Whose files are in the store of this user for labs that are made with the best that the machine gives.
pub fn usual_owners() -> Owners {
    if netloom_sys::caps::is_privileged() {
        return Owners::Root;
    }
    match netloom_sys::subordinate::probe() {
        Ok(_) => Owners::Many,
        Err(_) => Owners::One,
    }
}
