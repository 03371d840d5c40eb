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

/// Gives the tap in the network namespace `space` its queue, unless that is `known`, which has one; returns its index. `None`:
/// there is no tap yet. A tap of a program that was killed may be there for a moment still.
pub(crate) fn give_room(space: &OwnedFd, known: Option<u32>) -> Result<Option<u32>> {
    namespace::run_in(space.as_fd(), "tap", || {
        let mut socket = Socket::open()?;
        let index = socket.link(INTERFACE)?.map(|tap| tap.index);
        if let Some(index) = index.filter(|index| Some(*index) != known) {
            let mut batch = Batch::new();
            batch.push(INTERFACE, &Change::of(index).queue(QUEUE));
            socket.run(&mut batch)?;
        }
        Ok(index)
    })
}
