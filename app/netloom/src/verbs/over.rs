//! Labs over several hosts: one connection a host to `netloom agent --stdio`, and the verbs `up`, `down`, `status`, `exec`
//! and `ping` over all of them, `apply`, and `link set`, `logs` and `capture` where their object is.
//!
//! [`message`] is what is said, [`transport`] how it travels; [`agent`] is the side of a host, [`remote`] the driver's
//! connection to one, [`driver`] brings a lab up in two phases, [`changing`] turns it
//! into that of another file. The verbs are in [`verbs`], [`elsewhere`] and [`recorded`]. The driver has threads, an agent has
//! none, since it forks.

pub(crate) mod agent;
pub(crate) mod changing;
mod driver;
pub(crate) mod elsewhere;
mod message;
pub(crate) mod pods;
pub(crate) mod recorded;
mod remote;
mod transport;
pub(crate) mod verbs;
