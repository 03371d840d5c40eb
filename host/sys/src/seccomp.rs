//! System call filters (seccomp(2)) and their notifications (seccomp_unotify(2)).
//!
//! [`program`] makes a filter from a table of calls, for each machine whose programs run here; [`listener`] receives
//! the calls that a filter passes on, and answers them; [`caller`] reads memory and descriptors of the thread
//! that made a call; [`launch`] starts a program
//! under a filter; [`perform`] makes a call in its place; [`sight`] tells what paths lead to there; [`probe`] tells
//! whether all that is possible here; [`without_sockets`] keeps work from the network. Callers decide which calls are allowed.

pub mod caller;
mod callers;
mod image;
mod keeper;
mod landlock;
pub mod launch;
pub mod listener;
pub mod perform;
pub mod probe;
pub mod program;
mod rehearsal;
pub mod rights;
pub mod sight;
mod without_sockets;

pub use caller::Caller;
pub use callers::Callers;
pub use listener::{Call, Listener, Outcome, install, restrict};
pub use program::{Answer, Condition, Filter, Machine, Rule};
pub use sight::Sight;
pub use without_sockets::without_sockets;
