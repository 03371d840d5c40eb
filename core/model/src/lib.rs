//! The lab as the user means it and as the machine is to be made.
//!
//! [`parse`] turns the text of a lab file into a [`Lab`] or into every error it has, each with its
//! place. [`plan`](plan::plan) gives each interface its name, MAC and addresses, each router its
//! routes, and returns a [`Plan`]: the complete list of what is to exist. Nothing here touches the
//! machine: same text in, same plan out.

pub mod lab;
pub mod plan;

pub use lab::Lab;
pub use plan::Plan;
