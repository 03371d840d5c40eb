//! Packet sockets: whole frames taken from and given to an interface as they are on the wire (packet(7)).
//!
//! A [`Sender`] gives prepared [`Frames`] to one interface, many by one system call, and accounts for
//! every one. [`rings`] shares slots with the kernel: an [`RxRing`] lends frames where they lie, a
//! [`TxRing`] sends what was put by one call a burst. A [`BlockRing`] lends blocks of many frames, for
//! capture. [`socket`] opens and asks, [`tag`] puts back VLAN tags, [`arrival`] tells when datagrams
//! came. The calling thread's network namespace counts when a socket is opened.

mod area;
pub mod arrival;
pub mod block;
mod error;
mod frames;
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
pub use receive::{Peeked, RxRing};
pub use ring::{RingSizes, WHOLE_SLOT, rings};
pub use sender::{Path, Sender, Tally};
pub use transmit::{Kick, State, TxRing};

#[cfg(test)]
extern crate self as netloom_rawsock;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
