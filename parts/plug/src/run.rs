//! The process that connects an interface to a switch.
//!
//! It receives the interface's port already open, needs no right to use it, and drops all capabilities. It is
//! found by its [`Lock`]. It ends on SIGTERM, with its interface, with its lab's folder, or with a switch
//! that it does not rejoin ([`JoinOptions::reconnect`]). There is nothing to restore then, nor when it is
//! killed.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use netloom_control::Folder;
use netloom_port::{PacketPort, Port, RingOptions, RingPort, Tap};
use netloom_shm::{JoinOptions, SwitchPort};
use netloom_sys::{Failure, caps, process};
use netloom_vhost::VhostPort;
use rustix::process::Signal;

use crate::{End, Error, Lock, Pump, Result};

/// What a plug is called.
pub const NAME: &str = "netloom-plug";

/// Type of the interface's descriptor, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A tap.
    Tap,
    /// A tap beside a port at which the kernel forwards: the switch is told of stations that move.
    Beside,
    /// A packet socket as [`PacketPort::open`] makes it, with one call per frame: for the inner end of a
    /// veth, where rings gain little and need 8 MiB more.
    Packet,
    /// A packet socket bound to an interface, with rings: for a card.
    Ring,
    /// A listening socket, to which the front end of a virtual machine's card comes (vhost-user).
    Guest,
}

/// How long to wait for a full ring: another plug may not get a CPU for a while.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long a frame waits for a guest to make room: among others on few processors a translated one may not run for that
/// long. Once that is over, frames are dropped at once until one is taken again.
pub const GUESTS_PATIENCE: Duration = Duration::from_millis(500);

/// Options of a plug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Type of its descriptor.
    pub kind: Kind,
    /// Options of its rings.
    pub rings: RingOptions,
    /// The switch, and how to join it.
    pub join: JoinOptions,
    /// The folder whose removal ends it.
    pub folder: PathBuf,
}

impl Options {
    /// Rings of the default size that also receive frames for others, and default options to join.
    pub fn new(
        kind: Kind,
        switch: impl Into<PathBuf>,
        name: &str,
        folder: impl Into<PathBuf>,
    ) -> Self {
        Options {
            kind,
            rings: RingOptions { promiscuous: true, ..RingOptions::default() },
            join: JoinOptions {
                wait: PATIENCE,
                tells_moves: kind == Kind::Beside,
                ..JoinOptions::new(switch, name)
            },
            folder: folder.into(),
        }
    }
}

/// Connects an interface to a switch until one of the ends listed in the module header. `lock` is held until
/// then.
///
/// It names the process `netloom-plug`, blocks SIGTERM and drops every capability: call it in a
/// single-threaded process that does nothing else.
///
/// # Errors
/// The descriptor is not of the stated type, the switch cannot be joined, or carrying fails.
pub fn serve(port: OwnedFd, lock: Lock, options: &Options) -> Result<End> {
    process::set_name(NAME);
    let signals =
        process::catch(&[Signal::TERM.as_raw()]).map_err(Failure::of("plug", "catch signals"))?;
    let port = open(options, port)?;
    let member = SwitchPort::join(&options.join).map_err(|e| Error::switch("join", e))?;
    // Only now: rings and the switch may ask for rights at first; carrying needs none.
    caps::drop_all().map_err(Failure::of("plug", "drop capabilities"))?;
    let folder = Folder::of(&options.folder);
    let mut stays = || !folder.is_gone();
    let pump = Pump::new(port, Box::new(member));
    let mut pump = match options.kind {
        Kind::Ring => pump.merging(),
        Kind::Guest => pump.patient(GUESTS_PATIENCE),
        Kind::Tap | Kind::Beside | Kind::Packet => pump,
    };
    let end = pump.run(signals.as_fd(), &mut stays);
    drop(lock);
    end
}

fn open(options: &Options, fd: OwnedFd) -> Result<Box<dyn Port>> {
    Ok(match options.kind {
        Kind::Tap | Kind::Beside => Box::new(Tap::from_fd(fd)?),
        Kind::Packet => Box::new(PacketPort::from_fd(fd)?),
        Kind::Guest => Box::new(VhostPort::listening(fd).map_err(Error::card)?),
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
