//! The last step before a machine's program: a user without rights.
//!
//! The machine's process cannot take rights from its child between fork and exec without unsafe code, so the child is
//! this program once more, which gives its rights up and becomes the machine.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::process::Command;

use netloom_sys::{caps, process};
use rustix::process::{Gid, Uid};

use crate::Result;
use crate::error::failed;

/// The hidden verb of this step.
pub(crate) const VERB: &str = "vm-start";

/// The user of machines, where the lab's user namespace has one: nobody.
pub(crate) const USER: u32 = 65_534;

/// Becomes the machine: without rights, and mortal with its parent.
///
/// # Errors
/// The kernel refuses, or the program cannot be started.
pub fn become_machine(argv: &[String]) -> Result<Infallible> {
    let group = Gid::from_raw(USER);
    // Refused in a user namespace that has one user only: then that user's own rights are what is given up.
    if rustix::thread::set_thread_groups(&[]).is_ok()
        && rustix::thread::set_thread_gid(group).is_ok()
    {
        let _ = rustix::thread::set_thread_uid(Uid::from_raw(USER));
    }
    caps::drop_all()?;
    // Last: a change of user or group takes it back (prctl(2), PR_SET_PDEATHSIG).
    process::die_with_parent(true)?;
    let (program, rest) = argv
        .split_first()
        .ok_or_else(|| crate::Error::Refused("its argument list is empty".to_owned()))?;
    let e = Command::new(program).args(rest).exec();
    Err(failed(program.as_str(), "start")(e))
}
