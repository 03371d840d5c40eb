//! A running lab: requests, changes, repair, and teardown.

pub(crate) mod applying;
pub(crate) mod cable;
pub(crate) mod control_moves;
pub(crate) mod following;
pub(crate) mod homing;
pub(crate) mod hosts_file;
pub(crate) mod impairing;
pub(crate) mod interface_moves;
pub(crate) mod interfaces;
pub(crate) mod link_changes;
pub(crate) mod load_average;
pub(crate) mod node_changes;
pub(crate) mod pinging;
pub(crate) mod probing;
pub(crate) mod resolving;
pub(crate) mod respawning;
pub(crate) mod revivals;
pub(crate) mod reviving;
pub(crate) mod running;
pub(crate) mod saved_settings;
pub(crate) mod scope;
pub(crate) mod serving;
pub(crate) mod status;
pub(crate) mod switch_changes;
pub(crate) mod teardown;
pub(crate) mod tending;
