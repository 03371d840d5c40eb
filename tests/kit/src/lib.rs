//! Fixtures that all tests share: the binary, scratch folders, runs, leftovers, skips, ports, terminals.
//!
//! A test that cannot run here says what it lacks ([`needs!`]); `cargo xtask test` counts skips and checks that it is
//! missing indeed, by the probes of `tests/needs.txt`. Nothing here sleeps for a fixed time or retries: [`wait_until`] observes
//! a condition and has a bound. Failures panic, as assertions do.

#![forbid(unsafe_code)]

mod again;
mod binary;
mod carrier;
mod isolate;
mod leftovers;
mod made;
mod ports;
mod processes;
mod pty;
mod rounds;
mod run;
mod scratch;
mod skip;
mod stop;
mod tai;
mod wait;

pub use again::{again, again_by_name};
pub use binary::{Binary, workspace_root};
pub use carrier::wait_for_carrier;
pub use isolate::{run_isolated, userns_allowed};
pub use leftovers::{Snapshot, assert_same};
pub use made::made_once;
pub use ports::free_port;
pub use processes::{Process, processes, resident, waited, worked, worked_exactly};
pub use pty::Terminal;
pub use rounds::{done, rounds};
pub use run::{Finished, Run};
pub use scratch::{LabGuard, Scratch};
pub use skip::{cgroups_allowed, is_root, lacking, missing, program, record_skip, test_name};
pub use stop::stop;
pub use tai::{tai_alone, tai_kept};
pub use wait::wait_until;
