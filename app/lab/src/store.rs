//! What is written down of a lab: its folder, its state, its names. Lowest room: knows no other.

pub(crate) mod host_change;
pub(crate) mod moved;
pub mod names;
pub(crate) mod state;
pub(crate) mod whole_file;
