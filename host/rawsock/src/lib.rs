//! Packet sockets: whole frames given to an interface as they are on the wire (packet(7)).
//!
//! A [`Sender`] is bound to one interface; [`Frames`] are prepared once and then given to it again
//! and again, many by one system call. Every frame is accounted for: taken, or refused by the
//! queue behind the socket. What the interface or the other end drops later is not seen here.
//! Frames are not received; [`arrival`] tells when datagrams came. The calling thread's network namespace counts when a socket is opened.

pub mod arrival;
mod error;
mod frames;
mod sender;

pub use error::{Error, Result};
pub use frames::{Frames, MOST_BYTES, MOST_FRAMES};
pub use sender::{Path, Sender, Tally};
