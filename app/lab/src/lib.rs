//! A plan made real: order, state, undo, teardown; and what a running lab can be asked.
//!
//! [`launch`] brings a lab up: it forks the spawner and the lab process, which makes everything in
//! the plan, serves [`Service`] and takes it down again. The kernel holds the truth: a lab whose
//! process was killed lives on, is adopted by the next `up`, or removed by `down` from what its
//! state folder and its inits' sockets tell.
#![forbid(unsafe_code)]

pub mod doctor;
mod door;
mod error;
pub mod graph;
pub mod launch;
mod life;
pub mod listing;
mod live;
mod making;
mod network;
pub mod orphan;
mod running;
pub mod service;
mod state;
mod status;
mod teardown;
pub mod view;

pub use door::HostChange;
pub use error::{Error, Result, describe};
pub use service::Service;
pub use state::{Folder, State, runtime_dir};
pub use status::end_text;
