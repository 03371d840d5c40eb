//! A plan made real: order, state, undo, teardown; and what a running lab can be asked.
//!
//! [`launch`] brings a lab up: it forks the spawner and the lab process, which makes everything in
//! the plan, serves [`Service`] and takes it down again. The kernel holds the truth: a lab whose
//! process was killed lives on, is adopted by the next `up`, or removed by `down` from what its
//! state folder and its inits' sockets tell.
#![forbid(unsafe_code)]

mod absent;
mod addresses;
mod allowed;
mod cable;
mod carrying;
mod comparing;
mod configure;
pub mod doctor;
mod door;
mod error;
mod events;
mod following;
mod guards;
mod homing;
mod host;
mod host_change;
mod hosts_file;
mod impairing;
mod inhabitants;
mod inits;
mod keeper;
mod keepers;
mod keeping;
mod lab_process;
pub mod launch;
mod life;
mod linking;
mod links;
pub mod listing;
mod live;
mod load;
mod luggage;
mod making;
mod moved;
mod moves;
pub mod names;
pub mod orphan;
mod pinging;
mod places;
mod probing;
mod reports;
mod resolving;
mod respawning;
mod role;
mod running;
mod scope;
pub mod service;
mod serving;
mod spaces;
mod spots;
mod starting;
mod state;
mod status;
mod strangers;
mod switch_changes;
mod switching;
mod teardown;
pub mod view;
mod whole_file;
mod wires;

pub use error::{Error, Result, describe};
pub use events::Event;
pub use host_change::HostChange;
pub use service::Service;
pub use state::{Folder, State, runtime_dir};
pub use switching::SwitchOptions;
