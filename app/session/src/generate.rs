//! Frames sent to and received at a target, by `netloom_generate`, on a thread in the target's namespace.
//!
//! [`Outlet`] is a resolved target: an interface, with the other end of its link, or a port of a switch. [`Addressing`]
//! says whose frames they are and where they go.

mod addressing;
mod outlet;

pub use addressing::{Addressing, Destination};
pub use outlet::Outlet;
