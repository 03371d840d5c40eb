//! os-ken's switch tests (a public conformance suite for OpenFlow switches) on a target switch.
//!
//! A run is a process tree in network, mount and PID namespaces of its own ([`Setup::run`]): target, assistant
//! switch and os-ken's tester, started by `session.sh` and `launcher.py`. The cases are read from the installed
//! package (`make peers`). What may fail, and why, is in `allowed.txt`; [`Verdict`] judges runs by it.

#![forbid(unsafe_code)]

mod allowed;
mod own;
mod session;
mod suite;
mod verdict;

pub use allowed::{Allowed, SCTP, SLEEP};
pub use own::{OwnSwitch, Plane, VARIABLE};
pub use session::{Outcome, Outcomes, Setup, Switch};
pub use suite::{Case, DIRECTORIES, Suite, sample};
pub use verdict::{Tally, Verdict};
