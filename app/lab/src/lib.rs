//! Makes a plan real: order, state, undo, teardown; and serves the running lab.
//!
//! [`launch`] brings a lab up: it forks the spawner and the lab process, which makes everything in
//! the plan, serves [`Service`] and takes it down again. The kernel holds the truth: a lab whose
//! process was killed lives on. The next `up` adopts it, or `down` removes it by means of its
//! state folder and its inits' sockets.
//!
//! Six rooms, of which each knows only those before it: `store`, `stage`, `build`, `keep`, `run`, [`launch`].
#![forbid(unsafe_code)]

mod build;
pub mod doctor;
mod error;
mod events;
mod keep;
pub mod launch;
pub mod metrics;
mod moment;
mod run;
pub mod service;
mod stage;
mod store;
pub mod stream;
pub mod view;

pub use error::{Error, Result, Subject};
pub use events::Event;
pub use keep::flows::OUTSIDE;
pub use keep::neighbours::lacking as lacking_neighbours;
pub use keep::switches::SwitchOptions;
pub use keep::wires::expressions::check_all as check_expressions;
pub use launch::{listing, orphan};
pub use moment::utc;
pub use run::recording::{UNRECORDED, not_recorded, time_of};
pub use service::{LogMark, Service, call, calls, values};
pub use stage::recorder;
pub use stage::role::Role;
pub use store::across::{Across, Far, PeerHost};
pub use store::host_change::HostChange;
pub use store::names;
pub use store::state::{Folder, State, runtime_dir};
