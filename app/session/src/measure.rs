//! Measurements: sessions of `netloom_measure` on the paths between two nodes, or at named interfaces.
//!
//! This process does the work: points are BPF programs attached by links, which end with it in any case.
//! [`between`] finds the paths and the flows, and [`Measurement`] compares what its points count, block by block;
//! [`at`] measures at interfaces without comparing. `netloom_marking` interprets blocks.

pub mod at;
pub mod between;
mod book;
mod flows;
mod note;
mod paths;
mod places;
mod reroutes;
mod seek;
mod watch;

use crate::Spaces;

pub use between::Measurement;
pub use book::{Blocks, Book, Entry};
pub use flows::{Flow, FlowPorts, Flows, Method, Packets, configuration};
pub use note::Note;
pub use paths::{LeftOut, Measured, Paths, point_name};
pub use reroutes::{Rerouted, Route};
pub use watch::Watch;

/// Blocks that a session keeps until its caller reads them.
const KEEP: usize = 64;

/// The name in records: the lab, or the machine.
fn probe(spaces: &Spaces) -> String {
    let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    spaces.plan().map_or_else(machine, |plan| plan.lab.clone())
}
