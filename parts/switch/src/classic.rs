//! Classic VDE: the process that offers the folder and the protocol of `vde_switch` for a switch.
//!
//! It is a process of its own, so the switch meets no client of VDE, and neither knows the other's memory. Every
//! client is a port of the switch; one thread carries the frames of all, another admits clients, a third serves
//! consoles. A client can only hold up itself. `netloom_vde` has the protocol. See docs/adr/0055.

mod carry;
mod client;
mod console;
mod desk;
mod door;
mod folder;
mod people;
mod register;
mod vlans;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use netloom_sys::{Failure, process};
use rustix::process::Signal;

pub use self::folder::{CONSOLE, CONTROL, Folder, check, clear};
use self::register::Register;
use crate::Result;
use crate::access::Gate;

/// What its process is called.
pub const NAME: &str = "netloom-vde";

/// The object of failures that concern all of it.
const VDE: &str = "vde";

/// Options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The switch's socket.
    pub switch: PathBuf,
    /// The users that may join, as for the switch itself.
    pub mode: u32,
    /// The group whose processes may join if `mode` says so; its own when `None`.
    pub group: Option<u32>,
    /// Seconds after which the switch forgets an address.
    pub ageing: u32,
    /// The folder whose removal ends it.
    pub home: PathBuf,
}

/// Serves clients and consoles of `folder` until SIGTERM or until [`Options::home`] is removed; the folder is
/// removed then. Switches that end are waited for.
///
/// Call it with a single thread; it names the process `netloom-vde` and blocks SIGTERM.
///
/// # Errors
/// The process cannot be set up, or waiting fails. Failures of clients end these clients.
pub fn serve(folder: Folder, options: &Options) -> Result<()> {
    process::set_name(NAME);
    let signals =
        process::catch(&[Signal::TERM.as_raw()]).map_err(Failure::of(VDE, "catch signals"))?;
    let register = Arc::new(Register::default());
    let gate = Gate {
        owner: rustix::process::geteuid().as_raw(),
        group: options.group.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        mode: options.mode,
    };
    let (carrier, handed) = carry::start()?;
    let desk = desk::Desk::new(options, folder.path(), register.clone());
    let console = console::start(folder.console()?, desk)?;
    let mut door = door::Door::new(&folder, options, gate, register, handed);
    let ended = door.serve(signals.as_fd(), &mut || carrier.is_finished() || console.is_finished());
    folder.remove();
    ended
}
