//! Captures, generators and measurements, at the targets of a running lab or of the host.
//!
//! [`Spaces`] resolves targets and opens the network namespaces that they are in. [`capture`], [`generate`] and
//! [`measure`] choose and open what works there, run it in the caller's process, and report values: ledgers,
//! reports, blocks. A lab is whatever implements [`Lab`]: `netloom_api::Client` for other processes.
//!
//! [`record`] keeps all links of a lab in a recording. [`probe`] answers questions inside a node, for tests of labs.
//!
//! Not here: flags, files of flags, text for people, progress, exit codes (`app/netloom`); how frames are
//! taken, sent and counted (`parts/`); what a target's name means (`netloom_model::lookup`). This crate prints
//! nothing, catches no signals, and names no flags: errors that a caller words by its own flags have variants of
//! their own. [`Spaces::enter`] is called before any other thread starts.
#![forbid(unsafe_code)]

pub mod capture;
mod error;
pub mod generate;
mod lab;
pub mod measure;
pub mod probe;
pub mod record;
mod spaces;
mod switch;

pub use error::{Error, Result};
pub use lab::{Lab, Outcome};
pub use spaces::{Spaces, interface, needs_lab};
pub use switch::address as switch_address;
