//! The program's tap: its queue has room for what connections have in flight.
//!
//! The kernel drops frames for which a tap has no room. The usual 1,000 frames are less than the window of one connection,
//! and the programs have nothing but a timeout with which a sender learns of such a loss.

use std::os::fd::{AsFd, OwnedFd};

use netloom_netlink::{Batch, Change, Socket};
use netloom_sys::namespace;

use crate::{INTERFACE, Result};

/// Frames of the tap's queue: the windows of some connections of 4 MiB each, the most that senders have by default. Each has
/// about 2,300 bytes of the kernel's memory at the usual MTU.
const QUEUE: u32 = 10_000;

/// Gives the tap in the network namespace `space` its queue. `false`: there is no tap yet.
pub(crate) fn has_room(space: &OwnedFd) -> Result<bool> {
    namespace::run_in(space.as_fd(), "tap", || {
        let mut socket = Socket::open()?;
        let Some(tap) = socket.link(INTERFACE)? else { return Ok(false) };
        let mut batch = Batch::new();
        batch.push(INTERFACE, &Change::of(tap.index).queue(QUEUE));
        socket.run(&mut batch)?;
        Ok(true)
    })
}
