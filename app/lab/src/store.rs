//! A lab on disk: its folder, its state, its names. The lowest room: it knows no other.

pub(crate) mod across;
pub(crate) mod host_change;
pub(crate) mod image;
pub(crate) mod moved;
pub mod names;
pub(crate) mod state;
pub(crate) mod whole_file;
