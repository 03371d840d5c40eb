//! The program's tap: its queue has room for what connections have in flight.
//!
//! The kernel drops frames for which a tap has no room. The usual 1,000 frames are less than the window of one connection,
//! and the programs have nothing but a timeout with which a sender learns of such a loss.

use std::os::fd::{AsFd, OwnedFd};

use netloom_netlink::{Batch, Change, Socket};
use netloom_sys::namespace;

use crate::{Error, INTERFACE, Result};

/// Frames of the tap's queue: the windows of some connections of 4 MiB each, the most that senders have by default. Each has
/// about 2,300 bytes of the kernel's memory at the usual MTU.
const QUEUE: u32 = 10_000;

/// Gives the tap of this index its queue, by a socket of its network namespace.
///
/// # Errors
/// The system refuses it.
pub fn give_room(socket: &mut Socket, index: u32) -> Result<()> {
    let mut batch = Batch::new();
    batch.push(INTERFACE, &Change::of(index).queue(QUEUE));
    Ok(socket.run(&mut batch)?)
}

/// The tap in a network namespace.
pub(crate) struct Tap {
    /// Of that namespace.
    socket: Socket,
    /// Index of the tap that has its queue.
    index: Option<u32>,
}

impl Tap {
    pub(crate) fn in_space(space: &OwnedFd) -> Result<Tap> {
        let socket = namespace::run_in(space.as_fd(), "tap", || Ok::<_, Error>(Socket::open()?))?;
        Ok(Tap { socket, index: None })
    }

    /// Gives a tap that has come its queue; returns how many frames the program has passed by it, `None` if there is none.
    /// That of a program that was killed may be there for a moment still.
    pub(crate) fn tend(&mut self) -> Result<Option<u64>> {
        let tap = self.socket.link(INTERFACE)?;
        let index = tap.as_ref().map(|tap| tap.index);
        if let Some(index) = index.filter(|index| Some(*index) != self.index) {
            give_room(&mut self.socket, index)?;
        }
        self.index = index;
        Ok(tap.map(|tap| tap.traffic.rx_packets + tap.traffic.tx_packets))
    }
}
