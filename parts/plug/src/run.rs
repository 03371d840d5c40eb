//! The life of a process that joins an interface to a switch.
//!
//! It is given the interface's port, needs no right to use it, and gives up all that it has. It is found by
//! its [`Lock`]. It ends by SIGTERM, with its interface, with the folder of its lab, or with a switch that
//! is not looked for again ([`JoinOptions::reconnect`]); nothing is to be set back then, nor when it is
//! killed.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_port::{PacketPort, Port, RingOptions, RingPort, Tap};
use netloom_shm::{JoinOptions, SwitchPort};
use netloom_sys::{caps, process};
use rustix::process::Signal;

use crate::{End, Error, Lock, Pump, Result};

/// What the descriptor of an interface is, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A tap.
    Tap,
    /// A packet socket as [`PacketPort::open`] makes it, used by a call a frame: for the inner end of a
    /// veth, where rings give little and need 8 MiB more.
    Packet,
    /// A packet socket bound to an interface, used by rings: for a card.
    Ring,
}

/// How long a full ring is waited for: another plug may not be given a CPU for a while.
const PATIENCE: Duration = Duration::from_millis(500);

/// How a plug is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What its descriptor is.
    pub kind: Kind,
    /// How rings are to be.
    pub rings: RingOptions,
    /// The switch, and as what to join it.
    pub join: JoinOptions,
    /// The folder with which it ends.
    pub folder: PathBuf,
}

impl Options {
    /// With rings of the usual size that receive what is for others, too, and the usual way to join.
    pub fn new(
        kind: Kind,
        switch: impl Into<PathBuf>,
        name: &str,
        folder: impl Into<PathBuf>,
    ) -> Self {
        Options {
            kind,
            rings: RingOptions { promiscuous: true, ..RingOptions::default() },
            join: JoinOptions { wait: PATIENCE, ..JoinOptions::new(switch, name) },
            folder: folder.into(),
        }
    }
}

/// Joins an interface to a switch until one of the ends that the module tells of. `lock` is kept until then.
///
/// It names the process `netloom-plug`, blocks SIGTERM and drops every capability: to be called by a
/// process with one thread that does nothing else.
///
/// # Errors
/// When the descriptor is not what it is said to be, the switch cannot be joined, or carrying fails.
pub fn serve(port: OwnedFd, lock: Lock, options: &Options) -> Result<End> {
    process::set_name("netloom-plug");
    let signals =
        process::catch(&[Signal::TERM.as_raw()]).map_err(Error::system("catch signals"))?;
    let port = open(options, port)?;
    let member = SwitchPort::join(&options.join).map_err(|e| Error::switch("join", e))?;
    caps::drop_all().map_err(Error::system("drop capabilities"))?;
    let home = identity(&options.folder);
    let mut stays = || identity(&options.folder) == home;
    let end = Pump::new(port, Box::new(member)).run(signals.as_fd(), &mut stays);
    drop(lock);
    end
}

fn open(options: &Options, fd: OwnedFd) -> Result<Box<dyn Port>> {
    Ok(match options.kind {
        Kind::Tap => Box::new(Tap::from_fd(fd)?),
        Kind::Packet => Box::new(PacketPort::from_fd(fd)?),
        Kind::Ring => {
            let port = RingPort::from_fd(fd, options.rings)?;
            if port.is_merged_irreversibly() {
                netloom_sys::journal::line(format_args!(
                    "plug: the interface merges packets in a way that cannot be undone, which loses \
                     many: turn that off (ethtool -K INTERFACE lro off)"
                ));
            }
            Box::new(port)
        }
    })
}

/// Device and inode of a folder.
fn identity(folder: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(folder).ok()?;
    Some((stat.st_dev, stat.st_ino))
}
