//! Packet sockets: whole frames, as on the wire, from and to an interface (packet(7)).
//!
//! A [`Sender`] sends prepared [`Frames`] to one interface, many per system call, and accounts for
//! every one. [`rings`] shares slots with the kernel: an [`RxRing`] lends frames in place, a
//! [`TxRing`] sends by one call per burst. A [`BlockRing`] lends blocks of many frames, for
//! capture. [`socket`] opens and queries, [`tag`] restores VLAN tags, [`arrival`] gives arrival
//! times of datagrams. A [`Watcher`] sees packets in passing, at all interfaces. A socket uses the calling thread's network namespace at its opening.

mod area;
pub mod arrival;
pub mod block;
mod error;
mod frames;
mod glimpse;
pub mod option;
mod receive;
mod ring;
mod sender;
pub mod socket;
pub mod tag;
mod transmit;

pub use block::{
    Block, BlockFrame, BlockFrames, BlockOptions, BlockRing, Fanout, FanoutMode, RawInsn,
};
pub use error::{Error, Result};
pub use frames::{Frames, MOST_BYTES, MOST_FRAMES};
pub use glimpse::{Glimpse, Watcher};
pub use receive::{Peeked, RxRing};
pub use ring::{RingSizes, WHOLE_SLOT, rings};
pub use sender::{Path, Sender, Tally};
pub use transmit::{Kick, State, TxRing};

#[cfg(test)]
extern crate self as netloom_rawsock;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
